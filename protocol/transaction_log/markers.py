"""Markers."""

from protocol.codec.message import Message, data
from protocol.primitives import i32


@data(versions="0", flexible="none")
class EndTxnMarker(Message):
    """EndTxnMarker."""

    coordinator_epoch: i32 = 0
