"""What a start believes, cuts off and begins anew in a log's directory, after a crash or a clean end."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from storage.compaction_marker import write_compaction_marker
from storage.errors import AppendRefused, DamagedLog
from storage.file_names import segment_file
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles, Torn, keep_all
from storage.opening import give_topic_id, read_partition_metadata
from storage.recovery import OnDamage
from tests.support.rigs.log_rig import DIRECTORY, NOW_MS, TOPIC_ID, LogRig, done, leader_batch


def snapshots(rig: LogRig) -> list[str]:
    return [name for name in rig.file_names() if name.endswith(".snapshot")]


def test_a_torn_new_segment_without_its_snapshot_does_not_stop_the_start() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"v")
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.roll(NOW_MS)
    rig.append(b"w")
    torn = memory.open(rig.log.active.log.path, write=True)
    torn.truncate(torn.size() - 3)
    memory.kill_process()
    assert rig.reopen(is_clean=False, recovery_point=1).log_end_offset == 1


def test_indexes_that_a_start_believed_are_synced_with_the_next() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"v", timestamp=NOW_MS)
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.roll(NOW_MS)
    memory.kill_process()
    log = rig.reopen(is_clean=False, recovery_point=1)
    assert log.recovery_point == 0
    log.flush()
    rig.run_background_tasks()
    memory.cut_power()
    log = rig.reopen(is_clean=False, recovery_point=1)
    assert log.segments[0].largest_timestamp() == NOW_MS


def test_a_log_that_ends_below_its_log_start_begins_anew_there() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    for _ in range(3):
        rig.append(b"v", epoch=2)
    rig.commit_all()
    rig.log.increase_log_start(3)
    rig.log.flush()
    memory.kill_process()
    file = memory.open(f"{DIRECTORY}/{segment_file(0, '.log')}", write=True)
    file.truncate(100)
    log = rig.reopen(is_clean=False, log_start_offset=3)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (3, 3, 3)
    assert log.leader_epochs.entries() == []
    assert "begins anew" in rig.problems[-1]
    assert rig.append(b"w", epoch=3) == 3
    memory.kill_process()
    log = rig.reopen(is_clean=False, log_start_offset=3)
    assert (log.log_start_offset, log.log_end_offset, rig.problems) == (3, 4, ())
    assert log.leader_epochs.entries() == [(3, 3)]


def test_after_a_clean_end_too_no_record_gets_an_offset_that_was_deleted() -> None:
    """A follower's log that was cut within a gap, as compaction leaves it, ends where no file tells of."""
    rig = LogRig()
    leaders = leader_batch(0, b"v", b"w") + leader_batch(10, b"x", b"y")
    assert done(rig.log.append_as_follower(leaders, NOW_MS)).last_offset == 11
    rig.commit_all()
    rig.log.increase_log_start(5)
    rig.log.truncate_to(7, now_ms=NOW_MS)
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (5, 7)
    rig.close()
    log = rig.reopen(is_clean=True, recovery_point=7, log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5, 5, 5)
    assert "begins anew" in rig.problems[-1]
    assert rig.append(b"z") == 5


def test_what_was_cut_off_behind_damage_does_not_come_back() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"v")
    rig.log.roll(NOW_MS)
    rig.append(b"w")
    memory.fsync_directory(DIRECTORY)
    memory.cut_power(lambda path, unsynced: Torn(30 if f"{0:020d}.log" in path else unsynced))
    with pytest.raises(DamagedLog):
        rig.reopen(is_clean=False, on_damage=OnDamage.REFUSE)
    memory.kill_process()
    assert rig.reopen(is_clean=False, on_damage=OnDamage.TRUNCATE).log_end_offset == 0
    memory.cut_power(keep_all, keep_names=False)
    assert rig.reopen(is_clean=False).log_end_offset == 0


def with_a_lost_end(rig: LogRig | None = None) -> LogRig:
    """The first of two segments has lost its last two batches in a power cut. rig: with an empty log."""
    rig = rig or LogRig(MemoryFiles())
    memory = rig.files
    assert isinstance(memory, MemoryFiles)
    for value in (b"u", b"v", b"w"):
        rig.append(value, epoch=1)
    first_bytes = rig.log.size_bytes // 3
    rig.log.roll(NOW_MS)
    rig.append(b"x", epoch=1)
    memory.fsync_directory(DIRECTORY)
    memory.cut_power(lambda path, unsynced: Torn(first_bytes if f"{0:020d}.log" in path else unsynced))
    return rig


