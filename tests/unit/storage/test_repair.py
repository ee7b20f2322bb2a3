"""Damage in the middle of a log is found, cut out and kept; what lies behind it stays readable."""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import pytest

from broker.cli import log_repair
from broker.ports.files import RealFiles
from storage.directories import LOCK_FILE
from storage.errors import DamagedLog
from storage.file_names import segment_file
from storage.recovery import OnDamage
from storage.repair import MissingOffsets, accept_missing_offsets, cut_out, find_damage
from tests.support.rigs.log_rig import DIRECTORY, LogRig, everything, offsets_of

BATCH = 170


def filled(count: int = 10, segment_bytes: int = 10_000) -> LogRig:
    rig = LogRig()
    rig.configure(index_interval_bytes=200, segment_bytes=segment_bytes)
    for number in range(count):
        rig.append(bytes(100), timestamp=rig.now_ms + number)
    rig.close()
    return rig


def overwrite(rig: LogRig, segment: int, position: int, data: bytes) -> bytes:
    """Returns what was there."""
    path = f"{DIRECTORY}/{segment_file(segment, '.log')}"
    before = rig.files.read_bytes(path)
    rig.files.open(path, write=True).write([data], position)
    return before


def test_a_whole_log_has_no_damage() -> None:
    assert find_damage(filled(segment_bytes=400).files, DIRECTORY) == ([], [])


def test_two_ranges_in_one_segment() -> None:
    rig = filled()
    before = overwrite(rig, 0, 2 * BATCH + 100, b"\xff" * 10)
    overwrite(rig, 0, 5 * BATCH - 3, b"\xff" * (BATCH + 6))
    damages, _ = find_damage(rig.files, DIRECTORY)
    assert [(each.position, each.size_bytes, each.first_offset, each.next_offset) for each in damages] == [
        (2 * BATCH, BATCH, 2, 3),
        (4 * BATCH, 3 * BATCH, 4, 7),
    ]
    damaged = rig.files.read_bytes(f"{DIRECTORY}/{segment_file(0, '.log')}")
    kept = cut_out(rig.files, DIRECTORY, damages)
    assert kept == [f"{DIRECTORY}/00000000000000000000.log.corrupt-{number * BATCH}" for number in (2, 4)]
    assert rig.files.read_bytes(kept[0]) == damaged[2 * BATCH : 3 * BATCH]
    assert rig.files.read_bytes(kept[1]) == damaged[4 * BATCH : 7 * BATCH]
    assert find_damage(rig.files, DIRECTORY) == ([], [])
    rig.reopen(is_clean=True)
    content = everything(rig.log)
    assert [base for base, _ in offsets_of(content)] == [0, 1, 3, 7, 8, 9]
    assert content == b"".join(before[n * BATCH : (n + 1) * BATCH] for n in (0, 1, 3, 7, 8, 9))
    assert rig.append(b"goes on") == 10
    assert kept[0].rpartition("/")[2] in rig.file_names(), "a start leaves it alone"


def test_the_end_of_a_segment_with_others_behind_it() -> None:
    rig = filled(segment_bytes=400)
    overwrite(rig, 2, BATCH, b"\xff" * 200)
    (damage,), _ = find_damage(rig.files, DIRECTORY)
    assert (damage.position, damage.first_offset, damage.next_offset) == (BATCH, 3, 4)
    cut_out(rig.files, DIRECTORY, [damage])
    rig.reopen(is_clean=False, recovery_point=10)
    assert [base for base, _ in offsets_of(everything(rig.log))] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_torn_tail_is_told_as_one() -> None:
    rig = filled()
    overwrite(rig, 0, 10 * BATCH, b"torn")
    (damage,), _ = find_damage(rig.files, DIRECTORY)
    assert (damage.size_bytes, damage.first_offset, damage.next_offset) == (4, 10, -1)


