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
from protocol.serving.session import Session


def _only_the_node_itself(
    _: AllowAll, session: Session, operation: Operation, resource: ResourceType, name: str
) -> bool:
    return operation == Operation.CLUSTER_ACTION and session.connection_id.startswith("in-process")


if __name__ == "__main__":
    AllowAll.authorize = _only_the_node_itself  # type: ignore[method-assign, assignment]
    sys.exit(main())
