"""CreateTopics (19): new topics, each with an answer of its own. KIP-4, KIP-108, KIP-464, KIP-516, KIP-525,
KIP-599.

Versions 2-7. 5 tells partitions, replication factor and configs; 6 a quota's answer; 7 the topic id. Faults
of a topic come with the sentences that Kafka's tools show; validate_only decides the same and writes
nothing. The answer waits for the commit, not for the brokers. The operator's policies are asked last: that on
configs for a topic's own ones, then that on the topic. A request without any time is REQUEST_TIMED_OUT, and
nothing is done; later its time is not looked at, as in Kafka, where it bounds the wait for the controller's
turn alone.

Authorization: CREATE on the cluster, or on the topic; DESCRIBE_CONFIGS on the topic for its configs in the
answer. Since version 6 a quota of mutations refuses, before it throttles.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.policies import Judge
from controller.policies import decide_by_policies
from controller.services import ControllerServices
from controller.subjects.result import Decision, names_too_much
from controller.subjects.topics import CreationRules, create_topics
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.refusals import TOO_LARGE, create_topics_refused
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

STRICT_QUOTA_SINCE: Final = 6


def handle(
    services: ControllerServices, context: RequestContext, request: CreateTopicsRequest
) -> Pending[CreateTopicsResponse] | CreateTopicsResponse:
    if request.timeout_ms <= 0:
        return create_topics_refused(request, ErrorCode.REQUEST_TIMED_OUT, None)
    if names_too_much(request):
        return create_topics_refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    controller, clock = services.controller, services.clock
    quota = services.mutation_quota(context, STRICT_QUOTA_SINCE)
    everywhere = context.may_see_cluster(Operation.CREATE)

    def decide(image: ClusterImage, judge: Judge) -> Decision[CreateTopicsResponse]:
        quota.begin(clock.monotonic_ms())
        in_force = controller.rules.in_force(image.configs)
        rules = CreationRules(
            default_partitions=in_force.integer("num.partitions"),
            default_replication_factor=in_force.integer("default.replication.factor"),
            configs=controller.rules,
            may_create=lambda name: everywhere or context.allows(Operation.CREATE, ResourceType.TOPIC, name),
            may_describe_configs=lambda name: context.may_see(
                Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name
            ),
            judge=judge,
            quota=quota,
        )
        return create_topics(image, request, rules, controller.random_source)

    def throttled(response: CreateTopicsResponse) -> CreateTopicsResponse:
        response.throttle_time_ms = quota.throttle_ms(clock.monotonic_ms())
        return response

    return decide_by_policies(
        controller,
        services.policies,
        decide,
        lambda error: create_topics_refused(request, error, error.message),
    ).then(throttled)
