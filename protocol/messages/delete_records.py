"""DeleteRecords (API key 21): advance log start offset."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=21, versions="0-2", flexible="2+", listeners="broker")
class DeleteRecordsRequest(Message):
    """Advance log start offset."""

    class DeleteRecordsTopic(Struct):
        name: str = ""
        partitions: list["DeleteRecordsRequest.DeleteRecordsPartition"] = []

    class DeleteRecordsPartition(Struct):
        partition_index: i32 = 0
        offset: i64 = 0

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: i32 = 0


@response(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    """Answer: advance log start offset."""

    class DeleteRecordsTopicResult(Struct):
        name: str = ""
        partitions: list["DeleteRecordsResponse.DeleteRecordsPartitionResult"] = []

    class DeleteRecordsPartitionResult(Struct):
        partition_index: i32 = 0
        low_watermark: i64 = 0
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    topics: list[DeleteRecordsTopicResult] = []
