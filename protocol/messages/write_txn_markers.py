"""WriteTxnMarkers, API key 27. Asked by: broker (txn coordinator); admin abortTransaction."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32, i64


@request(key=27, versions="1-2", flexible="1+", listeners="broker")
class WriteTxnMarkersRequest(Message):
    """The transaction coordinator's markers for partition leaders.

    From version 2 with the transaction version (KIP-1228).
    """

    class WritableTxnMarker(Struct):
        """One transaction to end."""

        producer_id: i64 = 0
        producer_epoch: i16 = 0
        transaction_result: bool = False
        topics: list["WriteTxnMarkersRequest.WritableTxnMarkerTopic"] = []
        coordinator_epoch: i32 = 0
        transaction_version: Annotated[i8, Since(2), Ignorable] = 0

    class WritableTxnMarkerTopic(Struct):
        """The partitions of one topic."""

        name: str = ""
        partition_indexes: list[i32] = []

    markers: list[WritableTxnMarker] = []


@response(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    """Says for each partition whether the marker was written."""

    class WritableTxnMarkerResult(Struct):
        """The answer for one producer."""

        producer_id: i64 = 0
        topics: list["WriteTxnMarkersResponse.WritableTxnMarkerTopicResult"] = []

    class WritableTxnMarkerTopicResult(Struct):
        """The results for one topic."""

        name: str = ""
        partitions: list["WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult"] = []

    class WritableTxnMarkerPartitionResult(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    markers: list[WritableTxnMarkerResult] = []
