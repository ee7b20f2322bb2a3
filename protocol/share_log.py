"""The keys and values of the records of `__share_group_state`: the state of share partitions (KIP-932)."""

from typing import Annotated

from protocol.codec.message import Message, Struct, Tag, coordinator_key, coordinator_value
from protocol.primitives import Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@coordinator_key(key=0, versions="0", flexible="none")
class ShareSnapshotKey(Message):
    """Says which share partition (KIP-932) the record belongs to."""

    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: i32 = 0


@coordinator_value(key=0, versions="0", flexible="0+")
class ShareSnapshotValue(Message):
    """The whole state of a share partition: where it starts, and the batches in flight."""

    class StateBatch(Struct):
        """A range of offsets in one delivery state."""

        first_offset: i64 = 0
        last_offset: i64 = 0
        delivery_state: i8 = 0
        delivery_count: i16 = 0

    snapshot_epoch: i32 = 0
    state_epoch: i32 = 0
    leader_epoch: i32 = 0
    start_offset: i64 = 0
    delivery_complete_count: Annotated[i32, Tag(0)] = -1
    create_timestamp: i64 = 0
    write_timestamp: i64 = 0
    state_batches: list[StateBatch] = []


@coordinator_key(key=1, versions="0", flexible="none")
class ShareUpdateKey(Message):
    """Says which share partition the record belongs to."""

    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: i32 = 0


@coordinator_value(key=1, versions="0", flexible="0+")
class ShareUpdateValue(Message):
    """Holds what has changed in a share partition since its snapshot."""

    class StateBatch(Struct):
        """A range of offsets in one delivery state."""

        first_offset: i64 = 0
        last_offset: i64 = 0
        delivery_state: i8 = 0
        delivery_count: i16 = 0

    snapshot_epoch: i32 = 0
    leader_epoch: i32 = 0
    start_offset: i64 = 0
    delivery_complete_count: Annotated[i32, Tag(0)] = -1
    state_batches: list[StateBatch] = []
