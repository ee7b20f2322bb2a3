"""AddPartitionsToTxn, API key 24. Asked by: client v0-3; broker v4+."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import i16, i32, i64


@request(key=24, versions="0-5", flexible="3+", listeners="broker")
class AddPartitionsToTxnRequest(Message):
    """Add partitions to a transaction: a client's, or from version 4 a batch of a broker's, which may only
    verify (KIP-890).
    """

    class AddPartitionsToTxnTransaction(Struct):
        """One transaction of a broker's batch."""

        transactional_id: str = ""
        producer_id: i64 = 0
        producer_epoch: i16 = 0
        verify_only: bool = False
        """Whether it is only asked if the partitions belong to the transaction (KIP-890)."""
        topics: list["AddPartitionsToTxnRequest.AddPartitionsToTxnTopic"] = []

    class AddPartitionsToTxnTopic(Struct):
        """The partitions of one topic."""

        name: str = ""
        partitions: list[i32] = []

    transactions: Annotated[list[AddPartitionsToTxnTransaction], Since(4)] = []
    v3_and_below_transactional_id: Annotated[str, Until(3)] = ""
    """Up to version 3 a request is about one transaction, that of the client itself."""
    v3_and_below_producer_id: Annotated[i64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[i16, Until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Until(3)] = []


@response(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    """Says for each partition whether it belongs to the transaction."""

    class AddPartitionsToTxnResult(Struct):
        """The answer for one transaction."""

        transactional_id: str = ""
        topic_results: list["AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult"] = []

    class AddPartitionsToTxnTopicResult(Struct):
        """The results for one topic."""

        name: str = ""
        results_by_partition: list["AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult"] = []

    class AddPartitionsToTxnPartitionResult(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        partition_error_code: i16 = 0

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, Since(4), Ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Until(3)] = []
