"""Offsets of overlapping transactions against the rule by which Kafka applies them.

Kafka knows the log offset of each committed offset and of each pending one. A commit marker applies what is
pending if nothing that lies behind it in the log is committed, and a tombstone takes away what is committed
and what is pending. The model does that over the batches of the log, when the log has decided on everything.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from broker.coordinator.group_coordinator import GROUP_TOPIC, GroupCoordinator
from broker.coordinator.group_keys import OFFSET, offset_key
from broker.coordinator.group_shard import GroupShard
from broker.coordinator.offsets.offset_records import (
    OffsetAndMetadata,
    offset_record,
    offset_tombstone,
    read_offset,
)
from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.batches import loaded_batches
from broker.coordinator.runtime.pending_writes import Transaction
from broker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from protocol.errors import ErrorCode
from protocol.records.control import TransactionMarker
from tests.support.rigs.group_world import GroupWorld

WALKS: Final = 100
STEPS: Final = 60
PARTITIONS: Final = range(3)
PRODUCERS: Final = range(3)


class Walk:
    """A live coordinator and what may be done to one group's offsets, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = GroupWorld()
        self.world.cluster.topics[GROUP_TOPIC] = 1
        self.offsets = 0

    def step(self) -> None:
        does = self.random.choice(
            (
                self.commit, self.delete, self.write_in_a_transaction, self.write_in_a_transaction,
                self.write_in_a_transaction, self.end_a_transaction, self.end_a_transaction,
                self.the_log_becomes_slow, self.the_log_decides, self.the_log_decides,
            )
        )  # fmt: skip
        does()

    def commit(self) -> None:
        self.write([self.record(self.random.choice(PARTITIONS))])

    def delete(self) -> None:
        self.write([offset_tombstone("g", "t", self.random.choice(PARTITIONS))])

    def write_in_a_transaction(self) -> None:
        partitions = self.random.sample(PARTITIONS, self.random.randint(1, 3))
        producer = Transaction(self.random.choice(PRODUCERS), 0)
        self.write([self.record(partition) for partition in partitions], producer)

    def end_a_transaction(self) -> None:
        marker = TransactionMarker(self.random.random() < 0.8, 0)
        self.write([], Transaction(self.random.choice(PRODUCERS), 0, marker))

    def record(self, partition: int) -> CoordinatorRecord:
        self.offsets += 1
        return offset_record("g", "t", partition, OffsetAndMetadata(self.offsets))

    def write(self, records: list[CoordinatorRecord], transaction: Transaction | None = None) -> None:
        def operation(shard: GroupShard, now: CurrentTime) -> CoordinatorResult[ErrorCode]:
            result = CoordinatorResult(ErrorCode.NONE)
            result.records += records
            return result

        self.world.groups._runtime.write(0, operation, lambda error: error, transaction=transaction)

    def the_log_becomes_slow(self) -> None:
        if self.world.log.held is None:
            self.world.log.held = []

    def the_log_decides(self) -> None:
        for _ in range(self.random.randrange(6)):
            if self.world.log.held:
                refused = self.random.random() < 0.3
                self.world.log.decide(ErrorCode.NOT_ENOUGH_REPLICAS if refused else ErrorCode.NONE)
        if not self.world.log.held:
            self.world.log.held = None

    def compare(self) -> None:
        if self.world.log.held:
            return
        other = self.world.loaded_coordinator()
        expected = by_kafkas_rule(self.world.log.read_batches(GROUP_TOPIC, 0, 0, 2**31))
        assert state(self.world, self.world.groups) == expected
        assert state(self.world, other) == expected
        other.close()


State = dict[int, tuple[int, bool]]
"""For each partition the committed offset, -1 if there is none, and whether a transaction may change it."""


def state(world: GroupWorld, coordinator: GroupCoordinator) -> State:
    offsets = world.shard("g", coordinator).offset_metadata
    found: State = {}
    for partition in PARTITIONS:
        committed = offsets.committed.get("g", "t", partition)
        found[partition] = committed.offset if committed else -1, offsets.has_pending("g", "t", partition)
    return found


def by_kafkas_rule(log: bytes) -> State:
    committed: dict[bytes, tuple[int, bytes]] = {}
    pending: dict[int, dict[bytes, tuple[int, bytes]]] = {}
    for batch in loaded_batches(log, 0):
        if batch.marker is not None:
            for key, written in pending.pop(batch.producer_id, {}).items():
                if batch.marker and (key not in committed or written[0] > committed[key][0]):
                    committed[key] = written
        target = pending.setdefault(batch.producer_id, {}) if batch.is_transactional else committed
        for number, (key, value) in enumerate(batch.records):
            if value is not None:
                target[key] = batch.base_offset + number, value
                continue
            for each in (committed, *pending.values()):
                each.pop(key, None)
    found: State = {}
    for partition in PARTITIONS:
        key = offset_key("g", "t", partition)
        offset = read_offset(OFFSET, committed[key][1]).offset if key in committed else -1
        found[partition] = offset, any(key in written for written in pending.values())
    return found


@pytest.mark.parametrize("seed", range(WALKS))
def test_overlapping_transactions_end_as_in_kafka(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
        walk.compare()
