"""`cut-below-checkpoint`: the log in this directory was cut, and checkpoints may be wrong about it.

    00000000000000000042 00000000000000000007        log end and log start right after the cut

Checkpoints are written beside the loop, some seconds after what they speak of. A log that was cut and has
grown again in those seconds would be believed too much by the next start: batches that never were synced
count as synced, a log start is where none is. Apache Kafka writes the checkpoint within the cut and waits for
the disk; here a cut leaves this small file first, which takes some microseconds. A start believes no
checkpoint beyond it. The directory of a new log has one too, if the checkpoints know its name from a topic
that was deleted.

It goes when the cut was synced and the checkpoints have been written anew. A start that finds it has the log
synced: before that, a power cut may bring back what was cut, in place of records that came later. Until then
no checkpoint says more of the log than what the cut has left, so that nothing is believed of what is back.

The file is not synced: after a power cut it is there if anything is that was done behind it, as file systems
keep the order of names. One that cannot be read (its content did not reach the disk) says 0 and 0: then the
log is read from end to end. Apache Kafka ignores the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from config.ports import Files
from storage.checkpoints import PartitionOffsets
from storage.file_io import write_fully
from storage.file_names import TEMPORARY_SUFFIX

TRUNCATION_MARKER_FILE: Final = "cut-below-checkpoint"

_DIGITS: Final = 20

MaxCheckpointedOffset = Callable[[], int]
"""A function that returns the largest offset which a checkpoint on the disk, or on its way there, may hold
for a log."""


class TruncationMarker(NamedTuple):
    """The largest offsets of the checkpoints that a start may believe for one log."""

    end_offset: int
    """The largest recovery point, high watermark and first dirty offset to be believed."""
    start_offset: int
    """The largest log start to be believed."""


def not_checkpointed() -> int:
    """The `MaxCheckpointedOffset` of a log that is in no checkpoint."""
    return 0


def unlink_truncation_marker(files: Files, directory: str) -> None:
    """Removes the file, because the checkpoints are right again. Raises OSError."""
    files.unlink(f"{directory}/{TRUNCATION_MARKER_FILE}")


def read_truncation_marker(files: Files, directory: str) -> TruncationMarker | None:
    """The marker in a log's directory. None if there is none, so that the checkpoints are right."""
    try:
        words = files.read_bytes(f"{directory}/{TRUNCATION_MARKER_FILE}").split(b" ")
        if len(words) == 2 and all(len(word) == _DIGITS for word in words):
            return TruncationMarker(int(words[0]), int(words[1]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        pass
    return TruncationMarker(0, 0)


def write_truncation_marker(files: Files, directory: str, marker: TruncationMarker) -> None:
    """Replaces the file, without a sync. Raises OSError."""
    path = f"{directory}/{TRUNCATION_MARKER_FILE}"
    data = f"{marker.end_offset:0{_DIGITS}d} {marker.start_offset:0{_DIGITS}d}".encode()
    file = files.open(path + TEMPORARY_SUFFIX, create=True)
    try:
        file.truncate(0)
        write_fully(file, (data,), len(data), 0, path)
    finally:
        file.close()
    files.rename(path + TEMPORARY_SUFFIX, path)


class CheckpointedOffsets:
    """The offsets that the checkpoints of one log directory may hold: the content that is on the disk, and
    the content that is being written. A write that has failed may have replaced the file all the same."""

    def __init__(self) -> None:
        self._said: dict[str, list[PartitionOffsets]] = {}
        """For each checkpoint, the content that is certain, and contents that may have replaced it."""

    def most(self, key: tuple[str, int]) -> int:
        """The largest offset of a log in any of them; 0 if it is in none."""
        return max((said.get(key, 0) for each in self._said.values() for said in each), default=0)

    def says(self, checkpoint: str, offsets: PartitionOffsets) -> None:
        """Notes the content of a checkpoint that was read or has been written."""
        self._said[checkpoint] = [offsets]

    def may_say(self, checkpoint: str, offsets: PartitionOffsets) -> None:
        """Notes that the checkpoint is being written with this content."""
        former = self._said.get(checkpoint, [])
        if len(former) > 1:  # one that failed
            keys = {key: None for said in former for key in said}
            former = [{key: max(said.get(key, 0) for said in former) for key in keys}]
        self._said[checkpoint] = [*former, offsets]
