"""CreateTopics, API key 19. Asked by: admin; broker (auto-create).

Brokers forward it to the controller.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, request, response
from protocol.primitives import Uuid, i8, i16, i32
from protocol.values import ZERO_UUID


@request(key=19, versions="2-7", flexible="5+", listeners="broker controller")
class CreateTopicsRequest(Message):
    """Create topics, or only check whether they could be created.

    From version 4 the broker's defaults for partitions and replicas are -1 (KIP-464).
    """

    class CreatableTopic(Struct):
        """A topic to create."""

        name: str = ""
        num_partitions: i32 = 0
        replication_factor: i16 = 0
        assignments: list["CreateTopicsRequest.CreatableReplicaAssignment"] = []
        configs: list["CreateTopicsRequest.CreatableTopicConfig"] = []

    class CreatableReplicaAssignment(Struct):
        """The replicas of one partition, chosen by the caller."""

        partition_index: i32 = 0
        broker_ids: list[i32] = []

    class CreatableTopicConfig(Struct):
        """A config of the new topic."""

        name: str = ""
        value: str | None = ""

    topics: list[CreatableTopic] = []
    timeout_ms: i32 = 60000
    validate_only: bool = False


@response(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(Message):
    """Per topic, what was created.

    From version 5 with the configs (KIP-525), 7 with the topic id.
    """

    class CreatableTopicResult(Struct):
        """Says what became of one topic."""

        name: str = ""
        topic_id: Annotated[Uuid, Since(7), Ignorable] = ZERO_UUID
        error_code: i16 = 0
        error_message: str | None = ""
        topic_config_error_code: Annotated[i16, Tag(0, since=5), Ignorable] = 0
        num_partitions: Annotated[i32, Since(5), Ignorable] = -1
        replication_factor: Annotated[i16, Since(5), Ignorable] = -1
        configs: Annotated[
            list["CreateTopicsResponse.CreatableTopicConfigs"] | None, Since(5), Ignorable
        ] = []

    class CreatableTopicConfigs(Struct):
        """A config that the new topic has."""

        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: i8 = -1
        is_sensitive: bool = False

    throttle_time_ms: i32 = 0
    topics: list[CreatableTopicResult] = []
