"""The rules for topic names, and which two names collide in the names of metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from config.limits import TOPIC_NAME_LENGTH

__all__ = ["METADATA_TOPIC", "Collisions", "name_fault", "shown_name"]

METADATA_TOPIC: Final = "__cluster_metadata"
"""The name of the metadata log; nobody may create a topic of that name."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def name_fault(name: str) -> str | None:
    """Kafka's sentence on a name that a topic may not have; None for a valid name."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{TOPIC_NAME_LENGTH}"
        )
    if _LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


def shown_name(name: str) -> str:
    """The name of a topic in a message that is sent for each of its partitions.

    If it is longer than a name can be, it is cut: a request of 50 KB may name one of 32,767 bytes with a
    thousand partitions.
    """
    return name if len(name) <= TOPIC_NAME_LENGTH else f"{name[:TOPIC_NAME_LENGTH]}..."


class Collisions:
    """Which existing topic differs from a new one only in `.` and `_`, which metric names do not tell apart.

    The existing ones are looked at when the first new name has such a character, and once for all new names.
    """

    def __init__(self, existing: Iterable[str]) -> None:
        self._existing = existing
        self._by_folded: dict[str, str] | None = None

    def of(self, name: str) -> str | None:
        """An existing topic whose name collides with `name`, which is not the name of an existing topic; None
        if there is none."""
        if "." not in name and "_" not in name:
            return None
        if self._by_folded is None:
            self._by_folded = {}
            for other in self._existing:
                self._by_folded.setdefault(other.replace(".", "_"), other)
        return self._by_folded.get(name.replace(".", "_"))
