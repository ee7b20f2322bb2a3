"""AlterReplicaLogDirs, API key 34. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=34, versions="1-2", flexible="2+", listeners="broker")
class AlterReplicaLogDirsRequest(Message):
    """Moves replicas between the log directories of a broker (KIP-113)."""

    class AlterReplicaLogDir(Struct):
        """Names a log directory, and the replicas that shall lie there."""

        path: str = ""
        topics: list["AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic"] = []

    class AlterReplicaLogDirTopic(Struct):
        """Names partitions of one topic."""

        name: str = ""
        partitions: list[i32] = []

    dirs: list[AlterReplicaLogDir] = []


@response(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    """Says for each replica whether the move to its log directory was accepted."""

    class AlterReplicaLogDirTopicResult(Struct):
        """Holds the results for the partitions of one topic."""

        topic_name: str = ""
        partitions: list["AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult"] = []

    class AlterReplicaLogDirPartitionResult(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []
