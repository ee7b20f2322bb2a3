"""What ends a transaction in a partition."""

from protocol.codec.message import Message, data
from protocol.primitives import i32


@data(versions="0", flexible="none")
class EndTxnMarker(Message):
    """The value of a COMMIT or ABORT control record: which coordinator epoch ended the transaction."""

    coordinator_epoch: i32 = 0
