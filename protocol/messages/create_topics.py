"""CreateTopics, API key 19. It is sent by admin clients, and by brokers that create topics automatically.

Brokers forward the request to the controller.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, request, response
from protocol.primitives import Uuid, i8, i16, i32
from protocol.values import ZERO_UUID


@request(key=19, versions="2-7", flexible="5+", listeners="broker controller")
class CreateTopicsRequest(Message):
    """Creates topics, or only checks whether they could be created.

    From version 4 on, -1 as the number of partitions or replicas means the broker's default (KIP-464).
    """

    class CreatableTopic(Struct):
        """Describes a topic that is to be created."""

        name: str = ""
        num_partitions: i32 = 0
        replication_factor: i16 = 0
        assignments: list["CreateTopicsRequest.CreatableReplicaAssignment"] = []
        configs: list["CreateTopicsRequest.CreatableTopicConfig"] = []

    class CreatableReplicaAssignment(Struct):
        """Names the replicas of one partition, if the client chooses them."""

        partition_index: i32 = 0
        broker_ids: list[i32] = []

    class CreatableTopicConfig(Struct):
        """Sets a config of the new topic."""

        name: str = ""
        value: str | None = ""

    topics: list[CreatableTopic] = []
    timeout_ms: i32 = 60000
    validate_only: bool = False


@response(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(Message):
    """Says for each topic whether it was created.

    From version 5 on it tells the partitions, the replicas and the configs of the topic (KIP-525), and from
    version 7 on its topic id.
    """

    class CreatableTopicResult(Struct):
        """Describes one topic that was created, or says why it was not."""

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
        """Holds a config that is in force for the new topic."""

        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: i8 = -1
        is_sensitive: bool = False

    throttle_time_ms: i32 = 0
    topics: list[CreatableTopicResult] = []
