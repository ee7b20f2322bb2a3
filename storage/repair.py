"""Repairing a log that the disk has damaged in the middle: what is no batch is cut out, the rest stays.

    before   │ batch 0..9 │ ░░░░░░░░ │ batch 20..29 │        after   │ batch 0..9 │ batch 20..29 │
                            bytes that are no batch                          ▲ offsets 10 to 19 are gone

Each batch carries its offsets, so those behind the damage keep theirs; a consumer passes over the gap as it
passes over what compaction has removed. What is cut out is kept beside the segment, in a file that neither
Barnabas nor Apache Kafka looks at:

    00000000000000000000.log.corrupt-<position>

A segment is replaced in one rename after its indexes are removed, so a repair that is broken off leaves the
old segment or the new one, and the next start makes the indexes again. Offsets that are missing between two
segments afterwards are accepted by it (`compaction_marker`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from config.ports import File, Files
from protocol.records.header import is_intact
from storage.batch_scan import next_whole_batch
from storage.compaction_marker import read_compaction_marker, write_compaction_marker
from storage.file_names import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, offset_of, segment_file
from storage.stored_batches import READ_BYTES, refuse_legacy_format, stored_batches

CORRUPT_SUFFIX: Final = ".corrupt-"


class MissingOffsets(msgspec.Struct, frozen=True):
    """Offsets between two segments that have no batch: left out by compaction, or lost with the end of a
    segment."""

    first_offset: int
    next_offset: int
    """The base offset of the next segment."""


class Damage(msgspec.Struct, frozen=True):
    """A range of bytes in a segment that is no batch."""

    base_offset: int
    """The base offset of the segment."""
    path: str
    position: int
    size_bytes: int
    first_offset: int
    """The first offset that is lost."""
    next_offset: int
    """The first offset behind the damage; -1 if nothing follows in the whole log, so that it is a torn
    end."""


def find_damage(files: Files, directory: str) -> tuple[list[Damage], list[MissingOffsets]]:
    """All damage in a partition's log, in order, and what is missing between segments and not accepted yet.
    Reads every byte and changes nothing. Raises OSError, and LegacyFormat for records of an old format, which
    are not damaged."""
    found: list[Damage] = []
    missing: list[MissingOffsets] = []
    expected, accepted = 0, read_compaction_marker(files, directory)
    for number, base_offset in enumerate(_base_offsets(files, directory)):
        path = f"{directory}/{segment_file(base_offset, LOG_SUFFIX)}"
        if found and found[-1].next_offset < 0:
            found[-1] = msgspec.structs.replace(found[-1], next_offset=base_offset)
        elif number and max(expected, accepted) < base_offset:
            missing.append(MissingOffsets(expected, base_offset))
        file = files.open(path)
        try:
            expected = _look_through(file, base_offset, max(expected, base_offset), found)
        finally:
            file.close()
    return found, missing


def _look_through(file: File, base_offset: int, expected: int, found: list[Damage]) -> int:
    """Adds the damage in one segment. Returns the offset behind its last good batch."""
    size_bytes = file.size()
    position = 0
    while True:
        for _, header, batch in stored_batches(file, size_bytes, begin=position):
            if not is_intact(batch, 0, header):
                break
            if header.base_offset < expected or header.last_offset_delta < 0:
                break
            expected = header.next_offset
            position += header.size_bytes
        if position == size_bytes:
            return expected
        refuse_legacy_format(file, position, size_bytes)
        following = next_whole_batch(file, position + 1, size_bytes, expected)
        if following is None:
            found.append(Damage(base_offset, file.path, position, size_bytes - position, expected, -1))
            return expected
        end, header = following
        found.append(Damage(base_offset, file.path, position, end - position, expected, header.base_offset))
        position = end


def cut_out(files: Files, directory: str, damages: list[Damage]) -> list[str]:
    """Removes the ranges from their segments. Returns the files in which their bytes are kept. Raises
    OSError.

    Nobody else may have the log open.
    """
    kept: list[str] = []
    accept_missing_offsets(files, directory)
    for base_offset in dict.fromkeys(each.base_offset for each in damages):
        of_segment = [each for each in damages if each.base_offset == base_offset]
        kept += _cut_segment(files, directory, base_offset, of_segment)
    return kept


def accept_missing_offsets(files: Files, directory: str) -> None:
    """The next start takes offsets that are missing between segments for what compaction has left out.
    Raises OSError."""
    end_offset = max(_base_offsets(files, directory), default=0)
    write_compaction_marker(files, directory, max(end_offset, read_compaction_marker(files, directory)))


def _cut_segment(files: Files, directory: str, base_offset: int, damages: list[Damage]) -> list[str]:
    path = f"{directory}/{segment_file(base_offset, LOG_SUFFIX)}"
    source = files.open(path)
    try:
        kept = []
        for each in damages:
            kept.append(f"{path}{CORRUPT_SUFFIX}{each.position}")
            _copy(files, source, [(each.position, each.position + each.size_bytes)], kept[-1])
        ranges, position = [], 0
        for each in damages:
            ranges.append((position, each.position))
            position = each.position + each.size_bytes
        ranges.append((position, source.size()))
        _copy(files, source, ranges, path + CLEANED_SUFFIX)
    finally:
        source.close()
    for suffix in SEGMENT_SUFFIXES[1:]:
        index = f"{directory}/{segment_file(base_offset, suffix)}"
        if files.exists(index):
            files.unlink(index)
    files.fsync_directory(directory)
    files.rename(path + CLEANED_SUFFIX, path)
    files.fsync_directory(directory)
    return kept


def _copy(files: Files, source: File, ranges: list[tuple[int, int]], path: str) -> None:
    """Copies some ranges of a file, one behind the other, into a new file, which is synced."""
    target = files.open(path, create=True)
    try:
        target.truncate(0)
        written = 0
        for start, end in ranges:
            while start < end:
                data = source.pread(min(READ_BYTES, end - start), start)
                count = target.write([data], written)
                start += count
                written += count
        target.fsync()
    finally:
        target.close()


def _base_offsets(files: Files, directory: str) -> list[int]:
    return sorted(
        offset for name in files.listdir(directory) if (offset := offset_of(name, LOG_SUFFIX)) is not None
    )
