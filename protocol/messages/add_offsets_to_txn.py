"""AddOffsetsToTxn, API key 25. It is sent by transactional producers."""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16, i32, i64


@request(key=25, versions="0-4", flexible="3+", listeners="broker")
class AddOffsetsToTxnRequest(Message):
    """Adds the partition of `__consumer_offsets` that holds a group's offsets to a transaction."""

    transactional_id: str = ""
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    group_id: str = ""


@response(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    """Says whether the partition was added to the transaction."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
