"""DeleteRecords, API key 21. Asked by: admin; Streams."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=21, versions="0-2", flexible="2+", listeners="broker")
class DeleteRecordsRequest(Message):
    """Move log start offsets forward: what lies before may go."""

    class DeleteRecordsTopic(Struct):
        """The partitions of one topic."""

        name: str = ""
        partitions: list["DeleteRecordsRequest.DeleteRecordsPartition"] = []

    class DeleteRecordsPartition(Struct):
        """Before which offset the records of one partition may go; -1 is the high watermark."""

        partition_index: i32 = 0
        offset: i64 = 0

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: i32 = 0


@response(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    """The new log start offset of each partition."""

    class DeleteRecordsTopicResult(Struct):
        """The results for one topic."""

        name: str = ""
        partitions: list["DeleteRecordsResponse.DeleteRecordsPartitionResult"] = []

    class DeleteRecordsPartitionResult(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        low_watermark: i64 = 0
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    topics: list[DeleteRecordsTopicResult] = []
