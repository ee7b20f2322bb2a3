"""AssignReplicasToDirs, API key 73. It is sent by brokers."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=73, versions="0", flexible="0+", listeners="controller")
class AssignReplicasToDirsRequest(Message):
    """Tells the controller in which log directories the replicas of a broker lie (KIP-858)."""

    class DirectoryData(Struct):
        """Names a log directory and the replicas that lie in it."""

        id: Uuid = ZERO_UUID
        topics: list["AssignReplicasToDirsRequest.TopicData"] = []

    class TopicData(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["AssignReplicasToDirsRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Names a partition whose replica lies in the log directory."""

        partition_index: i32 = 0

    broker_id: i32 = 0
    broker_epoch: i64 = -1
    directories: list[DirectoryData] = []


@response(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse(Message):
    """Says for each replica whether the controller has recorded its log directory."""

    class DirectoryData(Struct):
        """Holds the results for the replicas of one log directory."""

        id: Uuid = ZERO_UUID
        topics: list["AssignReplicasToDirsResponse.TopicData"] = []

    class TopicData(Struct):
        """Holds the results for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["AssignReplicasToDirsResponse.PartitionData"] = []

    class PartitionData(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    directories: list[DirectoryData] = []
