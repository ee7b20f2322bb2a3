"""What consumers of a classic group tell one another: blobs inside JoinGroup and SyncGroup.

A blob starts with its version as int16.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, data
from protocol.primitives import i32


@data(versions="0-3", flexible="none")
class ConsumerProtocolSubscription(Message):
    """What a consumer tells its group's leader in JoinGroup.

    From 1 the partitions it owns (KIP-429), 2 their generation (KIP-792), 3 its rack (KIP-881).
    """

    class TopicPartition(Struct):
        """The partitions of one topic."""

        topic: str = ""
        partitions: list[i32] = []

    topics: list[str] = []
    user_data: bytes | None = None
    owned_partitions: Annotated[list[TopicPartition], Since(1), Ignorable] = []
    generation_id: Annotated[i32, Since(2), Ignorable] = -1
    rack_id: Annotated[str | None, Since(3), Ignorable] = None


@data(versions="0-3", flexible="none")
class ConsumerProtocolAssignment(Message):
    """The partitions that a group's leader gives to a consumer, carried by SyncGroup."""

    class TopicPartition(Struct):
        """The partitions of one topic."""

        topic: str = ""
        partitions: list[i32] = []

    assigned_partitions: list[TopicPartition] = []
    user_data: bytes | None = None
