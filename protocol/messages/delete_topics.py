"""DeleteTopics, API key 20. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, NullableSince, Since, Struct, Until, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=20, versions="1-6", flexible="4+", listeners="broker controller")
class DeleteTopicsRequest(Message):
    """Deletes topics by their names, and from version 6 on by their ids."""

    class DeleteTopicState(Struct):
        """Names a topic to delete, by its name or by its id."""

        name: str | None = None
        topic_id: Uuid = ZERO_UUID

    topics: Annotated[list[DeleteTopicState], Since(6)] = []
    topic_names: Annotated[list[str], Until(5), Ignorable] = []
    timeout_ms: i32 = 0


@response(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse(Message):
    """Says for each topic whether it was deleted. Brokers remove its records afterwards."""

    class DeletableTopicResult(Struct):
        """Says whether one topic was deleted."""

        name: Annotated[str | None, NullableSince(6)] = ""
        topic_id: Annotated[Uuid, Since(6), Ignorable] = ZERO_UUID
        error_code: i16 = 0
        error_message: Annotated[str | None, Since(5), Ignorable] = None

    throttle_time_ms: i32 = 0
    responses: list[DeletableTopicResult] = []
