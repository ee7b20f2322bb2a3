"""Appends that wait for helper threads: their order, their errors, what becomes of them when all changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from config.limits import (
    DECOMPRESSED_BATCH_BYTES,
    JUDGED_BYTES,
    JUDGED_ON_NODE,
    WAITING_APPEND_BYTES,
)
from protocol.errors import ErrorCode
from protocol.records import record_validation
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, LZ4, ZSTD, compress, decompress
from protocol.records.header import HEADER_BYTES, read_header
from protocol.records.reader import batch_records
from protocol.records.walk import RECORDS_PER_SLICE
from storage.append import AppendResult
from storage.append_lane import LaneHelpers
from storage.errors import AppendRefused, LogStorageError
from storage.faulty_files import Fault
from storage.log_disk import LogDisk
from storage.waiting_append import WaitingAppend
from tests.support.rigs.lane_rig import LaneRig, large, refusal_of, result_of, slow_down
from tests.support.rigs.log_rig import NOW_MS, client_batch, everything, leader_batch, offsets_of
from tests.support.samples.bad_batches import bomb, with_records

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


def test_a_crash_before_the_epochs_are_written_leaves_no_hole_in_them() -> None:
    """The sync of an append does not wait for `leader-epoch-checkpoint`. What the next start believes of the
    disk does: it does not look for the epochs of a segment that it need not read."""
    rig = LaneRig(flush_messages=1, segment_bytes=400)
    for epoch, value in ((0, b"first"), (1, bytes(100)), (1, bytes(300))):
        sent = rig.send(client_batch(value), epoch)
        rig.run()
        result_of(sent)
        if epoch == 0:
            rig.log.durability.write_leader_epochs()
            rig.run_background_tasks()
    assert [segment.base_offset for segment in rig.log.segments] == [0, 2]
    assert rig.log.recovery_point == 3
    told = rig.log.durability.checkpointed_recovery_point
    assert rig.reopen(is_clean=False, recovery_point=told).leader_epochs.entries() == [(0, 0), (1, 1)]


def test_the_first_sync_is_one_of_all_new_names() -> None:
    rig = LaneRig(flush_messages=1, segment_bytes=200)
    rig.log.durability.note_new_directory()
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


# What changes meanwhile


def test_batches_that_were_given_up_do_not_keep_the_places_of_those_that_come_then() -> None:
    rig = LaneRig(codec=LZ4)
    given_up = [rig.send(large(ZSTD)) for _ in range(4)]
    rig.turn()
    assert len(rig.codecs.waiting) == 4
    assert rig.log.appends.lane is not None
    rig.log.appends.lane.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
    lane = rig.log.appends.lane
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


@pytest.mark.parametrize("end", ["leadership lost", "deleted", "closed"])
def test_who_is_given_up_while_a_thread_begins_a_segment_holds_no_file(end: str) -> None:
    """A file that stays held is never closed: not for want of descriptors, and not with its log."""
    rig = LaneRig(segment_bytes=400)
    result_of(rig.send(client_batch(bytes(300))))
    if end == "closed":
        rig.disk = LogDisk("/data", EndsUnheard(), lambda: 0)
        rig.log.use_disk(rig.disk, rig.helpers)
    slow_down(rig)
    sent = rig.send(client_batch(bytes(301)))
    file = rig.log.active.log
    rig.turn()
    assert file.holds == 1
    if end == "leadership lost":
        rig.log.give_up_waiting_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    elif end == "deleted":
        rig.log.abandon()
    else:
        rig.close()
    rig.run()
    assert file.holds == 0
    assert file.is_open is (end == "leadership lost")
    if end == "leadership lost":
        assert refusal_of(sent) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert len(rig.log.segments) == 1
        again = rig.send(client_batch(bytes(302)))
        rig.run()
        assert result_of(again).base_offset == rig.log.active.base_offset == 1
        assert file.holds == 0


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
    rig.log.use_disk(rig.disk, rig.helpers)
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
    in_order = rig.log.append_internal(own, leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(in_order, WaitingAppend)
    rig.run()
    assert (result_of(waiting).base_offset, result_of(in_order).base_offset) == (0, 1)


def test_a_follower_waits_for_a_slow_disk_like_everybody() -> None:
    rig = LaneRig()
    rig.append(b"v")
    slow_down(rig)
    first = rig.log.append_as_follower(leader_batch(1, b"a", b"b") + leader_batch(3, b"c"), NOW_MS)
    second = rig.log.append_as_follower(leader_batch(7, b"d") + leader_batch(8, b"cut off")[:-1], NOW_MS)
    nothing = rig.log.append_as_follower(leader_batch(8, b"cut off")[:-1], NOW_MS)
    assert isinstance(first, WaitingAppend)
    assert (first.outcome, rig.log.log_end_offset) == (None, 1)
    rig.run()
    places = [(result_of(each).base_offset, result_of(each).last_offset) for each in (first, second, nothing)]
    assert places == [(1, 3), (7, 7), (8, 7)]
    assert offsets_of(everything(rig.log)) == [(0, 0), (1, 2), (3, 3), (7, 7)]
    assert not rig.helpers.waiting_bytes


def test_what_a_follower_gets_behind_a_damaged_batch_is_refused_after_a_wait_too() -> None:
    rig = LaneRig()
    slow_down(rig)
    bad = bytearray(leader_batch(1, b"b"))
    bad[-1] ^= 1
    sent = rig.log.append_as_follower(leader_batch(0, b"a") + bad + leader_batch(2, b"c"), NOW_MS)
    alone = rig.log.append_as_follower(bytes(bad), NOW_MS)
    rig.run()
    assert refusal_of(sent) == refusal_of(alone) == ErrorCode.CORRUPT_MESSAGE
    assert offsets_of(everything(rig.log)) == [(0, 0)]


def test_a_waiting_follower_hears_what_the_disk_said_of_the_second_segment() -> None:
    """What came into the first one stays: it goes on from its log end."""
    rig = LaneRig(segment_bytes=250)
    slow_down(rig)
    batches = [leader_batch(number, bytes(100)) for number in range(3)]
    sent = rig.log.append_as_follower(b"".join(batches), NOW_MS)
    rig.faulty.faults = [Fault("write", number=2, path_part=".log")]
    rig.run()
    assert isinstance(sent, WaitingAppend)
    assert isinstance(sent.outcome, LogStorageError)
    assert offsets_of(everything(rig.log)) == [(0, 0)]
    again = rig.log.append_as_follower(b"".join(batches[1:]), NOW_MS)
    rig.run()
    assert result_of(again).last_offset == 2
    assert everything(rig.log) == b"".join(batches)


def test_a_waiting_follower_is_given_up_with_the_others() -> None:
    rig = LaneRig()
    slow_down(rig)
    sent = rig.log.append_as_follower(leader_batch(0, b"a") + leader_batch(1, b"b"), NOW_MS)
    rig.turn()
    rig.log.give_up_waiting_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    rig.run()
    assert refusal_of(sent) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.log.log_end_offset == 0


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


def test_batches_that_are_walked_share_their_turns() -> None:
    """A pause in a large batch is spent in the queue of all long work; what is to be written is not."""
    rig = LaneRig(compact=True)
    in_turn: list[Callable[[], None]] = []
    rig.helpers = LaneHelpers(rig.codecs, rig.turns.append, in_turn.append)
    rig.attach()
    small = [SimpleRecord(b"k", b"", NOW_MS)] * 10_000
    waiting = [rig.wait_in_line(build_batch(small)) for _ in range(2)]
    rig.turn()
    assert len(in_turn) == 2, "each takes its first slice, and asks for the next"
    slices = 0
    while in_turn:
        in_turn.pop(0)()
        slices += 1
    assert slices >= 2 * 10_000 // RECORDS_PER_SLICE - 2
    rig.run()
    assert [result_of(each).base_offset for each in waiting] == [0, 10_000]


class SharedHelpers:
    """Many lanes of one node."""

    def __init__(self, count: int) -> None:
        self.rigs = [LaneRig(compact=True) for _ in range(count)]
        first = self.rigs[0]
        for rig in self.rigs:
            rig.helpers, rig.codecs, rig.turns = first.helpers, first.codecs, first.turns
            rig.attach()

    def turn(self) -> None:
        self.rigs[0].turn()

    @property
    def calls(self) -> int:
        return len(self.rigs[0].codecs.waiting)

    def run(self) -> int:
        """The most calls that waited for threads at a time."""
        first, most = self.rigs[0], 0
        while first.turns or first.codecs.waiting:
            first.turn()
            most = max(most, self.calls)
            first.codecs.run()
        return most


def packed(size_bytes: int) -> bytearray:
    """One record with a key that unfolds into so much."""
    return build_batch([SimpleRecord(b"k", bytes(size_bytes), NOW_MS)], codec=ZSTD)


def test_so_many_batches_are_judged_on_the_whole_node() -> None:
    node = SharedHelpers(3 * JUDGED_ON_NODE)
    waiting = [rig.wait_in_line(packed(1 << 20)) for rig in node.rigs]
    assert node.run() == JUDGED_ON_NODE
    assert all(result_of(each).base_offset == 0 for each in waiting)
    assert node.rigs[0].helpers.permits.free == JUDGED_ON_NODE


def test_of_those_that_unfold_into_much_one_is_judged_at_a_time() -> None:
    node = SharedHelpers(6)
    limits: list[int] = []

    def noted(codec: int, data: Any, limit_bytes: int) -> bytes:
        limits.append(limit_bytes)
        return decompress(codec, data, limit_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_validation, "decompress", noted)
        huge = [rig.wait_in_line(packed(JUDGED_BYTES + 1)) for rig in node.rigs[:3]]
        small = [rig.wait_in_line(packed(1 << 20)) for rig in node.rigs[3:]]
        while any(each.outcome is None for each in small):
            node.turn()
            node.rigs[0].codecs.run()
        assert limits.count(DECOMPRESSED_BATCH_BYTES) <= 2, "the small ones do not wait for the huge"
        most = node.run()
    assert most == 1
    assert limits.count(JUDGED_BYTES) == 6
    assert limits.count(DECOMPRESSED_BATCH_BYTES) == 3
    assert all(result_of(each).base_offset == 0 for each in [*huge, *small])


def test_who_is_given_up_while_it_waits_for_a_place_leaves_it_to_the_next() -> None:
    node = SharedHelpers(JUDGED_ON_NODE + 2)
    waiting = [rig.wait_in_line(packed(1 << 20)) for rig in node.rigs]
    node.turn()
    assert node.calls == JUDGED_ON_NODE
    given_up = node.rigs[JUDGED_ON_NODE]
    assert given_up.log.appends.lane is not None
    given_up.log.appends.lane.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    node.run()
    assert refusal_of(waiting[JUDGED_ON_NODE]) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert result_of(waiting[-1]).base_offset == 0
    assert node.rigs[0].helpers.permits.free == JUDGED_ON_NODE
    again = given_up.wait_in_line(packed(1 << 20))
    node.run()
    assert result_of(again).base_offset == 0
