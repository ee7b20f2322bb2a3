"""One pass over the records of a batch, without making an object of any.

A record, all numbers zigzag varints (`protocol.varint`) but the attributes:

    length           of what follows
    attributes       one byte, 0
    timestamp delta  64 bits, from the batch's base timestamp
    offset delta     from the batch's base offset
    key length       -1 for null, then the key
    value length     -1 for null, then the value
    header count     then for each header: name length, name, value length (-1 for null), value

The pass answers what a leader asks: do the lengths add up, do the offsets run 0, 1, 2 …, does every record
have a key, between which bounds lie the timestamps. Whoever needs more on a violation (which records, in
which words) goes through the `record_fronts` once more, slowly; nearly all batches pass.

The loops handle numbers of one and two bytes and records without headers themselves and leave the rest to
`_shape`, and a slice in which they come to the end of the data too early, or to very many headers, to
`_walk_carefully`. They are plain Python on `bytes`, kept small so that they can be compiled, and copy
nothing: a batch may be a hundred megabytes. What is wrong is InvalidRecord and nothing else.
"""

from collections.abc import Generator, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from protocol.records.errors import InvalidRecord
from protocol.varint import MalformedVarint, read_int, read_long

RECORDS_PER_SLICE: Final = 2000
"""The number of records that take about a millisecond; after each such slice other work on the loop may
run."""
HEADERS_PER_SLICE: Final = 4000
"""The number of record headers that take about a millisecond. They count apart from the records: a header
takes two bytes at least, so a single record may have millions."""


class WalkDepth(IntEnum):
    """How much of the records `walk` looks at."""

    LENGTHS = 0
    """Checks only that the record count and the length in front of each record add up."""
    STRUCTURE = 1
    """Checks everything: each length inside each record, offsets, keys, timestamps."""


class WalkResult(NamedTuple):
    """What `walk` found. With `WalkDepth.LENGTHS` only `record_count` has a meaning."""

    record_count: int
    min_timestamp_delta: int = 0
    max_timestamp_delta: int = 0
    max_timestamp_index: int = 0
    """The index of the first record that has the largest timestamp."""
    first_without_key: int = -1
    """The index of the first record without a key; -1 if every record has a key."""
    offsets_are_sequential: bool = True
    """Whether the offset deltas are 0, 1, 2 …, as Kafka's leaders require."""


class RecordFront(msgspec.Struct, gc=False):
    """A record up to its headers, of which only the number is known. All positions are in the records."""

    start: int
    """Where the record begins behind its length."""
    end: int
    timestamp_delta: int
    offset_delta: int
    behind_offset_delta: int
    """The position of the key's length."""
    key_length: int
    """The length of the key, below 0 for none; the same with the value."""
    value_length: int
    header_count: int
    first_header: int
    """The position behind the header count."""


class _ManyHeaders(Exception):
    """The records of a slice have more headers than one slice should, and are walked with pauses."""


def walk(
    records: bytes | bytearray | memoryview, record_count: int, want: WalkDepth = WalkDepth.STRUCTURE
) -> WalkResult:
    """Walk `record_count` decompressed records, which must fill `records` exactly.

    Raises InvalidRecord, with the index of the record in its text where there is one.
    """
    data = bytes(records)  # indexing a view costs more than copying it
    if record_count < 0:
        raise InvalidRecord(f"Found invalid record count {record_count} in magic v2 batch")
    if want == WalkDepth.LENGTHS or record_count == 0:
        _require_end(data, _walk_lengths(data, record_count), record_count)
        return WalkResult(record_count)
    slices = walk_in_slices(data, record_count)
    try:
        while True:
            next(slices)
    except StopIteration as stop:
        walked: WalkResult = stop.value
        return walked


def walk_in_slices(
    records: bytes | bytearray | memoryview, record_count: int, begin: int = 0
) -> Generator[None, None, WalkResult]:
    """The same as `walk`, with a pause after `RECORDS_PER_SLICE` records or `HEADERS_PER_SLICE` headers.

    begin: where the records begin; they end with `records`, of which only a view is copied.
    """
    if record_count <= 0:
        return walk(memoryview(records)[begin:], record_count)
    data = bytes(records) if isinstance(records, memoryview) else records
    position, walked = yield from _walk_slice(data, begin, 0, min(record_count, RECORDS_PER_SLICE))
    for first in range(RECORDS_PER_SLICE, record_count, RECORDS_PER_SLICE):
        yield
        stop = min(first + RECORDS_PER_SLICE, record_count)
        position, more = yield from _walk_slice(data, position, first, stop)
        walked = _joined(walked, more, record_count)
    _require_end(data, position, record_count)
    return walked


