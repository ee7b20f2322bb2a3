"""Classic groups in `__consumer_offsets`."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, coordinator_key, coordinator_value
from protocol.primitives import i32, i64


@coordinator_key(key=2, versions="0", flexible="none")
class GroupMetadataKey(Message):
    """Says which classic group the record belongs to."""

    group: str = ""


@coordinator_value(key=2, versions="0-4", flexible="4+")
class GroupMetadataValue(Message):
    """A classic group's generation with its members, subscriptions and assignments."""

    class MemberMetadata(Struct):
        """One member of the group."""

        member_id: str = ""
        group_instance_id: Annotated[str | None, Since(3), Ignorable] = None
        client_id: str = ""
        client_host: str = ""
        rebalance_timeout: Annotated[i32, Since(1), Ignorable] = -1
        session_timeout: i32 = 0
        subscription: bytes = b""
        assignment: bytes = b""

    protocol_type: str = ""
    generation: i32 = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: Annotated[i64, Since(2), Ignorable] = -1
    members: list[MemberMetadata] = []
