"""Replay over batches, with metadata transactions (KIP-868).

A leader may need more than one batch for one change (the bootstrap records of a new cluster are the usual
case). It writes BeginTransaction, the records, EndTransaction; what lies between becomes visible at the end,
all at once, and never if AbortTransaction comes instead.

::

    visible image ──records──▶ next image          outside of a transaction: at the end of each batch
         │
         └─Begin─▶ delta ──records──▶ delta ─End─▶ next image
                                        └──Abort─▶ nothing happened
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, ImageDelta
from protocol.codec.message import Message
from protocol.errors import invariant
from protocol.metadata_log.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)

__all__ = ["ImageReplayer", "MetadataBatch", "Replayed"]


class MetadataBatch(NamedTuple):
    """Records of the metadata log with consecutive offsets, from `base_offset` on. It has at least one
    offset.

    A batch of control records has no metadata records, but it has offsets: last_offset counts them.
    """

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[Message]


class Replayed(NamedTuple):
    """The step from one visible image to the next, with the delta between them."""

    image: ClusterImage
    delta: ImageDelta


class ImageReplayer:
    """An image that follows the log.

    image: the visible image. in_transaction: whether a metadata transaction is open.
    """

    def __init__(self, image: ClusterImage = EMPTY_IMAGE) -> None:
        self.image = image
        self.in_transaction = False
        self._delta: ImageDelta | None = None
        self._held: MetadataBatch | None = None

    def replay_batch(self, batch: MetadataBatch, *, hold: bool = False) -> list[Replayed]:
        """The steps that the batch makes visible: none inside a transaction, one as a rule.

        A batch of nothing but NoOp moves the image's offset and makes no step: there is nothing to tell.

        With `hold` the batch's end does not count as one: what it changed becomes visible with a later
        batch, or with `release`. So a long log is replayed into one image and not into one per batch.
        """
        steps: list[Replayed] = []
        for index, record in enumerate(batch.records):
            if isinstance(record, BeginTransactionRecord):
                invariant(
                    not self.in_transaction, "transactions do not nest", offset=batch.base_offset + index
                )
                self._seal(batch, batch.base_offset + index - 1, steps)
                self.in_transaction = True
            elif isinstance(record, EndTransactionRecord):
                invariant(
                    self.in_transaction, "a transaction's end has a begin", offset=batch.base_offset + index
                )
                self.in_transaction = False
            elif isinstance(record, AbortTransactionRecord):
                invariant(self.in_transaction, "an abort has a begin", offset=batch.base_offset + index)
                self.in_transaction = False
                self._delta = None
            elif not isinstance(record, NoOpRecord):
                if self._delta is None:
                    self._delta = ImageDelta(self.image)
                self._delta.replay(record)
        if hold:
            self._held = batch
        elif not self.in_transaction:
            self._held = None
            if self._delta is not None:
                self._seal(batch, batch.last_offset, steps)
            else:
                self.image = msgspec.structs.replace(
                    self.image, offset=batch.last_offset, epoch=batch.epoch, timestamp_ms=batch.timestamp_ms
                )
        return steps

    def release(self) -> list[Replayed]:
        """Makes the records visible that were held back. It must not be called within a metadata
        transaction."""
        invariant(not self.in_transaction, "a transaction becomes visible at its end")
        batch, self._held = self._held, None
        if batch is None:
            return []
        return self.replay_batch(batch._replace(records=()))

    def _seal(self, batch: MetadataBatch, offset: int, steps: list[Replayed]) -> None:
        delta, self._delta = self._delta, None
        if delta is None:
            return
        self.image = delta.apply(offset=offset, epoch=batch.epoch, timestamp_ms=batch.timestamp_ms)
        steps.append(Replayed(self.image, delta))

    def reset(self, image: ClusterImage) -> None:
        """Starts over from a snapshot's image, or from the committed one when leadership is lost."""
        self.image = image
        self.in_transaction = False
        self._delta = None
        self._held = None
