"""The small text files that remember offsets: one number per partition, or one per leader epoch.

    0                          the format's version
    2                          how many entries follow
    orders 0 1741              topic, partition, offset, separated by one space
    orders 1 90

    recovery-point-offset-checkpoint   all below is on the disk and needs no look after a crash
    log-start-offset-checkpoint        where the log begins, if later than its first file says
    replication-offset-checkpoint      the high watermark
    cleaner-offset-checkpoint          first offset that compaction has not seen yet

`leader-epoch-checkpoint` (in each partition's directory) has lines of epoch and start offset instead. All
are replaced atomically. They lag behind the truth by design: what they say is a safe place to begin from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from config.ports import Files

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"

PartitionOffsets: TypeAlias = dict[tuple[str, int], int]

_VERSION: Final = 0


class MalformedCheckpoint(Exception):
    """The file cannot be read as a checkpoint. The text names the line, and says what to do."""


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    return _encode(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def read_offsets(files: Files, path: str) -> PartitionOffsets:
    """The entries of an offset checkpoint. Empty if there is no such file.

    Raises MalformedCheckpoint.
    """
    offsets: PartitionOffsets = {}
    for number, line in _lines(files, path):
        words = line.split(" ")
        if len(words) != 3:
            raise _malformed(path, number, line, "wants topic, partition and offset")
        offsets[(words[0], _number(path, number, words[1]))] = _number(path, number, words[2])
    return offsets


def encode_leader_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in epochs)


def read_leader_epochs(files: Files, path: str) -> list[tuple[int, int]]:
    """Pairs of epoch and start offset in the order of the file. Empty if there is no such file.

    Raises MalformedCheckpoint.
    """
    epochs: list[tuple[int, int]] = []
    for number, line in _lines(files, path):
        words = line.split(" ")
        if len(words) != 2:
            raise _malformed(path, number, line, "wants epoch and start offset")
        epochs.append((_number(path, number, words[0]), _number(path, number, words[1])))
    return epochs


def _encode(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def _lines(files: Files, path: str) -> list[tuple[int, str]]:
    """The entries with their line numbers. There must be as many as the second line says."""
    try:
        text = files.read_text(path)
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise MalformedCheckpoint(f"{path} is no text: {error}. {_REMEDY}") from error
    lines = text.splitlines()
    if not lines:
        return []
    if not text.endswith("\n"):
        raise MalformedCheckpoint(f"{path} ends within a line: {lines[-1]!r:.100} was cut off. {_REMEDY}")
    if lines[0] != str(_VERSION):
        raise _malformed(path, 1, lines[0], f"wants the version {_VERSION}")
    count = _number(path, 2, lines[1] if len(lines) > 1 else "")
    if count != len(lines) - 2:
        raise MalformedCheckpoint(f"{path} promises {count} entries and has {len(lines) - 2}. {_REMEDY}")
    return list(enumerate(lines[2:], start=3))


_REMEDY: Final = "Remove the file if nothing else helps: its content is found again, with more work"


def _number(path: str, line: int, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise _malformed(path, line, word, "wants a whole number") from None


def _malformed(path: str, line: int, found: str, wanted: str) -> MalformedCheckpoint:
    return MalformedCheckpoint(f"{path}, line {line}, {wanted}, found {found!r:.100}. {_REMEDY}")
