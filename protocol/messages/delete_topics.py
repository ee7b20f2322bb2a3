"""DeleteTopics, API key 20. Asked by: admin.

Brokers forward it to the controller.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, NullableSince, Since, Struct, Until, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=20, versions="1-6", flexible="4+", listeners="broker controller")
class DeleteTopicsRequest(Message):
    """Delete topics by name, from version 6 also by id."""

    class DeleteTopicState(Struct):
        """A topic to delete, by name or id."""

        name: str | None = None
        topic_id: Uuid = ZERO_UUID

    topics: Annotated[list[DeleteTopicState], Since(6)] = []
    topic_names: Annotated[list[str], Until(5), Ignorable] = []
    timeout_ms: i32 = 0


@response(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse(Message):
    """Says for each topic whether it is being deleted."""

    class DeletableTopicResult(Struct):
        """Says whether one topic is being deleted."""

        name: Annotated[str | None, NullableSince(6)] = ""
        topic_id: Annotated[Uuid, Since(6), Ignorable] = ZERO_UUID
        error_code: i16 = 0
        error_message: Annotated[str | None, Since(5), Ignorable] = None

    throttle_time_ms: i32 = 0
    responses: list[DeletableTopicResult] = []
