"""AllocateProducerIds, API key 67. It is sent by brokers.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16, i32, i64


@request(key=67, versions="0", flexible="0+", listeners="controller")
class AllocateProducerIdsRequest(Message):
    """Asks the controller for a block of producer ids, for the broker that sends it (KIP-730)."""

    broker_id: i32 = 0
    broker_epoch: i64 = -1


@response(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    """Holds the first producer id of the block, and the number of ids in it."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id_start: i64 = 0
    producer_id_len: i32 = 0
