"""What Streams clients of a classic group tell their leader: a blob inside JoinGroup."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Until, data
from protocol.primitives import Uuid, i8, i32, i64
from protocol.values import ZERO_UUID


@data(versions="1-11", flexible="none")
class SubscriptionInfoData(Message):
    """Holds what a Streams client of the classic protocol tells its group's leader."""

    class TaskId(Struct):
        """A task: its subtopology and partition."""

        topic_group_id: i32 = 0
        partition: i32 = 0

    class TaskOffsetSum(Struct):
        """Says how far a task's state stores have come."""

        topic_group_id: i32 = 0
        partition: Annotated[i32, Since(10)] = 0
        offset_sum: Annotated[i64, Since(10)] = 0
        named_topology: Annotated[str | None, Since(10), Ignorable] = ""
        partition_to_offset_sum: Annotated[list["SubscriptionInfoData.PartitionToOffsetSum"], Until(9)] = []

    class PartitionToOffsetSum(Struct):
        """A partition of the task, and the sum of its offsets."""

        partition: i32 = 0
        offset_sum: i64 = 0

    class ClientTag(Struct):
        """A tag of the client, for rack awareness (KIP-708)."""

        key: bytes = b""
        value: bytes = b""

    version: i32 = 0
    latest_supported_version: Annotated[i32, Since(3)] = -1
    process_id: Uuid = ZERO_UUID
    prev_tasks: Annotated[list[TaskId], Until(6)] = []
    standby_tasks: Annotated[list[TaskId], Until(6)] = []
    user_end_point: Annotated[bytes, Since(2)] = b""
    task_offset_sums: Annotated[list[TaskOffsetSum], Since(7)] = []
    unique_field: Annotated[i8, Since(8)] = 0
    error_code: Annotated[i32, Since(9)] = 0
    client_tags: Annotated[list[ClientTag], Since(11)] = []
