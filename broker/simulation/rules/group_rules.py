"""What must hold of consumer groups, by what their members were told and by what coordinators know.

    a partition has one owner in a generation       (or member epoch), of all who were ever told so
    nobody commits in a generation that has passed  when somebody else owned the partition before it asked
    committed offsets never go back                 unless somebody has said that he begins anew
    what was committed is found later               by whoever looks it up
    the coordinator knows what was committed        when it is loaded, and whenever something changes
    a partition belongs to one member               of a consumer group, in what is assigned and in the target
    epochs of a group are in order                  members' ≤ assignment's ≤ group's
    a partition is given up before it is handed on  while a member takes it for its own, the coordinator gives
                                                    it to nobody else, or has put the member out

The first four need only a history, so they serve real clusters, too. The others look at the newest
coordinator of a group: the one with the newest leader epoch that any node has been elected in. An older one
that has not heard of its successor may believe what it likes, for what it does is not committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.group_shard import GroupShard
from broker.coordinator.runtime.coordinator_context import CoordinatorContext, CoordinatorState
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.histories.history import Event
from broker.simulation.rules.group_claims import GroupClaims
from broker.simulation.rules.offset_registers import NOTHING, REMEMBERED, OffsetRegister
from broker.simulation.verdict import Violation

__all__ = ["EPOCHS", "GIVEN_UP", "GROUPS_SETTLE", "KNOWN", "ONE_MEMBER", "GroupRules"]

KNOWN: Final = "the coordinator knows what was committed"
ONE_MEMBER: Final = "a partition belongs to one member"
EPOCHS: Final = "epochs of a group are in order"
GROUPS_SETTLE: Final = "a group settles when the trouble is over"
GIVEN_UP: Final = "a partition is given up before it is handed on"


class _LookUp(NamedTuple):
    """Somebody asks what is committed. coordinator: the newest when it began to ask."""

    registers: dict[str, OffsetRegister]
    coordinator: int | None


class _Newest(NamedTuple):
    """The newest coordinator of a partition of `__consumer_offsets`."""

    leader_epoch: int
    node_id: int


class GroupRules:
    """`cluster_world.Rule`. Where the partition of a coordinator has lost committed records, so that it may
    forget what it has told, it is only counted how often that was seen. may_expire: offsets of a group
    without members are forgotten so soon that clients meet it."""

    def __init__(self, world: ClusterWorld, *, may_expire: bool = False) -> None:
        self.claims = GroupClaims()
        self._world = world
        self._may_expire = may_expire
        self._line = 0
        self._registers: dict[str, dict[str, OffsetRegister]] = {}
        """By group and partition."""
        self._asked: dict[str, Event] = {}
        """Commits that are under way, by process."""
        self._lookups: dict[str, _LookUp] = {}
        self._newest: dict[int, _Newest] = {}
        self._seen: dict[int, dict[int, tuple[Any, ...]]] = {}
        """By node and partition, by which a change is seen."""
        self._topic_ids: dict[str, bytes] = {}
        self._members: dict[str, int] = {}
        """How many members each group had when its coordinator was seen last."""

    # What clients say

    def has_happened(self, event: Event) -> None:
        """See `cluster_world.Rule`."""
        self._line += 1
        if event.operation == "own":
            self._take(event)
        elif event.operation == "commit":
            self._commit(event)
        elif event.operation == "committed":
            self._look_up(event)
        elif event.operation == "reset":
            for partition, offset in event.positions.items():
                self._register(event.group, partition).reset(offset, self._line)

    def _take(self, event: Event) -> None:
        try:
            self.claims.takes(event)
            found = self._newest_shard(event.group)
            if found is not None:
                shard, node = found
                group = shard.group_metadata.consumers.groups.get(event.group)
                if group is not None:
                    self._check_handing_on(group, node)
        except Violation:
            if not self._has_lost(event.group):
                raise
            self._world.coverage.count(f"group rules: {event.group} owns twice")

    def _register(self, group: str, partition: str) -> OffsetRegister:
        registers = self._registers.setdefault(group, {})
        if partition not in registers:
            registers[partition] = OffsetRegister(f"{partition} for {group}")
        return registers[partition]

    def _commit(self, event: Event) -> None:
        process = event.process
        if event.type == "invoke":
            self._asked[process] = event
            for partition in event.positions:
                self._know_topic(partition)
            why_stale = self.claims.why_stale(event)
            for partition, offset in event.positions.items():
                self._register(event.group, partition).begin(event, offset, self._line, why_stale)
            return
        asked = self._asked.pop(process)
        for partition in asked.positions:
            register = self._register(asked.group, partition)
            if event.type == "fail":
                register.fail(process)
            elif event.type == "ok" and partition in event.positions:
                self._succeed(register, event, partition)
            else:
                register.stay_open(process)

    def _succeed(self, register: OffsetRegister, event: Event, partition: str) -> None:
        try:
            register.succeed(event.process, self._line)
        except Violation:
            if not self._is_excused(event.group, partition):
                raise
            register.begin_anew(event.positions[partition], self._line)

    def _look_up(self, event: Event) -> None:
        process = event.process
        if event.type == "invoke":
            registers = {each: self._register(event.group, each) for each in event.partitions}
            for register in registers.values():
                register.begin_lookup(process)
            newest = self._newest_of(event.group)
            self._lookups[process] = _LookUp(registers, None if newest is None else newest.node_id)
            return
        lookup = self._lookups.pop(process)
        for partition, register in lookup.registers.items():
            allowed = register.end_lookup(process)
            offset = event.positions.get(partition)
            if offset is None or offset in allowed:
                continue
            if self._is_outdated(event, lookup) and register.may_once_be(offset):
                # Nothing tells a coordinator that another one has been elected, and it answers from memory.
                self._world.coverage.count("group rules: an old coordinator told what was committed")
                register.reset(offset, self._line)
            elif self._is_forgotten(offset) or self._is_excused(event.group, partition):
                register.begin_anew(offset, self._line)
            else:
                told = f"{process} is told by {event.broker} that {offset} is committed of {register.name}"
                raise Violation(REMEMBERED, f"{told}, and it should be one of {sorted(allowed)}")

    def _is_outdated(self, event: Event, lookup: _LookUp) -> bool:
        """Whether the answer came from a node that was not the coordinator, neither before nor after it."""
        newest, world = self._newest_of(event.group), self._world
        nodes = (*world.nodes.values(), *world.former_nodes.values())
        known = [node.node_id for node in nodes if node.place.host == event.broker]
        return newest is not None and known not in ([], [newest.node_id], [lookup.coordinator])

    def _know_topic(self, partition: str) -> None:
        """Which topic it is that has this name now."""
        topic = partition.rpartition("-")[0]
        if topic not in self._topic_ids:
            topic_id = self._topic_id(topic)
            if topic_id is not None:
                self._topic_ids[topic] = topic_id

    def _is_forgotten(self, offset: int) -> bool:
        """Whether an offset is gone because nobody has used its group for long, by some clock."""
        if offset != NOTHING or not self._may_expire:
            return False
        self._world.coverage.count("group rules: an offset has expired")
        return True

    def _is_excused(self, group: str, partition: str) -> bool:
        """Whether commits may be lost: with other records, or with a topic that was deleted."""
        topic = partition.rpartition("-")[0]
        known, topic_id = self._topic_ids.get(topic), self._topic_id(topic)
        if topic_id is not None:
            self._topic_ids[topic] = topic_id
        if known is not None and known != topic_id:
            return True
        has_lost = self._has_lost(group)
        if has_lost:
            self._world.coverage.count(f"group rules: lost a commit of {group}")
        return has_lost

    def _has_lost(self, group: str) -> bool:
        """Whether committed records were lost in the partition of the group's coordinator; in any of them,
        while no broker says which one it is."""
        index = self._index_of(group)
        return any(topic == GROUP_TOPIC and index in (lost, -1) for topic, lost in self._world.losses)

    # What coordinators know

    def has_ended(self, node: SimulatedNode) -> None:
        """See `cluster_world.Rule`."""
        self._seen.pop(node.node_id, None)

    def after_turn(self, node: SimulatedNode) -> None:
        """See `cluster_world.Rule`."""
        running = node.machine.node
        broker = None if running is None else running.broker
        if broker is None:
            return
        contexts = broker.services.groups.contexts
        if not contexts:
            return
        by_name = broker.replicas.by_name
        seen = self._seen.get(node.node_id)
        if seen is None:
            seen = self._seen[node.node_id] = {}
        for index, context in contexts.items():
            partition = by_name.get((GROUP_TOPIC, index))
            end = -1 if partition is None else partition.log.segments.log_end_offset
            now = (context, context.state, context.leader_epoch, end, context.undecided)
            if seen.get(index) != now:
                seen[index] = now
                self._changed(node, index, context)

    def _changed(self, node: SimulatedNode, index: int, context: CoordinatorContext[GroupShard]) -> None:
        newest = self._newest.get(index)
        if newest is None or newest.leader_epoch < context.leader_epoch:
            if newest is not None and newest.node_id != node.node_id:
                self._world.coverage.count("group coordinators: moved")
            self._newest[index] = newest = _Newest(context.leader_epoch, node.node_id)
        if newest.leader_epoch != context.leader_epoch or context.state is not CoordinatorState.ACTIVE:
            return
        shard = context.shard
        for group in shard.group_metadata.consumers.groups.values():
            check_members(group)
            check_epochs(group)
            self._check_handing_on(group, node)
        for group_id in list(self._registers):
            if self._index_of(group_id) == index:
                self._check_committed(group_id, shard, node)
        for group_id in self.claims.groups:
            if self._index_of(group_id) == index:
                self._forget_deleted(group_id, shard)

    def _forget_deleted(self, group_id: str, shard: GroupShard) -> None:
        """A group without members goes some time after its last offset, and its generations begin anew."""
        group = shard.group_metadata.consumers.groups.get(group_id) or shard.group_metadata.get(group_id)
        if group is not None:
            self._members[group_id] = len(group.members)
        elif self._members.get(group_id) == 0:
            self._world.coverage.count("group rules: an empty group was deleted")
            self.claims.forget(group_id)

    def _check_handing_on(self, group: ConsumerGroup, node: SimulatedNode) -> None:
        for claim in () if self._has_lost(group.group_id) else self.claims.of_group(group.group_id):
            if claim.member not in group.members:
                continue
            for partition in claim.partitions:
                topic, _, index = partition.rpartition("-")
                topic_id = self._topic_id(topic)
                if topic_id is None or self._topic_ids.setdefault(topic, topic_id) != topic_id:
                    continue
                owner = group.owner_of(topic_id, int(index))
                if owner is not None and owner != claim.member:
                    raise Violation(
                        GIVEN_UP,
                        f"{partition} belongs to {owner} by what {node} knows of {group.group_id}, and "
                        f"{claim.process} ({claim.member}) owns it since epoch {claim.generation}",
                    )

    def _check_committed(self, group_id: str, shard: GroupShard, node: SimulatedNode) -> None:
        committed = shard.offset_metadata.committed
        for partition, register in self._registers[group_id].items():
            topic, _, index = partition.rpartition("-")
            kept = committed.get(group_id, topic, int(index))
            offset = NOTHING if kept is None else kept.offset
            possible = register.possible
            if offset in possible:
                continue
            if not self._is_forgotten(offset) and not self._is_excused(group_id, partition):
                raise Violation(
                    KNOWN,
                    f"{offset} is committed of {register.name} by what {node} knows, and it should be one of "
                    f"{sorted(possible)}",
                )
            register.begin_anew(offset, self._line)

    # Who is who

    def _newest_of(self, group_id: str) -> _Newest | None:
        return self._newest.get(self._index_of(group_id))

    def _newest_shard(self, group_id: str) -> tuple[GroupShard, SimulatedNode] | None:
        """What the newest coordinator of the group knows; None while there is none that serves."""
        index = self._index_of(group_id)
        newest = self._newest.get(index)
        node = None if newest is None else self._world.nodes.get(newest.node_id)
        if node is None or node.broker is None or newest is None:
            return None
        context = node.broker.services.groups.contexts.get(index)
        if context is None or context.leader_epoch != newest.leader_epoch:
            return None
        return (context.shard, node) if context.state is CoordinatorState.ACTIVE else None

    def _index_of(self, group_id: str) -> int:
        for node in self._world.nodes.values():
            if node.broker is not None:
                return node.broker.services.groups.partition_for(group_id)
        return -1

    def _topic_id(self, topic: str) -> bytes | None:
        """By the newest image of any broker."""
        images = [node.image for node in self._world.nodes.values() if node.image is not None]
        if not images:
            return None
        found = max(images, key=lambda image: image.offset).topics.by_name.get(topic)
        return None if found is None else bytes(found.id)

    # When all is calm

    def reason_unsettled(self, groups: Mapping[str, Iterable[str]]) -> str | None:
        """Why groups, each with the topics that it reads, have not come to rest: in the end every partition
        has one owner, and all that is there is read and committed. None if it is so."""
        reasons = [text for group, topics in groups.items() for text in self._unsettled(group, topics)]
        return "; ".join(reasons) or None

    def _unsettled(self, group: str, topics: Iterable[str]) -> list[str]:
        found = self._newest_shard(group)
        if found is None:
            return [f"{group} has no coordinator"]
        committed, missing = found[0].offset_metadata.committed, []
        owners: dict[str, list[str]] = {}
        for claim in self.claims.of_group(group):
            for partition in claim.partitions:
                owners.setdefault(partition, []).append(claim.process)
        for topic in topics:
            for index, end in self._ends(topic).items():
                name = f"{topic}-{index}"
                if len(owners.get(name, ())) != 1:
                    missing.append(f"{name} is owned by {owners.get(name) or 'nobody'} in {group}")
                kept = committed.get(group, topic, index)
                offset = kept.offset if kept is not None else 0
                if offset < end or (offset > end and not self._world.losses):
                    # With a marker that is lost a transaction is open for ever, below what was read before.
                    missing.append(f"{group} has committed {offset} of {name}, which ends at {end}")
        return missing

    def _ends(self, topic: str) -> dict[int, int]:
        """How far each partition can be read, where it has a leader."""
        epochs: dict[int, tuple[int, int]] = {}
        for node in self._world.nodes.values():
            for partition in node.partitions:
                if partition.topic == topic and partition.is_leader:
                    found = (partition.leader_epoch, partition.log.last_stable_offset)
                    epochs[partition.index] = max(epochs.get(partition.index, found), found)
        return {index: end for index, (_, end) in sorted(epochs.items())}


def check_members(group: ConsumerGroup) -> None:
    """No two members have or shall have one partition."""
    held: dict[tuple[bytes, int], str] = {}
    for member_id, member in group.members.items():
        for place in member.owned():
            other = held.setdefault(place, member_id)
            if other != member_id:
                raise Violation(
                    ONE_MEMBER, f"{place[0].hex()}-{place[1]} of {group.group_id}: {other}, {member_id}"
                )
    shall: dict[tuple[bytes, int], str] = {}
    for member_id, target in group.target.items():
        for topic_id, partitions in target.items():
            for index in partitions:
                other = shall.setdefault((topic_id, index), member_id)
                if other != member_id:
                    raise Violation(
                        ONE_MEMBER,
                        f"{topic_id.hex()}-{index} of {group.group_id} in the target: {other}, {member_id}",
                    )


def check_epochs(group: ConsumerGroup) -> None:
    epochs = f"group epoch {group.epoch}, assignment epoch {group.assignment_epoch}"
    if group.assignment_epoch > group.epoch:
        raise Violation(EPOCHS, f"{group.group_id}: {epochs}")
    for member_id, member in group.members.items():
        if member.member_epoch > group.assignment_epoch:
            raise Violation(
                EPOCHS, f"{group.group_id}: {epochs}, and {member_id} is in epoch {member.member_epoch}"
            )
