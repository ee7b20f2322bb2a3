"""What the files and directories of a log are called, and what a name says.

    <log dir>/<topic>-<partition>/                     one partition
    <log dir>/<topic>-<partition>.<32 hex>-delete/     on its way out; removed after file.delete.delay.ms
    <log dir>/<topic>-<partition>.<32 hex>-stray/      found at a start, but assigned to somebody else
    <log dir>/<topic>-<partition>.<32 hex>-future/     being copied from another log directory

    00000000000000000042.log        record batches from offset 42 on
    00000000000000000042.index      offset → position         .timeindex   timestamp → offset
    00000000000000000042.txnindex   aborted transactions      .snapshot    producers as of offset 42

A trailing `.deleted` marks a file that only waits for its removal, `.cleaned` and `.swap` a compaction at
work, `.tmp` an atomic write that did not end. A directory name is at most 255 bytes, so the topic is cut
short in `-delete` and `-stray` names where it must be; they are never parsed back.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""The suffixes of the files that belong to one segment."""

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

_NAME_BYTES: Final = 255
_OFFSET_DIGITS: Final = 20
_PARTITION_DIGITS: Final = 10


class DirectoryKind(Enum):
    """The kind of a directory within a log directory."""

    LOG = ""
    DELETED = "-delete"
    STRAY = "-stray"
    FUTURE = "-future"
    UNKNOWN = "?"


class DirectoryName(NamedTuple):
    """The parsed name of a directory. Topic and partition are set for LOG and FUTURE only."""

    kind: DirectoryKind
    topic: str = ""
    partition: int = -1


def segment_file(base_offset: int, suffix: str) -> str:
    """The file name for an offset, twenty digits wide so that names sort as offsets do."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in the name of a file with that suffix. None if the name has another form."""
    if not name.endswith(suffix):
        return None
    digits = name[: -len(suffix)]
    if len(digits) != _OFFSET_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def offsets_by_suffix(names: Iterable[str]) -> dict[str, list[int]]:
    """The offsets in the names of files that begin with one, ascending, by the suffix behind it."""
    found: dict[str, list[int]] = {}
    for name in sorted(names):
        digits = name[:_OFFSET_DIGITS]
        if len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit():
            found.setdefault(name[_OFFSET_DIGITS:], []).append(int(digits))
    return found


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def may_have_future(topic: str, partition: int) -> bool:
    """Whether the name of the copy in another directory would be short enough."""
    return len(f"{topic}-{partition}.{'0' * 32}{DirectoryKind.FUTURE.value}") <= _NAME_BYTES


def leaving_directory(topic: str, partition: int, unique: bytes, kind: DirectoryKind) -> str:
    """The name under which a directory waits for its removal; `unique` is a UUID's 16 bytes."""
    ending = f".{unique.hex()}{kind.value}"
    stem = f"{topic}-{partition}"
    return stem[: _NAME_BYTES - len(ending)] + ending


def parse_directory(name: str) -> DirectoryName:
    """The kind of a directory by its name, UNKNOWN if it is none of a log."""
    for kind in (DirectoryKind.DELETED, DirectoryKind.STRAY):
        if name.endswith(kind.value) and "." in name:
            return DirectoryName(kind)
    kind = DirectoryKind.LOG
    if name.endswith(DirectoryKind.FUTURE.value) and "." in name:
        kind = DirectoryKind.FUTURE
        name = name[: name.rindex(".")]
    topic, dash, digits = name.rpartition("-")
    if (
        not dash
        or not topic
        or not (digits.isascii() and digits.isdigit())
        or len(digits) > _PARTITION_DIGITS
    ):
        return DirectoryName(DirectoryKind.UNKNOWN)
    return DirectoryName(kind, topic, int(digits))
