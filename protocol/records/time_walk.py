"""The first record of a batch at or after a time, found while the batch unfolds.

Of each record only the length and the timestamp delta are read, in place; of the one that is found its offset
delta, too. A batch of millions of records is walked in steps, and never is more of it in memory than a piece
(`unfolding`) and what of a record's first numbers lies across two of them.

The walk ends with the record that is found, or with the batch. What proves the batch malformed on the way
there, lengths that do not add up as a rule, raises InvalidRecord; what a record holds behind its offset delta
is not looked at.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from protocol.errors import InvariantViolated
from protocol.records.errors import InvalidRecord
from protocol.records.header import BatchHeader
from protocol.records.record_validation import Steps
from protocol.records.unfolding import Pieces
from protocol.varint import MalformedVarint, read_int, read_long, wrapped_long

RECORDS_PER_STEP: Final = 2000
"""The number of records in one step, which takes a third of a millisecond."""

_FIRST_NUMBERS_BYTES: Final = 5 + 1 + 10 + 5
"""The most that length, attributes, timestamp delta and offset delta of a record take."""
_SMALLEST_ZIGZAGGED: Final = 2 * 6
"""A record's length is at least one byte for each of attributes, deltas, key, value and headers."""
_ZEROS: Final = bytes(_FIRST_NUMBERS_BYTES)
_EARLIEST: Final = -(1 << 63)
_LATEST: Final = (1 << 63) - 1


class FoundRecord(NamedTuple):
    timestamp: int
    offset: int


def first_at_or_after(
    pieces: Pieces, header: BatchHeader, timestamp: int, least_offset: int
) -> Steps[FoundRecord | None]:
    """The first record with that timestamp or a later one whose offset is not below `least_offset`.

    Raises InvalidRecord, and what the pieces raise.
    """
    count = header.record_count
    if count < 0:
        raise InvalidRecord(f"Found invalid record count {count} in magic v2 batch")
    window, position, index, is_last = b"", 0, 0, False
    while index < count:
        if not is_last and len(window) - position < _FIRST_NUMBERS_BYTES:
            piece = yield from _next(pieces)
            if piece:
                window, position = _joined(window, position, piece)
            else:
                is_last = True
            yield None
            continue
        end = len(window) if is_last else len(window) - _FIRST_NUMBERS_BYTES + 1
        data = window + _ZEROS if is_last else window
        if is_last and position >= end:
            raise _premature_end(index)
        stop = min(index + RECORDS_PER_STEP, count)
        position, index, found = _walk(data, position, index, stop, end, header, timestamp, least_offset)
        if is_last and position > end:
            raise _premature_end(index)
        if found is not None:
            return found
        yield None
    while position > len(window):  # the last record continues in the next piece
        piece = yield from _next(pieces)
        if not piece:
            raise _premature_end(count)
        window, position = _joined(window, position, piece)
        yield None
    if position < len(window) or (yield from _next(pieces)):
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")
    return None


def _next(pieces: Pieces) -> Steps[bytes]:
    """The next piece that is not empty; an empty one at the end of the pieces."""
    sent = None
    while True:
        try:
            found = pieces.send(sent)
        except StopIteration:
            return b""
        sent = None
        if not isinstance(found, bytes):
            sent = yield found
        elif found:
            return found
        else:
            yield None


def _joined(window: bytes, position: int, piece: bytes) -> tuple[bytes, int]:
    """What is left of the window with the next piece behind it, and the position in that.

    A position behind the window: so many bytes of what follows belong to the record before.
    """
    left = len(window) - position
    return (window[position:] + piece, 0) if left > 0 else (piece, -left)


def _walk(
    data: bytes,
    position: int,
    index: int,
    stop: int,
    end: int,
    header: BatchHeader,
    timestamp: int,
    least_offset: int,
) -> tuple[int, int, FoundRecord | None]:
    """Looks at records until one is found, `stop` is reached, or one begins at `end` or behind it: where that
    is, and the number of the record there.

    From each position below `end` on the first numbers of a record lie in `data`, or zeros behind its end.
    """
    base_timestamp = header.base_timestamp
    is_append_time = header.timestamp_type == 1
    wanted = _EARLIEST if is_append_time else timestamp
    # `previous` is the zigzag form of a timestamp delta that is too early; most records repeat it.
    previous = -1
    try:
        while position < end and index < stop:
            # Varints of one to three bytes are read in place, as in `protocol.records.walk`.
            raw = data[position]
            second = data[position + 1]
            if raw < 0x80:
                start = position + 1
                position = start + (raw >> 1)
            elif second < 0x80:
                raw = raw & 0x7F | second << 7
                start = position + 2
                position = start + (raw >> 1)
            else:
                raw, start = read_int(data, position)
                position = start + raw
                raw <<= 1
            if raw & 1 or raw < _SMALLEST_ZIGZAGGED:
                raise InvalidRecord(f"Found invalid record size in record {index}")
            raw = data[start + 1]
            if raw >= 0x80:
                second = data[start + 2]
                raw = raw & 0x7F | (second & 0x7F) << 7
                if (
                    second >= 0x80
                ):  # more than 8 s after the batch's first record; -2 for more than three bytes
                    third = data[start + 3]
                    raw = raw | third << 14 if third < 0x80 else -2
            if raw != previous or raw == -2:
                delta = (raw >> 1) ^ -(raw & 1) if raw >= 0 else read_long(data, start + 1)[0]
                at = base_timestamp + delta
                if not _EARLIEST <= at <= _LATEST:
                    at = wrapped_long(at)
                if at < wanted:
                    previous = raw
                else:
                    offset = header.base_offset + read_int(data, read_long(data, start + 1)[1])[0]
                    if offset >= least_offset:
                        found = header.max_timestamp if is_append_time else at
                        return position, index, FoundRecord(found, offset)
            index += 1
    except MalformedVarint as error:
        raise InvalidRecord(f"Found invalid record structure: {error}, in record {index}") from None
    except IndexError:
        raise InvariantViolated(f"a record's first numbers go beyond what was read, at {position}") from None
    return position, index, None


def _premature_end(index: int) -> InvalidRecord:
    return InvalidRecord(f"Incorrect declared batch size, premature EOF reached at record {index}")
