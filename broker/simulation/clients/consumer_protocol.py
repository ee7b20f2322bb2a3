"""A consumer of the newer protocol (KIP-848): the coordinator distributes the partitions.

    heartbeat, epoch 0 ─▶ epoch and assignment ─▶ own ─▶ heartbeats, reading, commits
         ▲                     │ something is to be given up
         │                     └─▶ commit, give up ─▶ heartbeat that says what is left ─▶ the next epoch
         └── give up everything ◀── FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID

Heartbeats go out beside the reading. They only note what the coordinator wants; the main task gives
partitions up and takes others, and has the next heartbeat say what it owns. A heartbeat says what has changed
since the last one that was answered; after one that was not answered it says everything again.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Final

from broker.simulation.clients.cluster_client import GROUP
from broker.simulation.clients.group_consumer import GroupConsumer, Identity, Place, by_topic
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.values import ZERO_UUID

__all__ = ["ConsumerProtocolConsumer"]

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2
REBALANCE_MS: Final = 10_000
FIRST_BEAT_MS: Final = 1_000
LOOK_MS: Final = 100
"""How often it is looked whether a heartbeat is to go out before its time."""
REQUEST_MS: Final = 6_000
_ID_BYTES: Final = 16

FENCED: Final = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""It gives up everything and joins anew."""
HELD_BY_ANOTHER: Final = frozenset({ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID})
ENDS: Final = HELD_BY_ANOTHER | {ErrorCode.UNSUPPORTED_VERSION}
"""Kafka's consumer ends here; whoever runs it starts another one. The version is that of the group protocol,
which the cluster does not have at the moment (`group.version`)."""