def test_any_damage_is_found_and_nothing_else_is_lost() -> None:
    """Random bytes over random places: every batch that was not touched is there afterwards."""
    random_source = random.Random(20261121)
    for _ in range(60):
        rig = filled(count=20, segment_bytes=random_source.choice([700, 10_000]))
        segments = [(segment.base_offset, segment.size_bytes) for segment in rig.log.segments]
        base, size_bytes = random_source.choice(segments)
        start = random_source.randrange(size_bytes - 30)
        length = random_source.randrange(1, min(400, size_bytes - start))
        before = overwrite(rig, base, start, random_source.randbytes(length))
        path = f"{DIRECTORY}/{segment_file(base, '.log')}"
        after = rig.files.read_bytes(path)[:size_bytes]
        if after == before[:size_bytes]:
            continue
        touched = {
            base + number
            for number in range(size_bytes // BATCH)
            if after[number * BATCH : (number + 1) * BATCH] != before[number * BATCH : (number + 1) * BATCH]
        }
        cut_out(rig.files, DIRECTORY, find_damage(rig.files, DIRECTORY)[0])
        rig.reopen(is_clean=False, recovery_point=0)
        found = {offset for offset, _ in offsets_of(everything(rig.log))}
        untouched = set(range(20)) - touched
        assert untouched <= found, (start, length, base)


def test_whole_batches_that_are_missing_are_told_and_accepted_if_the_operator_says_so() -> None:
    rig = filled(segment_bytes=400)
    rig.files.open(f"{DIRECTORY}/{segment_file(2, '.log')}", write=True).truncate(BATCH)
    damages, missing = find_damage(rig.files, DIRECTORY)
    assert (damages, missing) == ([], [MissingOffsets(3, 4)])
    with pytest.raises(DamagedLog, match="offset 3 should be"):
        rig.reopen(is_clean=False, recovery_point=0, on_damage=OnDamage.REFUSE)
    accept_missing_offsets(rig.files, DIRECTORY)
    assert find_damage(rig.files, DIRECTORY) == ([], [])
    rig.reopen(is_clean=False, recovery_point=0, on_damage=OnDamage.REFUSE)
    assert [base for base, _ in offsets_of(everything(rig.log))] == [0, 1, 2, *range(4, 10)]


def write_damaged(directory: Path) -> Path:
    """Returns the segment: a torn batch between two whole ones."""
    rig = filled(count=3)
    overwrite(rig, 0, BATCH + 100, b"\xff" * 10)
    directory.mkdir(parents=True)
    segment = directory / segment_file(0, ".log")
    segment.write_bytes(rig.files.read_bytes(f"{DIRECTORY}/{segment.name}"))
    return segment


def repair(*directories: Path) -> int:
    return log_repair.run(argparse.Namespace(directories=[str(each) for each in directories], yes=True))


def test_a_metadata_log_is_left_to_the_start_and_the_quorum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = write_damaged(tmp_path / "__cluster_metadata-0")
    partition = write_damaged(tmp_path / "orders-0")
    before = metadata.read_bytes()
    assert repair(tmp_path) == log_repair.WELL
    assert len(partition.read_bytes()) == 2 * BATCH
    assert (metadata.read_bytes(), list(metadata.parent.iterdir())) == (before, [metadata])
    assert "the next start cuts it where it is damaged, and the quorum sends" in capsys.readouterr().err


def test_nothing_that_could_be_examined_is_no_success(tmp_path: Path) -> None:
    assert repair(tmp_path) == log_repair.DAMAGED
    write_damaged(tmp_path / "data" / "orders-0")
    assert repair(tmp_path, tmp_path / "data") == log_repair.DAMAGED
    assert repair(tmp_path / "data") == log_repair.WELL
    metadata = write_damaged(tmp_path / "__cluster_metadata-0").parent
    assert repair(metadata) == log_repair.DAMAGED, "it was asked for by name"


def test_a_log_that_cannot_be_read_keeps_nobody_from_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders-0" / segment_file(0, ".log")).mkdir(parents=True)
    behind = write_damaged(tmp_path / "orders-1")
    assert repair(tmp_path) == log_repair.DAMAGED
    assert len(behind.read_bytes()) == 2 * BATCH
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"barnabas: {tmp_path}/orders-0: ")
    assert "Is a directory" in line


def test_a_broker_that_runs_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (0, 1):
        write_damaged(tmp_path / f"orders-{number}")
    lock = RealFiles().lock(str(tmp_path / LOCK_FILE))
    assert repair(tmp_path) == log_repair.DAMAGED
    lock.release()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("stop the broker first")


def test_the_directory_in_which_one_stands_may_be_a_partition_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = write_damaged(tmp_path / "orders-0")
    monkeypatch.chdir(partition.parent)
    assert repair(Path(".")) == log_repair.WELL
    assert len(partition.read_bytes()) == 2 * BATCH
