"""The records of a batch in the form that the cleaner needs: their positions, keys, and whether they have a
value.

Records that are kept are copied as bytes. Only if the base timestamp changes is each record's delta written
again. The loop decodes numbers of one and two bytes itself, as nearly all are, but lengths of keys only of
one byte. A record is a plain tuple, because a named one takes as long to make as the rest of the loop.

    start            position of its first byte in the decompressed records, which is its length
    end              position of the first byte behind it
    timestamp delta
    after timestamp  position of the rest: offset delta, key and so on
    offset delta
    key              or None
    has value        False for a tombstone
"""

from __future__ import annotations

from typing import TypeAlias

from protocol.records.errors import InvalidRecord
from protocol.varint import MalformedVarint, read_int, read_long

KeyedRecord: TypeAlias = tuple[int, int, int, int, int, bytes | None, bool]


def keyed_records(data: bytes, record_count: int) -> list[KeyedRecord]:
    """All records of a batch. Raises InvalidRecord. No length is believed that leads beyond `data`."""
    found: list[KeyedRecord] = []
    append = found.append
    position = start = 0
    size = len(data)
    try:
        for _ in range(record_count):
            start = position
            number = data[position]
            if number < 0x80:
                position += 1
                length = (number >> 1) ^ -(number & 1)
            elif data[position + 1] < 0x80:
                number = number & 0x7F | data[position + 1] << 7
                position += 2
                length = (number >> 1) ^ -(number & 1)
            else:
                length, position = read_int(data, position)
            end = position + length
            if length <= 0 or end > size:
                raise InvalidRecord(f"Found invalid record size {length} at byte {start} of the records")
            number = data[position + 1]
            if number < 0x80:
                after_timestamp = position + 2
                timestamp_delta = (number >> 1) ^ -(number & 1)
            elif data[position + 2] < 0x80:
                number = number & 0x7F | data[position + 2] << 7
                after_timestamp = position + 3
                timestamp_delta = (number >> 1) ^ -(number & 1)
            else:
                timestamp_delta, after_timestamp = read_long(data, position + 1)
            number = data[after_timestamp]
            if number < 0x80:
                position = after_timestamp + 1
                offset_delta = (number >> 1) ^ -(number & 1)
            elif data[after_timestamp + 1] < 0x80:
                number = number & 0x7F | data[after_timestamp + 1] << 7
                position = after_timestamp + 2
                offset_delta = (number >> 1) ^ -(number & 1)
            else:
                offset_delta, position = read_int(data, after_timestamp)
            number = data[position]
            if number < 0x80 and not number & 1:
                position += 1
                key_end = position + (number >> 1)
                key: bytes | None = data[position:key_end]
            else:
                key_length, position = read_int(data, position)
                key_end = position + max(key_length, 0)
                key = data[position:key_end] if key_length >= 0 else None
            if key_end >= end:
                raise InvalidRecord(f"Found invalid key size at byte {start} of the records")
            has_value = not data[key_end] & 1  # the lowest bit of a zigzag number is its sign
            append((start, end, timestamp_delta, after_timestamp, offset_delta, key, has_value))
            position = end
    except MalformedVarint as error:
        raise InvalidRecord(f"Found invalid record structure: {error} of the records") from None
    except IndexError:
        raise InvalidRecord(f"The record at byte {start} of the records is cut off") from None
    if position != size:
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")
    return found
