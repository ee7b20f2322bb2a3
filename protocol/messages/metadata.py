"""Metadata, API key 3. It is sent by all clients."""

from typing import Annotated

from protocol.codec.message import (
    Between,
    Ignorable,
    Message,
    NullableSince,
    Since,
    Struct,
    request,
    response,
)
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=3, versions="0-13", flexible="9+", listeners="broker")
class MetadataRequest(Message):
    """Asks for the brokers of the cluster, and for the partitions of some or all topics.

    An empty list of topics means all topics in version 0; from version 1 on null does. From version 4 on it
    says whether missing topics may be created, and from version 12 on it can name topics by their ids.
    """

    class MetadataRequestTopic(Struct):
        """Names a topic by its name, or from version 10 on by its id."""

        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        name: Annotated[str | None, NullableSince(10)] = ""

    topics: Annotated[list[MetadataRequestTopic] | None, NullableSince(1)] = []
    allow_auto_topic_creation: Annotated[bool, Since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, Between(8, 10)] = False
    include_topic_authorized_operations: Annotated[bool, Since(8)] = False


@response(key=3, versions="0-13", flexible="9+")
class MetadataResponse(Message):
    """Tells the brokers, the controller, and the leader and replicas of each partition.

    The versions have added: 5 offline replicas, 7 leader epochs, 8 authorized operations, 10 topic ids, 13 an
    error for the whole response (KIP-1102).
    """

    class MetadataResponseBroker(Struct):
        """Names a broker, and its address on the listener of the connection."""

        node_id: i32 = 0
        host: str = ""
        port: i32 = 0
        rack: Annotated[str | None, Since(1), Ignorable] = None

    class MetadataResponseTopic(Struct):
        """Describes one topic, or says why it cannot be described."""

        error_code: i16 = 0
        name: Annotated[str | None, NullableSince(12)] = ""
        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        is_internal: Annotated[bool, Since(1), Ignorable] = False
        partitions: list["MetadataResponse.MetadataResponsePartition"] = []
        topic_authorized_operations: Annotated[i32, Since(8)] = -2147483648

    class MetadataResponsePartition(Struct):
        """Describes one partition: its leader, its replicas and its ISR."""

        error_code: i16 = 0
        partition_index: i32 = 0
        leader_id: i32 = 0
        leader_epoch: Annotated[i32, Since(7), Ignorable] = -1
        replica_nodes: list[i32] = []
        isr_nodes: list[i32] = []
        offline_replicas: Annotated[list[i32], Since(5), Ignorable] = []

    throttle_time_ms: Annotated[i32, Since(3), Ignorable] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[str | None, Since(2), Ignorable] = None
    controller_id: Annotated[i32, Since(1), Ignorable] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[i32, Between(8, 10)] = -2147483648
    error_code: Annotated[i16, Since(13), Ignorable] = 0
