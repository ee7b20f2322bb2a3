"""AllocateProducerIds (API key 67): allocate block of 1000 producer ids."""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16, i32, i64


@request(key=67, versions="0", flexible="0+", listeners="controller")
class AllocateProducerIdsRequest(Message):
    """Allocate block of 1000 producer ids."""

    broker_id: i32 = 0
    broker_epoch: i64 = -1


@response(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    """Answer: allocate block of 1000 producer ids."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id_start: i64 = 0
    producer_id_len: i32 = 0
