"""EndTxn, API key 26. It is sent by transactional producers."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, request, response
from protocol.primitives import i16, i32, i64


@request(key=26, versions="0-5", flexible="3+", listeners="broker")
class EndTxnRequest(Message):
    """Commits or aborts a transaction.

    From version 5 on each transaction has a producer epoch of its own (KIP-890).
    """

    transactional_id: str = ""
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    committed: bool = False
    """True commits the transaction, false aborts it."""


@response(key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    """Says whether the coordinator has recorded the end of the transaction. From version 5 on it tells the
    producer its next epoch."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id: Annotated[i64, Since(5), Ignorable] = -1
    producer_epoch: Annotated[i16, Since(5), Ignorable] = -1
