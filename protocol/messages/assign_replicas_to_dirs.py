"""AssignReplicasToDirs, API key 73. Asked by: broker."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=73, versions="0", flexible="0+", listeners="controller")
class AssignReplicasToDirsRequest(Message):
    """A broker tells in which log directory its replicas lie (KIP-858)."""

    class DirectoryData(Struct):
        """A log directory and the replicas in it."""

        id: Uuid = ZERO_UUID
        topics: list["AssignReplicasToDirsRequest.TopicData"] = []

    class TopicData(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["AssignReplicasToDirsRequest.PartitionData"] = []

    class PartitionData(Struct):
        """What the request says about one partition."""

        partition_index: i32 = 0

    broker_id: i32 = 0
    broker_epoch: i64 = -1
    directories: list[DirectoryData] = []


@response(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse(Message):
    """Says for each partition whether the change was recorded."""

    class DirectoryData(Struct):
        """A log directory and the replicas in it."""

        id: Uuid = ZERO_UUID
        topics: list["AssignReplicasToDirsResponse.TopicData"] = []

    class TopicData(Struct):
        """The results for one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["AssignReplicasToDirsResponse.PartitionData"] = []

    class PartitionData(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    directories: list[DirectoryData] = []
