"""All that a handler may know of a request, besides the request itself."""

from __future__ import annotations

import msgspec

from protocol.serving.authorization import CLUSTER_NAME, Authorizer, Operation, ResourceType
from protocol.serving.session import Session


class RequestContext(msgspec.Struct, gc=False):
    """Made by dispatch for each request, from its header and its connection.

    client_id: "" if the client has sent null. session: that of the connection by which the request came; for
    a request in an Envelope, that of the client that the forwarding broker names. now_ms: the wall clock at
    the beginning of the turn of the loop, at most a millisecond old. frame_size_bytes: the size of the
    request without the four bytes that hold the size, for quotas. frame: header and body as they were
    received, for the APIs that are only passed on (`protocol.serving.handler_table.ServedApi`); otherwise
    empty.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    session: Session
    now_ms: int
    authorizer: Authorizer
    frame_size_bytes: int = 0
    frame: bytes = b""

    def allows(self, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Whether the client may do this. It is asked for each resource, as in Kafka."""
        return self.authorizer.authorize(self, operation, resource, name)

    def allows_cluster(self, operation: Operation) -> bool:
        return self.authorizer.authorize(self, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_see(self, operation: Operation, resource: ResourceType, name: str) -> bool:
        """The same, where the client has not asked for this resource, and is shown what it may do or see.
        What it may not is left out, and is no attempt that is worth a line in the log."""
        return self.authorizer.authorize(self, operation, resource, name, False)

    def may_see_cluster(self, operation: Operation) -> bool:
        """`may_see` for the cluster."""
        return self.may_see(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_any(self, operation: Operation, resource: ResourceType) -> bool:
        """Whether there may be any resource of this type with which the client may do this."""
        return self.authorizer.authorize_any(self, operation, resource)
