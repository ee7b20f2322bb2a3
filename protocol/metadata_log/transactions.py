"""Transactions."""

from typing import Annotated

from protocol.codec.message import Message, Tag, metadata_record


@metadata_record(key=23, versions="0", flexible="0+")
class BeginTransactionRecord(Message):
    """BeginTransactionRecord."""

    name: Annotated[str | None, Tag(0)] = None


@metadata_record(key=24, versions="0", flexible="0+")
class EndTransactionRecord(Message):
    """EndTransactionRecord."""


@metadata_record(key=25, versions="0", flexible="0+")
class AbortTransactionRecord(Message):
    """AbortTransactionRecord."""

    reason: Annotated[str | None, Tag(0)] = None


@metadata_record(key=20, versions="0", flexible="0+")
class NoOpRecord(Message):
    """NoOpRecord."""
