"""Transactional ids: their table, their records, what is overdue or expired, and what administrators see.

What each request does is in `tests/simulation/transactions`; that nothing is lost, in
`tests/properties/test_transactions_machine.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from broker.coordinator.runtime.batches import coordinator_batch
from broker.coordinator.runtime.result import CoordinatorRecord
from broker.coordinator.transaction.transaction_descriptions import (
    TransactionFilter,
    describe_transaction,
    list_transactions,
    unknown_states,
)
from broker.coordinator.transaction.transaction_metadata import TransactionMetadata
from broker.coordinator.transaction.transaction_operation import TransactionSettings
from broker.coordinator.transaction.transaction_records import (
    read_transaction,
    read_transactional_id,
    transaction_key,
    transaction_record,
    transaction_tombstone,
)
from broker.coordinator.transaction.transaction_states import TRANSITIONS, TransactionState
from protocol.errors import ErrorCode, ProtocolError
from tests.support.genuine.kafka_tools import run_tool
from tests.support.rigs.group_world import is_parked, now
from tests.support.rigs.transaction_world import TOPIC, TransactionWorld

DAY_MS = 24 * 60 * 60 * 1_000
S = TransactionState
KAFKAS_PREDECESSORS = {
    S.EMPTY: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.ONGOING: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
    S.DEAD: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
}
"""`validPreviousStates` of Kafka's TransactionState, without PrepareEpochFence, which is no step of its own
here."""


def test_a_state_has_the_predecessors_that_it_has_in_kafka() -> None:
    ours: dict[TransactionState, set[TransactionState]] = {}
    for (before, _), after in TRANSITIONS.items():
        ours.setdefault(after, set()).add(before)
    assert ours == KAFKAS_PREDECESSORS


def test_states_have_kafkas_words() -> None:
    assert [state.label for state in S] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip


# Records


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_record_holds_what_its_version_holds(version: int) -> None:
    metadata = TransactionMetadata(
        7, 3, 60_000, S.PREPARE_COMMIT, 50, 40, frozenset({("b", 2), ("a", 1), ("b", 0)}), 6, 8, 2, 2
    )
    record = transaction_record("tx", metadata, version)
    assert read_transactional_id(record.key) == "tx"
    assert record.value is not None
    read = read_transaction(record.value)
    assert read.last_producer_epoch == -1
    assert read.partitions == metadata.partitions
    tagged = (read.previous_producer_id, read.next_producer_id, read.client_version)
    assert tagged == ((6, 8, 2) if version else (-1, -1, 0))
    assert (read.identity, read.state, read.start_ms, read.last_update_ms) == (
        (7, 3),
        S.PREPARE_COMMIT,
        40,
        50,
    )


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0", b"\0\0\0\2t", b"\0\1\0\1t", b"\xff\xff\0\1t"])
def test_what_is_no_key_is_refused(key: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_transactional_id(key)


def test_what_is_no_transaction_is_refused() -> None:
    record = transaction_record("tx", TransactionMetadata(7, 3, 60_000, S.EMPTY, 50), 1)
    value = record.value
    assert value is not None
    for length in range(len(value)):
        with pytest.raises(ProtocolError):
            read_transaction(value[:length])
    for state in (S.DEAD, S.PREPARE_EPOCH_FENCE, 8, 255):
        with pytest.raises(ProtocolError, match="never recorded"):
            read_transaction(value[:16] + bytes([state]) + value[17:])
    for version in (b"\0\2", b"\xff\xff"):
        with pytest.raises(ProtocolError, match="newer"):
            read_transaction(version + value[2:])


def test_a_bad_record_is_left_out_and_the_others_are_loaded(caplog: pytest.LogCaptureFixture) -> None:
    world = TransactionWorld()
    now(world.init("t"))
    world.log.append_internal(TOPIC, 0, _batch_of(b"\0\0\0\1u", b"\0\1nonsense"), lambda _: None)
    world.log.append_internal(TOPIC, 0, _batch_of(b"\0\5\0\1v", b"\0\0"), lambda _: None)
    now(world.init("w"))
    world.resign()
    world.lead()
    assert sorted(world.shard.by_id) == ["t", "w"]
    assert caplog.text.count("a record is left out") == 2


def _batch_of(key: bytes, value: bytes) -> bytes:
    return coordinator_batch([CoordinatorRecord(key, value)], timestamp_ms=0)


@pytest.mark.java
def test_kafka_reads_our_records(tmp_path: Path) -> None:
    world = TransactionWorld()
    now(world.init("t"))
    now(world.add("t", (1000, 0), [("a", 0), ("b", 1), ("a", 2)]))
    now(world.end("t", (1000, 0), committed=True))
    world.write_markers("t")
    segment = tmp_path / f"{TOPIC}-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(b"".join(world.log.batches[TOPIC, 0]))
    result = run_tool("kafka-dump-log", "--transaction-log-decoder", "--files", str(segment))
    assert result.code == 0, result.err
    shown = re.findall(r"^\| offset: .* key: (\{.*\}) payload: (\{.*\})$", result.out, re.MULTILINE)
    assert {key for key, _ in shown} == {'{"type":"0","data":{"transactionalId":"t"}}'}
    states = [json.loads(value)["data"]["transactionStatus"] for _, value in shown]
    assert states == [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_COMMIT]
    partitions = json.loads(shown[2][1])["data"]["transactionPartitions"]
    assert partitions == [
        {"topic": "a", "partitionIds": [0, 2]},
        {"topic": "b", "partitionIds": [1]},
    ]


# Decisions and the log


def test_markers_are_sent_only_when_the_outcome_is_stored() -> None:
    world = TransactionWorld()
    now(world.init("t"))
    now(world.add("t", (1000, 0), [("a", 0)]))
    world.log.held = []
    answer = world.end("t", (1000, 0), committed=True)
    assert is_parked(answer)
    assert not world.markers.sent
    world.log.decide()
    assert now(answer).error_code == 0
    assert world.markers.sent["t"].partitions == {("a", 0)}


def test_an_outcome_that_the_log_refuses_is_as_if_nobody_had_asked() -> None:
    world = TransactionWorld()
    now(world.init("t"))
    now(world.add("t", (1000, 0), [("a", 0)]))
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert now(world.end("t", (1000, 0), committed=True)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.refusal = ErrorCode.NONE
    world.timers.advance(5_000)
    assert not world.markers.sent
    assert now(world.end("t", (1000, 0), committed=False)).error_code == 0
    assert not world.markers.sent["t"].committed


def test_an_outcome_that_is_stored_late_still_gets_its_markers() -> None:
    world = TransactionWorld()
    now(world.init("t"))
    now(world.add("t", (1000, 0), [("a", 0)]))
    world.log.held = []
    answer = world.end("t", (1000, 0), committed=True)
    world.timers.advance(5_000)
    assert now(answer).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.timers.advance(30_000)
    assert not world.markers.sent
    world.log.decide()
    assert not world.log.held
    assert world.markers.sent["t"].committed


def test_an_outcome_that_is_refused_late_is_undone() -> None:
    world = TransactionWorld()
    now(world.init("t"))
    now(world.add("t", (1000, 0), [("a", 0)]))
    world.log.held = []
    world.end("t", (1000, 0), committed=True)
    world.timers.advance(30_000)
    world.log.decide(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.timers.advance(20_000)
    assert (world.markers.sent, world.shard.by_id["t"].state) == ({}, S.ONGOING)
    assert world.shard.by_id["t"].identity == (1000, 0)


def test_an_end_that_is_not_stored_is_written_again() -> None:
    world = TransactionWorld()
    now(world.init("t"))
    now(world.add("t", (1000, 0), [("a", 0)]))
    now(world.end("t", (1000, 0), committed=True))
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    first = world.write_markers("t")
    world.timers.advance(20_000)
    assert not world.markers.sent
    world.log.refusal = ErrorCode.NONE
    world.timers.advance(2_000)
    assert world.write_markers("t") == first
    assert world.shard.by_id["t"].state is S.COMPLETE_COMMIT


def test_late_word_of_the_last_markers_does_not_end_the_next_transaction() -> None:
    world = TransactionWorld()
    now(world.init("t"))
    now(world.add("t", (1000, 0), [("a", 0)]))
    now(world.end("t", (1000, 0), committed=True))
    first = world.write_markers("t")
    assert first is not None
    now(world.add("t", (1000, 1), [("b", 0)]))
    now(world.end("t", (1000, 1), committed=True))
    second = world.markers.sent["t"]
    states = []
    for late in (first, second):
        world.markers.sent["t"] = late
        world.write_markers("t")
        states.append(world.shard.by_id["t"].state)
    assert states == [S.PREPARE_COMMIT, S.COMPLETE_COMMIT]


def test_without_producer_ids_a_client_is_told_to_come_back() -> None:
    world = TransactionWorld()
    world.has_producer_ids = False
    assert now(world.init("t")).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not world.shard.by_id


# Time


def test_ids_that_nobody_uses_are_forgotten() -> None:
    world = TransactionWorld(settings=TransactionSettings(transaction_max_timeout_ms=30 * DAY_MS))
    now(world.init("idle"))
    now(world.init("open", timeout_ms=20 * DAY_MS))
    now(world.add("open", (1001, 0), [("a", 0)]))
    world.timers.advance(3 * DAY_MS)
    now(world.init("later"))
    world.timers.advance(4 * DAY_MS)
    assert sorted(world.shard.by_id) == ["later", "open"]
    assert now(world.add("idle", (1000, 0), [("a", 0)])) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.resign()
    world.lead()
    assert sorted(world.shard.by_id) == ["later", "open"]


def test_a_look_for_expired_ids_goes_through_many_in_turns() -> None:
    world = TransactionWorld()
    for number in range(12_000):
        record = transaction_record(f"t{number}", TransactionMetadata(number, 0, 1, S.EMPTY, 0), 2)
        world.shard.replay(*record, None)
    world.timers.advance(7 * DAY_MS - 1)
    assert len(world.shard.by_id) == 12_000
    world.timers.advance(DAY_MS)
    assert not world.shard.by_id


def test_a_tombstone_that_is_refused_brings_the_id_back() -> None:
    world = TransactionWorld()
    now(world.init("t"))
    known = dict(world.shard.by_id)
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.timers.advance(8 * DAY_MS)
    assert world.shard.by_id == known


def test_the_records_of_a_coordinator_that_is_replaced_are_settled_by_the_next() -> None:
    world = TransactionWorld()
    now(world.init("t"))
    now(world.add("t", (1000, 0), [("a", 0)]))
    now(world.end("t", (1000, 0), committed=True))
    sent = world.markers.sent["t"]
    world.resign()
    assert now(world.init("t")).error_code == ErrorCode.NOT_COORDINATOR
    world.lead()
    world.timers.advance(1)
    assert world.markers.sent["t"] == sent


# Administrators


def test_a_list_shows_what_passes_all_filters() -> None:
    by_id = {
        "a1": TransactionMetadata(1, 0, 9, S.EMPTY, 0),
        "a2": TransactionMetadata(2, 0, 9, S.ONGOING, 0, 70),
        "b3": TransactionMetadata(3, 0, 9, S.COMPLETE_ABORT, 0, 50),
    }

    def shown(**filters: object) -> list[str]:
        wanted = TransactionFilter(**filters)  # type: ignore[arg-type]
        found = list_transactions(by_id, wanted, 100)
        return [each.transactional_id for each in found if each is not None]

    assert shown() == ["a1", "a2", "b3"]
    assert shown(states=["Ongoing", "Empty"]) == ["a1", "a2"]
    assert shown(states=["ongoing"]) == []
    assert shown(states=["ongoing", "Empty"]) == ["a1"]
    assert shown(producer_ids=[3, 9]) == ["b3"]
    assert shown(longer_than_ms=30) == ["a1", "b3"]  # a1 has no start, which is as long ago as can be
    assert shown(longer_than_ms=29) == ["a1", "a2", "b3"]
    assert shown(matches=re.compile("a.").fullmatch) == ["a1", "a2"]
    assert shown(matches=re.compile("a.").fullmatch, states=["Ongoing"], producer_ids=[2]) == ["a2"]
    assert unknown_states(["ongoing", "Dead", "x", "ongoing"]) == ["ongoing", "x"]


def test_an_id_is_described_with_its_partitions() -> None:
    metadata = TransactionMetadata(7, 3, 9, S.ONGOING, 50, 40, frozenset({("b", 2), ("a", 1), ("b", 0)}))
    described = describe_transaction("t", metadata)
    assert described.error_code == 0
    assert described.transaction_state == "Ongoing"
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", [1]), ("b", [0, 2])]
    assert describe_transaction("t", None).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert describe_transaction("", metadata).error_code == ErrorCode.INVALID_REQUEST


def test_a_tombstone_has_the_key_of_its_id() -> None:
    assert transaction_tombstone("t") == (transaction_key("t"), None)
