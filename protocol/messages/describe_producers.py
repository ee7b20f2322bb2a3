"""DescribeProducers, API key 61. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=61, versions="0", flexible="0+", listeners="broker")
class DescribeProducersRequest(Message):
    """Asks which producers are active on partitions (KIP-664)."""

    class TopicRequest(Struct):
        """Names partitions of one topic."""

        name: str = ""
        partition_indexes: list[i32] = []

    topics: list[TopicRequest] = []


@response(key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    """Lists the producers of each partition, with their sequences and open transactions."""

    class TopicResponse(Struct):
        """Holds the results for the partitions of one topic."""

        name: str = ""
        partitions: list["DescribeProducersResponse.PartitionResponse"] = []

    class PartitionResponse(Struct):
        """Lists the active producers of one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None
        active_producers: list["DescribeProducersResponse.ProducerState"] = []

    class ProducerState(Struct):
        """Describes the state that the partition keeps of one producer."""

        producer_id: i64 = 0
        producer_epoch: i32 = 0
        last_sequence: i32 = -1
        last_timestamp: i64 = -1
        coordinator_epoch: i32 = 0
        current_txn_start_offset: i64 = -1

    throttle_time_ms: i32 = 0
    topics: list[TopicResponse] = []
