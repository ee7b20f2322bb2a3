"""Who may do what, while no access control is configured: everybody everything, as in Kafka without an
authorizer."""

from __future__ import annotations

from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.session import Session


class AllowAll:
    """`protocol.serving.authorization.Authorizer` that never refuses."""

    def authorize(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
        return True
