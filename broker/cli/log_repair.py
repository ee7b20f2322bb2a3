"""``barnabas log repair``: finds what a disk has damaged in a log, and cuts it out."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from broker.ports.files import RealFiles
from config.ports import FileLock
from controller.metadata.topic_names import METADATA_TOPIC
from storage.directories import LOCK_FILE
from storage.errors import LegacyFormat
from storage.file_names import DirectoryKind, parse_directory
from storage.repair import Damage, accept_missing_offsets, cut_out, find_damage

WELL: Final = 0
DAMAGED: Final = 1
"""The exit code when a log is damaged, and when nothing could be examined."""


def run(options: argparse.Namespace) -> int:
    """Runs `barnabas log repair`: says what is damaged in each log, and with --yes repairs it. Returns 0 if
    no log is damaged any more."""
    code = WELL
    for path in options.directories:
        try:
            found = _partitions(os.path.abspath(path))  # `.` is no partition's name
            to_repair = [each for each in found if _is_to_repair(each)]
            if not to_repair:
                code = DAMAGED
            for directory in to_repair:
                code = max(code, _repair_or_tell(directory, does_it=options.yes))
        except BlockingIOError as error:
            print(f"barnabas: {error}: stop the broker first", file=sys.stderr)
            code = DAMAGED
        except OSError as error:
            print(f"barnabas: {error}", file=sys.stderr)
            code = DAMAGED
    return code


def _repair_or_tell(directory: str, *, does_it: bool) -> int:
    """A log that cannot be read or written keeps nobody from the others. Raises BlockingIOError, which holds
    for all of a log directory."""
    try:
        return _repair(directory, does_it=does_it)
    except BlockingIOError:
        raise
    except (OSError, LegacyFormat) as error:
        print(f"barnabas: {directory}: {error}", file=sys.stderr)
        return DAMAGED


def _partitions(path: str) -> list[str]:
    """The path itself if it is a partition's directory, else the partition directories in it. Raises
    OSError."""
    if _is_partition(path):
        return [path]
    found = [os.path.join(path, name) for name in sorted(os.listdir(path))]
    found = [each for each in found if _is_partition(each)]
    if not found:
        print(f"{path} is no partition's directory (<topic>-<partition>) and has none", file=sys.stderr)
    return found


def _is_partition(path: str) -> bool:
    return parse_directory(os.path.basename(path)).kind is DirectoryKind.LOG and os.path.isdir(path)


def _is_to_repair(directory: str) -> bool:
    """Whether it is no metadata log. One with a hole would claim to hold what it lacks, and could be elected
    for it."""
    if parse_directory(os.path.basename(directory)).topic != METADATA_TOPIC:
        return True
    print(
        f"{directory}: a metadata log is left as it is: the next start cuts it where it is damaged, and the "
        "quorum sends the rest, as it does to a directory that was formatted anew",
        file=sys.stderr,
    )
    return False


def _repair(directory: str, *, does_it: bool) -> int:
    files = RealFiles()
    lock: FileLock | None = None
    if does_it:
        lock = files.lock(os.path.join(os.path.dirname(os.path.abspath(directory)), LOCK_FILE))
    try:
        damages, missing = find_damage(files, directory)
        for each in missing:
            print(
                f"{directory}: offsets {each.first_offset} to {each.next_offset - 1} are missing between two "
                "segments: left out by compaction, or lost in a power cut"
            )
        if not damages:
            print(f"{directory}: every batch is whole")
            if missing and does_it:
                accept_missing_offsets(files, directory)
                print(f"{directory}: the next start accepts that offsets are missing")
            return WELL
        for damage in damages:
            print(f"{directory}: {_described(damage)}")
        if not does_it:
            print(f"{directory}: nothing was changed; with --yes these bytes are cut out")
            return DAMAGED
        for path in cut_out(files, directory, damages):
            print(f"{directory}: what was cut out is kept in {path}")
        return WELL
    finally:
        if lock is not None:
            lock.release()


def _described(damage: Damage) -> str:
    where = f"{os.path.basename(damage.path)} has {damage.size_bytes} bytes from byte {damage.position} on"
    if damage.next_offset < 0:
        return f"{where} that are no whole batch, nothing behind: offset {damage.first_offset} is the end"
    lost = damage.next_offset - damage.first_offset
    if not lost:
        return f"{where} that are no batch; no offset is missing"
    return f"{where} that are no batch: offsets {damage.first_offset} to {damage.next_offset - 1} are lost"
