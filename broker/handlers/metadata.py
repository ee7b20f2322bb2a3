"""Metadata (3): brokers, topics, partitions and who leads them. KIP-4, KIP-430, KIP-516, KIP-526.

Versions 0-13.

* 0: an empty list means all topics; replicas that cannot be reached are left out and their absence is an
  error;
* 1: null means all and an empty list none; controller id, racks, internal topics; 2: cluster id; 3:
  throttle time;
* 4: the client may forbid auto-creation; 5: offline replicas; 6: a leader without this listener is
  LISTENER_NOT_FOUND;
* 7: leader epochs; 8: what the client may do; 9: flexible; 10: topic ids in the answer; 11: no operations
  on the cluster any more; 12: topics asked for by id; 13: a top-level error code, never used here.

Topics need DESCRIBE: what a client may not see is left out of "all" and is TOPIC_AUTHORIZATION_FAILED by
name, whether it exists or not; by id the id comes back, which is no secret. A topic that does not exist is
created on first use if `auto.create.topics.enable` is on, the request allows it and the client may CREATE
(the cluster or that topic); the answer is UNKNOWN_TOPIC_OR_PARTITION even then, and the client asks again.

The controller id is any broker that lives, since each forwards to the controller. Topics' parts of the
answer are kept in the metadata cache per listener, so an answer for all topics is a list of objects that
are there already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.metadata_cache import INTERNAL_TOPICS, with_operations, wording_of
from controller.image.topics import TopicImage
from controller.subjects.topic_names import name_fault
from protocol.authorized_operations import NOT_ASKED, authorized_operations, cluster_operations
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.registry import ApiKey
from protocol.serving import Operation, RequestContext, ResourceType, serves
from protocol.values import ZERO_UUID

if TYPE_CHECKING:
    from broker.services import BrokerServices

FIRST_VERSION_WITH_OPERATIONS: Final = 8
LAST_VERSION_WITH_CLUSTER_OPERATIONS: Final = 10
FIRST_VERSION_BY_ID: Final = 12

TopicPart = MetadataResponse.MetadataResponseTopic

_TOPIC: Final = ResourceType.TOPIC


@serves(ApiKey.METADATA)
def handle(services: BrokerServices, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    version = context.version
    asked = request.topics
    metadata = services.metadata
    if asked is None or (version == 0 and not asked):
        topics = _all_topics(services, context)
    elif not asked:
        topics = []
    elif version < FIRST_VERSION_BY_ID and _asks_by_id(asked):
        topics = [TopicPart(ErrorCode.INVALID_REQUEST, entry.name or "") for entry in asked]
    elif version >= FIRST_VERSION_BY_ID and any(entry.topic_id != ZERO_UUID for entry in asked):
        topics = _topics_by_id(services, context, asked)
    else:
        topics = _topics_by_name(services, context, request, asked)
    if request.include_topic_authorized_operations and version >= FIRST_VERSION_WITH_OPERATIONS:
        topics = [_with_operations(context, part) for part in topics]
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations and (
        FIRST_VERSION_WITH_OPERATIONS <= version <= LAST_VERSION_WITH_CLUSTER_OPERATIONS
    ):
        operations = cluster_operations(context)
    return MetadataResponse(
        0,
        metadata.view(context.session.listener).broker_parts,
        services.cluster_id,
        metadata.any_broker_id(),
        topics,
        operations,
    )


def _asks_by_id(asked: list[MetadataRequest.MetadataRequestTopic]) -> bool:
    return any(entry.name is None or entry.topic_id != ZERO_UUID for entry in asked)


def _all_topics(
    services: BrokerServices, context: RequestContext
) -> list[MetadataResponse.MetadataResponseTopic]:
    """Every topic that the client may see."""
    view = services.metadata.view(context.session.listener)
    wording = wording_of(context.version)
    allows = context.allows
    return [
        view.topic(image, wording)
        for image in services.metadata.image.topics.by_name.values()
        if allows(Operation.DESCRIBE, _TOPIC, image.name)
    ]


def _topics_by_id(
    services: BrokerServices,
    context: RequestContext,
    asked: list[MetadataRequest.MetadataRequestTopic],
) -> list[MetadataResponse.MetadataResponseTopic]:
    """Topics by their ids; entries without one are passed over, as Kafka does."""
    view = services.metadata.view(context.session.listener)
    wording = wording_of(context.version)
    by_id = services.metadata.image.topics.by_id
    parts = []
    for topic_id in dict.fromkeys(entry.topic_id for entry in asked):
        if topic_id == ZERO_UUID:
            continue
        image = by_id.get(topic_id)
        if image is None:
            parts.append(TopicPart(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif context.allows(Operation.DESCRIBE, _TOPIC, image.name):
            parts.append(view.topic(image, wording))
        else:
            parts.append(TopicPart(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id))
    return parts


def _topics_by_name(
    services: BrokerServices,
    context: RequestContext,
    request: MetadataRequest,
    asked: list[MetadataRequest.MetadataRequestTopic],
) -> list[MetadataResponse.MetadataResponseTopic]:
    view = services.metadata.view(context.session.listener)
    wording = wording_of(context.version)
    by_name = services.metadata.image.topics.by_name
    creates = request.allow_auto_topic_creation and services.config.flag("auto.create.topics.enable")
    parts = []
    missing: list[str] = []
    for name in dict.fromkeys(entry.name or "" for entry in asked):
        image: TopicImage | None = by_name.get(name)
        if not context.allows(Operation.DESCRIBE, _TOPIC, name):
            parts.append(TopicPart(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
        elif image is not None:
            parts.append(view.topic(image, wording))
        elif not creates:
            parts.append(_unknown(name))
        elif context.allows_cluster(Operation.CREATE) or context.allows(Operation.CREATE, _TOPIC, name):
            missing.append(name)
        else:
            parts.append(
                TopicPart(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, is_internal=name in INTERNAL_TOPICS)
            )
    if missing:
        for name, error in services.topics.create_for(context, missing):
            parts.append(TopicPart(error, name, is_internal=name in INTERNAL_TOPICS))
    return parts


def _unknown(name: str) -> MetadataResponse.MetadataResponseTopic:
    """A topic that is not there and is not going to be."""
    error = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name_fault(name) is None
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return TopicPart(error, name, is_internal=name in INTERNAL_TOPICS)


def _with_operations(
    context: RequestContext, part: MetadataResponse.MetadataResponseTopic
) -> MetadataResponse.MetadataResponseTopic:
    """What the client may do with a topic that it may see."""
    if (
        part.error_code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)
        or part.name is None
    ):
        return part
    return with_operations(part, authorized_operations(context, _TOPIC, part.name))
