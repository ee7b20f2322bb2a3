"""Some thousand batches, most of them spoiled a little: made from a seed, so that everybody gets the same.

Each starts as a good batch of one to six records in some codec and goes through zero to three mutations: a
header field that lies, a bit that flips, bytes that are gone or too many, a record whose length lies, a key
or a header that is not what it says, a timestamp out of bounds; mostly the checksum is made right again, so
that the lie is what decides. Timestamps are years away from any bound, so the verdict on them does not depend
on the day.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import compress
from protocol.records.header import HEADER_BYTES, LOG_APPEND_TIME_BIT, seal
from protocol.varint import append_signed
from tests.support.samples.bad_batches import FIELDS

SEED: Final = 20_260_501
COUNT: Final = 4000
_YEAR_MS: Final = 365 * 24 * 3_600_000
INSIDE: Final = 1_750_000_000_000
"""June 2025: inside `before.max.ms` of the topic `bounded`, which is five years."""
_OUTSIDE: Final = (0, 1, 600_000_000_000, 9_000_000_000_000, 2**62, -5, -(2**40))

TOPICS: Final = MappingProxyType(
    {
        "plain": {},
        "compact": {"cleanup.policy": "compact"},
        "lat": {"message.timestamp.type": "LogAppendTime"},
        "gz": {"compression.type": "gzip"},
        "lz4": {"compression.type": "lz4", "cleanup.policy": "compact"},
        "bare": {"compression.type": "uncompressed"},
        "bounded": {"message.timestamp.before.max.ms": str(5 * _YEAR_MS)},
        "small": {"max.message.bytes": "300", "compression.type": "zstd"},
    }
)

_EDGES: Final = (0, 1, 2, -1, -2, 3, 5, 127, -128, 2**15 - 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))


class Mutated(NamedTuple):
    """One request: what is sent where."""

    number: int
    topic: str
    version: int
    records: bytes
    story: str
    """What was done to it."""


def mutated_batches(count: int = COUNT) -> Iterator[Mutated]:
    random_source = random.Random(SEED)
    for number in range(count):
        topic = random_source.choice(tuple(TOPICS))
        version = random_source.choice((12, 12, 12, 8, 9, 7, 6, 3))
        batch, story = _batch(random_source, number)
        for _ in range(random_source.choice((0, 1, 1, 1, 1, 2, 3))):
            what, batch = _mutate(random_source, batch)
            story = f"{story}, {what}"
        yield Mutated(number, topic, version, bytes(batch), story)


def _batch(random_source: random.Random, number: int) -> tuple[bytearray, str]:
    """A good batch, unless its records are of the odd kind."""
    codec = random_source.choice((0, 0, 0, 1, 2, 3, 4))
    producer = number if random_source.random() < 0.2 else -1
    count = random_source.randrange(1, 7)
    options: dict[str, Any] = {
        "codec": codec,
        "producer_id": producer,
        "producer_epoch": 0 if producer >= 0 else -1,
        "base_sequence": 0 if producer >= 0 else -1,
    }
    if random_source.random() < 0.5:
        records = [_record(random_source) for _ in range(count)]
        return build_batch(records, **options), f"{count} records in codec {codec}"
    section = bytearray()
    for index in range(count):
        section += _odd_record(random_source, index)
    batch = build_batch([SimpleRecord(b"k", b"v", INSIDE)] * count, **options)
    packed = compress(codec, section) if codec else bytes(section)
    if codec and random_source.random() < 0.2:
        packed = packed[: random_source.randrange(len(packed))]
    batch[HEADER_BYTES:] = packed
    _set(batch, "batch_length", len(batch) - 12)
    seal(batch, 0, len(batch))
    return batch, f"{count} odd records in codec {codec}"


def _record(random_source: random.Random) -> SimpleRecord:
    timestamp = random_source.choice((INSIDE, INSIDE + random_source.randrange(1000), INSIDE, INSIDE, -1))
    if random_source.random() < 0.1:
        timestamp = random_source.choice(_OUTSIDE)
    key = None if random_source.random() < 0.15 else random_source.randbytes(random_source.randrange(10))
    value = (
        None
        if random_source.random() < 0.1
        else random_source.randbytes(random_source.choice((0, 3, 30, 100)))
    )
    headers = tuple((f"h{n}", b"x") for n in range(random_source.choice((0, 0, 0, 1, 2))))
    return SimpleRecord(key, value, timestamp, headers)


def _odd_record(random_source: random.Random, index: int) -> bytearray:
    """A record one of whose numbers may be another than it should be."""
    odd = random_source.randrange(40)
    key, value = (
        random_source.randbytes(random_source.randrange(6)),
        random_source.randbytes(random_source.randrange(80)),
    )
    body = bytearray([random_source.randrange(256) if odd == 0 else 0])
    append_signed(body, random_source.choice(_OUTSIDE) - INSIDE if odd == 1 else random_source.randrange(100))
    append_signed(body, random_source.choice((index + 1, 0, -1, 2**31 - 1)) if odd == 2 else index)
    if odd == 3:
        append_signed(body, -1)
    else:
        append_signed(body, len(key) + (random_source.choice((1, -1, 50, 2**20)) if odd == 4 else 0))
        body += key
    if odd == 5:
        append_signed(body, -1)
    else:
        append_signed(body, len(value) + (random_source.choice((1, -1, 200, -(2**20))) if odd == 6 else 0))
        body += value
    headers = random_source.choice((0, 0, 1, 2))
    append_signed(body, random_source.choice((headers + 1, -1, 2**30)) if odd == 7 else headers)
    for number in range(headers):
        append_signed(body, -1 if odd == 8 and number == 0 else 1)
        body += b"h"
        append_signed(body, random_source.choice((-1, 0, 3)) if odd == 9 else 1)
        body += b"x"
    record = bytearray()
    append_signed(record, len(body) + (random_source.choice((1, -1, -5, 7, 1000)) if odd == 10 else 0))
    record += body
    return bytearray(b"\xff" * 12) if odd == 11 and random_source.random() < 0.3 else record


def _mutate(random_source: random.Random, batch: bytearray) -> tuple[str, bytearray]:
    kind = random_source.randrange(8)
    if len(batch) < HEADER_BYTES or kind == 0:
        return _cut_or_grow(random_source, batch)
    sealed = random_source.random() < 0.85
    if kind <= 4:
        what = _lie(random_source, batch)
    elif kind == 5 and len(batch) > HEADER_BYTES:
        at = random_source.randrange(HEADER_BYTES, len(batch))
        batch[at] ^= 1 << random_source.randrange(8)
        what = f"bit in byte {at}"
    elif kind == 6:
        _set(batch, "attributes", random_source.choice((LOG_APPEND_TIME_BIT, 0x20, 0x40, 0x80, 5, 6, 7)))
        what = "attributes"
    else:
        at = random_source.randrange(HEADER_BYTES)
        batch[at] ^= 1 << random_source.randrange(8)
        what = f"bit in byte {at}"
    if batch[22] & 0x10:
        batch[22] ^= 0x10  # transactions have their own rules, before the batch is looked at
    if sealed:
        seal(batch, 0, len(batch))
        what += ", sealed"
    return what, batch


def _lie(random_source: random.Random, batch: bytearray) -> str:
    name = random_source.choice(tuple(FIELDS))
    position, layout = FIELDS[name]
    if name in ("base_timestamp", "max_timestamp"):
        value = random_source.choice((*_OUTSIDE, INSIDE, INSIDE + 5))
    else:
        value = layout.unpack_from(batch, position)[0] + random_source.choice((1, -1, 7))
        if random_source.random() < 0.5:
            value = random_source.choice(_EDGES)
    if name == "producer_id" and 0 <= value < 2**40:
        value += 2**41 + random_source.randrange(2**40)  # a producer of its own, with no history
    bits = 8 * layout.size
    wrapped = value % (1 << bits)
    if name != "crc" and wrapped >= 1 << (bits - 1):
        wrapped -= 1 << bits
    _set(batch, name, wrapped)
    return f"{name} {wrapped}"


def _cut_or_grow(random_source: random.Random, batch: bytearray) -> tuple[str, bytearray]:
    way = random_source.randrange(4)
    if way == 0:
        at = random_source.randrange(len(batch) + 1)
        return f"cut at {at}", batch[:at]
    if way == 1:
        return "rubbish behind", batch + random_source.randbytes(random_source.choice((1, 7, 12, 20, 61, 80)))
    if way == 2:
        return "twice", batch + batch
    return "zeros behind", batch + bytes(random_source.choice((1, 11, 12, 17, 61, 100)))


def _set(batch: bytearray, name: str, value: int) -> None:
    position, layout = FIELDS[name]
    layout.pack_into(batch, position, value)
