"""ConsumerGroupHeartbeat (68), versions 0 and 1: the newer rebalance protocol (KIP-848), which is off.

Kafka answers UNSUPPORTED_VERSION to each heartbeat where ``group.version`` is 0, before it looks at who asks.
So do we, and it has a use: librdkafka with ``group.protocol=consumer`` that finds no such API asks for its
coordinator once a second for ever, and says nothing. With this answer it ends with a fatal error at once.
"""

from __future__ import annotations

from broker.coordinator.group_coordinator import GroupServices
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.serving.request_context import RequestContext


def handle(
    services: GroupServices, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
