"""DescribeTransactions, API key 65. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=65, versions="0", flexible="0+", listeners="broker")
class DescribeTransactionsRequest(Message):
    """Asks for a description of transactions by their transactional ids (KIP-664)."""

    transactional_ids: list[str] = []


@response(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    """Tells the state, the producer and the partitions of each transaction."""

    class TransactionState(Struct):
        """Describes one transaction."""

        error_code: i16 = 0
        transactional_id: str = ""
        transaction_state: str = ""
        transaction_timeout_ms: i32 = 0
        transaction_start_time_ms: i64 = 0
        producer_id: i64 = 0
        producer_epoch: i16 = 0
        topics: list["DescribeTransactionsResponse.TopicData"] = []

    class TopicData(Struct):
        """Names partitions of one topic that belong to the transaction."""

        topic: str = ""
        partitions: list[i32] = []

    throttle_time_ms: i32 = 0
    transaction_states: list[TransactionState] = []
