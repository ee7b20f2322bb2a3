"""WriteTxnMarkers, API key 27. It is sent by transaction coordinators, and by admin clients that abort a
transaction."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32, i64


@request(key=27, versions="1-2", flexible="1+", listeners="broker")
class WriteTxnMarkersRequest(Message):
    """Has the leaders of partitions write the markers that end transactions.

    From version 2 on it tells the transaction version (KIP-1228).
    """

    class WritableTxnMarker(Struct):
        """Names a transaction that ends, and says whether it is committed."""

        producer_id: i64 = 0
        producer_epoch: i16 = 0
        transaction_result: bool = False
        topics: list["WriteTxnMarkersRequest.WritableTxnMarkerTopic"] = []
        coordinator_epoch: i32 = 0
        transaction_version: Annotated[i8, Since(2), Ignorable] = 0

    class WritableTxnMarkerTopic(Struct):
        """Names partitions of one topic."""

        name: str = ""
        partition_indexes: list[i32] = []

    markers: list[WritableTxnMarker] = []


@response(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    """Says for each partition whether the marker was written."""

    class WritableTxnMarkerResult(Struct):
        """Holds the results for one producer."""

        producer_id: i64 = 0
        topics: list["WriteTxnMarkersResponse.WritableTxnMarkerTopicResult"] = []

    class WritableTxnMarkerTopicResult(Struct):
        """Holds the results for the partitions of one topic."""

        name: str = ""
        partitions: list["WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult"] = []

    class WritableTxnMarkerPartitionResult(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    markers: list[WritableTxnMarkerResult] = []
