"""What a start finds after each kind of end."""

from __future__ import annotations

import pytest

from storage.checkpoints import encode_leader_epochs
from storage.errors import DamagedLog
from storage.file_names import OFFSET_INDEX_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, segment_file
from storage.memory_files import MemoryFiles, Torn
from storage.recovery import OnDamage
from tests.support.rigs.log_rig import LogRig, client_batch, everything, leader_batch, offsets_of


def filled(**config: object) -> LogRig:
    rig = LogRig()
    rig.configure(index_interval_bytes=200, **config)
    for number in range(10):
        rig.append(bytes(100), timestamp=rig.now_ms + number)
    return rig


def add_to_file(rig: LogRig, data: bytes) -> None:
    file = rig.files.open(rig.log.active.path(".log"), write=True)
    file.write([data], file.size())


@pytest.mark.parametrize(
    "torn",
    [
        b"\0" * 5,
        b"\0" * 500,
        b"\xff" * 500,
        leader_batch(10, b"whole but for its last byte")[:-1],
        leader_batch(10, b"length only")[:12],
        bytes(leader_batch(10, b"bad checksum"))[:-1] + b"!",
        leader_batch(9, b"an offset that is there already"),
        leader_batch(10, b"bad")[:-1] + b"!" + leader_batch(11, b"not whole either")[:-1],
    ],
)
def test_a_torn_tail_is_cut_off_and_reported(torn: bytes) -> None:
    rig = filled()
    content = everything(rig.log)
    add_to_file(rig, torn)
    rig.reopen(is_clean=False)
    assert everything(rig.log) == content
    assert rig.log.log_end_offset == 10
    assert [f"{len(torn)} bytes" in problem for problem in rig.problems] == [True]
    assert "offset 10" in rig.problems[0]
    assert rig.append(b"goes on") == 10
    rig.reopen(is_clean=False)
    assert rig.problems == ()
    assert rig.log.log_end_offset == 11


def test_a_whole_batch_that_nobody_acknowledged_is_kept() -> None:
    rig = filled()
    add_to_file(rig, leader_batch(10, b"written, then killed", epoch=3))
    rig.reopen(is_clean=False)
    assert rig.log.log_end_offset == 11
    assert rig.log.leader_epochs.entries() == [(0, 0), (3, 10)]


def test_only_what_is_not_known_to_be_on_the_disk_is_scanned() -> None:
    rig = filled(segment_bytes=400)
    bases = [segment.base_offset for segment in rig.log.segments]
    assert len(bases) == 5
    rig.run_background_tasks()
    assert rig.log.recovery_point == bases[-1]
    rig.reopen(is_clean=False, recovery_point=rig.log.recovery_point)
    assert rig.scanned_segments == 1
    rig.reopen(is_clean=False, recovery_point=0)
    assert rig.scanned_segments == 5
    rig.close()
    rig.reopen(is_clean=True)
    assert rig.scanned_segments == 0
    assert rig.log.log_end_offset == 10


@pytest.mark.parametrize("later", [True, False])
def test_damage_with_whole_batches_behind_it_is_refused_or_cut(later: bool) -> None:
    """In the same segment, or with nothing but later segments behind it."""
    rig = filled(segment_bytes=400)
    content = everything(rig.log)
    second = rig.log.segments[1]
    path = second.path(".log")
    file = rig.files.open(path, write=True)
    place = file.size() - 1 if later else 100
    flipped = bytes([file.pread(1, place)[0] ^ 1])
    before = rig.files.read_bytes(path)
    file.write([flipped], place)
    names = rig.file_names()
    with pytest.raises(DamagedLog) as refused:
        rig.reopen(is_clean=False, on_damage=OnDamage.REFUSE)
    offset = 3 if later else 2
    where = "byte 0 of /data/orders-0/00000000000000000004.log with offset 4" if later else "byte 170"
    assert f"{path} is damaged: no valid record batch at byte {170 if later else 0}" in str(refused.value)
    assert f"where offset {offset} should be" in str(refused.value)
    assert where in str(refused.value)
    assert "barnabas log repair /data/orders-0" in str(refused.value)
    assert rig.file_names() == names, "nothing was removed"
    file.write([before[place : place + 1]], place)
    rig.reopen(is_clean=False)
    assert everything(rig.log) == content
    file.write([flipped], place)
    rig.reopen(is_clean=False, on_damage=OnDamage.TRUNCATE)
    assert offsets_of(everything(rig.log)) == [(number, number) for number in range(offset)]
    assert rig.log.log_end_offset == offset
    assert sum("behind a torn segment" in problem for problem in rig.problems) == 3
    assert "is cut at that place (barnabas.recovery.corrupt)" in rig.problems[0]
    assert rig.append(b"next") == offset


