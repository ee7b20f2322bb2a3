"""AllocateProducerIds, API key 67. Asked by: broker.

Brokers forward it to the controller.
"""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16, i32, i64


@request(key=67, versions="0", flexible="0+", listeners="controller")
class AllocateProducerIdsRequest(Message):
    """A broker asks the controller for a block of producer ids (KIP-730)."""

    broker_id: i32 = 0
    broker_epoch: i64 = -1


@response(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    """The first id of the block and how many there are."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id_start: i64 = 0
    producer_id_len: i32 = 0
