"""The authorizer that is used while no access control is configured: everything is permitted, as in Kafka
without an authorizer."""

from __future__ import annotations

from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.session import Session


class AllowAll:
    """The authorizer that permits every operation."""

    def authorize(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
        return True
