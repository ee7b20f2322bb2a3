"""ConsumerGroupHeartbeat (68), versions 0 and 1: members of consumer groups join, stay and leave (KIP-848).

    0    the coordinator makes the member's id if it has none
    1    the client makes it (KIP-1082); subscriptions by regular expression

Needs READ on the group and DESCRIBE on each topic that is subscribed by name.

Kafka answers UNSUPPORTED_VERSION to each heartbeat where `group.version` is 0, or where
`group.coordinator.rebalance.protocols` leaves out `consumer`, before it looks at who asks. So do we, and it
has a use: librdkafka with `group.protocol=consumer` that finds no such API asks for its coordinator once a
second for ever, and says nothing. With this answer it ends with a fatal error at once.
"""

from __future__ import annotations

from typing import Final

from broker.services import BrokerServices
from controller.metadata.image.features import GROUP_VERSION
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

CONSUMER: Final = "consumer"


def serves_consumer_groups(services: BrokerServices) -> bool:
    level = services.metadata.image.features.levels.get(GROUP_VERSION, 0)
    return level >= 1 and CONSUMER in services.config.items("group.coordinator.rebalance.protocols")


@in_turns
def handle(
    services: BrokerServices, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Turns[ConsumerGroupHeartbeatResponse | Pending[ConsumerGroupHeartbeatResponse]]:
    if not serves_consumer_groups(services):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for name in request.subscribed_topic_names or ():
        if not context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield None
    return services.groups.consumer_heartbeat(request, context)
