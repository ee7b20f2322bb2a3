"""AddPartitionsToTxn, API key 24. It is sent by transactional producers up to version 3, and by brokers from
version 4 on."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import i16, i32, i64


@request(key=24, versions="0-5", flexible="3+", listeners="broker")
class AddPartitionsToTxnRequest(Message):
    """Adds partitions to transactions.

    Up to version 3 a producer adds them to its own transaction. From version 4 on a broker adds them for
    several transactions, or only verifies that they belong to them (KIP-890).
    """

    class AddPartitionsToTxnTransaction(Struct):
        """Names a transaction and the partitions that the broker asks about."""

        transactional_id: str = ""
        producer_id: i64 = 0
        producer_epoch: i16 = 0
        verify_only: bool = False
        """True if the coordinator shall only check whether the partitions belong to the transaction
        (KIP-890)."""
        topics: list["AddPartitionsToTxnRequest.AddPartitionsToTxnTopic"] = []

    class AddPartitionsToTxnTopic(Struct):
        """Names partitions of one topic."""

        name: str = ""
        partitions: list[i32] = []

    transactions: Annotated[list[AddPartitionsToTxnTransaction], Since(4)] = []
    v3_and_below_transactional_id: Annotated[str, Until(3)] = ""
    """Up to version 3 a request is about one transaction, which is that of the producer itself."""
    v3_and_below_producer_id: Annotated[i64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[i16, Until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Until(3)] = []


@response(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    """Says for each partition whether it belongs to the transaction."""

    class AddPartitionsToTxnResult(Struct):
        """Holds the results for one transaction."""

        transactional_id: str = ""
        topic_results: list["AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult"] = []

    class AddPartitionsToTxnTopicResult(Struct):
        """Holds the results for the partitions of one topic."""

        name: str = ""
        results_by_partition: list["AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult"] = []

    class AddPartitionsToTxnPartitionResult(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        partition_error_code: i16 = 0

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, Since(4), Ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Until(3)] = []
