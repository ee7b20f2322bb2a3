"""Segments with records of the message formats 0 and 1: they are not read, and nothing of them is removed."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from broker.cli import log_repair
from storage.clean_shutdown import CLEAN_SHUTDOWN_FILE, encode_clean_shutdown
from storage.errors import LegacyFormat
from storage.file_names import OFFSET_INDEX_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, segment_file
from storage.log_loading import RecoverySettings, StartReport
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from storage.producer_snapshot import encode_snapshot
from storage.recovery import OnDamage
from tests.support.rigs.log_rig import NOW_MS, LogRig, everything, leader_batch
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce
from tests.support.samples.legacy_messages import legacy_message

OLD = 100
"""The number of old messages in the first segment."""
NEWER = b"".join(bytes(leader_batch(OLD + number, b"newer")) for number in range(3))


def old_messages(magic: int) -> bytes:
    return b"".join(legacy_message(magic, number, bytes(33)) for number in range(OLD))


class OldLog:
    """One partition with old messages, as another broker has left it."""

    def __init__(self, *segments: tuple[int, bytes]) -> None:
        self.files = MemoryFiles()
        self.files.makedirs("/a/t-0")
        for base_offset, content in segments:
            self.files.write_atomically(self.path_of(base_offset), content)
            for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                self.files.write_atomically(f"/a/t-0/{segment_file(base_offset, suffix)}", b"")
        self.content = dict(segments)
        self.report = StartReport()

    def path_of(self, base_offset: int) -> str:
        return f"/a/t-0/{segment_file(base_offset, '.log')}"

    def start(self, *, is_clean: bool, on_damage: OnDamage = OnDamage.AUTO) -> LogManager:
        if is_clean:
            self.files.write_atomically(f"/a/{CLEAN_SHUTDOWN_FILE}", encode_clean_shutdown(1))
        manager = LogManager(
            self.files, ["/a"], clock=ManualClock(NOW_MS), random_source=NoRandomSource(),
            offload=RunsAtOnce(), recovery=RecoverySettings(on_damage=on_damage),
        )  # fmt: skip
        self.report = manager.start()
        return manager

    def is_whole(self) -> bool:
        return all(self.files.read_bytes(self.path_of(base)) == each for base, each in self.content.items())


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("behind", ["nothing", "in the segment", "in the next one"])
@pytest.mark.parametrize("on_damage", OnDamage)
def test_a_log_of_an_old_format_is_offline_and_whole(
    magic: int, is_clean: bool, behind: str, on_damage: OnDamage
) -> None:
    old = old_messages(magic) + (NEWER if behind == "in the segment" else b"")
    log = OldLog((0, old), *([(OLD, NEWER)] if behind == "in the next one" else []))
    for _ in range(2):
        manager = log.start(is_clean=is_clean, on_damage=on_damage)
        assert manager.offline["t", 0] == (
            f"{log.path_of(0)} holds records of format {magic} at byte 0, which this release does not read; "
            "nothing was removed"
        )
        assert any(manager.offline["t", 0] in problem for problem in log.report.problems)
        assert log.is_whole()
        manager.shut_down()
        assert log.is_whole()


@pytest.mark.parametrize("is_clean", [True, False])
def test_old_messages_behind_newer_batches_are_kept_as_well(is_clean: bool) -> None:
    newer = b"".join(bytes(leader_batch(number, b"newer")) for number in range(3))
    log = OldLog((0, newer + legacy_message(1, 3) + legacy_message(1, 4)))
    manager = log.start(is_clean=is_clean)
    assert f"records of format 1 at byte {len(newer)}" in manager.offline["t", 0]
    assert log.is_whole()


def test_an_old_segment_behind_damage_is_not_removed() -> None:
    torn = bytes(leader_batch(0, b"newer")) + bytes(leader_batch(1, b"torn"))[:-1]
    log = OldLog((0, torn), (2, legacy_message(1, 2)))
    manager = log.start(is_clean=False, on_damage=OnDamage.TRUNCATE)
    assert f"{log.path_of(2)} holds records of format 1" in manager.offline["t", 0]
    assert log.is_whole()


def test_a_look_up_in_an_old_segment_is_refused() -> None:
    log = OldLog((0, old_messages(1)), (OLD, NEWER))
    log.files.write_atomically(f"/a/t-0/{segment_file(OLD, SNAPSHOT_SUFFIX)}", encode_snapshot([]))
    opened = log.start(is_clean=True).logs["t", 0]
    assert opened.log_end_offset == OLD + 3
    with pytest.raises(LegacyFormat, match="holds records of format 1"):
        opened.read(5, max_bytes=1000)
    found = opened.read(OLD, max_bytes=1000)
    assert found is not None
    assert found.read() == NEWER
    assert log.is_whole()


@pytest.mark.parametrize(
    "torn",
    [
        legacy_message(1, 1)[:-1],
        legacy_message(1, 1)[:-1] + b"!",
        legacy_message(0, 1)[:17],
        bytes(16) + b"\1" + bytes(100),
        (1).to_bytes(8) + (14).to_bytes(4) + bytes(4) + b"\1" + bytes(100),
    ],
)
def test_a_torn_tail_that_only_looks_like_an_old_message_is_cut(torn: bytes) -> None:
    rig = LogRig()
    rig.append(b"whole")
    content = everything(rig.log)
    rig.files.open(rig.log.active.path(".log"), write=True).write([torn], len(content))
    rig.reopen(is_clean=False)
    assert everything(rig.log) == content
    assert rig.append(b"goes on") == 1


def test_the_repair_cuts_out_nothing_old(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    path = directory / segment_file(0, ".log")
    path.write_bytes(old_messages(1) + NEWER)
    assert log_repair.run(argparse.Namespace(directories=[str(directory)], yes=True)) == log_repair.DAMAGED
    assert f"{path} holds records of format 1 at byte 0" in capsys.readouterr().err
    assert path.read_bytes() == old_messages(1) + NEWER
    assert list(directory.iterdir()) == [path]
