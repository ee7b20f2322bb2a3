"""CreateTopics (API key 19): create topics."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, request, response
from protocol.primitives import Uuid, i8, i16, i32
from protocol.values import ZERO_UUID


@request(key=19, versions="2-7", flexible="5+", listeners="broker controller")
class CreateTopicsRequest(Message):
    """Create topics."""

    class CreatableTopic(Struct):
        name: str = ""
        num_partitions: i32 = 0
        replication_factor: i16 = 0
        assignments: list["CreateTopicsRequest.CreatableReplicaAssignment"] = []
        configs: list["CreateTopicsRequest.CreatableTopicConfig"] = []

    class CreatableReplicaAssignment(Struct):
        partition_index: i32 = 0
        broker_ids: list[i32] = []

    class CreatableTopicConfig(Struct):
        name: str = ""
        value: str | None = ""

    topics: list[CreatableTopic] = []
    timeout_ms: i32 = 60000
    validate_only: bool = False


@response(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(Message):
    """Answer: create topics."""

    class CreatableTopicResult(Struct):
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
        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: i8 = -1
        is_sensitive: bool = False

    throttle_time_ms: i32 = 0
    topics: list[CreatableTopicResult] = []
