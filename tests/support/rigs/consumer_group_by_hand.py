"""One consumer group with everything around it made by hand: topics, clock, log, and members that speak.

Members behave as clients do: they give up what their assignment leaves out, unless they are told to hold on,
and say what they own. What an operation records is replayed at once and kept, so that the group can be loaded
from it into another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from broker.coordinator.consumer import heartbeat as machine
from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_groups import ConsumerGroups
from broker.coordinator.consumer.member import LEAVING_EPOCH, STATIC_LEAVING_EPOCH
from broker.coordinator.consumer.metadata_hash import topic_hash
from broker.coordinator.consumer.operation import (
    ConsumerGroupSettings,
    ConsumerOperation,
    GroupRefusal,
    group_times,
)
from broker.coordinator.consumer.regexes import matched_topics, record_matches, search_topics
from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.result import CoordinatorRecord, UndoLog
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.primitives import Uuid

GROUP: Final = "g"
REBALANCE_MS: Final = 60_000


class HandTopics:
    """`TopicsView` over topics that tests put in."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.version = 0

    @property
    def newest_topic_version(self) -> int:
        return self.version

    def put(self, name: str, count: int) -> None:
        self.version += name not in self.counts
        self.counts[name] = count

    def topic_id(self, name: str) -> Uuid | None:
        return name.encode().rjust(16, b"\0") if name in self.counts else None

    def topic_name(self, topic_id: Uuid) -> str | None:
        name = topic_id.lstrip(b"\0").decode()
        return name if name in self.counts else None

    def topic_names(self) -> list[str]:
        return list(self.counts)

    def partition_count(self, name: str) -> int | None:
        return self.counts.get(name)

    def topic_hash(self, name: str) -> int | None:
        topic_id = self.topic_id(name)
        return None if topic_id is None else topic_hash(topic_id, name, [()] * self.counts[name])


class HandMember(msgspec.Struct):
    """A client as it sees itself."""

    name: str
    instance_id: str | None = None
    epoch: int = 0
    owned: dict[Uuid, list[int]] = {}
    """What it works on, or has not said that it works on no longer."""
    given: dict[Uuid, list[int]] = {}
    """What it was told last."""

    def give_up(self) -> None:
        """Stop working on what it was not told to have."""
        self.owned = {topic_id: list(numbers) for topic_id, numbers in self.given.items()}

    def hear(self, given: dict[Uuid, list[int]]) -> None:
        """Begin to work on what is new. What is missing is given up later."""
        self.given = given
        for topic_id, numbers in given.items():
            self.owned[topic_id] = sorted({*self.owned.get(topic_id, ()), *numbers})