def record_fronts(records: bytes | bytearray | memoryview, record_count: int) -> Iterator[RecordFront]:
    """The records one after another without their headers: a batch of millions of these takes no memory.

    For records that have been walked: InvalidRecord tells only what is wrong in front of the headers.
    """
    data = bytes(records) if isinstance(records, memoryview) else records
    position = 0
    for index in range(record_count):
        front = _front(data, position, index)
        position = front.end
        yield front


def _joined(left: WalkResult, right: WalkResult, record_count: int) -> WalkResult:
    """The results of two consecutive slices as one."""
    later = right.max_timestamp_delta > left.max_timestamp_delta
    return WalkResult(
        record_count,
        min(left.min_timestamp_delta, right.min_timestamp_delta),
        right.max_timestamp_delta if later else left.max_timestamp_delta,
        right.max_timestamp_index if later else left.max_timestamp_index,
        right.first_without_key if left.first_without_key < 0 else left.first_without_key,
        left.offsets_are_sequential and right.offsets_are_sequential,
    )


def _require_end(data: bytes | bytearray, position: int, record_count: int) -> None:
    if position > len(data):
        raise _premature_end(record_count - 1)
    if position != len(data):
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")


def _walk_lengths(data: bytes | bytearray, record_count: int) -> int:
    """Adds up the lengths in front of the records, and returns where they end. `signs` collects the lowest
    bits of the lengths, of which each is set in a negative number."""
    position = index = signs = 0
    try:
        for index in range(record_count):
            first = data[position]
            signs |= first
            if first < 0x80:
                position += 1 + (first >> 1)
            else:
                second = data[position + 1]
                if second < 0x80:
                    position += 2 + ((first & 0x7F | second << 7) >> 1)
                else:
                    length, position = _length(data, position, index)
                    position += length
    except IndexError:
        raise _premature_end(index) from None
    if signs & 1:  # the lowest bit of a zigzag number is its sign
        raise InvalidRecord("Found invalid record size: less than 0")
    return position


def _walk_slice(
    data: bytes | bytearray, position: int, index: int, stop: int
) -> Generator[None, None, tuple[int, WalkResult]]:
    """The records from `position` on; where they end, and what they are like."""
    try:
        return _walk_structure(data, position, index, stop)
    except (_ManyHeaders, IndexError):
        # An IndexError is the end, or a length that was misread as two bytes and points behind it.
        return (yield from _walk_carefully(data, position, index, stop))


def _walk_carefully(
    data: bytes | bytearray, position: int, index: int, stop: int
) -> Generator[None, None, tuple[int, WalkResult]]:
    """Walks as `_walk_structure` does, but four times as slowly, safe against reading behind the end, and
    with a pause after every `HEADERS_PER_SLICE` headers."""
    minimum, maximum, maximum_index, keyless, sequential = 1 << 63, -(1 << 63), 0, -1, True
    spare = HEADERS_PER_SLICE
    for index in range(index, stop):  # noqa: B020
        front = _front(data, position, index)
        position, header_count = front.first_header, front.header_count
        while header_count > spare:
            position = _after_headers(data, position, spare, index)
            header_count -= spare
            spare = HEADERS_PER_SLICE
            yield
        spare -= header_count
        position = _after_headers(data, position, header_count, index)
        _require_record_end(front, position)
        if front.key_length < 0 and keyless < 0:
            keyless = index
        sequential = sequential and front.offset_delta == index
        delta = front.timestamp_delta
        if delta > maximum:
            maximum, maximum_index = delta, index
        minimum = min(minimum, delta)
    return position, WalkResult(stop, minimum, maximum, maximum_index, keyless, sequential)


