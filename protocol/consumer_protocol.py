"""Consumer protocol."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, data
from protocol.primitives import i32


@data(versions="0-3", flexible="none")
class ConsumerProtocolSubscription(Message):
    """ConsumerProtocolSubscription."""

    class TopicPartition(Struct):
        topic: str = ""
        partitions: list[i32] = []

    topics: list[str] = []
    user_data: bytes | None = None
    owned_partitions: Annotated[list[TopicPartition], Since(1), Ignorable] = []
    generation_id: Annotated[i32, Since(2), Ignorable] = -1
    rack_id: Annotated[str | None, Since(3), Ignorable] = None


@data(versions="0-3", flexible="none")
class ConsumerProtocolAssignment(Message):
    """ConsumerProtocolAssignment."""

    class TopicPartition(Struct):
        topic: str = ""
        partitions: list[i32] = []

    assigned_partitions: list[TopicPartition] = []
    user_data: bytes | None = None
