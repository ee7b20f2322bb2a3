"""Transactions on one partition: what is stable, what was aborted, who is fenced; kept over every end."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.ports.files import RealFiles
from protocol.errors import ErrorCode
from protocol.records.builder import BatchBuilder
from protocol.records.control import (
    ControlRecordType,
    build_control_batch,
    control_key,
)
from storage.errors import AppendRefused
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from storage.transaction_index import AbortedTransaction, TransactionIndex, decode_entries, encode_entries
from tests.support.genuine.kafka_tools import run_tool
from tests.support.rigs.log_rig import NOW_MS, LogRig
from tests.support.rigs.transactions import TransactionWriter


class Writer(TransactionWriter):
    """With a rig of its own."""

    def __init__(self, rig: LogRig | None = None) -> None:
        self.rig = rig or LogRig()
        super().__init__(self.rig.log)


def refusal(call: object) -> tuple[int, str]:
    with pytest.raises(AppendRefused) as caught:
        call()  # type: ignore[operator]
    return caught.value.error_code, caught.value.message


def test_the_first_open_transaction_holds_the_stable_offset() -> None:
    writer = Writer()
    log = writer.rig.log
    writer.rig.append(b"plain")
    assert (writer.write(7), writer.write(8), writer.write(7)) == (1, 2, 3)
    writer.rig.commit_all()
    assert (log.high_watermark, log.last_stable_offset) == (4, 1)
    writer.end(7, commit=True)
    writer.rig.commit_all()
    assert log.last_stable_offset == 2, "producer 8 is undecided"
    writer.end(8, commit=False)
    assert log.last_stable_offset == 2, "decided, but the marker is not replicated"
    writer.rig.commit_all()
    assert log.last_stable_offset == log.high_watermark == 6


def test_a_decision_counts_once_it_is_below_the_high_watermark() -> None:
    writer = Writer()
    log = writer.rig.log
    writer.write(7)
    writer.end(7, commit=True)
    log.update_high_watermark(1)
    assert log.last_stable_offset == 0
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2


def test_aborted_transactions_are_told_to_who_reads_their_records() -> None:
    writer = Writer()
    writer.write(7)
    writer.write(8)
    writer.write(7)
    writer.end(7, commit=False)
    writer.write(9)
    writer.end(8, commit=True)
    writer.end(9, commit=False)
    writer.rig.commit_all()
    assert writer.aborted() == [(7, 0), (9, 4)]
    assert writer.aborted(4) == [(9, 4)], "what ended before is nothing to leave out"
    assert writer.aborted(6) == [(9, 4)], "its marker is at 6"
    assert writer.aborted(7) == []


def test_a_marker_segments_later_is_found() -> None:
    writer = Writer()
    writer.rig.configure(segment_bytes=400, index_interval_bytes=0)
    writer.write(7)
    for _ in range(20):
        writer.rig.append(bytes(50))
    writer.end(7, commit=False)
    writer.rig.append(b"behind")
    writer.rig.commit_all()
    assert len(writer.rig.log.segments) > 4
    assert writer.aborted(0, max_bytes=100) == [(7, 0)]
    assert writer.aborted(10) == [(7, 0)], "a reader that begins in the middle of the transaction"


def test_a_producer_writes_in_its_transaction_or_not_at_all() -> None:
    writer = Writer()
    writer.write(7)
    code, message = refusal(lambda: writer.write(7, is_open=False))
    assert code == ErrorCode.INVALID_TXN_STATE
    assert message.startswith("Expected transactional write from producer 7")
    assert writer.rig.log.log_end_offset == 1


def test_markers_of_older_epochs_and_coordinators_are_refused() -> None:
    writer = Writer()
    writer.write(7, epoch=3)
    assert refusal(lambda: writer.end(7, commit=True, epoch=2))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    writer.end(7, commit=True, epoch=3, coordinator_epoch=5)
    writer.write(7, epoch=3)
    code, message = refusal(lambda: writer.end(7, commit=True, epoch=3, coordinator_epoch=4))
    assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert "4 (zombie), 5 (current)" in message
    assert writer.rig.log.last_stable_offset == 0


def test_with_newer_transactions_a_marker_raises_the_epoch() -> None:
    writer = Writer()
    writer.write(7, epoch=3)
    same = refusal(lambda: writer.end(7, commit=True, epoch=3, transaction_version=2))
    assert same[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    writer.end(7, commit=True, epoch=4, transaction_version=2)
    writer.end(7, commit=True, epoch=4, transaction_version=2)  # repeated: nothing is open any more
    entry = writer.rig.log.producer_state.get(7)
    assert entry is not None
    assert (entry.epoch, entry.batches, entry.transaction_first_offset) == (4, (), -1)


def test_a_marker_without_a_transaction_aborts_nothing() -> None:
    writer = Writer()
    writer.end(7, commit=False)
    writer.rig.commit_all()
    assert writer.aborted() == []
    assert writer.rig.log.last_stable_offset == 1


def test_control_batches_of_the_quorum_end_nothing() -> None:
    writer = Writer()
    writer.write(7)
    batch = build_control_batch(
        [(ControlRecordType.LEADER_CHANGE, b"\0\0")], timestamp_ms=NOW_MS, base_offset=0, leader_epoch=0
    )
    writer.rig.log.append_internal(batch, leader_epoch=0, now_ms=NOW_MS)
    writer.rig.commit_all()
    assert writer.rig.log.last_stable_offset == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_all_of_it_is_there_after_a_start(is_clean: bool) -> None:
    writer = Writer()
    writer.rig.configure(segment_bytes=500)
    for number in range(12):
        writer.write(7)
        writer.write(8, size_bytes=60)
        writer.end(7, commit=number % 3 == 0)
    writer.rig.commit_all()
    assert writer.rig.log.last_stable_offset == 1
    if is_clean:
        writer.rig.close()
    else:
        writer.rig.run_background_tasks()
    log = writer.rig.reopen(is_clean=is_clean)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 1
    writer.log = log
    writer.end(8, commit=False)
    log.update_high_watermark(log.log_end_offset)
    told: list[tuple[int, int]] = []
    for segment in log.segments:
        told += [(entry.producer_id, entry.first_offset) for entry in segment.transaction_index.entries()]
    assert told == [(7, 3 * number) for number in range(12) if number % 3] + [(8, 1)]


def test_an_index_that_was_lost_is_made_again() -> None:
    writer = Writer()
    writer.rig.configure(segment_bytes=300)
    for _ in range(9):
        writer.write(7)
        writer.end(7, commit=False)
    writer.rig.run_background_tasks()
    files = writer.rig.files
    for name in writer.rig.file_names():
        if name.endswith(".txnindex"):
            files.unlink(f"{writer.rig.directory}/{name}")
    log = writer.rig.reopen(is_clean=False)
    log.update_high_watermark(log.log_end_offset)
    assert sum(len(segment.transaction_index.entries()) for segment in log.segments) == 9


@pytest.mark.parametrize("more_bytes", [-1, 10, 34], ids=["torn", "odd", "an entry of zeros"])
def test_an_index_that_was_damaged_after_an_orderly_end_is_made_again(more_bytes: int) -> None:
    """Else readers of what is committed would be given the records of a transaction that was aborted."""
    writer = Writer()
    writer.rig.configure(segment_bytes=300)
    for _ in range(9):
        writer.write(7)
        writer.end(7, commit=False)
    writer.rig.close()
    files = writer.rig.files
    names = [name for name in writer.rig.file_names() if name.endswith(".txnindex")]
    paths = [f"{writer.rig.directory}/{name}" for name in names]
    before = [decode_entries(files.read_bytes(path)) for path in paths]
    assert sum(map(len, before)) == 9
    for path in paths:
        file = files.open(path, write=True)
        file.truncate(file.size() + more_bytes)
    log = writer.rig.reopen(is_clean=True)
    assert [entry for each in log.segments for entry in each.transaction_index.entries()] == [
        entry for entries in before for entry in entries
    ]
    writer.rig.close()
    assert [decode_entries(files.read_bytes(path)) for path in paths] == before


def test_a_cut_takes_decisions_back() -> None:
    writer = Writer()
    log = writer.rig.log
    writer.write(7)
    marker_offset = writer.end(7, commit=False)
    writer.rig.append(b"behind")
    log.truncate_to(marker_offset, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 0
    assert log.active.transaction_index.entries() == []
    writer.end(7, commit=True)
    writer.rig.commit_all()
    assert writer.aborted() == []


def test_a_follower_reads_the_same_out_of_the_leaders_batches() -> None:
    leader, follower = Writer(), Writer()
    leader.write(7)
    leader.write(8)
    leader.end(7, commit=False)
    found = leader.rig.log.read(0, max_bytes=1 << 20)
    assert found is not None
    follower.rig.log.append_as_follower(found.read(), NOW_MS)
    follower.rig.commit_all()
    assert follower.rig.log.last_stable_offset == 1
    assert follower.rig.log.active.transaction_index.entries() == [AbortedTransaction(7, 0, 2, 1)]


def test_a_marker_that_cannot_be_read_is_kept_and_ends_nothing() -> None:
    writer = Writer()
    writer.write(7)
    builder = BatchBuilder(
        base_offset=1, producer_id=7, producer_epoch=0, transactional=True, control=True, leader_epoch=0
    )
    builder.append(control_key(ControlRecordType.COMMIT), b"\0", NOW_MS)
    writer.rig.log.append_as_follower(bytes(builder.build()), NOW_MS)
    writer.rig.commit_all()
    assert (writer.rig.log.log_end_offset, writer.rig.log.last_stable_offset) == (2, 0)
    log = writer.rig.reopen(is_clean=False)
    log.update_high_watermark(2)
    assert (log.log_end_offset, log.last_stable_offset) == (2, 0)


def test_the_index_file() -> None:
    files = MemoryFiles(lambda: NOW_MS)
    files.makedirs("/d")
    entries = [AbortedTransaction(5, 10, 20, 15), AbortedTransaction(6, 15, 30, 31)]
    index = TransactionIndex(files, "/d/0.txnindex")
    for entry in entries:
        index.append(entry)
    assert not files.exists("/d/0.txnindex")
    index.write()
    index.write()
    assert files.status("/d/0.txnindex").size_bytes == 68
    assert TransactionIndex(files, "/d/0.txnindex").entries() == entries
    assert decode_entries(encode_entries(entries) + b"\0" * 33) == entries, "a torn entry is none"
    index.truncate_to(30)
    assert TransactionIndex(files, "/d/0.txnindex").entries() == entries[:1]


class LookedAt(AbortedTransaction):
    """An entry that counts how often one of its kind is looked at."""

    looks = 0

    @property
    def last_offset(self) -> int:
        LookedAt.looks += 1
        return self[2]


def test_a_reader_does_not_look_at_what_ended_long_before() -> None:
    index = TransactionIndex(MemoryFiles(lambda: NOW_MS), "/0.txnindex")
    for offset in range(0, 20_000, 2):
        index.append(LookedAt(7, offset, offset + 1, offset + 2))
    LookedAt.looks = 0
    found: list[AbortedTransaction] = []
    assert index.collect(19_995, 19_998, found)
    assert [each.first_offset for each in found] == [19_994, 19_996], (
        "the first one's marker is the first record"
    )
    assert LookedAt.looks < 50


@pytest.mark.parametrize("from_offset", range(12))
def test_what_concerns_a_reader_is_found_from_any_offset(from_offset: int) -> None:
    index = TransactionIndex(MemoryFiles(lambda: NOW_MS), "/0.txnindex")
    entries = [
        AbortedTransaction(5, 2, 3, 1), AbortedTransaction(6, 1, 5, 4), AbortedTransaction(5, 4, 9, 10),
    ]  # fmt: skip
    for entry in entries:
        index.append(entry)
    for upper_offset in range(from_offset + 1, 13):
        found: list[AbortedTransaction] = []
        index.collect(from_offset, upper_offset, found)
        concerned = [
            each for each in entries if each.last_offset >= from_offset and each.first_offset < upper_offset
        ]
        assert found == concerned


@pytest.mark.java
def test_kafka_reads_the_index(tmp_path: Path) -> None:
    rig = LogRig(RealFiles(), LogConfig(), str(tmp_path / "orders-0"))
    writer = Writer(rig)
    writer.write(7)
    writer.write(8)
    writer.end(7, commit=False)
    writer.end(8, commit=False)
    rig.close()
    path = rig.log.segments[0].transaction_index.path
    result = run_tool("kafka-dump-log", "--files", path)
    assert result.code == 0, result.err
    assert result.lines[-2:] == [
        "version: 0 producerId: 7 firstOffset: 0 lastOffset: 2 lastStableOffset: 1",
        "version: 0 producerId: 8 firstOffset: 1 lastOffset: 3 lastStableOffset: 4",
    ]


def test_an_index_of_aborted_transactions_that_a_power_cut_took_is_made_again() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    writer = TransactionWriter(rig.log)
    writer.write(7)
    writer.end(7, commit=False)
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.roll(NOW_MS)
    rig.append(b"v")
    memory.unlink(rig.log.segments[0].transaction_index.path)
    memory.kill_process()
    log = rig.reopen(is_clean=False, recovery_point=2)
    rig.commit_all()
    assert TransactionWriter(log).aborted() == [(7, 0)]
