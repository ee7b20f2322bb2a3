"""DescribeTransactions, API key 65. Asked by: admin."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=65, versions="0", flexible="0+", listeners="broker")
class DescribeTransactionsRequest(Message):
    """Describe transactions by transactional id (KIP-664)."""

    transactional_ids: list[str] = []


@response(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    """The state, the producer and the partitions of each transaction."""

    class TransactionState(Struct):
        """One transaction."""

        error_code: i16 = 0
        transactional_id: str = ""
        transaction_state: str = ""
        transaction_timeout_ms: i32 = 0
        transaction_start_time_ms: i64 = 0
        producer_id: i64 = 0
        producer_epoch: i16 = 0
        topics: list["DescribeTransactionsResponse.TopicData"] = []

    class TopicData(Struct):
        """The results for one topic."""

        topic: str = ""
        partitions: list[i32] = []

    throttle_time_ms: i32 = 0
    transaction_states: list[TransactionState] = []
