"""Authorizers whose decisions a test makes by itself."""

from __future__ import annotations

from typing import Final

from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session

ANY_NAME: Final = "any name of all"
"""The name for which `authorize_any` asks a test's authorizer."""


class HandmadeAuthorizer:
    """An authorizer (`protocol.serving.authorization.Authorizer`) of which a test writes `permits`."""

    def permits(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
        raise NotImplementedError

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        *,
        in_earnest: bool = True,
    ) -> bool:
        return self.permits(context.session, operation, resource, name)

    def authorize_any(self, context: RequestContext, operation: Operation, resource: ResourceType) -> bool:
        return self.permits(context.session, operation, resource, ANY_NAME)
