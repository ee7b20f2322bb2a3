"""DescribeCluster, API key 60. Asked by: client/admin."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=60, versions="0-2", flexible="0+", listeners="broker controller")
class DescribeClusterRequest(Message):
    """The cluster's brokers, from version 1 alternatively its controllers (KIP-919).

    From version 2 with fenced brokers.
    """

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[i8, Since(1)] = 1
    include_fenced_brokers: Annotated[bool, Since(2)] = False


@response(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    """Cluster id, controller and nodes."""

    class DescribeClusterBroker(Struct):
        """A node of the cluster."""

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
