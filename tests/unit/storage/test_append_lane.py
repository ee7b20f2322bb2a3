"""Appends that wait for helper threads: their order, their errors, what becomes of them when all changes."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import Any

import pytest

from config.limits import SLOW_DIRECTORY_MS, SLOW_DIRECTORY_REST_MS, WAITING_APPEND_BYTES
from protocol.errors import ErrorCode
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, LZ4, ZSTD, compress
from protocol.records.header import HEADER_BYTES, read_header
from protocol.records.reader import batch_records
from storage.append import AppendResult
from storage.append_lane import AppendLane, LaneHelpers, WaitingAppend
from storage.errors import AppendRefused, LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.log_disk import LogDisk
from storage.memory_files import MemoryFiles
from tests.support.bad_batches import bomb, with_records
from tests.support.log_rig import NOW_MS, LogRig, client_batch, everything, offsets_of
from tests.support.storage_world import RunsLater

MS = 1_000_000


class LaneRig(LogRig):
    """A log with a lane, whose threads and turns of the loop a test lets run one by one."""

    def __init__(self, *faults: Fault, **config: Any) -> None:
        self.faulty = FaultyFiles(MemoryFiles())
        super().__init__(self.faulty)
        self.codecs, self.disks = RunsLater(), RunsLater()
        self.turns: list[Callable[[], None]] = []
        self.ns = 0
        self.helpers = LaneHelpers(self.codecs, self.turns.append)
        self.configure(**config)
        self.attach()
        self.faulty.faults = list(faults)

    def attach(self) -> None:
        self.disk = LogDisk("/data", self.disks, lambda: self.ns)
        self.log.watch_disk(self.disk)
        self.log.lane = AppendLane(self.log, self.helpers)

    def send(self, batch: memoryview | bytearray, epoch: int = 0) -> WaitingAppend | AppendResult:
        """As the replica manager does it."""
        result = self.log.append_or_wait(batch, leader_epoch=epoch, now_ms=NOW_MS)
        return self.wait_in_line(batch, epoch) if result is None else result

    def wait_in_line(self, batch: memoryview | bytearray, epoch: int = 0) -> WaitingAppend:
        assert self.log.lane is not None
        return self.log.lane.submit(batch, leader_epoch=epoch, now_ms=NOW_MS, walk=False, request_version=13)

    def turn(self) -> None:
        turns = list(self.turns)
        self.turns.clear()
        for each in turns:
            each()

    def run(self) -> None:
        while self.turns or self.codecs.waiting or self.disks.waiting:
            self.turn()
            self.codecs.run()
            self.disks.run()


def large(
    codec: int = 0, *, key: bytes | None = None, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytearray:
    return build_batch(
        [SimpleRecord(key, bytes([n % 251]) * 400 + n.to_bytes(4), NOW_MS) for n in range(400)],
        codec=codec, producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2],
    )  # fmt: skip


def result_of(waiting: WaitingAppend | AppendResult) -> AppendResult:
    outcome = waiting.outcome if isinstance(waiting, WaitingAppend) else waiting
    assert isinstance(outcome, AppendResult), outcome
    return outcome


def refusal_of(waiting: WaitingAppend | AppendResult) -> ErrorCode:
    assert isinstance(waiting, WaitingAppend)
    assert isinstance(waiting.outcome, AppendRefused), waiting.outcome
    return waiting.outcome.error_code


# Large batches


@pytest.mark.parametrize("source", [0, GZIP, ZSTD])
def test_a_large_batch_is_recompressed_beside_the_loop_and_others_queue_behind(source: int) -> None:
    rig = LaneRig(codec=LZ4)
    first = rig.send(large(source))
    behind = rig.send(client_batch(b"small"))
    assert isinstance(first, WaitingAppend)
    assert isinstance(behind, WaitingAppend)
    rig.turn()
    calls = 0
    while first.outcome is None:
        assert behind.outcome is None
        assert rig.log.log_end_offset == 0
        assert rig.codecs.run() == 1
        calls += 1
        rig.turn()
    assert calls == (1 if source == 0 else 2)
    assert (result_of(first).base_offset, result_of(behind).base_offset) == (0, 400)
    assert not rig.log.is_waited_for
    assert isinstance(rig.send(client_batch(b"inline again")), AppendResult)
    stored = everything(rig.log)
    assert read_header(stored).codec == LZ4
    assert [r.value for r in batch_records(stored)][:400] == [r.value for r in batch_records(large())]


def test_the_senders_buffer_may_be_overwritten_while_batches_wait() -> None:
    rig = LaneRig(codec=LZ4)
    scratch = bytearray(1 << 20)
    waiting = []
    for batch in (large(ZSTD), client_batch(b"one"), large(), client_batch(b"two", codec=GZIP)):
        view = memoryview(scratch)[: len(batch)]
        view[:] = batch
        waiting.append(rig.send(view))
        scratch[:] = b"\xdd" * len(scratch)
    rig.run()
    assert [result_of(each).base_offset for each in waiting] == [0, 400, 401, 801]
    values = [r.value for r in batch_records(everything(rig.log))]
    assert values == [r.value for r in batch_records(large() + bytes(client_batch(b"one")) + large())] + [
        b"two"
    ]


def test_large_batches_are_judged_side_by_side_and_taken_in_order() -> None:
    rig = LaneRig(codec=LZ4)
    sent = [rig.send(large(ZSTD, producer=(7, 0, 400 * n))) for n in range(6)]
    rig.turn()
    assert len(rig.codecs.waiting) == 4
    later = rig.codecs.waiting.pop(0)
    rig.codecs.run()
    rig.turn()
    assert all(each.outcome is None for each in sent if isinstance(each, WaitingAppend))
    later()
    rig.run()
    assert [result_of(each).base_offset for each in sent] == [0, 400, 800, 1200, 1600, 2000]
    entry = rig.log.producer_state.get(7)
    assert entry is not None
    assert entry.last_sequence == 2399


def test_one_bad_batch_costs_its_own_place_only() -> None:
    rig = LaneRig(compact=True, codec=LZ4)
    sent = [rig.send(large(ZSTD, key=b"k")), rig.send(large(ZSTD)), rig.send(large(GZIP, key=b"k"))]
    rig.run()
    assert result_of(sent[0]).base_offset == 0
    assert refusal_of(sent[1]) is ErrorCode.INVALID_RECORD
    assert len(sent[1].outcome.record_errors) == 400  # type: ignore[union-attr]
    assert result_of(sent[2]).base_offset == 400


def test_damaged_compression_and_a_bomb() -> None:
    rig = LaneRig(codec=LZ4)
    section = compress(GZIP, large()[HEADER_BYTES:])
    cut = with_records(section[:-30], 400, attributes=GZIP)
    whole = build_batch([SimpleRecord(None, bytes(200_000), NOW_MS)], codec=GZIP)
    rig.configure(timestamp_after_max_ms=2**60)
    sent = [rig.send(memoryview(each)) for each in (cut, bomb(ZSTD, 130 << 20), whole, large(ZSTD))]
    rig.run()
    assert refusal_of(sent[0]) is ErrorCode.INVALID_RECORD
    assert refusal_of(sent[1]) is ErrorCode.MESSAGE_TOO_LARGE
    assert [result_of(each).base_offset for each in sent[2:]] == [0, 1]


def test_a_bad_header_is_refused_at_once_also_behind_others() -> None:
    rig = LaneRig(codec=LZ4)
    first = rig.send(large(ZSTD))
    spoiled = client_batch(b"value")
    spoiled[70] ^= 1
    with pytest.raises(AppendRefused) as refused:
        rig.send(spoiled)
    assert refused.value.error_code is ErrorCode.CORRUPT_MESSAGE
    rig.run()
    assert result_of(first).base_offset == 0
    assert rig.helpers.waiting_bytes == 0


def test_a_repeated_batch_is_recognised_behind_the_first() -> None:
    rig = LaneRig(codec=LZ4)
    sent = [rig.send(large(ZSTD, producer=(7, 0, 0))) for _ in range(2)]
    gap = rig.send(client_batch(b"x", producer=(7, 0, 999)))
    rig.run()
    assert [result_of(each).base_offset for each in sent] == [0, 0]
    assert [result_of(each).is_duplicate for each in sent] == [False, True]
    assert refusal_of(gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rig.log.log_end_offset == 400


def test_no_more_waits_than_may() -> None:
    rig = LaneRig(codec=LZ4)
    batch = large(ZSTD)
    rig.helpers.waiting_bytes = WAITING_APPEND_BYTES - len(batch)
    first = rig.send(batch)
    with pytest.raises(AppendRefused) as refused:
        rig.send(client_batch(b"too much"))
    assert refused.value.error_code is ErrorCode.REQUEST_TIMED_OUT
    rig.run()
    assert result_of(first).base_offset == 0
    assert rig.helpers.waiting_bytes == WAITING_APPEND_BYTES - len(batch)


# Syncs


def syncs(rig: LaneRig) -> Fault:
    fault = Fault("fdatasync", number=10**9, path_part=".log")
    rig.faulty.faults.append(fault)
    return fault


def test_with_flush_messages_the_answer_comes_after_the_sync() -> None:
    rig = LaneRig(flush_messages=1)
    synced = syncs(rig)
    first = rig.send(client_batch(b"one"))
    rig.turn()
    assert isinstance(first, WaitingAppend)
    more = [rig.send(client_batch(b"more")) for _ in range(5)]
    assert (first.outcome, rig.log.log_end_offset, synced.seen) == (None, 0, 0)
    rig.disks.run()
    assert (result_of(first).base_offset, synced.seen, rig.log.recovery_point) == (0, 1, 1)
    rig.run()
    assert [result_of(each).base_offset for each in more] == [1, 2, 3, 4, 5]
    assert (synced.seen, rig.log.recovery_point) == (2, 6)


def test_the_sync_is_due_when_so_many_records_wait_for_it() -> None:
    rig = LaneRig(flush_messages=3)
    synced = syncs(rig)
    for number in range(7):
        sent = rig.send(client_batch(b"v"))
        rig.run()
        assert result_of(sent).base_offset == number
    assert (synced.seen, rig.log.recovery_point) == (2, 6)


def test_the_first_sync_is_one_of_all_new_names() -> None:
    rig = LaneRig(flush_messages=1, segment_bytes=200)
    rig.log.note_new_directory()
    names = Fault("fsync_directory", number=10**9)
    rig.faulty.faults.append(names)
    sent = [rig.send(client_batch(bytes(80))) for _ in range(2)]
    rig.run()
    assert [result_of(each).base_offset for each in sent] == [0, 1]
    assert names.seen == 3
    assert [segment.base_offset for segment in rig.log.segments] == [0, 1]
    sent = [rig.send(client_batch(bytes(80)))]
    rig.run()
    assert names.seen == 4


def test_a_sync_that_fails_refuses_its_batches() -> None:
    rig = LaneRig(Fault("fdatasync", path_part=".log"), flush_messages=1)
    first = rig.send(client_batch(b"lost"))
    rig.turn()
    second = rig.send(client_batch(b"kept"))
    rig.run()
    assert isinstance(first, WaitingAppend)
    assert isinstance(first.outcome, LogStorageError)
    assert result_of(second).base_offset == 0
    assert [r.value for r in batch_records(everything(rig.log))] == [b"kept"]
    assert rig.log.recovery_point == 1


# Slow disks


def slow_down(rig: LaneRig) -> None:
    rig.disk.took((SLOW_DIRECTORY_MS + 1) * MS)


def test_a_slow_write_sends_those_that_follow_to_a_thread() -> None:
    rig = LaneRig()
    write = rig.log._active_write

    def slowly(buffers: Any, position: int) -> int:
        rig.ns += (SLOW_DIRECTORY_MS + 1) * MS
        return write(buffers, position)

    rig.log._active_write = slowly
    assert result_of(rig.send(client_batch(b"slow"))).base_offset == 0
    assert rig.disk.is_slow
    second = rig.send(client_batch(b"beside"))
    assert isinstance(second, WaitingAppend)
    rig.turn()
    assert (second.outcome, len(rig.disks.waiting)) == (None, 1)
    rig.run()
    assert result_of(second).base_offset == 1
    rig.ns += SLOW_DIRECTORY_REST_MS * MS
    rig.log._active_write = write
    assert result_of(rig.send(client_batch(b"quick again"))).base_offset == 2
    assert not rig.disk.is_slow


def test_of_one_millisecond_the_first_append_is_timed() -> None:
    """One that the disk kept waiting is followed by one of another millisecond."""
    rig = LaneRig()
    read = 0

    def now_ns() -> int:
        nonlocal read
        read += 1
        return rig.ns

    rig.log.watch_disk(LogDisk("/data", rig.disks, now_ns))
    write = rig.log.active.log.file().write
    slow_ns = 0

    def slowly(buffers: Any, position: int) -> int:
        rig.ns += slow_ns
        return write(buffers, position)

    rig.log._active_write = slowly

    def send(now_ms: int) -> bool:
        """Whether the directory counts as slow then."""
        assert rig.log.append_or_wait(client_batch(b"v"), leader_epoch=0, now_ms=now_ms) is not None
        return rig.log.disk.is_slow

    assert not any(send(NOW_MS) for _ in range(10))
    assert read == 2
    slow_ns = (SLOW_DIRECTORY_MS + 1) * MS
    assert not send(NOW_MS)
    assert send(NOW_MS + SLOW_DIRECTORY_MS + 1)


def test_a_roll_that_takes_long_on_the_loop_makes_the_directory_slow() -> None:
    for joined in (False, True):
        rig = LaneRig(segment_bytes=400)
        ask = rig.faulty.ask

        def slowly(call: str, path: str, rig: LaneRig = rig, ask: Any = ask) -> int | None:
            if path.endswith("index"):
                rig.ns += (SLOW_DIRECTORY_MS + 1) * MS
            found: int | None = ask(call, path)
            return found

        rig.faulty.ask = slowly  # type: ignore[method-assign]
        for offset in range(3):
            assert not rig.disk.is_slow
            if joined:
                rig.log.append_internal(client_batch(bytes(100)), leader_epoch=0, now_ms=NOW_MS)
            else:
                assert result_of(rig.send(client_batch(bytes(100)))).base_offset == offset
        assert rig.disk.is_slow


def test_as_long_as_threads_meet_slow_writes_the_loop_writes_none() -> None:
    rig = LaneRig()
    slow_down(rig)
    for number in range(3):
        rig.ns += (SLOW_DIRECTORY_REST_MS - 100) * MS
        sent = rig.send(client_batch(b"v"))
        assert isinstance(sent, WaitingAppend), number
        rig.turn()
        later = rig.disks.waiting.pop()
        inner = rig.faulty.ask

        def ask(call: str, path: str, inner: Any = inner) -> int | None:
            if call == "write":
                rig.ns += (SLOW_DIRECTORY_MS + 1) * MS
            found: int | None = inner(call, path)
            return found

        rig.faulty.ask = ask  # type: ignore[method-assign]
        later()
        rig.faulty.ask = inner  # type: ignore[method-assign]
        assert result_of(sent).base_offset == number
    assert rig.disk.slow_writes == 4


def test_what_waits_for_a_slow_disk_shares_one_write() -> None:
    rig = LaneRig()
    slow_down(rig)
    writes = Fault("write", number=10**9, path_part=".log")
    rig.faulty.faults.append(writes)
    first = rig.send(client_batch(b"0"))
    rig.turn()
    more = [rig.send(client_batch(b"v", producer=(7, 0, n))) for n in range(20)]
    rig.run()
    assert [result_of(each).base_offset for each in [first, *more]] == list(range(21))
    assert writes.seen == 2


def test_only_so_many_threads_work_for_one_directory() -> None:
    threads = RunsLater()
    disk = LogDisk("/data", threads, lambda: 0)
    ended: list[object] = []
    for number in range(10):
        disk.submit(lambda number=number: number, ended.append)  # type: ignore[misc]
    assert len(threads.waiting) == 4
    assert threads.run() == 4
    assert len(threads.waiting) == 4
    while threads.run():
        pass
    assert ended == list(range(10))


def test_a_write_in_a_thread_may_fill_several_segments() -> None:
    rig = LaneRig(segment_bytes=400)
    slow_down(rig)
    sent = [rig.send(client_batch(bytes(100))) for _ in range(7)]
    rig.run()
    assert [result_of(each).base_offset for each in sent] == list(range(7))
    assert [segment.base_offset for segment in rig.log.segments] == [0, 2, 4, 6]
    assert offsets_of(everything(rig.log)) == [(n, n) for n in range(7)]
    rig.close()
    rig.reopen(is_clean=False)
    assert rig.problems == ()
    assert rig.log.log_end_offset == 7


@pytest.mark.parametrize("call", ["write", "open", "index"])
def test_what_fails_in_a_thread_leaves_nothing_and_keeps_what_was_answered(call: str) -> None:
    """One batch goes into the first segment, and three into the next: write, roll, write."""
    rig = LaneRig(segment_bytes=400)
    result_of(rig.send(client_batch(bytes(150))))
    slow_down(rig)
    rig.faulty.faults = [
        Fault("write", number=2, error=errno.ENOSPC, path_part=".log")
        if call == "write"
        else Fault("open", error=errno.ENOSPC, path_part="2.log" if call == "open" else ".index")
    ]
    sent = [rig.send(client_batch(b"%d" % n * 100)) for n in range(1, 4)]
    rig.run()
    assert [fault.hits for fault in rig.faulty.faults] == [1]
    assert result_of(sent[0]).base_offset == 1
    for each in sent[1:]:
        assert isinstance(each, WaitingAppend)
        assert isinstance(each.outcome, LogStorageError)
    assert rig.log.log_end_offset == 2
    assert rig.faulty.status(rig.log.active.path(".log")).size_bytes == rig.log.active.size_bytes
    logs = [name for name in rig.file_names() if name.endswith(".log")]
    assert logs == [f"{segment.base_offset:020d}.log" for segment in rig.log.segments]
    again = rig.send(client_batch(b"again"))
    rig.run()
    assert result_of(again).base_offset == 2
    values = [r.value for r in batch_records(everything(rig.log))]
    assert values == [bytes(150), b"1" * 100, b"again"]
    rig.close()
    rig.reopen(is_clean=True)
    assert (rig.problems, rig.scanned_segments) == ((), 0)
    assert [r.value for r in batch_records(everything(rig.log))] == values


class InThreads(RunsLater):
    """Real threads, each of which ends before the loop goes on."""

    def submit(self, call: Callable[[], Any], done: Callable[[Any], None]) -> None:
        def run() -> None:
            found: list[Any] = []
            thread = threading.Thread(target=lambda: found.append(call()))
            thread.start()
            thread.join()
            done(found[0])

        self.waiting.append(run)


def test_what_a_roll_costs_a_slow_disk_is_done_by_a_thread() -> None:
    rig = LaneRig(segment_bytes=400, index_interval_bytes=0)
    rig.disks = InThreads()
    rig.attach()
    slow_down(rig)
    own = threading.get_ident()
    touched: list[str] = []
    ask = rig.faulty.ask

    def asked(call: str, path: str) -> int | None:
        if threading.get_ident() == own:
            touched.append(f"{call} {path.rpartition('.')[2]}")
        return ask(call, path)

    rig.faulty.ask = asked  # type: ignore[method-assign]
    sent = [rig.send(client_batch(bytes(100))) for _ in range(7)]
    rig.run()
    assert [result_of(each).base_offset for each in sent] == list(range(7))
    assert len(rig.log.segments) == 4
    assert touched == ["open log"] * 3  # of files that are there


# What changes meanwhile


def test_batches_that_were_given_up_do_not_keep_the_places_of_those_that_come_then() -> None:
    rig = LaneRig(codec=LZ4)
    given_up = [rig.send(large(ZSTD)) for _ in range(4)]
    rig.turn()
    assert len(rig.codecs.waiting) == 4
    assert rig.log.lane is not None
    rig.log.lane.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert {refusal_of(each) for each in given_up} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    later = rig.send(large(ZSTD), epoch=2)
    rig.turn()
    assert len(rig.codecs.waiting) == 4
    rig.run()
    assert result_of(later).base_offset == 0


class EndsUnheard:
    """Threads that end when there is no loop any more."""

    def submit(self, call: Callable[[], object], done: Callable[[Any], None]) -> None:
        call()


@pytest.mark.parametrize("stage", ["queued", "being judged", "being written", "written"])
def test_leadership_ends_while_batches_wait(stage: str) -> None:
    rig = LaneRig(codec=LZ4)
    slow_down(rig)
    sent = rig.send(large(ZSTD))
    assert isinstance(sent, WaitingAppend)
    if stage != "queued":
        rig.turn()
    if stage in ("being written", "written"):
        rig.codecs.run()
        rig.codecs.run()
        assert len(rig.disks.waiting) == 1
    quiet: list[bool] = []
    lane = rig.log.lane
    assert lane is not None
    if stage == "written":
        rig.disks.run()
        assert result_of(sent).base_offset == 0
    lane.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    lane.when_quiet(lambda: quiet.append(True))
    assert quiet == ([] if stage == "being written" else [True])
    next_one = rig.wait_in_line(client_batch(b"of the next epoch"), epoch=1)
    rig.run()
    assert quiet == [True]
    if stage != "written":
        assert refusal_of(sent) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert result_of(next_one).base_offset == 0
        assert rig.log.leader_epochs.entries() == [(1, 0)]
        assert [r.value for r in batch_records(everything(rig.log))] == [b"of the next epoch"]
    assert rig.helpers.waiting_bytes == 0


def test_a_log_that_is_deleted_under_a_write() -> None:
    rig = LaneRig()
    slow_down(rig)
    written, queued = rig.send(client_batch(b"a")), None
    rig.turn()
    queued = rig.send(client_batch(b"b"))
    rig.log.abandon()
    assert refusal_of(queued) is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(AppendRefused):
        rig.wait_in_line(client_batch(b"c"))
    rig.faulty.rename("/data/orders-0", "/data/gone")
    rig.run()
    assert refusal_of(written) is ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.helpers.waiting_bytes == 0


def test_a_log_is_closed_under_a_write() -> None:
    rig = LaneRig()
    result_of(rig.send(client_batch(b"kept")))
    rig.disk = LogDisk("/data", EndsUnheard(), lambda: 0)
    rig.log.watch_disk(rig.disk)
    slow_down(rig)
    rig.send(client_batch(b"written, and nobody heard of it"))
    rig.turn()
    assert rig.faulty.status(rig.log.active.path(".log")).size_bytes > rig.log.active.size_bytes
    rig.close()
    rig.reopen(is_clean=True)
    assert [r.value for r in batch_records(everything(rig.log))] == [b"kept"]
    assert rig.faulty.status(rig.log.active.path(".log")).size_bytes == rig.log.active.size_bytes


def test_nobody_goes_past_the_lane() -> None:
    rig = LaneRig()
    slow_down(rig)
    waiting = rig.send(client_batch(b"a"))
    rig.turn()
    own = build_batch([SimpleRecord(None, b"own", NOW_MS)])
    with pytest.raises(LogStorageError, match="try again"):
        rig.log.append_internal(own, leader_epoch=0, now_ms=NOW_MS)
    with pytest.raises(LogStorageError, match="try again"):
        rig.log.append_as_follower(bytes(own), NOW_MS)
    assert rig.log.lane is not None
    in_order = rig.log.lane.submit_own(own, leader_epoch=0, now_ms=NOW_MS)
    rig.run()
    assert (result_of(waiting).base_offset, result_of(in_order).base_offset) == (0, 1)


def test_indexes_that_cannot_be_written_stop_a_commit_in_the_middle() -> None:
    rig = LaneRig(segment_bytes=400)
    slow_down(rig)
    sent = [rig.send(client_batch(bytes(100))) for _ in range(3)]
    rig.faulty.faults = [Fault("open", path_part=".index")]
    rig.run()
    assert [result_of(each).base_offset for each in sent[:2]] == [0, 1]
    assert isinstance(sent[2], WaitingAppend)
    assert isinstance(sent[2].outcome, LogStorageError)
    assert rig.log.log_end_offset == 2
    again = rig.send(client_batch(bytes(100)))
    rig.run()
    assert result_of(again).base_offset == 2
    assert offsets_of(everything(rig.log)) == [(n, n) for n in range(3)]
