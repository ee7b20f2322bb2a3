"""Slow directories: what is noticed, and what helper threads then do instead of the loop."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import Any

import pytest

from config.limits import SLOW_DIRECTORY_MS, SLOW_DIRECTORY_REST_MS
from protocol.records.reader import batch_records
from protocol.records.validation import validate_client_batch
from storage import partition_log
from storage.errors import LogStorageError
from storage.faulty_files import Fault
from storage.log_disk import LogDisk
from storage.waiting_append import WaitingAppend
from tests.support.rigs.lane_rig import MS, LaneRig, result_of, slow_down
from tests.support.rigs.log_rig import NOW_MS, client_batch, done, everything, offsets_of
from tests.support.rigs.storage_world import RunsLater


def test_the_second_slow_write_sends_those_that_follow_to_a_thread() -> None:
    """The first one only makes the directory watched."""
    rig = LaneRig()
    write = rig.log.active.log.file().write

    def slowly(buffers: Any, position: int) -> int:
        rig.ns += (SLOW_DIRECTORY_MS + 1) * MS
        return write(buffers, position)

    rig.log.segments.active_write = slowly
    assert result_of(rig.send(client_batch(b"slow"))).base_offset == 0
    assert (rig.disk.is_watched, rig.disk.is_slow) == (True, False)
    assert result_of(rig.send(client_batch(b"slow again"))).base_offset == 1
    assert rig.disk.is_slow
    third = rig.send(client_batch(b"beside"))
    assert isinstance(third, WaitingAppend)
    rig.turn()
    assert (third.outcome, len(rig.disks.waiting)) == (None, 1)
    rig.run()
    assert result_of(third).base_offset == 2
    rig.ns += SLOW_DIRECTORY_REST_MS * MS
    rig.log.segments.active_write = write
    assert result_of(rig.send(client_batch(b"quick again"))).base_offset == 3
    assert not rig.disk.is_slow


def test_only_the_write_is_timed_and_not_what_goes_before_it() -> None:
    """An import of a codec, or the walk over a batch, is no write."""
    rig = LaneRig()
    judged = 0

    check = validate_client_batch

    def slowly(*arguments: Any, **options: Any) -> Any:
        nonlocal judged
        judged += 1
        rig.ns += 10 * SLOW_DIRECTORY_MS * MS
        return check(*arguments, **options)

    for number in range(3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partition_log, "validate_client_batch", slowly)
            rig.now_ms += 1
            assert result_of(rig.send(client_batch(b"v"))).base_offset == number
    assert judged == 3
    assert not rig.disk.is_watched


def test_of_one_millisecond_the_first_append_is_timed() -> None:
    """One that the disk kept waiting is followed by one of another millisecond."""
    rig = LaneRig()
    read = 0

    def now_ns() -> int:
        nonlocal read
        read += 1
        return rig.ns

    rig.log.use_disk(LogDisk("/data", rig.disks, now_ns))
    write = rig.log.active.log.file().write
    slow_ns = 0

    def slowly(buffers: Any, position: int) -> int:
        rig.ns += slow_ns
        return write(buffers, position)

    rig.log.segments.active_write = slowly

    def send(now_ms: int) -> bool:
        """Whether the directory is watched then."""
        assert done(rig.log.append_as_leader(client_batch(b"v"), leader_epoch=0, now_ms=now_ms)) is not None
        return rig.log.appends.disk.is_watched

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
        for offset in range(5):
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
        rig.ns += (SLOW_DIRECTORY_REST_MS - 100) * MS  # the last one was in time
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
