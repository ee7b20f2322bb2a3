"""The broker's own command line with an authorizer that allows nothing.

Only the node itself may do what it needs, CLUSTER_ACTION from within: register, send heartbeats, follow the
metadata, pass requests on.

    python -m tests.support.brokers.denying_broker start …
"""

from __future__ import annotations

import sys

from broker.__main__ import main
from broker.security.authorizer import AllowAll
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext


def _only_the_node_itself(
    _: AllowAll,
    context: RequestContext,
    operation: Operation,
    resource: ResourceType,
    name: str,
    in_earnest: bool = True,
) -> bool:
    return operation == Operation.CLUSTER_ACTION and context.session.connection_id.startswith("in-process")


def _nowhere(_: AllowAll, context: RequestContext, operation: Operation, resource: ResourceType) -> bool:
    return False


if __name__ == "__main__":
    AllowAll.authorize = _only_the_node_itself  # type: ignore[method-assign, assignment]
    AllowAll.authorize_any = _nowhere  # type: ignore[method-assign, assignment]
    sys.exit(main())