def _walk_structure(data: bytes | bytearray, position: int, index: int, stop: int) -> tuple[int, WalkResult]:
    """Walks the records in one loop without calls, because a call for each record would double its time.

    The varints of one and two bytes are read in place (see `protocol.varint`): a byte below 0x80 is a whole
    number, otherwise `first & 0x7F | second << 7` joins the lower seven bits of two bytes. Of a zigzag number
    `raw >> 1` is the value if it is not negative, and the lowest bit is set if it is. Raises IndexError where
    a number seems to point behind the end, _ManyHeaders where there are too many headers for one slice.
    """
    minimum, maximum, maximum_index, keyless, sequential = 1 << 63, -(1 << 63), 0, -1, True
    spare = HEADERS_PER_SLICE
    previous = -1  # timestamp delta as it stands in the buffer: most records repeat it
    for index in range(index, stop):  # noqa: B020
        # `after` is where the record ends by its length; -1 where a number takes more bytes than expected.
        start, first = position, data[position]
        if first < 0x80:
            position += 1
            after = position + (first >> 1)
        else:
            second = data[position + 1]
            position += 2
            after = position + ((first & 0x7F | second << 7) >> 1) if second < 0x80 else -1
        timestamp, offset = data[position + 1], data[position + 2]
        position += 3
        if timestamp >= 0x80:
            if offset >= 0x80:
                after = -1
            timestamp = timestamp & 0x7F | offset << 7
            offset = data[position]
            position += 1
        if offset >= 0x80:
            second = data[position]
            position += 1
            offset = offset & 0x7F | (second & 0x7F) << 7
            if second >= 0x80:  # a third byte, from the 8193rd record on
                offset |= data[position] << 14
                position += 1
                if offset >= 1 << 21:
                    after = -1
        key = data[position]
        if key == 1:
            position += 1
        elif key & 0x81:  # a length of more than one byte, or a negative one
            after = -1
        else:
            position += 1 + (key >> 1)
        value = data[position]
        if value < 0x80:
            position += 1 + (value >> 1)
        else:
            second = data[position + 1]
            if second >= 0x80:
                after = -1
            position += 2 + ((value & 0x7F | second << 7) >> 1)
        if position + 1 != after or data[position] or (first | value) & 1:
            # headers, large or negative numbers, or damage: read it again, carefully
            after, timestamp, offset, key, header_count = _shape(data, start, index, spare)
            spare -= header_count
        position = after
        if key == 1 and keyless < 0:
            keyless = index
        if offset != index + index:  # twice the index is its zigzag form
            sequential = False
        if timestamp != previous:
            previous = timestamp
            delta = (timestamp >> 1) ^ -(timestamp & 1)
            if delta > maximum:
                maximum, maximum_index = delta, index
            if delta < minimum:
                minimum = delta
    return position, WalkResult(stop, minimum, maximum, maximum_index, keyless, sequential)


def _shape(data: bytes | bytearray, position: int, index: int, spare: int) -> tuple[int, int, int, int, int]:
    """Any record: the position after it, its deltas of timestamp and offset still zigzagged, 1 for no key,
    and the number of its headers. Raises _ManyHeaders if that is above `spare`."""
    front = _front(data, position, index)
    position, header_count = front.first_header, front.header_count
    if header_count > spare:
        raise _ManyHeaders
    if header_count:
        position = _after_headers(data, position, header_count, index)
    _require_record_end(front, position)
    timestamp, offset = front.timestamp_delta, front.offset_delta
    zigzag_timestamp, zigzag_offset = (timestamp << 1) ^ (timestamp >> 63), (offset << 1) ^ (offset >> 31)
    return position, zigzag_timestamp, zigzag_offset, int(front.key_length < 0), header_count


def _front(data: bytes | bytearray, position: int, index: int) -> RecordFront:
    """Any record up to its headers."""
    try:
        length, start = _length(data, position, index)
        end = start + length
        if end > len(data):
            raise InvalidRecord(
                f"Invalid record size: expected {length} bytes in record payload, but instead the buffer has "
                f"only {len(data) - start} remaining bytes."
            )
        timestamp, position = read_long(data, start + 1)
        offset, position = read_int(data, position)
        key_length, after = read_int(data, position)
        value_length, after = read_int(data, after + key_length if key_length > 0 else after)
        header_count, after = read_int(data, after + value_length if value_length > 0 else after)
    except MalformedVarint as error:
        raise _malformed(error, index) from None
    if not 0 <= header_count <= end - after:
        raise InvalidRecord(f"Found invalid number of record headers {header_count} in record {index}")
    return RecordFront(start, end, timestamp, offset, position, key_length, value_length, header_count, after)


def _after_headers(data: bytes | bytearray, position: int, count: int, index: int) -> int:
    """The position after the next `count` headers of a record."""
    try:
        for _ in range(count):
            name_length, position = read_int(data, position)
            if name_length < 0:
                raise InvalidRecord(f"Invalid negative header key size {name_length} in record {index}")
            value_length, position = read_int(data, position + name_length)
            if value_length > 0:
                position += value_length
    except MalformedVarint as error:
        raise _malformed(error, index) from None
    return position


def _require_record_end(front: RecordFront, position: int) -> None:
    if position != front.end:
        raise InvalidRecord(
            f"Invalid record size: expected to read {front.end - front.start} bytes in record payload, but "
            f"instead read {position - front.start}"
        )


def _length(data: bytes | bytearray, position: int, index: int) -> tuple[int, int]:
    if position >= len(data):
        raise _premature_end(index)
    try:
        length, after = read_int(data, position)
    except MalformedVarint as error:
        raise _malformed(error, index) from None
    if length < 0:
        raise InvalidRecord(f"Found invalid record size {length} in record {index}")
    return length, after


def _premature_end(index: int) -> InvalidRecord:
    return InvalidRecord(f"Incorrect declared batch size, premature EOF reached at record {index}")


def _malformed(error: MalformedVarint, index: int) -> InvalidRecord:
    return InvalidRecord(f"Found invalid record structure: {error}, in record {index}")
