"""DescribeCluster, API key 60. It is sent by admin clients and other clients."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=60, versions="0-2", flexible="0+", listeners="broker controller")
class DescribeClusterRequest(Message):
    """Asks for the brokers of the cluster, or from version 1 on for its controllers (KIP-919).

    From version 2 on it can ask for fenced brokers as well.
    """

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[i8, Since(1)] = 1
    include_fenced_brokers: Annotated[bool, Since(2)] = False


@response(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    """Tells the id of the cluster, its controller and its nodes."""

    class DescribeClusterBroker(Struct):
        """Describes one node of the cluster."""

        broker_id: i32 = 0
        host: str = ""
        port: i32 = 0
        rack: str | None = None
        is_fenced: Annotated[bool, Since(2)] = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[i8, Since(1)] = 1
    cluster_id: str = ""
    controller_id: i32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: i32 = -2147483648
