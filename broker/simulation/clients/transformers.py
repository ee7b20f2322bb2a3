"""Transactional producers that share the partitions of what they take in, as members of one group (KIP-447).

    keep the place ─▶ take in records of owned partitions ─▶ write ─▶ TxnOffsetCommit as this member ─▶ EndTxn
          ▲                                                                                           │
          └──────────────── behind what was committed, or again from what the group has ◀─────────────┘

A member joins and gives up between two transactions only, so whoever gets a partition next finds the offsets
of a transaction that is under way: it is told that they are not stable, and waits. A transaction of somebody
who has lost the place must be refused. That each record is taken in once is for the checker of histories;
of the groups' rules those apply that look at what members own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from broker.simulation.clients.classic_consumer import ClassicConsumer
from broker.simulation.clients.consumer_protocol import ConsumerProtocolConsumer
from broker.simulation.clients.group_consumer import GroupConsumer, Identity, Position
from broker.simulation.clients.outgoing_batches import OutgoingBatch, Place
from broker.simulation.clients.transactional_producers import Taken, TransactionalProducer
from broker.simulation.clients.transactional_session import TransactionalSession
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.tasks import Task
from protocol.errors import ErrorCode

__all__ = ["Transformer"]

LOOK_MS: Final = 50
LEAVES_PROBABILITY: Final = 0.08
STALLS_PROBABILITY: Final = 0.04
LONGEST_STALL_MS: Final = 16_000
"""Longer than a session, and than the time-out of a transaction."""


class _Member(GroupConsumer):
    """Keeps its place in the group, and leaves reading and committing to the transactions. The history is
    told what it owns, and nothing of offsets: a transaction that commits some says so itself."""

    async def run(self) -> None:
        await self.beat_for_ever()

    async def commit(self) -> ErrorCode:
        """See `GroupConsumer`."""
        return ErrorCode.NONE

    def end(self) -> None:
        """It has left, and beats no more."""
        for task in self.tasks:
            task.cancel()

    def _tell_positions(self) -> None: ...

    def _note(self, kind: str, operation: str, **fields: Any) -> None:
        if operation == "own":
            super()._note(kind, operation, **fields)


class _ClassicMember(_Member, ClassicConsumer):
    """Of a group of the classic protocol."""


class _NewerMember(_Member, ConsumerProtocolConsumer):
    """Of a group of the consumer protocol."""


_MEMBERS: Final[Mapping[str, Callable[[ClusterWorld, ClientPlan, Sequence[str]], _Member]]] = (
    MappingProxyType({"classic": _ClassicMember, "consumer": _NewerMember})
)


class Transformer(TransactionalProducer):
    """Options beyond those of its kind: `members`, the protocol of its group: `classic` or `consumer`. Its
    member is another machine in the network, as its connections are others."""

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        membership = ClientPlan("member", f"{plan.name}-member", (self.source,), self.group)
        self.member = _MEMBERS[self.option("members", "consumer")](world, membership, bootstrap)
        world.add_client(self.member)
        self._leaving: Task | None = None
        """The member is about to leave its group."""

    async def run(self) -> None:
        self.member.start()
        await super().run()
        await self._has_left()
        await self.member.leave(for_good=True)
        self.member.end()

    async def take_in(self) -> Taken | None:
        """See `TransactionalProducer`."""
        member = self.member
        await self._has_left()
        if not await member.keep_place():
            return None
        positions = {place: each.offset for place, each in member.positions.items()}
        taken = Taken([], {})
        for place in list(positions):
            await self.take_in_from(place, positions, taken)
        self.has_passed({place: offset for place, offset in positions.items() if place not in taken.offsets})
        return taken

    def has_passed(self, offsets: Mapping[Place, int]) -> None:
        """See `TransactionalProducer`."""
        positions = self.member.positions
        positions.update({place: Position(at) for place, at in offsets.items() if place in positions})

    def forget_positions(self) -> None:
        """See `TransactionalProducer`."""
        self.member.positions.clear()

    def committer(self) -> Identity:
        """See `TransactionalProducer`. The epoch may have gone on since the records were taken in; they are
        its own until it joins or gives up again."""
        return self.member.identity

    async def fill(
        self, session: TransactionalSession, batches: Sequence[OutgoingBatch], taken: Taken
    ) -> str:
        """See `TransactionalProducer`. Sometimes the process stands still before it commits the offsets, so
        long that others may have its partitions by then. And sometimes it gives its place up before the
        transaction has ended: then others go on at once, and nobody knows yet from where."""
        if self.random.happens(STALLS_PROBABILITY):
            duration_ms = self.random.between(1_000, LONGEST_STALL_MS)
            self.member.stall(duration_ms)
            await self.sleep_ms(duration_ms)
        why = await super().fill(session, batches, taken)
        if self.random.happens(LEAVES_PROBABILITY):
            self._leaving = self.begin(self.member.leave(for_good=False))
            await self.sleep_ms(self.random.below(self.timeout_ms))
        return why

    async def _has_left(self) -> None:
        while self._leaving is not None and not self._leaving.is_over:
            await self.sleep_ms(LOOK_MS)
        self._leaving = None

    async def crash(
        self, session: TransactionalSession, batches: Sequence[OutgoingBatch], taken: Taken
    ) -> None:
        """See `TransactionalProducer`. Its place in the group is held until the session ends."""
        await super().crash(session, batches, taken)
        await self._has_left()
        self.member.kill()
        self.member.come_back()