def test_a_hole_that_a_power_cut_left_across_a_roll_is_cut_unasked() -> None:
    """The end of the former segment was not synced yet; the next one has its name and its batches."""
    files = MemoryFiles()
    rig = LogRig(files)
    rig.configure(segment_bytes=400)
    rig.append(bytes(100))
    rig.log.flush()
    rig.run_background_tasks()
    for _ in range(3):
        rig.append(bytes(100))
    former, new = (segment.path(".log") for segment in rig.log.segments)
    files.fsync_directory(rig.directory)
    files.cut_power(lambda path, unsynced: Torn(30 if path == former else unsynced), keep_names=True)
    rig.reopen(is_clean=False, recovery_point=1)
    assert offsets_of(everything(rig.log)) == [(0, 0)]
    assert f"{former} is damaged: no valid record batch at byte 170" in rig.problems[0]
    assert f"at byte 0 of {new} with offset 2" in rig.problems[0]
    assert (
        "It was not known to be synced: after a power cut a sound disk can show this too" in rig.problems[0]
    )
    assert "It is cut at that place" in rig.problems[0]
    assert rig.append(b"copied again from the leader") == 1
    rig.reopen(is_clean=False, recovery_point=1)
    assert rig.problems == ()
    assert rig.log.log_end_offset == 2


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_had_been_synced_is_refused_if_it_has_changed(is_clean: bool) -> None:
    """After an orderly end a segment is read only if its indexes are unsound; it was synced, whatever the
    recovery point says."""
    rig = filled()
    rig.close()
    segment = rig.log.active
    file = rig.files.open(segment.path(".log"), write=True)
    file.write([bytes([file.pread(1, 5 * 170 + 100)[0] ^ 1])], 5 * 170 + 100)
    rig.files.unlink(segment.path(".index"))
    names = rig.file_names()
    with pytest.raises(DamagedLog, match=r"where offset 5 should be.*the disk has changed it"):
        rig.reopen(is_clean=is_clean, recovery_point=0 if is_clean else 6)
    assert rig.file_names() == names, "nothing was removed"
    if not is_clean:
        rig.reopen(is_clean=False, recovery_point=5)
        assert rig.log.log_end_offset == 5


def test_a_base_offset_that_was_flipped_upwards_is_damage_too() -> None:
    """The checksum does not cover it: the batch itself looks well, those behind it seem to be misplaced."""
    rig = filled()
    file = rig.files.open(rig.log.active.path(".log"), write=True)
    file.write([b"\x01"], 3 * 170 + 6)  # 3 becomes 259
    with pytest.raises(DamagedLog, match="byte 680, where offset 260 should be"):
        rig.reopen(is_clean=False, on_damage=OnDamage.REFUSE)


def test_a_broken_index_in_the_middle_costs_a_look_at_one_segment_only() -> None:
    """And the producers of the segments behind it are still known."""
    rig = LogRig()
    rig.configure(segment_bytes=400, index_interval_bytes=100)
    for sequence in range(12):
        rig.produce(7, 0, sequence)
    rig.close()
    first = rig.log.segments[0]
    file = rig.files.open(first.path(".index"), write=True)
    file.truncate(file.size() - 1)
    rig.reopen(is_clean=True)
    assert rig.scanned_segments == 1
    assert [f"{first.log.path} has no sound indexes" in problem for problem in rig.problems] == [True]
    entry = rig.log.producer_state.get(7)
    assert entry is not None
    assert (entry.last_sequence, entry.last_offset) == (11, 11)
    assert rig.produce(7, 0, 12) == 12