class ConsumerGroupByHand:
    """The group `g`, its clock and its members."""

    def __init__(self, settings: ConsumerGroupSettings | None = None) -> None:
        self.settings = settings or ConsumerGroupSettings(group_consumer_assignment_interval_ms=0)
        self.topics = HandTopics()
        self.groups = ConsumerGroups()
        self.members: dict[str, HandMember] = {}
        self.now_ms = 1_000
        self.log: list[CoordinatorRecord] = []
        self.deadlines: dict[str, int] = {}
        """Members that have until then to give up partitions."""
        self.to_resolve: Sequence[str] = ()

    @property
    def group(self) -> ConsumerGroup:
        return self.groups.get(GROUP) or ConsumerGroup(GROUP)

    def operation(self) -> ConsumerOperation:
        times = group_times(self.settings, {})
        now = CurrentTime(self.now_ms, self.now_ms)
        return ConsumerOperation(now, self.settings, times, self.topics, lambda: bytes(16))

    def run(
        self, work: Callable[[ConsumerGroup, ConsumerOperation], ConsumerGroupHeartbeatResponse | None]
    ) -> ConsumerGroupHeartbeatResponse | None:
        operation = self.operation()
        answer = work(self.group, operation)
        self.replay(operation.records)
        for member_id, time in operation.rebalance_of:
            self.deadlines.pop(member_id, None)
            if time is not None:
                self.deadlines[member_id] = self.now_ms + time.timeout_ms
        for member_id in operation.gone:
            self.deadlines.pop(member_id, None)
        self.to_resolve = operation.refresh or self.to_resolve
        return answer

    def replay(self, records: Sequence[CoordinatorRecord]) -> UndoLog:
        undo = UndoLog()
        for key, value in records:
            self.groups.replay(key, value, undo)
        self.log.extend(records)
        return undo

    def loaded(self) -> ConsumerGroups:
        """The group as another coordinator reads it."""
        groups = ConsumerGroups()
        for key, value in self.log:
            groups.replay(key, value, None)
        return groups

    # What members do

    def join(
        self, name: str, topics: Sequence[str] = (), *, regex: str | None = None,
        instance_id: str | None = None, assignor: str | None = None, rebalance_ms: int = REBALANCE_MS,
    ) -> ConsumerGroupHeartbeatResponse:  # fmt: skip
        self.members[name] = HandMember(name, instance_id)
        return self.send(
            name,
            ConsumerGroupHeartbeatRequest(
                rebalance_timeout_ms=rebalance_ms,
                subscribed_topic_names=list(topics),
                subscribed_topic_regex=regex,
                server_assignor=assignor,
                topic_partitions=[],
            ),
        )

    def beat(
        self, name: str, *, topics: Sequence[str] | None = None, regex: str | None = None,
        epoch: int | None = None, holds_on: bool = False, is_silent: bool = False,
    ) -> ConsumerGroupHeartbeatResponse:  # fmt: skip
        """A heartbeat that says what the member owns, after it has given up what it must."""
        member = self.members[name]
        if not holds_on:
            member.give_up()
        owned = [
            ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, numbers)
            for topic_id, numbers in member.owned.items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            member_epoch=member.epoch if epoch is None else epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            topic_partitions=None if is_silent else owned,
        )
        return self.send(name, request)

    def leave(self, name: str, *, for_a_while: bool = False) -> ConsumerGroupHeartbeatResponse:
        epoch = STATIC_LEAVING_EPOCH if for_a_while else LEAVING_EPOCH
        return self.send(name, ConsumerGroupHeartbeatRequest(member_epoch=epoch))

    def send(self, name: str, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        member = self.members[name]
        request.group_id, request.member_id = GROUP, name
        request.instance_id = member.instance_id
        work = machine.leave if request.member_epoch < 0 else machine.heartbeat
        client = machine.Client("client", "/127.0.0.1")
        try:
            refused = machine.refused_request(request, 1, self.settings.group_consumer_assignors)
            if refused is not None:
                raise refused
            if work is machine.leave:
                answer = self.run(lambda group, operation: machine.leave(group, request, operation))
            else:
                answer = self.run(
                    lambda group, operation: machine.heartbeat(group, request, client, operation)
                )
        except GroupRefusal as refusal:
            return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=refusal.message)
        assert answer is not None
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            member.hear({each.topic_id: each.partitions for each in answer.assignment.topic_partitions})
        return answer

    def session_ends(self, name: str) -> None:
        """The member was not heard of in time."""

        def work(group: ConsumerGroup, operation: ConsumerOperation) -> None:
            machine.fence(group, [group.members[name]], operation)

        self.run(work)

    def rebalance_time_is_up(self, name: str) -> None:
        """The member had time enough to give up partitions."""
        epoch = self.group.members[name].member_epoch
        del self.deadlines[name]

        def work(group: ConsumerGroup, operation: ConsumerOperation) -> None:
            late = machine.late_member(group, name, epoch)
            if late is not None:
                machine.fence(group, [late], operation)

        self.run(work)

    def resolve(self) -> None:
        """What goes on beside the loop: match the expressions that were asked for, if any."""
        if not self.to_resolve:
            return
        before = {regex: matched_topics(self.group.resolved.get(regex)) for regex in self.to_resolve}
        search = search_topics(before, self.topics, lambda name: True, self.now_ms)
        try:
            while True:
                next(search)
        except StopIteration as end:
            resolved = end.value
        self.to_resolve = ()

        def work(group: ConsumerGroup, operation: ConsumerOperation) -> None:
            record_matches(group, resolved, operation)

        self.run(work)

    def topic_changes(self, name: str, count: int) -> None:
        """The topic is made, or grows, and the group hears of it."""
        self.topics.put(name, count)
        self.group.needs_metadata_check = True

    # What there is to see

    def shown(self) -> list[str]:
        """The group and its members, a line each."""
        group = self.group
        lines = [f"group {group.state.value}, epoch {group.epoch}, assignment epoch {group.assignment_epoch}"]
        for name, member in group.members.items():
            owns = self.partitions({topic: list(each) for topic, each in member.assigned.items()})
            line = f"  {name} {member.state.name.lower()} in epoch {member.member_epoch}: {owns}"
            if member.pending_revocation:
                gives = {topic: list(each) for topic, each in member.pending_revocation.items()}
                line += f", gives up {self.partitions(gives)}"
            lines.append(line)
        return lines

    def answer(self, name: str, response: ConsumerGroupHeartbeatResponse) -> str:
        if response.error_code:
            return f"{name} ◀ {ErrorCode(response.error_code).name}: {response.error_message}"
        line = f"{name} ◀ epoch {response.member_epoch}"
        if response.assignment is None:
            return line
        given = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
        return f"{line}, has {self.partitions(given)}"

    def partitions(self, partitions: dict[Uuid, list[int]]) -> str:
        names = {topic_id.lstrip(b"\0").decode(): each for topic_id, each in partitions.items()}
        words = [f"{name}-{number}" for name in sorted(names) for number in sorted(names[name])]
        return " ".join(words) or "nothing"