def test_a_log_is_cut_where_a_segment_has_lost_whole_batches() -> None:
    """With the hole it would count as complete: a follower would never copy what it lacks, and could lead."""
    rig = with_a_lost_end()
    log = rig.reopen(is_clean=False)
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    assert "the next segment begins at 3: what was between them is lost" in "".join(rig.problems)
    assert log.end_offset_for_epoch(1) == (1, 1)
    assert rig.append(b"v", epoch=1) == 1
    assert rig.reopen(is_clean=False).log_end_offset == 2


def test_a_log_that_lost_all_of_a_segment_and_nothing_lies_behind_it_begins_there() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"v")
    rig.log.roll(NOW_MS)
    memory.fsync_directory(DIRECTORY)
    memory.cut_power()
    assert rig.reopen(is_clean=False, on_damage=OnDamage.REFUSE).log_end_offset == 0
    assert len(rig.log.segments) == 1


def test_a_whole_batch_behind_what_is_lost_is_thrown_away_only_if_that_is_allowed() -> None:
    with pytest.raises(DamagedLog, match="should be, and a valid one behind it"):
        with_a_lost_end().reopen(is_clean=False, on_damage=OnDamage.REFUSE)
    with pytest.raises(DamagedLog, match="It had been synced, so the disk has changed it"):
        with_a_lost_end().reopen(is_clean=False, recovery_point=2)
    rig = with_a_lost_end()
    assert rig.reopen(is_clean=False, recovery_point=2, on_damage=OnDamage.TRUNCATE).log_end_offset == 1


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_follower_of_a_compacted_leader_leaves_no_hole_between_segments(is_slow: bool) -> None:
    """Its segments begin where the log ends, and not with the next batch that the leader has."""
    memory = MemoryFiles()
    rig = LogRig(memory, LogConfig(segment_bytes=200, flush_messages=1 if is_slow else 1 << 40))
    for base_offset in (0, 10, 25, 1 << 40):
        rig.log.append_as_follower(leader_batch(base_offset, b"v" * 100), NOW_MS)
        rig.run_background_tasks()
    assert [segment.base_offset for segment in rig.log.segments] == [0, 1, 11, 1 << 40]
    memory.kill_process()
    log = rig.reopen(is_clean=False, recovery_point=1 << 40)
    assert (log.log_end_offset, rig.problems) == ((1 << 40) + 1, ())
    memory.kill_process()
    log = rig.reopen(is_clean=False)
    assert log.log_end_offset == 26, "so far away nobody can tell it from a hole"


@pytest.mark.parametrize("told_by", ["the recovery point", "the pass", "cleaner-offset-checkpoint"])
def test_what_compaction_has_left_out_between_segments_is_accepted(told_by: str) -> None:
    rig = with_a_lost_end()
    if told_by == "the pass":
        write_compaction_marker(rig.files, DIRECTORY, 3)
    log = rig.reopen(
        is_clean=False,
        recovery_point=3 if told_by == "the recovery point" else 0,
        cleaned_offset=3 if told_by == "cleaner-offset-checkpoint" else 0,
    )
    assert (log.log_start_offset, log.log_end_offset) == (0, 4)
    found = log.read(1, max_bytes=1000)
    assert found is not None
    assert (found.base_offset, found.read()[-2:-1]) == (3, b"x")
    assert log.end_offset_for_epoch(1) == (1, 4)
    assert rig.append(b"y", epoch=2) == 4


@pytest.mark.parametrize("how", ["cut", "begun anew"])
def test_what_was_compacted_before_a_cut_excuses_no_hole_behind_it(how: str) -> None:
    rig = LogRig(MemoryFiles())
    rig.append(b"u", b"v", b"w", b"x")
    write_compaction_marker(rig.files, DIRECTORY, 4)
    if how == "cut":
        rig.log.truncate_to(0, now_ms=NOW_MS)
    else:
        rig.log.truncate_fully_and_start_at(0, now_ms=NOW_MS)
    log = with_a_lost_end(rig).reopen(is_clean=False)
    assert log.log_end_offset == 1
    assert "the next segment begins at 3: what was between them is lost" in "".join(rig.problems)


