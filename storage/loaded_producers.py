"""The producers of a log, found in its directory: in the newest snapshot, and in the headers behind it.

Snapshots are written beside the loop, so after a crash the newest may be older than the last roll. One from
below the first segment cannot be trusted: what its producers wrote after it has been deleted, and a sequence
that is too old makes their next batch count as out of order. Such a producer is better not known at all,
because it may then go on with any sequence. Apache Kafka ignores snapshots up to the log start.
"""

from __future__ import annotations

from config.ports import Files
from protocol.records.control import TransactionMarker
from protocol.records.header import BatchHeader
from storage.append import stored_marker_of
from storage.file_names import SNAPSHOT_SUFFIX, segment_file
from storage.producer_snapshot import CorruptProducerSnapshot, decode_snapshot
from storage.producer_state import ProducerState
from storage.segment import Segment


def load_producers(
    files: Files, directory: str, segments: list[Segment], snapshot_offsets: list[int], end_offset: int
) -> ProducerState:
    """The producers at `end_offset`: the newest snapshot that can be read, and the headers behind it.

    A producer that is in neither is not known, and may go on with any sequence. Raises OSError and
    CorruptSegment.
    """
    state = ProducerState()
    begin = segments[0].base_offset
    for offset in reversed(snapshot_offsets):
        if offset > end_offset:
            continue
        if offset < begin:
            break  # what came between has gone
        try:
            data = files.read_bytes(f"{directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}")
            state.replace_all(decode_snapshot(data))
        except (CorruptProducerSnapshot, FileNotFoundError):
            continue
        begin = offset
        break
    if begin >= end_offset:
        return state
    for number, segment in enumerate(segments):
        if segment.base_offset >= end_offset:
            break  # nobody has looked at it yet: it may be torn
        if number + 1 < len(segments) and segments[number + 1].base_offset <= begin:
            continue
        found = segment.locate(begin)
        if found is not None:
            for position, header in segment.headers(found.position):
                if header.base_offset >= end_offset:
                    return state
                state.update(header, _marker(segment, position, header))
    return state


def _marker(segment: Segment, position: int, header: BatchHeader) -> TransactionMarker | None:
    """The transaction marker in a control batch. The records of other batches are not read."""
    if not header.is_control or header.producer_id < 0:
        return None
    return stored_marker_of(segment.read(position, header.size_bytes), header)
