"""Which authorizer a listener has: the one that `authorizer.class.name` names, or none, and then everything
is permitted, as in Kafka."""

from __future__ import annotations

from collections.abc import Callable

from broker.security.standard_authorizer import StandardAuthorizer
from config.broker_config import BrokerConfig
from controller.metadata.image.acls import AclsImage
from protocol.serving.authorization import Authorizer, Operation, ResourceType
from protocol.serving.request_context import RequestContext


class AllowAll:
    """The authorizer that permits every operation."""

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        in_earnest: bool = True,
    ) -> bool:
        return True

    def authorize_any(self, context: RequestContext, operation: Operation, resource: ResourceType) -> bool:
        return True


def configured_authorizer(
    config: BrokerConfig, acls: Callable[[], AclsImage], is_loaded: Callable[[], bool]
) -> Authorizer:
    """The authorizer of one role of a node. acls, is_loaded: see `StandardAuthorizer`."""
    if not config.has_authorizer:
        return AllowAll()
    return StandardAuthorizer(
        acls,
        is_loaded,
        super_users=config.super_users,
        allows_everyone_without_acls=config.allows_everyone_without_acls,
    )
