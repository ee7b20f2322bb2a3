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

10 and 11 have an id in the request too, and a name that may be null, but are not asked by id: who tries is
told INVALID_REQUEST for each topic, and nothing else.

Topics need DESCRIBE: what a client may not see is left out of "all" and is TOPIC_AUTHORIZATION_FAILED by
name, whether it exists or not; by id the id comes back, which is no secret. A topic that does not exist is
created on first use if `auto.create.topics.enable` is on, the request allows it and the client may CREATE
(the cluster or that topic); the answer is UNKNOWN_TOPIC_OR_PARTITION even then, and the client asks again.

The controller id is any broker that lives, since each forwards to the controller. Topics' parts of the
answer are kept in the metadata cache per listener, so an answer for all topics is a list of objects that
are there already.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple, Protocol

from broker.metadata.cache import INTERNAL_TOPICS, ListenerView, Wording, with_operations, wording_of
from broker.services import HasClusterId, HasConfig, HasMetadata, HasTopics
from controller.metadata.image.topics import TopicImage, TopicsImage
from controller.metadata.topic_names import name_fault
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.authorized_operations import NOT_ASKED, authorized_operations, cluster_operations
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns
from protocol.values import ZERO_UUID

FIRST_VERSION_WITH_OPERATIONS: Final = 8
LAST_VERSION_WITH_CLUSTER_OPERATIONS: Final = 10
FIRST_VERSION_WITH_IDS: Final = 10
FIRST_VERSION_BY_ID: Final = 12

FEW_TOPICS: Final = 10
"""The number of topics that are answered for in one go. Each may have thousands of partitions."""

TopicPart = MetadataResponse.MetadataResponseTopic
Parts = Iterator[MetadataResponse.MetadataResponseTopic | None]
"""Topics of the answer, and None where a turn may end without one."""

_TOPIC: Final = ResourceType.TOPIC


class MetadataServices(HasClusterId, HasConfig, HasMetadata, HasTopics, Protocol):
    """What this handler needs of the broker's services."""


class _Picture(NamedTuple):
    """The cluster as it was when the request began: the brokers and the topics of one answer belong
    together."""

    view: ListenerView
    topics: TopicsImage
    wording: Wording

    def of(self, image: TopicImage) -> MetadataResponse.MetadataResponseTopic:
        return self.view.topic(image, self.wording)


def is_plain(request: MetadataRequest, version: int) -> bool:
    """Whether a request asks for a few topics or none. One for all topics is the shortest of all."""
    topics = request.topics
    return topics is not None and len(topics) <= FEW_TOPICS and (version > 0 or bool(topics))


@in_turns
def handle(
    services: MetadataServices, context: RequestContext, request: MetadataRequest
) -> Turns[MetadataResponse]:
    version = context.version
    if FIRST_VERSION_WITH_IDS <= version < FIRST_VERSION_BY_ID and (yield from _lacks_a_name(request)):
        for entry in request.topics or ():
            yield TopicPart(ErrorCode.INVALID_REQUEST, entry.name or "", entry.topic_id)
        return MetadataResponse()
    metadata = services.metadata
    picture = _Picture(metadata.view(context.session.listener), metadata.image.topics, wording_of(version))
    parts = _topics(services, picture, context, request)
    if request.include_topic_authorized_operations and version >= FIRST_VERSION_WITH_OPERATIONS:
        for part in parts:
            yield None if part is None else _with_operations(context, part)
    else:
        yield from parts
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations and (
        FIRST_VERSION_WITH_OPERATIONS <= version <= LAST_VERSION_WITH_CLUSTER_OPERATIONS
    ):
        operations = cluster_operations(context)
    return MetadataResponse(
        0,
        picture.view.broker_parts,
        services.cluster_id,
        metadata.any_broker_id(),
        [],
        operations,
    )


def _lacks_a_name(request: MetadataRequest) -> Generator[None, None, bool]:
    """Whether a topic is asked for by its id, or by nothing."""
    found = False
    for entry in request.topics or ():
        found = found or entry.name is None or entry.topic_id != ZERO_UUID
        yield None
    return found


def _topics(
    services: MetadataServices, picture: _Picture, context: RequestContext, request: MetadataRequest
) -> Parts:
    version, asked = context.version, request.topics
    if asked is None or (version == 0 and not asked):
        yield from _all_topics(picture, context)
        return
    has_ids = False
    for entry in asked:
        has_ids = has_ids or entry.topic_id != ZERO_UUID
        yield None
    if has_ids:
        yield from _topics_by_id(picture, context, asked)
    else:
        yield from _topics_by_name(services, picture, context, request, asked)


def _all_topics(picture: _Picture, context: RequestContext) -> Parts:
    """Every topic that the client may see."""
    may_see = context.may_see
    for image in picture.topics.by_name.values():
        if may_see(Operation.DESCRIBE, _TOPIC, image.name):
            yield picture.of(image)


def _topics_by_id(
    picture: _Picture,
    context: RequestContext,
    asked: list[MetadataRequest.MetadataRequestTopic],
) -> Parts:
    """Topics by their ids; entries without one are passed over, as Kafka does."""
    by_id = picture.topics.by_id
    seen = {ZERO_UUID}
    for entry in asked:
        topic_id = entry.topic_id
        if topic_id in seen:
            yield None
            continue
        seen.add(topic_id)
        image = by_id.get(topic_id)
        if image is None:
            yield TopicPart(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        elif context.allows(Operation.DESCRIBE, _TOPIC, image.name):
            yield picture.of(image)
        else:
            yield TopicPart(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)


def _topics_by_name(
    services: MetadataServices,
    picture: _Picture,
    context: RequestContext,
    request: MetadataRequest,
    asked: list[MetadataRequest.MetadataRequestTopic],
) -> Parts:
    by_name = picture.topics.by_name
    creates = request.allow_auto_topic_creation and services.config.flag("auto.create.topics.enable")
    missing: list[str] = []
    seen: set[str] = set()
    for entry in asked:
        name = entry.name or ""
        if name in seen:
            yield None
            continue
        seen.add(name)
        image: TopicImage | None = by_name.get(name)
        if not context.allows(Operation.DESCRIBE, _TOPIC, name):
            yield TopicPart(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
        elif image is not None:
            yield picture.of(image)
        elif not creates:
            yield _unknown(name)
        elif _may_create(context, name):
            missing.append(name)
            yield None
        else:
            yield TopicPart(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, is_internal=name in INTERNAL_TOPICS)
    if missing:
        for name, error in services.topics.create_for(context, missing):
            yield TopicPart(error, name, is_internal=name in INTERNAL_TOPICS)


def _may_create(context: RequestContext, name: str) -> bool:
    return context.may_see_cluster(Operation.CREATE) or context.allows(Operation.CREATE, _TOPIC, name)


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
