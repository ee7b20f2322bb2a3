"""ListTransactions, API key 66. It is sent by admin clients."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=66, versions="0-2", flexible="0+", listeners="broker")
class ListTransactionsRequest(Message):
    """Asks for transactions by their state and producer (KIP-664).

    From version 1 on it can ask for those that have lasted for some time, and from version 2 on for those
    whose transactional id matches a pattern.
    """

    state_filters: list[str] = []
    producer_id_filters: list[i64] = []
    duration_filter: Annotated[i64, Since(1)] = -1
    transactional_id_pattern: Annotated[str | None, Since(2)] = None


@response(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    """Lists the transactions with their producer and state."""

    class TransactionState(Struct):
        """Describes one transaction."""

        transactional_id: str = ""
        producer_id: i64 = 0
        transaction_state: str = ""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[TransactionState] = []
