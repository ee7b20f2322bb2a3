"""InitProducerId, API key 22. It is sent by idempotent and transactional producers."""

from typing import Annotated

from protocol.codec.message import Message, Since, request, response
from protocol.primitives import i16, i32, i64


@request(key=22, versions="0-6", flexible="2+", listeners="broker", latest_version_unstable=True)
class InitProducerIdRequest(Message):
    """Asks for a producer id and an epoch, for an idempotent or transactional producer.

    From version 3 on a producer can have its epoch raised (KIP-360). Version 6, which is unstable, can keep a
    prepared transaction (KIP-939).
    """

    transactional_id: str | None = ""
    transaction_timeout_ms: i32 = 0
    producer_id: Annotated[i64, Since(3)] = -1
    producer_epoch: Annotated[i16, Since(3)] = -1
    enable2_pc: Annotated[bool, Since(6)] = False
    keep_prepared_txn: Annotated[bool, Since(6)] = False


@response(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Message):
    """Tells the producer its id and its epoch."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id: i64 = -1
    producer_epoch: i16 = 0
    ongoing_txn_producer_id: Annotated[i64, Since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[i16, Since(6)] = -1
