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
        in_earnest: bool = True,
    ) -> bool:
        return self.permits(context.session, operation, resource, name)

    def authorize_any(self, context: RequestContext, operation: Operation, resource: ResourceType) -> bool:
        return self.permits(context.session, operation, resource, ANY_NAME)


class AskedAuthorizer:
    """Gives one answer to everything, and remembers what it was asked.

    questions: each once, as `READ TOPIC orders`, those about the cluster without its name; in parentheses
    what is asked without a line in the log if it is denied.
    """

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.questions: dict[str, None] = {}

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        in_earnest: bool = True,
    ) -> bool:
        of = "" if resource is ResourceType.CLUSTER else f" {resource.name} {name}"
        question = f"{operation.name}{of}"
        self.questions[question if in_earnest else f"({question})"] = None
        return self.answer

    def authorize_any(self, context: RequestContext, operation: Operation, resource: ResourceType) -> bool:
        self.questions[f"{operation.name} any {resource.name}"] = None
        return self.answer
