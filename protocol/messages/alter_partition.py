"""AlterPartition, API key 56. It is sent by the leaders of partitions."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, Until, request, response
from protocol.primitives import Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=56, versions="2-3", flexible="0+", listeners="controller")
class AlterPartitionRequest(Message):
    """Asks the controller to change the in-sync replicas of partitions, for the leader that sends it
    (KIP-497).

    From version 3 on it names the broker epoch of each replica (KIP-903).
    """

    class TopicData(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["AlterPartitionRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Names the in-sync replicas that the leader wants one partition to have."""

        partition_index: i32 = 0
        leader_epoch: i32 = 0
        new_isr: Annotated[list[i32], Until(2)] = []
        new_isr_with_epochs: Annotated[list["AlterPartitionRequest.BrokerState"], Since(3)] = []
        leader_recovery_state: i8 = 0
        """1 while the leader recovers from an unclean election (KIP-704), else 0."""
        partition_epoch: i32 = 0

    class BrokerState(Struct):
        """Names an in-sync replica, and the epoch in which its broker is registered."""

        broker_id: i32 = 0
        broker_epoch: i64 = -1

    broker_id: i32 = 0
    broker_epoch: i64 = -1
    topics: list[TopicData] = []


@response(key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse(Message):
    """Tells the leader the state that the controller has recorded for each partition."""

    class TopicData(Struct):
        """Holds the results for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["AlterPartitionResponse.PartitionData"] = []

    class PartitionData(Struct):
        """Tells the leader, ISR and epochs that the controller has recorded for one partition, or an
        error."""

        partition_index: i32 = 0
        error_code: i16 = 0
        leader_id: i32 = 0
        leader_epoch: i32 = 0
        isr: list[i32] = []
        leader_recovery_state: i8 = 0
        partition_epoch: i32 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    topics: list[TopicData] = []
