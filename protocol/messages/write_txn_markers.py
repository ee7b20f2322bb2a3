"""WriteTxnMarkers (API key 27): write commit/abort control records."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32, i64


@request(key=27, versions="1-2", flexible="1+", listeners="broker")
class WriteTxnMarkersRequest(Message):
    """Write commit/abort control records."""

    class WritableTxnMarker(Struct):
        producer_id: i64 = 0
        producer_epoch: i16 = 0
        transaction_result: bool = False
        topics: list["WriteTxnMarkersRequest.WritableTxnMarkerTopic"] = []
        coordinator_epoch: i32 = 0
        transaction_version: Annotated[i8, Since(2), Ignorable] = 0

    class WritableTxnMarkerTopic(Struct):
        name: str = ""
        partition_indexes: list[i32] = []

    markers: list[WritableTxnMarker] = []


@response(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    """Answer: write commit/abort control records."""

    class WritableTxnMarkerResult(Struct):
        producer_id: i64 = 0
        topics: list["WriteTxnMarkersResponse.WritableTxnMarkerTopicResult"] = []

    class WritableTxnMarkerTopicResult(Struct):
        name: str = ""
        partitions: list["WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult"] = []

    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: i32 = 0
        error_code: i16 = 0

    markers: list[WritableTxnMarkerResult] = []
