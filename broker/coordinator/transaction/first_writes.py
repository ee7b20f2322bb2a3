"""The first write of a transaction on a partition waits for its coordinator's word. KIP-890.

    a batch, an offset commit ──► is the producer's transaction open in the log? ── yes ──► append
                                              │ no
                                              ▼
                                  `partition_verification` ──► confirmed ──► append
                                                           └─► an error, instead of the append

What a producer sends while an earlier write of it waits, waits behind that, whatever partition it is for: the
log must see its writes in their order. Writes of others go on.

`storage.transactions` keeps what was confirmed, and is asked by the log at the append. Where
`transaction.partition.verification.enable` is false nobody is asked for producers that add their partitions
themselves, and all that they write counts as confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from broker.coordinator.transaction.partition_verification import Errors, Producer, Support
from broker.coordinator.transaction.transaction_metadata import TopicPartition
from config.ports import Clock
from protocol.errors import ErrorCode
from storage.producer_state import ProducerState
from storage.transactions import Verification

__all__ = ["FirstWrite", "FirstWrites", "WrittenPartition"]

NO_SEQUENCE = -1
"""Stands in place of a sequence for an offset commit."""


class AsksCoordinators(Protocol):
    """What this module needs of `PartitionVerification`."""

    def is_busy(self, producer_id: int) -> bool: ...

    def ask(
        self,
        producer: Producer,
        look: Callable[[], Collection[TopicPartition]],
        support: Support,
        is_outdated: Callable[[Errors], bool],
        on_errors: Callable[[Errors], None],
    ) -> None: ...


class WrittenLog(Protocol):
    """The log of a partition."""

    @property
    def producer_state(self) -> ProducerState: ...


class WrittenPartition(Protocol):
    """A partition that this broker hosts."""

    @property
    def topic(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def log(self) -> WrittenLog: ...


class FirstWrite(NamedTuple):
    """The next write of a producer: its partition, and the sequence with which it begins."""

    partition: WrittenPartition
    sequence: int = NO_SEQUENCE


class FirstWrites:
    """is_enabled: `transaction.partition.verification.enable`."""

    def __init__(self, verification: AsksCoordinators, clock: Clock, *, is_enabled: bool) -> None:
        self.is_enabled = is_enabled
        self._verification = verification
        self._clock = clock

    def must_wait(self, producer: Producer, writes: Sequence[FirstWrite], support: Support) -> bool:
        """Whether the writes have to wait for the coordinator, or behind other writes of the producer."""
        return self._verification.is_busy(producer.producer_id) or bool(
            self._begin(producer, writes, support)
        )

    def verify(
        self,
        producer: Producer,
        writes: Sequence[FirstWrite],
        support: Support,
        on_verdict: Callable[[Errors], None],
    ) -> None:
        """Calls `on_verdict` once, not before this returns: with the partitions that must not be written, and
        why. The others are to be written before `on_verdict` returns."""
        asked: dict[TopicPartition, Verification] = {}
        not_asked: dict[TopicPartition, ErrorCode] = {}

        def look() -> Collection[TopicPartition]:
            asked.clear()
            asked.update(self._begin(producer, writes, support))
            not_asked.clear()
            for partition, _ in writes:
                if not partition.is_leader:  # this broker may lead it by the time of the verdict
                    not_asked[partition.topic, partition.index] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return asked

        def is_outdated(errors: Errors) -> bool:
            return any(
                verification.is_forgotten for place, verification in asked.items() if place not in errors
            )

        def take(errors: Errors) -> None:
            for place, verification in asked.items():
                if place not in errors:
                    verification.is_confirmed = True
            on_verdict({**errors, **not_asked})

        self._verification.ask(producer, look, support, is_outdated, take)

    def _begin(
        self, producer: Producer, writes: Sequence[FirstWrite], support: Support
    ) -> dict[TopicPartition, Verification]:
        """Begins the questions to the coordinator. None is asked for a partition that is led elsewhere,
        because its batch is refused."""
        begun: dict[TopicPartition, Verification] = {}
        raises_epoch = support is Support.ADDS_PARTITIONS
        for partition, sequence in writes:
            state = partition.log.producer_state
            entry = state.get(producer.producer_id)
            if not partition.is_leader or (entry is not None and entry.has_open_transaction(producer.epoch)):
                continue
            verification = state.verifications.begin(
                producer.producer_id,
                producer.epoch,
                sequence,
                raises_epoch=raises_epoch,
                now_ms=self._clock.wall_ms(),
            )
            if self.is_enabled or raises_epoch:
                begun[partition.topic, partition.index] = verification
            else:
                verification.is_confirmed = True
        return begun
