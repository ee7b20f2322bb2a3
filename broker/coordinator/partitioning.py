"""Which partition of an internal topic a name belongs to.

Every broker, and every tool that reads the topic, must find the same partition, so the hash is Java's
`String.hashCode`: over UTF-16 code units (a character beyond U+FFFF counts as its two surrogates), in signed
32-bit arithmetic. Kafka then takes the absolute value, with 0 for the one number that has none.
"""

from __future__ import annotations

from array import array
from sys import byteorder
from typing import Final

_UTF_16: Final = "utf-16-le" if byteorder == "little" else "utf-16-be"
_INT_MIN: Final = -(2**31)


def java_string_hash(text: str) -> int:
    """`text.hashCode()` as Java has it: a signed 32-bit number."""
    value = 0
    for unit in array("H", text.encode(_UTF_16, "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(name: str, partition_count: int) -> int:
    """The partition that coordinates `name` (a group id, a transactional id)."""
    value = java_string_hash(name)
    return 0 if value == _INT_MIN else abs(value) % partition_count
