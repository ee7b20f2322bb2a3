"""Which partition of an internal topic coordinates a group or a transactional id.

That hangs on the topic's partition count, so if the topic grew, nearly all names would belong to another
partition, which knows nothing of them. A broker therefore goes on with the count that the topic had when it
first knew the topic, until it starts again. So does Kafka. Unlike Kafka, it takes the new count of a topic
that was deleted and made anew, because nothing of the old one is left.
"""

from __future__ import annotations

import logging
from array import array
from functools import lru_cache
from sys import byteorder
from typing import Final

from broker.coordinator.ports import ClusterView
from protocol.primitives import Uuid

LOG: Final = logging.getLogger("barnabas.coordinator")
_UTF_16: Final = "utf-16-le" if byteorder == "little" else "utf-16-be"
_INT_MIN: Final = -(2**31)
NAMES_REMEMBERED: Final = 4096
"""The number of names whose hashes are remembered: each request of a group or a producer asks for the
partition of its name, some of them twice."""


def java_string_hash(text: str) -> int:
    """`text.hashCode()` as Java has it, a signed 32-bit number: over UTF-16 code units, so a character beyond
    U+FFFF counts as its two surrogates."""
    value = 0
    for unit in array("H", text.encode(_UTF_16, "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@lru_cache(NAMES_REMEMBERED)
def partition_for(name: str, partition_count: int) -> int:
    """The partition that coordinates `name` (a group id, a transactional id).

    Every broker, and every tool that reads the topic, must find the same one. Kafka takes the absolute value
    of the hash, with 0 for the one number that has none.
    """
    value = java_string_hash(name)
    return 0 if value == _INT_MIN else abs(value) % partition_count


class CoordinatorPartitions:
    """The partitions of one internal topic. default_count: the partition count that holds until the topic
    exists, which is the one with which it is made."""

    def __init__(self, topic: str, cluster: ClusterView, default_count: int) -> None:
        self._topic = topic
        self._cluster = cluster
        self._default_count = default_count
        self._topic_id: Uuid | None = None
        self._count: int | None = None
        """The partition count of the topic when it was first seen; None until then."""
        self._newest_count: int | None = None

    def partition_for(self, name: str) -> int:
        if self._count is None:
            self.look()
        return partition_for(name, self._count or self._default_count)

    def look(self) -> None:
        """Takes in that the topic was made or deleted, or has other partitions."""
        topic_id, count = self._cluster.topic_id(self._topic), self._cluster.partition_count(self._topic)
        if count is None or self._count is None or topic_id != self._topic_id:
            self._topic_id, self._count = topic_id, count
        elif count != self._newest_count:
            LOG.error(
                "%s has %d partitions now. This broker goes on with the %d that it had first, and looks for "
                "what it coordinates in other partitions when it starts again",
                self._topic,
                count,
                self._count,
            )
        self._newest_count = count
