"""CreateTopics (19): new topics, each with an answer of its own. KIP-4, KIP-464, KIP-516, KIP-525, KIP-599.

Versions 2-7. 5 tells partitions, replication factor and configs; 6 a quota's answer; 7 the topic id. Faults
of a topic come with the sentences that Kafka's tools show; validate_only decides the same and writes
nothing. The answer waits for the commit, not for the brokers.

Authorization: CREATE on the cluster, or on the topic; DESCRIBE_CONFIGS on the topic for its configs in the
answer. Left out: create.topic.policy.class.name, controller mutation quotas, and the request's timeout (a
controller that is slower than its client answers late).
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.registry import ApiKey
from protocol.serving import (
    LISTENER_CONTROLLER,
    Operation,
    Pending,
    RequestContext,
    ResourceType,
    serves,
)


@serves(ApiKey.CREATE_TOPICS, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: CreateTopicsRequest
) -> Pending[CreateTopicsResponse]:
    everywhere = context.allows_cluster(Operation.CREATE)
    return services.controller.create_topics(
        request,
        may_create=lambda name: everywhere or context.allows(Operation.CREATE, ResourceType.TOPIC, name),
        may_describe_configs=lambda name: context.allows(
            Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name
        ),
    )
