"""`compacted-below`: offsets that are missing in this log below this one were left out by compaction.

    00000000000000000042        the end of what the passes of the cleaner have taken in

After a crash a log is read from its recovery point on. Where a segment ends below the base offset of the next
one, compaction has left records out there, or a power cut has taken the end of a segment that had not been
synced, whole batches of it, so that nothing else tells of it. The first is right; the second is a hole: the
log would count as complete and could lead, without records that were acknowledged.

A pass of the cleaner takes in what is synced only, and writes this file before its segments take the place of
the old ones; it lies in the log's own directory, and moves with it. Without it nothing was compacted: a
follower begins a segment at the end of its log also where its leader has left offsets out before the next
batch. Logs that Apache Kafka has compacted have their `cleaner-offset-checkpoint`, which is believed too.
Apache Kafka ignores the file. A log that is cut below that offset gets other records there, so the file is
written anew before it takes any.
"""

from __future__ import annotations

from typing import Final

from config.ports import Files

COMPACTION_MARKER_FILE: Final = "compacted-below"

_DIGITS: Final = 20


def read_compaction_marker(files: Files, directory: str) -> int:
    """The offset in the file; 0 if there is none, or if it does not hold an offset. Raises OSError."""
    try:
        data = files.read_bytes(f"{directory}/{COMPACTION_MARKER_FILE}")
    except FileNotFoundError:
        return 0
    return int(data) if len(data) == _DIGITS and data.isdigit() else 0


def write_compaction_marker(files: Files, directory: str, end_offset: int) -> None:
    """Replaces the file, on the disk: when this returns no power cut brings back what it said before. Raises
    OSError.

    end_offset: the base offset of a segment. Offsets that are missing between the segments before it count as
    left out by compaction from now on.
    """
    files.write_atomically(f"{directory}/{COMPACTION_MARKER_FILE}", f"{end_offset:0{_DIGITS}d}".encode())


def lower_compaction_marker(files: Files, directory: str, end_offset: int) -> None:
    """Has the file say no more than this offset, at which the log ends now. Raises OSError."""
    if read_compaction_marker(files, directory) > end_offset:
        write_compaction_marker(files, directory, end_offset)
