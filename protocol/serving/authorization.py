"""What a principal may do with a resource, in Kafka's codes, and who decides it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol

from protocol.serving.session import Session


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


class Authorizer(Protocol):
    """Decides on one operation; the default allows everything."""

    def authorize(
        self, session: Session, operation: Operation, resource: ResourceType, name: str
    ) -> bool: ...
