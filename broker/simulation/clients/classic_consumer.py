"""A consumer of the classic protocol: its group's leader distributes the partitions.

    JoinGroup ─▶ SyncGroup ─▶ own what the leader says ─▶ heartbeats, reading, commits
        ▲                                                      │
        └── commit, give up ◀── REBALANCE_IN_PROGRESS ─────────┤
        └────────── give up ◀── ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID

Under the eager protocols a consumer gives everything up before it joins; under the cooperative one it keeps
what it has, gives up only what the leader does not give it again, and then has the group rebalance once more.
Whoever has lost its place gives up everything without a commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.simulation.clients.classic_assignors import ASSIGNORS, COOPERATIVE, Subscriber
from broker.simulation.clients.cluster_client import GROUP
from broker.simulation.clients.group_consumer import (
    GroupConsumer,
    Identity,
    Place,
    Position,
    by_topic,
    commit_results,
)
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.seeded_random import SeededRandom
from protocol.codec.compiler import decode, encode
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["ClassicConsumer"]

CONSUMER: Final = "consumer"
BLOB_VERSION: Final = 3
_VERSION_BYTES: Final = 2
REBALANCE_MS: Final = 10_000
PATIENCE_MS: Final = 5_000
"""So much longer than the rebalance may take a JoinGroup is waited for."""
BEATS_PER_SESSION: Final = 4
NO_GENERATION: Final = -1

PLACE_LOST: Final = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
)
COORDINATOR_GONE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class ClassicConsumer(GroupConsumer):
    """Options beyond those of all:

    assignor             one of `classic_assignors.ASSIGNORS`
    late_commits         after some rebalances a commit of the generation before arrives
    """

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        self.assignor = self.option("assignor", "range")
        self._late = SeededRandom(world.seed, f"late commits of {plan.name}")
        self.session_ms = int(self.option("session_ms") or self.random.between(6_000, 10_000))
        self.start_anew()

    @property
    def is_cooperative(self) -> bool:
        return self.assignor == COOPERATIVE

    def start_anew(self) -> None:
        """See `GroupConsumer`."""
        self._must_join = True
        self._lost: ErrorCode | None = None
        """Why its place in the group is gone."""
        self._is_joining = False
        self._distributed: dict[str, int] | None = None
        """How many partitions each topic had when it distributed them; None while another one leads."""

    def heard(self, error: ErrorCode) -> None:
        """See `GroupConsumer`; heartbeats are answered so, too."""
        if error in PLACE_LOST:
            self._lost = error
        if error in PLACE_LOST or error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._must_join = True

    # Heartbeats

    async def beat_for_ever(self) -> None:
        """See `GroupConsumer`."""
        while True:
            await self.sleep_ms(self.session_ms // BEATS_PER_SESSION)
            await self.while_stalled()
            identity = self.identity
            if self._is_joining or self._lost is not None or identity.generation == NO_GENERATION:
                continue
            request = HeartbeatRequest(
                self.group, identity.generation, identity.member, identity.instance or None
            )
            answer = await self.ask_coordinator(
                self.group, GROUP, request, limit_ms=0, retries=(), timeout_ms=self.session_ms
            )
            if isinstance(answer, HeartbeatResponse) and identity == self.identity:
                self.heard(ErrorCode.of(answer.error_code))

    # The place in the group

    async def keep_place(self) -> bool:
        """See `GroupConsumer`. The leader also joins when the topics are not as it has distributed them."""
        if self._distributed is not None:
            await self.refresh_if_old()
            if self._distributed is not None and self._distributed != self._counts():
                self.world.coverage.count("classic consumers: topics have changed")
                self._must_join = True
        if self._must_join:
            await self._prepare_to_join()
            if not await self._join():
                return False
        error = await self.look_up()
        self.heard(error)
        return not self._must_join

    async def _prepare_to_join(self) -> None:
        """Commits and gives up what it must, by what it knows of its place."""
        if self._lost is None and self.owned:
            self.heard(await self.commit())
        if self._lost is not None or not self.is_cooperative:
            self.own((), self.identity)
        if self._lost is None:
            return
        self.world.coverage.count(f"classic consumers: place lost, {self._lost.name}")
        member = self.identity.member if self._lost is ErrorCode.ILLEGAL_GENERATION else ""
        if self._lost is ErrorCode.FENCED_INSTANCE_ID:
            # Kafka's consumer ends here; whoever runs it starts another one.
            await self.sleep_ms(self.random.between(1_000, 5_000))
        self.identity = Identity(member, NO_GENERATION, self.instance)
        self._lost = None

    async def _join(self) -> bool:
        """One round: whether it has a place in a new generation."""
        self._is_joining = True
        answer = await self._ask_to_join()
        self._is_joining = False
        if not isinstance(answer, JoinGroupResponse):
            await self._pause()
            return False
        error = ErrorCode.of(answer.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.identity = Identity(answer.member_id, NO_GENERATION, self.instance)
            return False
        if error is not ErrorCode.NONE:
            self.heard(error)
            await self._pause()
            return False
        # Until the assignment is there it is in the new generation with what it had.
        former, identity = self.identity, Identity(answer.member_id, answer.generation_id, self.instance)
        # What a heartbeat of before was answered in the meantime counts no longer.
        self._must_join, self._lost = False, None
        self.identity = identity
        assigned = await self._sync(answer)
        if assigned is None or identity != self.identity:
            self._must_join = True
            return False
        self.world.coverage.count("classic consumers: joined a generation")
        await self._take_over(assigned)
        if self.option("late_commits") and self._is_behind(former) and self._late.happens(0.5):
            await self._commit_late(former, assigned)
        return True

    def _is_behind(self, former: Identity) -> bool:
        """A coordinator that did not know of the last generation gives its number to another one; what is
        committed with that number is not late."""
        return NO_GENERATION < former.generation < self.identity.generation

    async def _commit_late(self, former: Identity, places: Sequence[Place]) -> None:
        """As if it had been on its way since the generation before. It is not written into the history, since
        it must change nothing: the rules know no such commit, and strike if a coordinator does."""
        request = self.commit_request(former, dict.fromkeys(places, Position(0)))
        answer = await self.ask_coordinator(self.group, GROUP, request, limit_ms=0, retries=())
        results = commit_results(answer, self.metadata.name)
        for error in set(results.values()):
            self.world.coverage.count(f"late commits: {error.name}")

    async def _ask_to_join(self) -> object:
        subscription = ConsumerProtocolSubscription(
            list(self.plan.topics),
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic, indexes)
                for topic, indexes in by_topic(self.owned)
            ],
            generation_id=self.identity.generation,
        )
        blob = BLOB_VERSION.to_bytes(_VERSION_BYTES, "big") + encode(subscription, BLOB_VERSION)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.identity.member,
            group_instance_id=self.instance or None,
            protocol_type=CONSUMER,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(self.assignor, blob)],
        )
        return await self.ask_coordinator(
            self.group, GROUP, request, limit_ms=0, retries=(), timeout_ms=REBALANCE_MS + PATIENCE_MS
        )

    async def _sync(self, joined: JoinGroupResponse) -> list[Place] | None:
        """What it gets in the new generation; the leader says what everybody gets."""
        assignments = []
        self._distributed = None
        if joined.leader == joined.member_id:
            # Who leads without having distributed (KIP-814) does not know whether topics have changed since.
            self._distributed = {}
            if not joined.skip_assignment:
                assignments = await self._distribute(joined)
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.instance or None,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        answer = await self.ask_coordinator(
            self.group, GROUP, request, limit_ms=0, retries=(), timeout_ms=REBALANCE_MS + PATIENCE_MS
        )
        if not isinstance(answer, SyncGroupResponse):
            await self._pause()
            return None
        error = ErrorCode.of(answer.error_code)
        self.heard(error)
        if error is not ErrorCode.NONE:
            await self._pause()
            return None
        blob = bytes(answer.assignment)
        if not blob:
            return []
        assignment = decode(
            ConsumerProtocolAssignment, int.from_bytes(blob[:_VERSION_BYTES], "big"), blob[_VERSION_BYTES:]
        )
        return [(each.topic, index) for each in assignment.assigned_partitions for index in each.partitions]

    async def _distribute(
        self, joined: JoinGroupResponse
    ) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        """The leader's part."""
        await self.refresh()
        counts = self._distributed = self._counts()
        members = [subscriber(each) for each in joined.members]
        assigned = ASSIGNORS[joined.protocol_name or self.assignor](members, counts)
        self.world.coverage.count("classic consumers: distributed as the leader")
        return [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id,
                BLOB_VERSION.to_bytes(_VERSION_BYTES, "big")
                + encode(
                    ConsumerProtocolAssignment(
                        [
                            ConsumerProtocolAssignment.TopicPartition(topic, indexes)
                            for topic, indexes in by_topic(places)
                        ]
                    ),
                    BLOB_VERSION,
                ),
            )
            for member_id, places in assigned.items()
        ]

    def _counts(self) -> dict[str, int]:
        return {topic: self.metadata.partition_counts.get(topic, 0) for topic in self.plan.topics}

    async def _take_over(self, assigned: Sequence[Place]) -> None:
        """Under the cooperative protocol what it must give up goes first, and then it joins once more."""
        given_up = [place for place in self.owned if place not in assigned]
        if given_up and self.is_cooperative:
            self.own((place for place in self.owned if place in assigned), self.identity)
            self._must_join = True
        self.own(assigned, self.identity)

    async def leave(self, *, for_good: bool) -> None:
        """See `GroupConsumer`. A static member just goes; its place waits for it."""
        if self._lost is None and self.owned:
            await self.commit()
        identity = self.identity
        self.own((), identity)
        if identity.member and not identity.instance:
            member = LeaveGroupRequest.MemberIdentity(identity.member, None)
            request = LeaveGroupRequest(self.group, members=[member])
            await self.ask_coordinator(self.group, GROUP, request, limit_ms=PATIENCE_MS)
        self.identity = Identity("", NO_GENERATION, self.instance)
        self.start_anew()

    async def _pause(self) -> None:
        await self.sleep_ms(self.random.between(50, 500))


def subscriber(member: JoinGroupResponse.JoinGroupResponseMember) -> Subscriber:
    """A member as the leader is shown it."""
    blob = bytes(member.metadata)
    said = decode(
        ConsumerProtocolSubscription,
        int.from_bytes(blob[:_VERSION_BYTES], "big"),
        blob[_VERSION_BYTES:],
    )
    owned = tuple((each.topic, index) for each in said.owned_partitions for index in each.partitions)
    return Subscriber(member.member_id, member.group_instance_id or "", owned)