@pytest.mark.parametrize("harm", ["missing", "odd size", "zeros", "too far"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_are_made_again(harm: str, suffix: str) -> None:
    rig = filled(segment_bytes=900)
    rig.close()
    paths = [segment.path(suffix) for segment in rig.log.segments]
    before = [rig.files.read_bytes(path) for path in paths]
    assert all(before)
    for path in paths:
        file = rig.files.open(path, write=True)
        if harm == "missing":
            rig.files.unlink(path)
        elif harm == "odd size":
            file.truncate(file.size() - 1)
        elif harm == "zeros":
            file.truncate(file.size() + 24)
        else:
            file.write([b"\x7f" + b"\xff" * 7], file.size())
            file.truncate(len(before[0]) + 24 if suffix == ".index" else file.size() + 1)
    rig.reopen(is_clean=True)
    assert rig.scanned_segments == len(paths)
    assert rig.log.log_end_offset == 10
    rig.close()
    assert [rig.files.read_bytes(path) for path in paths] == before


def test_producers_come_from_the_snapshot_and_what_follows_it() -> None:
    rig = LogRig()
    rig.produce(7, 0, 0)
    rig.produce(8, 0, 0)
    rig.log.durability.write_snapshot()
    rig.run_background_tasks()
    rig.produce(7, 0, 1)
    rig.produce(9, 2, 5)
    rig.reopen(is_clean=False)
    entries = {
        entry.producer_id: (entry.epoch, entry.last_sequence) for entry in rig.log.producer_state.entries()
    }
    assert entries == {7: (0, 1), 8: (0, 0), 9: (2, 5)}
    assert rig.produce(7, 0, 1) == 2
    assert rig.produce(9, 2, 6) == 4


def test_a_damaged_snapshot_and_one_from_beyond_the_end_are_not_believed() -> None:
    rig = LogRig()
    rig.produce(7, 0, 0)
    rig.log.durability.write_snapshot()
    rig.run_background_tasks()
    path = f"{rig.directory}/{segment_file(1, SNAPSHOT_SUFFIX)}"
    rig.files.write_atomically(path, rig.files.read_bytes(path)[:-1])
    rig.files.write_atomically(f"{rig.directory}/{segment_file(99, SNAPSHOT_SUFFIX)}", b"from another life")
    rig.reopen(is_clean=False)
    entry = rig.log.producer_state.get(7)
    assert entry is not None
    assert entry.last_sequence == 0
    assert segment_file(99, SNAPSHOT_SUFFIX) not in rig.file_names()


def test_left_overs_are_tidied() -> None:
    rig = filled()
    rig.close()
    for name in (
        "00000000000000000000.log.deleted", "leader-epoch-checkpoint.tmp",
        "00000000000000000000.log.cleaned", "00000000000000000077.index",
    ):  # fmt: skip
        rig.files.open(f"{rig.directory}/{name}", create=True)
    rig.reopen(is_clean=True)
    assert rig.file_names() == [
        "00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex",
        "00000000000000000010.snapshot", "leader-epoch-checkpoint", "partition.metadata",
    ]  # fmt: skip


def test_a_damaged_epoch_checkpoint_is_read_from_the_batches() -> None:
    rig = LogRig()
    for epoch in (0, 0, 4, 9):
        rig.append(b"x", epoch=epoch)
    rig.close()
    rig.files.write_atomically(f"{rig.directory}/leader-epoch-checkpoint", b"0\n9\nnot much\n")
    rig.reopen(is_clean=True)
    assert rig.log.leader_epochs.entries() == [(0, 0), (4, 2), (9, 3)]
    assert "promises 9 entries" in rig.problems[0]


@pytest.mark.parametrize("harm", ["missing", "empty", "no entries"])
def test_the_epochs_of_a_checkpoint_that_was_lost_are_read_from_the_batches(harm: str) -> None:
    """Also after an orderly end. Without epochs a follower would not find where its log parts from that of
    its leader."""
    rig = LogRig()
    for epoch in (0, 0, 4, 9):
        rig.append(b"x", epoch=epoch)
    rig.close()
    path = f"{rig.directory}/leader-epoch-checkpoint"
    if harm == "missing":
        rig.files.unlink(path)
    else:
        rig.files.write_atomically(path, b"" if harm == "empty" else encode_leader_epochs([]))
    rig.reopen(is_clean=True)
    assert rig.log.leader_epochs.entries() == [(0, 0), (4, 2), (9, 3)]
    rig.close()
    assert rig.files.read_bytes(path) == encode_leader_epochs([(0, 0), (4, 2), (9, 3)])


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("suffix", [OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_an_index_that_is_made_again_costs_no_epochs_of_what_lies_behind_it(
    suffix: str, is_clean: bool
) -> None:
    rig = LogRig()
    for epoch in range(4):
        rig.append(b"x", epoch=epoch)
        rig.append(b"y", epoch=epoch)
        if epoch < 3:
            rig.log.roll(rig.now_ms)
    rig.close()
    rig.files.unlink(rig.log.segments[1].path(suffix))
    rig.reopen(is_clean=is_clean, recovery_point=7)
    assert "no sound indexes" in rig.problems[0]
    assert rig.log.leader_epochs.entries() == [(0, 0), (1, 2), (2, 4), (3, 6)]
    if is_clean:
        assert not rig.log.leader_epochs.needs_writing(rig.log.log_end_offset)


def test_epochs_that_the_checkpoint_lacks_are_found_where_an_index_is_made_again() -> None:
    rig = LogRig()
    for epoch in (0, 4):
        rig.append(b"x", epoch=epoch)
        rig.log.roll(rig.now_ms)
    rig.append(b"z", epoch=4)
    rig.close()
    rig.files.write_atomically(f"{rig.directory}/leader-epoch-checkpoint", encode_leader_epochs([(0, 0)]))
    rig.files.unlink(rig.log.segments[1].path(OFFSET_INDEX_SUFFIX))
    rig.reopen(is_clean=True)
    assert rig.log.leader_epochs.entries() == [(0, 0), (4, 1)]


def test_after_a_power_cut_what_was_synced_is_there() -> None:
    files = MemoryFiles()
    rig = LogRig(files)
    for _ in range(3):
        rig.append(b"synced")
    rig.log.flush()
    rig.run_background_tasks()
    assert rig.log.recovery_point == 3
    rig.append(b"torn")
    rig.append(b"lost")
    log_path = rig.log.active.path(".log")
    assert files.unsynced_bytes(log_path) > 100
    files.cut_power(lambda path, unsynced: Torn(30, 200) if path == log_path else Torn(0), keep_names=False)
    rig.reopen(is_clean=False, recovery_point=3)
    assert [value for value, _ in offsets_of(everything(rig.log))] == [0, 1, 2]
    assert "230 bytes" in rig.problems[0]


def test_a_sync_that_fails_moves_no_recovery_point() -> None:
    rig = filled()
    rig.log.flush()
    due = rig.background_tasks.take_due(rig.now_ms)
    rig.log.truncate_to(4, now_ms=rig.now_ms)
    for task in due:
        task.call()
        if task.done:
            task.done()
    assert rig.log.recovery_point == 0


def test_a_batch_that_wants_copying_is_whole_after_a_kill() -> None:
    rig = LogRig()
    batch = bytes(client_batch(b"a", b"b"))
    rig.log.append_as_leader(batch, leader_epoch=2, now_ms=rig.now_ms)
    rig.reopen(is_clean=False)
    assert offsets_of(everything(rig.log)) == [(0, 1)]
    assert rig.log.leader_epochs.entries() == [(2, 0)]
