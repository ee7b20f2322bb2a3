"""Metadata records that group others (KIP-868), and the one that says nothing."""

from typing import Annotated

from protocol.codec.message import Message, Tag, metadata_record


@metadata_record(key=23, versions="0", flexible="0+")
class BeginTransactionRecord(Message):
    """The following records count only when their end is seen (KIP-868)."""

    name: Annotated[str | None, Tag(0)] = None


@metadata_record(key=24, versions="0", flexible="0+")
class EndTransactionRecord(Message):
    """The records since the transaction's begin count."""


@metadata_record(key=25, versions="0", flexible="0+")
class AbortTransactionRecord(Message):
    """The records since the transaction's begin do not count."""

    reason: Annotated[str | None, Tag(0)] = None


@metadata_record(key=20, versions="0", flexible="0+")
class NoOpRecord(Message):
    """Nothing; it lets the log's end move on so that lag can be seen (KIP-835)."""
