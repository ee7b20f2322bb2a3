"""DeleteRecords, API key 21. It is sent by admin clients and Kafka Streams."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=21, versions="0-2", flexible="2+", listeners="broker")
class DeleteRecordsRequest(Message):
    """Moves log start offsets forward, so that the records before them can be deleted."""

    class DeleteRecordsTopic(Struct):
        """Names partitions of one topic."""

        name: str = ""
        partitions: list["DeleteRecordsRequest.DeleteRecordsPartition"] = []

    class DeleteRecordsPartition(Struct):
        """Names a partition, and the offset before which its records can be deleted. -1 means the high
        watermark."""

        partition_index: i32 = 0
        offset: i64 = 0

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: i32 = 0


@response(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    """Tells the low watermark of each partition: the smallest log start offset of its live replicas."""

    class DeleteRecordsTopicResult(Struct):
        """Holds the results for the partitions of one topic."""

        name: str = ""
        partitions: list["DeleteRecordsResponse.DeleteRecordsPartitionResult"] = []

    class DeleteRecordsPartitionResult(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        low_watermark: i64 = 0
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    topics: list[DeleteRecordsTopicResult] = []
