"""The first producer id that is in no block yet: brokers take blocks of them (KIP-730)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from protocol.codec.message import Message
from protocol.metadata_log.cluster import ProducerIdsRecord

__all__ = ["ProducerIdsDelta", "ProducerIdsImage"]


class ProducerIdsImage(msgspec.Struct, frozen=True):
    """next_producer_id: the first id of the next block, 0 at first. last_record: the record of the last
    block."""

    next_producer_id: int = 0
    last_record: ProducerIdsRecord | None = None

    def records(self) -> Iterator[Message]:
        if self.last_record is not None:
            yield self.last_record


class ProducerIdsDelta:
    """The newest block of producer ids that was handed out since the base image."""

    def __init__(self, base: ProducerIdsImage) -> None:
        self.base = base
        self.newest = base

    def replay(self, record: ProducerIdsRecord) -> None:
        self.newest = ProducerIdsImage(record.next_producer_id, record)

    def apply(self) -> ProducerIdsImage:
        return self.newest
