"""A hash of a group's topics: the group's epoch grows when it changes.

The numbers are Kafka's (XXH3 with 64 bits over little-endian fields), so that a group goes on undisturbed
when its coordinator moves between Kafka and Barnabas.

    topic   0 (1 byte), id (2 longs), name, partition count, then for each partition its number and, for each
            rack of its replicas in order, the rack's length and the rack; a text is followed by its length
    group   the numbers of its topics in the order of their names; 0 without topics
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from broker.coordinator.consumer.operation import TopicsView
from protocol.primitives import Uuid

_LONG: Final = Struct("<q")
_INT: Final = Struct("<i")


def topic_hash(topic_id: Uuid, name: str, racks: Sequence[Sequence[str]]) -> int:
    """The hash of a topic. `racks` holds the sorted racks of the replicas of each partition."""
    parts = [b"\0", topic_id[7::-1], topic_id[:7:-1], _text(name), _INT.pack(len(racks))]
    for partition, of_replicas in enumerate(racks):
        parts.append(_INT.pack(partition))
        for rack in of_replicas:
            parts += (_INT.pack(_units(rack)), _text(rack))
    return _hash(b"".join(parts))


def group_hash(names: Iterable[str], topics: TopicsView) -> int:
    """The hash of those of the named topics that exist."""
    found = ((name, topics.topic_hash(name)) for name in names)
    hashes = {name: number for name, number in found if number is not None}
    if not hashes:
        return 0
    # Names of topics are ASCII, so this is the order of Java's strings, too.
    return _hash(b"".join(_LONG.pack(hashes[name]) for name in sorted(hashes)))


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _INT.pack(_units(text))


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _hash(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # imported with the first consumer group

    number: int = xxh3_64_intdigest(data)
    return number - 2**64 if number >= 2**63 else number
