"""AlterReplicaLogDirs (API key 34): move replica between log dirs."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=34, versions="1-2", flexible="2+", listeners="broker")
class AlterReplicaLogDirsRequest(Message):
    """Move replica between log dirs."""

    class AlterReplicaLogDir(Struct):
        path: str = ""
        topics: list["AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic"] = []

    class AlterReplicaLogDirTopic(Struct):
        name: str = ""
        partitions: list[i32] = []

    dirs: list[AlterReplicaLogDir] = []


@response(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    """Answer: move replica between log dirs."""

    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = ""
        partitions: list["AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult"] = []

    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: i32 = 0
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []
