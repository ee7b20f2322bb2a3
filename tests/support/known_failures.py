"""Tests that fail at the moment, each with what is known of it. They run, and count as known failures.

This list is a debt: an entry goes as soon as its test passes every time, and nothing is added to hide a fault
that is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

KNOWN_FAILURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "test_groups_beside_kafka.py": "a broker was gone in the middle on a busy machine; cause unknown",
    }
)