def test_a_time_index_of_lost_batches_is_not_believed_though_its_offsets_fit() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"v", timestamp=NOW_MS)
    rig.append(b"lost", timestamp=NOW_MS + 9_000)
    rig.log.active.seal()
    index = memory.open(f"{DIRECTORY}/{segment_file(0, '.timeindex')}")
    former = index.pread(index.size(), 0)
    rig.log.truncate_to(1, now_ms=NOW_MS)
    rig.append(b"w", timestamp=NOW_MS + 1_000)
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.roll(NOW_MS)
    memory.kill_process()
    memory.write_atomically(f"{DIRECTORY}/{segment_file(0, '.timeindex')}", former)
    log = rig.reopen(is_clean=False, recovery_point=2)
    assert log.segments[0].largest_timestamp() == NOW_MS + 1_000


def test_a_log_without_an_id_gets_that_of_its_topic() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.run_background_tasks()
    memory.unlink(f"{DIRECTORY}/partition.metadata")
    log = rig.reopen(is_clean=False)
    give_topic_id(log, TOPIC_ID)
    rig.run_background_tasks()
    assert log.topic_id == TOPIC_ID
    assert read_partition_metadata(memory, f"{DIRECTORY}/partition.metadata") == TOPIC_ID


def test_a_snapshot_of_before_what_retention_removed_is_not_believed() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory, LogConfig(retention_bytes=0))
    rig.produce(7, 0, 0)
    rig.log.roll(NOW_MS)
    rig.run_background_tasks()
    rig.produce(7, 0, 1)
    rig.commit_all()
    rig.log.delete_old_segments(NOW_MS)
    memory.kill_process()
    assert snapshots(rig) == ["00000000000000000001.snapshot"]
    log = rig.reopen(is_clean=False)
    assert (log.segments[0].base_offset, log.producer_state.get(7)) == (2, None)
    rig.produce(7, 0, 2)
    with pytest.raises(AppendRefused) as refused:
        rig.produce(7, 0, 9)
    assert refused.value.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_indexes_that_a_start_made_anew_below_the_recovery_point_are_on_the_disk() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"v")
    rig.log.roll(NOW_MS)
    rig.append(b"w")
    rig.log.flush()
    rig.run_background_tasks()
    memory.kill_process()
    memory.unlink(f"{DIRECTORY}/{segment_file(0, '.timeindex')}")
    assert rig.reopen(is_clean=False, recovery_point=2).recovery_point == 2
    memory.cut_power()
    log = rig.reopen(is_clean=False, recovery_point=2)
    assert log.segments[0].largest_timestamp() == NOW_MS


@pytest.mark.parametrize(("recovery_point", "cause"), [(3, "the disk has changed it"), (1, "a power cut")])
def test_refused_damage_names_its_likely_cause_and_the_remedy(recovery_point: int, cause: str) -> None:
    rig = LogRig()
    for _ in range(3):
        rig.append(b"v")
    path = f"{DIRECTORY}/{segment_file(0, '.log')}"
    file = rig.files.open(path, write=True)
    file.write([b"\xff"], file.size() // 3 + 62)
    with pytest.raises(DamagedLog) as refused:
        rig.reopen(is_clean=False, recovery_point=recovery_point, on_damage=OnDamage.REFUSE)
    assert "where offset 1 should be" in str(refused.value)
    assert cause in str(refused.value)
    assert "barnabas.recovery.corrupt=truncate" in str(refused.value)


def test_the_epoch_of_a_batch_that_is_read_again_is_its_own_from_its_first_offset_on() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"v", epoch=0)
    rig.log.active.log.file().fdatasync()
    rig.log.truncate_to(0, now_ms=NOW_MS)
    rig.append(b"w", epoch=3)
    memory.write_atomically(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n1\n3 0\n")
    memory.fsync_directory(DIRECTORY)
    memory.cut_power()
    assert rig.reopen(is_clean=False).leader_epochs.entries() == [(0, 0)]