class ConsumerProtocolConsumer(GroupConsumer):
    """Options beyond those of all: assignor, `uniform` or `range`; regex, subscribed in place of the topics'
    names."""

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        self.regex = self.option("regex")
        self.start_anew()

    def start_anew(self) -> None:
        """See `GroupConsumer`. The client makes its member id."""
        member = urlsafe_b64encode(self.random.random_bytes(_ID_BYTES)).decode().rstrip("=")
        self.identity = Identity(member, JOINING, self.instance)
        self._target: tuple[Place, ...] | None = None
        """What the coordinator wants it to have, until that is so."""
        self._is_fenced = False
        self._is_away = False
        self._says_all = True
        self._acknowledged: tuple[Place, ...] | None = None
        """What the last answered heartbeat said that it owns."""
        self._beat_ms = FIRST_BEAT_MS
        self._next_beat_ms = 0

    def heard(self, error: ErrorCode) -> None:
        """See `GroupConsumer`. A commit in an epoch that has passed is repeated in the next one."""
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._is_fenced = True

    # Heartbeats

    async def beat_for_ever(self) -> None:
        """See `GroupConsumer`."""
        while True:
            await self.while_stalled()
            if self._is_away or self._is_fenced or self.now_ms() < self._next_beat_ms:
                await self.sleep_ms(LOOK_MS)
                continue
            await self._beat()

    async def _beat(self) -> None:
        identity, owned = self.identity, self.owned
        request = self._heartbeat(identity, owned)
        self._says_all = False
        self._next_beat_ms = self.now_ms() + self._beat_ms
        answer = await self.ask_coordinator(
            self.group, GROUP, request, limit_ms=0, retries=(), timeout_ms=REQUEST_MS
        )
        if self._is_away or self._is_fenced or identity != self.identity:
            return  # it is somebody else by now
        if not isinstance(answer, ConsumerGroupHeartbeatResponse):
            self._says_all = True
            self._beat_soon(100)
            return
        error = ErrorCode.of(answer.error_code)
        if error is ErrorCode.NONE:
            self._acknowledged = owned
            await self._take_answer(answer)
        elif error in FENCED or error in ENDS:
            self.world.coverage.count(f"consumers: place lost, {error.name}")
            self._is_fenced = True
            self._beat_soon(3_000 if error in ENDS else 0)
        else:
            self._says_all = True
            self._beat_soon(100)

    def _beat_soon(self, pause_ms: int) -> None:
        self._next_beat_ms = self.now_ms() + self.random.between(pause_ms // 2, pause_ms)

    def _heartbeat(self, identity: Identity, owned: tuple[Place, ...]) -> ConsumerGroupHeartbeatRequest:
        """Everything, or what has changed."""
        request = ConsumerGroupHeartbeatRequest(
            self.group, identity.member, identity.generation, identity.instance or None
        )
        if identity.generation == JOINING or self._says_all:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.server_assignor = self.option("assignor") or None
            if self.regex:
                request.subscribed_topic_regex = self.regex
            else:
                request.subscribed_topic_names = list(self.plan.topics)
        if identity.generation == JOINING:
            request.topic_partitions = []
        elif self._says_all or owned != self._acknowledged:
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(
                    self.metadata.topic_ids.get(topic, ZERO_UUID), indexes
                )
                for topic, indexes in by_topic(owned)
            ]
        return request

    async def _take_answer(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        """The epoch counts at once; what to give up and to take is for the main task."""
        self._beat_ms = max(answer.heartbeat_interval_ms, LOOK_MS)
        self._next_beat_ms = min(self._next_beat_ms, self.now_ms() + self._beat_ms)
        if answer.member_epoch != self.identity.generation:
            self.own(self.owned, Identity(self.identity.member, answer.member_epoch, self.instance))
        if answer.assignment is None:
            return
        identity, target = self.identity, []
        for each in answer.assignment.topic_partitions:
            name = self.metadata.name(each.topic_id)
            if not name:
                await self.refresh()
                if self._is_away or self._is_fenced or identity != self.identity:
                    return  # it has given up its place meanwhile, and all that it was to have
                name = self.metadata.name(each.topic_id)
            if name:
                target += [(name, index) for index in each.partitions]
            else:
                self._says_all = True  # the whole answer comes again with the next heartbeat
        self._target = tuple(sorted(target))

    # The place in the group

    async def keep_place(self) -> bool:
        """See `GroupConsumer`."""
        self._is_away = False
        if self._is_fenced:
            self._abandon()
        target = self._target
        if target is not None and target != self.owned:
            await self._reconcile(target)
        error = await self.look_up()
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._is_fenced = True
        return not self._is_fenced

    def _abandon(self) -> None:
        """Its place is somebody else's: it gives everything up, and only then joins anew. A static member
        that was fenced is another process from now on."""
        self.own((), self.identity)
        member = self.identity.member
        next_beat_ms = self._next_beat_ms
        self.start_anew()
        if not self.instance:
            self.identity = Identity(member, JOINING)
        self._next_beat_ms = next_beat_ms

    async def _reconcile(self, target: tuple[Place, ...]) -> None:
        """Gives up first, and takes what is new; the next heartbeat says so."""
        member = self.identity.member
        if any(place not in target for place in self.owned):
            self.heard(await self.commit())
            if self._is_fenced or self.identity.member != member:
                return
            self.world.coverage.count("consumers: gave partitions up")
        self.world.coverage.count("consumers: reconciled")
        self.own(target, self.identity)
        self._next_beat_ms = self.now_ms()

    def sign(self, group: OffsetFetchRequest.OffsetFetchRequestGroup) -> None:
        """See `GroupConsumer`."""
        group.member_id, group.member_epoch = self.identity.member, self.identity.generation

    async def leave(self, *, for_good: bool) -> None:
        """See `GroupConsumer`. A static member may leave for a while (-2): its partitions wait for it."""
        if self.owned and not self._is_fenced:
            await self.commit()
        self._is_away = True
        identity = self.identity
        self.own((), identity)
        if identity.generation != JOINING:
            epoch = LEAVING if for_good or not self.instance else LEAVING_FOR_A_WHILE
            request = ConsumerGroupHeartbeatRequest(
                self.group, identity.member, epoch, identity.instance or None
            )
            await self.ask_coordinator(self.group, GROUP, request, limit_ms=REQUEST_MS)
        self.start_anew()
        self._is_away = True
