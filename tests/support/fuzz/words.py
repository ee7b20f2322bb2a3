"""Words that a hostile client uses: strings, numbers, identifiers and blobs at and beyond every edge.

A string is bytes here, for it need not be UTF-8. Whoever writes it cuts it to what its length field can say.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from protocol.codec.compiler import encoder
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.values import ZERO_UUID
from tests.support.samples import bad_batches as bad

STRING_LIMIT: Final = 32_767
"""Bytes of a string that every version can carry."""
STRING_SIZES: Final = (0, 1, 249, 250, 32_700, 32_767, 40_000)
_LETTERS: Final = ("ä", "日", "𝄞", "\u0301", "\uffff", "\0")
_NO_UTF8: Final = (b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"a\x80b", b"\xc0\xaf")
_ODD: Final = (
    b".", b"..", b"../../etc/passwd", b"a/b", b"a\nb", b"a=b,c", b"%s%n", b"{}", b"null", b"-1", b"*", b" ",
    b"__consumer_offsets", b"__transaction_state", b"__cluster_metadata", b"__share_group_state",
    b"kafka-cluster", b"consumer", b"1", b"2147483648", b"9223372036854775808", b"1e400", b"NaN", b"true",
)  # fmt: skip
_EDGES: Final = (0, 1, -1, -2, 2, 127, -128, 2**15 - 1, -(2**15), 2**16, 2**31 - 1, -(2**31), 2**31 - 2,
                 2**32, 2**53, 2**63 - 1, -(2**63), 2**63 - 2)  # fmt: skip
FLOATS: Final = (0.0, -0.0, 1.0, -1.5, 5e-324, 1e-6, 2.0**31, 2.0**63, 1e308, math.inf, -math.inf, math.nan)
TIMES: Final = (0, -1, 1, 2**31 - 1, -(2**31), 5, 100)


def string(random_source: random.Random, *, largest_bytes: int = 40_000) -> bytes:
    """A string that nobody expects."""
    size = min(random_source.choice(STRING_SIZES), largest_bytes)
    match random_source.randrange(8):
        case 0 | 1:
            return b"x" * size
        case 2:  # more bytes than characters
            return (random_source.choice(_LETTERS) * size).encode()[: 4 * largest_bytes]
        case 3:
            return random_source.choice(_NO_UTF8)
        case 4:
            return b"y" * size + random_source.choice(_NO_UTF8)
        case 5:  # whole to the last character but one byte
            return ("日" * (size // 3)).encode() + b"z" * (size % 3)
        case _:
            return random_source.choice(_ODD)


def is_text(value: bytes) -> bool:
    """Not longer than a string may be, also when what is no UTF-8 in it has been replaced."""
    return len(value.decode("utf-8", "replace").encode()) <= STRING_LIMIT


def number(random_source: random.Random, bits: int, *, signed: bool = True) -> int:
    """A number at an edge, or any at all, of so many bits."""
    value = random_source.choice(_EDGES) if random_source.random() < 0.8 else random_source.getrandbits(bits)
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def uuid(random_source: random.Random) -> bytes:
    return random_source.choice(
        (ZERO_UUID, ZERO_UUID[:15] + b"\1", b"\xff" * 16, random_source.randbytes(16))
    )


def blob(random_source: random.Random, *, largest_bytes: int = 40_000) -> bytes:
    """Bytes in which something was expected."""
    size = min(random_source.choice((0, 1, 2, 7, 60, 300, 40_000, 1_000_000)), largest_bytes)
    return random_source.choice((bytes(size), b"\xff" * size, random_source.randbytes(min(size, 4_000))))


def subscription(random_source: random.Random) -> bytes:
    """What a consumer tells its group: honest, of another version, cut, grown, or nonsense."""
    version = random_source.randrange(4)
    topics = random_source.choice((["first"], ["first", "second"], [], ["x" * 249] * 20, ["first"] * 300))
    wanted = ConsumerProtocolSubscription(topics, b"")
    if version >= 1:
        owned = ConsumerProtocolSubscription.TopicPartition("first", [0, 0, -1, 2**31 - 1])
        wanted.owned_partitions = [owned] * random_source.choice((0, 1, 100))
    data = encoder(ConsumerProtocolSubscription, version)(wanted)
    return _embedded(random_source, version, data)


def assignment(random_source: random.Random) -> bytes:
    """What the leader gives to a member: honest, cut, grown, or nonsense."""
    version = random_source.randrange(4)
    given = ConsumerProtocolAssignment.TopicPartition("first", [0, 1] * random_source.choice((1, 1, 500)))
    data = encoder(ConsumerProtocolAssignment, version)(
        ConsumerProtocolAssignment([given] * random_source.choice((0, 1, 1, 20)), None)
    )
    return _embedded(random_source, version, data)


def _embedded(random_source: random.Random, version: int, data: bytes) -> bytes:
    whole = random_source.choice((version, version, version, -1, 32_767)).to_bytes(2, signed=True) + data
    match random_source.randrange(8):
        case 0:
            return whole[: random_source.randrange(len(whole) + 1)]
        case 1:
            return whole + random_source.randbytes(20)
        case 2:
            return whole[:2] + b"\x7f\xff\xff\xff" + whole[6:]
        case 3:
            return blob(random_source)
        case _:
            return whole


_BATCHES: Final[Mapping[str, Callable[[], bytes | bytearray]]] = MappingProxyType(
    {
        "unsequential": bad.unsequential,
        "inner length": lambda: bad.wrong_inner_length(1),
        "negative length": bad.negative_record_length,
        "endless varint": bad.endless_varint,
        "key of 2 GB": lambda: bad.record_with(2**31 - 1),
        "headers without end": lambda: bad.record_with(1, 2**31 - 1),
        "control": bad.control,
        "append time": bad.claims_append_time,
        "far timestamps": lambda: bad.stamped(0, 2**62, -5),
        "snappy": lambda: bad.good(codec=2),
        "cut gzip": lambda: bad.cut_stream(1),
        "cut snappy": lambda: bad.cut_stream(2),
        "cut lz4": lambda: bad.cut_stream(3),
        "cut zstd": lambda: bad.cut_stream(4),
        "no stream": lambda: bad.random_stream(4),
        "bomb": lambda: bad.bomb(4, 4 << 20),
        "count": lambda: bad.lying(record_count=2**31 - 1, last_offset_delta=2**31 - 2),
        "many": lambda: bad.good(20_000, codec=4),
        "producer": lambda: bad.lying(producer_id=7, producer_epoch=0, base_sequence=2**31 - 1),
        "producer's end": lambda: bad.lying(producer_id=2**63 - 1, producer_epoch=32_767, base_sequence=0),
        "transaction": lambda: bad.lying(producer_id=9, producer_epoch=0, base_sequence=0, attributes=0x10),
        "future offsets": lambda: bad.lying(base_offset=2**63 - 1, leader_epoch=2**31 - 1),
    }
)


def transactional(producer_id: int, epoch: int, sequence: int) -> bytes:
    """A batch of a transaction. Numbers that no batch can hold are cut to what it can."""
    return bytes(
        bad.lying(
            producer_id=producer_id,
            producer_epoch=max(-(2**15), min(2**15 - 1, epoch)),
            base_sequence=sequence,
            attributes=0x10,
        )
    )


def records(random_source: random.Random) -> tuple[str, bytes]:
    """A name for it, and what stands where record batches should."""
    match random_source.randrange(8):
        case 0 | 1 | 2:
            return "good", bytes(
                bad.good(random_source.choice((1, 3, 50)), codec=random_source.choice((0, 0, 1, 3, 4)))
            )
        case 3:
            return "blob", blob(random_source)
        case 4:
            return "two batches", bytes(bad.good(2) + bad.good(2))
        case _:
            name = random_source.choice(tuple(_BATCHES))
            return name, bytes(_BATCHES[name]())
