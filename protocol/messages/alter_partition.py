"""AlterPartition, API key 56. Asked by: broker (partition leader)."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, Until, request, response
from protocol.primitives import Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=56, versions="2-3", flexible="0+", listeners="controller")
class AlterPartitionRequest(Message):
    """A leader's wish for another set of in-sync replicas (KIP-497).

    From version 3 with the broker epoch of each replica (KIP-903).
    """

    class TopicData(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["AlterPartitionRequest.PartitionData"] = []

    class PartitionData(Struct):
        """The in-sync replicas that the leader asks for, for one partition."""

        partition_index: i32 = 0
        leader_epoch: i32 = 0
        new_isr: Annotated[list[i32], Until(2)] = []
        new_isr_with_epochs: Annotated[list["AlterPartitionRequest.BrokerState"], Since(3)] = []
        leader_recovery_state: i8 = 0
        """1 while the leader recovers from an unclean election (KIP-704), else 0."""
        partition_epoch: i32 = 0

    class BrokerState(Struct):
        """A replica with the epoch of its broker's incarnation."""

        broker_id: i32 = 0
        broker_epoch: i64 = -1

    broker_id: i32 = 0
    broker_epoch: i64 = -1
    topics: list[TopicData] = []


@response(key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse(Message):
    """The partitions as the controller now has them."""

    class TopicData(Struct):
        """The results for one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["AlterPartitionResponse.PartitionData"] = []

    class PartitionData(Struct):
        """One partition, as the controller now has it."""

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
