"""Delegation tokens, of which only the records are kept.

No decision is made by them here, but a snapshot must hold them. Otherwise a cluster would forget its tokens
at the first restart after one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from controller.metadata.image.mappings import with_changes
from protocol.codec.message import Message

__all__ = ["RecordTable", "RecordTableDelta"]

Key = tuple[int | str | bytes, ...]


class RecordTable(msgspec.Struct, frozen=True):
    """The newest record for each key."""

    by_key: Mapping[Key, Message] = MappingProxyType({})

    def records(self) -> Iterator[Message]:
        for key in sorted(self.by_key):
            yield self.by_key[key]


class RecordTableDelta:
    """The changes since the base table: the new record for each key, None for a removed one."""

    def __init__(self, base: RecordTable) -> None:
        self.base = base
        self.changed: dict[Key, Message | None] = {}

    def put(self, key: Key, record: Message) -> None:
        self.changed[key] = record

    def remove(self, key: Key) -> None:
        self.changed[key] = None

    def apply(self) -> RecordTable:
        return RecordTable(MappingProxyType(with_changes(self.base.by_key, self.changed)))
