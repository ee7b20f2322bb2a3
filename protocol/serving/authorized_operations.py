"""What a client may do with a resource, as the bit field that some answers carry (KIP-430).

Bit n stands for the operation with code n. Kafka tells only of the operations that make sense for a kind of
resource.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType
from protocol.serving.request_context import RequestContext

NOT_ASKED: Final = -(2**31)
"""The field's value in a response when the client did not ask for operations, or the version has no such
request field."""

OPERATIONS: Final = MappingProxyType(
    {
        ResourceType.TOPIC: (
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.CLUSTER: (
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        ),
    }
)


def authorized_operations(context: RequestContext, resource: ResourceType, name: str) -> int:
    """The bit field of the operations that the client may do on one resource."""
    bits = 0
    for operation in OPERATIONS[resource]:
        if context.may_see(operation, resource, name):
            bits |= 1 << operation
    return bits


def cluster_operations(context: RequestContext) -> int:
    """The bit field for the cluster; 0 for a client that may not even describe it."""
    if not context.allows_cluster(Operation.DESCRIBE):
        return 0
    return authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
