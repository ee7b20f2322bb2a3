"""What a principal may do with a resource, in Kafka's codes, and who decides it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from protocol.serving.request_context import RequestContext


class Operation(IntEnum):
    """What a principal may do (the codes of Kafka's AclOperation)."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """The type of the resource with which it may do that (the codes of Kafka's resource types in ACLs)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME: Final = "kafka-cluster"


class AuthorizerNotReady(Exception):
    """Nothing can be decided yet, because the access control entries are not loaded. A client that cannot
    wait is told UNKNOWN_SERVER_ERROR, as by Kafka, and tries again."""


class Authorizer(Protocol):
    """Decides what the client of a request may do. It is asked through `RequestContext`."""

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        in_earnest: bool = True,
    ) -> bool:
        """Whether the client may do this. in_earnest: it has asked for just that, so a denial is worth a line
        in the log; otherwise it is only looked for what it may see. Raises AuthorizerNotReady."""
        ...

    def authorize_any(self, context: RequestContext, operation: Operation, resource: ResourceType) -> bool:
        """Whether there may be a resource of this type with which the client may do this (KIP-679). Raises
        AuthorizerNotReady."""
        ...
