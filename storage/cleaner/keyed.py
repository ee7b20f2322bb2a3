"""The records of a batch as far as the cleaner looks at them: where they lie, key, whether there is a value.

What is kept is copied as bytes; only where the base timestamp changes each record's delta is written again.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.records.errors import InvalidRecord
from protocol.varint import MalformedVarint, read_int, read_long


class KeyedRecord(NamedTuple):
    """A record in the decompressed records of its batch."""

    start: int
    """Its first byte: the length."""
    end: int
    timestamp_delta: int
    after_timestamp: int
    """Where the rest begins: offset delta, key and so on."""
    offset_delta: int
    key: bytes | None
    has_value: bool


def keyed_records(data: bytes, record_count: int) -> list[KeyedRecord]:
    """All of them. Raises InvalidRecord; no length is believed beyond `data`."""
    found: list[KeyedRecord] = []
    position = 0
    end_of_data = len(data)
    try:
        for _ in range(record_count):
            start = position
            length, position = read_int(data, position)
            end = position + length
            if length <= 0 or end > end_of_data:
                raise InvalidRecord(f"Found invalid record size {length} at byte {start} of the records")
            timestamp_delta, after_timestamp = read_long(data, position + 1)
            offset_delta, position = read_int(data, after_timestamp)
            key_length, position = read_int(data, position)
            key = None
            if key_length >= 0:
                if key_length > end - position:
                    raise InvalidRecord(f"Found invalid key size {key_length} at byte {start} of the records")
                key = data[position : position + key_length]
                position += key_length
            value_length, position = read_int(data, position)
            if value_length > end - position:
                raise InvalidRecord(f"Found invalid value size {value_length} at byte {start} of the records")
            found.append(
                KeyedRecord(
                    start, end, timestamp_delta, after_timestamp, offset_delta, key, value_length >= 0
                )
            )
            position = end
    except MalformedVarint as error:
        raise InvalidRecord(f"Found invalid record structure: {error} of the records") from None
    if position != end_of_data:
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")
    return found
