"""`.index`, `.timeindex`, `.txnindex` and `.snapshot`: their entries, and whether an index fits its log.

As in `kafka-dump-log` an index is compared with the log beside it: each entry of the offset index must point
to the batch with that offset, each entry of the time index to a batch with that timestamp.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from config.ports import Files
from protocol.records.header import BatchHeader
from storage.file_names import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX
from storage.producer_snapshot import decode_snapshot
from storage.producer_state import LAST_SEQUENCE, NO_OFFSET
from storage.stored_batches import stored_batches
from storage.transaction_index import decode_entries

Write = Callable[[str], None]

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")


def dump_offset_index(
    files: Files, path: str, *, base_offset: int, verify_only: bool, write: Write, complain: Write
) -> None:
    entries = list(_offset_entries(files.read_bytes(path), base_offset))
    found = _headers_at(files, path, {position for _, position in entries})
    mismatches = []
    for offset, position in entries:
        header = found.get(position)
        if header is None or header.last_offset != offset:
            mismatches.append((offset, -1 if header is None else header.last_offset))
        if not verify_only:
            write(f"offset: {offset} position: {position}")
    if mismatches:
        complain(f"Mismatches in :{path}")
        for offset, logged in mismatches:
            complain(f"  Index offset: {offset}, log offset: {logged}")


def _offset_entries(data: bytes, base_offset: int) -> Iterator[tuple[int, int]]:
    """The entries up to the first empty one: an index that is not sealed is padded with zeros."""
    whole = len(data) - len(data) % _OFFSET_ENTRY.size
    for number, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(data[:whole])):
        if relative == 0 and number > 0:
            return
        yield base_offset + relative, position


def _headers_at(files: Files, path: str, positions: set[int]) -> dict[int, BatchHeader]:
    """The batch headers at these positions of the log beside an index."""
    return {position: header for position, header in _headers(files, path) if position in positions}


def _headers(files: Files, path: str) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch of the log beside an index; nothing if there is no log."""
    index_path = without_endings(path)
    log_path = index_path[: index_path.rindex(".")] + LOG_SUFFIX + path[len(index_path) :]
    if not files.exists(log_path):
        return
    file = files.open(log_path)
    try:
        for position, header, _ in stored_batches(file, file.size()):
            yield position, header
    finally:
        file.close()


def dump_time_index(
    files: Files, path: str, *, base_offset: int, verify_only: bool, write: Write, complain: Write
) -> None:
    data = files.read_bytes(path)
    whole = len(data) - len(data) % _TIME_ENTRY.size
    entries = [
        (timestamp, base_offset + relative) for timestamp, relative in _TIME_ENTRY.iter_unpack(data[:whole])
    ]
    while entries and entries[-1] == (0, base_offset):
        entries.pop()  # padding
    headers = _headers_with(files, path, {offset for _, offset in entries})
    problems: list[str] = []
    previous: int | None = None
    for timestamp, offset in entries:
        problems += _time_problem(path, headers.get(offset), timestamp, offset, previous)
        previous = timestamp
        if not verify_only:
            write(f"timestamp: {timestamp} offset: {offset}")
    for problem in problems:
        complain(problem)


def _headers_with(files: Files, path: str, offsets: set[int]) -> dict[int, BatchHeader]:
    """The header of the batch in which each of these offsets lies, in the log beside an index. The log is
    read once, and only as many headers are kept as there are offsets."""
    found: dict[int, BatchHeader] = {}
    wanted = deque(sorted(offsets))
    for _, header in _headers(files, path):
        while wanted and wanted[0] < header.base_offset:
            wanted.popleft()
        while wanted and wanted[0] <= header.last_offset:
            found[wanted.popleft()] = header
    return found


def _time_problem(
    path: str, header: BatchHeader | None, timestamp: int, offset: int, previous: int | None
) -> list[str]:
    if previous is not None and timestamp < previous:
        return [
            f"Found out of order timestamp in :{path}",
            f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}",
        ]
    if header is None:
        return [
            f"The following indexed offsets are not found in :{path}",
            f"Indexed offset: {offset}, found log offset: -1",
        ]
    if header.max_timestamp != timestamp:
        return [
            f"Found timestamp mismatch in :{path}",
            f"  Index timestamp: {timestamp}, log timestamp: {header.max_timestamp}",
        ]
    return []


def dump_transaction_index(files: Files, path: str, write: Write) -> None:
    for entry in decode_entries(files.read_bytes(path)):
        write(
            f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )


def dump_snapshot(files: Files, path: str, write: Write) -> None:
    """Prints a producer snapshot. Raises CorruptProducerSnapshot."""
    for entry in decode_snapshot(files.read_bytes(path)):
        first = entry.transaction_first_offset
        open_from = "OptionalLong.empty" if first == NO_OFFSET else f"OptionalLong[{first}]"
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {open_from} "
            f"lastTimestamp: {entry.last_timestamp}"
        )
        for batch in entry.batches[:1]:
            delta = batch.last_offset - batch.first_offset
            # Kafka counts back from the last sequence, also where there are none and the last one is -1: a
            # group coordinator writes the offsets of a transaction so.
            first_sequence = (batch.last_sequence - delta) & LAST_SEQUENCE
            line += (
                f" firstSequence: {first_sequence} lastSequence: {batch.last_sequence} "
                f"lastOffset: {batch.last_offset} offsetDelta: {delta} timestamp: {batch.timestamp}"
            )
        write(line)


def check_index(files: Files, path: str, entry_bytes: int) -> str:
    """Checks an index as a start does, without reading the log."""
    size_bytes = files.status(path).size_bytes
    if size_bytes % entry_bytes:
        return f"{path} is corrupt: its {size_bytes} bytes are no whole entries of {entry_bytes}"
    return f"{path} passed sanity check."


def without_endings(path: str) -> str:
    """The path of a segment's file as it is called in a log. All files of a segment get the same endings when
    they are to be swapped in or deleted."""
    for ending in (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX):
        path = path.removesuffix(ending)
    return path


def base_offset_of(path: str) -> int | None:
    """The number in the name of a segment's file."""
    digits = os.path.basename(path).partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None
