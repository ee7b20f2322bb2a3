"""Creation of topics that nobody has created by hand: by a client's first use, and for the coordinators.

The controller creates such a topic. The broker sends it a CreateTopics request, at most one at a time for
each name, and does not wait for the answer: a client is told UNKNOWN_TOPIC_OR_PARTITION, asks again and then
finds the topic. A request for a client is sent with the client's principal, so that the controller can
authorize it; a request for a coordinator is the broker's own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from broker.controller_channel.forwarding import ControllerChannel
from broker.metadata.cache import MetadataCache
from config.broker_config import BrokerConfig
from controller.metadata.topic_names import name_fault
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.peer_channel import PeerError
from protocol.registry import ApiKey
from protocol.serving.request_context import RequestContext

LOG: Final = logging.getLogger("barnabas.topics")

GROUP_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_TOPIC: Final = "__share_group_state"

IN_FLIGHT_MAX: Final = 10_000
"""Names that may be on their way to the controller together; others must ask again later."""

CREATED_AT_ONCE_MAX: Final = 500
"""Names of one request that are asked for together; who named more asks again, as clients do anyway."""

NAMES_IN_LINE: Final = 5
"""The number of topic names in a line of the log."""

CONTROLLER_DECIDES: Final = -1
"""The partition count or replication factor that stands for the controller's own default."""

_CREATE_TOPICS_VERSION: Final = 7

Creatable = CreateTopicsRequest.CreatableTopic
TopicSetting = CreateTopicsRequest.CreatableTopicConfig


class TopicCreation:
    """Asks the controller for topics. `config` is what the broker was told at its start."""

    def __init__(self, *, channel: ControllerChannel, metadata: MetadataCache, config: BrokerConfig) -> None:
        self._channel = channel
        self._metadata = metadata
        self._config = config
        self._in_flight: dict[str, None] = {}

    def ensure(self, topic: str) -> bool:
        """Whether a coordinator's topic is there; if not, it is on its way when this returns."""
        if self._metadata.topic(topic) is not None:
            return True
        if topic not in self._in_flight:
            request = self._request([topic])

            def answered(response: Message | PeerError) -> None:
                self._answered([topic], response)

            self._channel.send(request, answered)
        return False

    def create_for(self, context: RequestContext, topics: Iterable[str]) -> Iterator[tuple[str, ErrorCode]]:
        """Create topics in a client's name; what to tell the client meanwhile, per topic.

        That is INVALID_TOPIC_EXCEPTION for a name that no topic can have, otherwise
        UNKNOWN_TOPIC_OR_PARTITION, after which clients ask again. The controller is asked when the last one
        has been told.
        """
        wanted: list[str] = []
        for topic in topics:
            if name_fault(topic) is not None:
                yield topic, ErrorCode.INVALID_TOPIC_EXCEPTION
                continue
            yield topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic not in self._in_flight and len(wanted) < CREATED_AT_ONCE_MAX:
                wanted.append(topic)
        wanted = [topic for topic in wanted if topic not in self._in_flight]
        del wanted[max(0, IN_FLIGHT_MAX - len(self._in_flight)) :]
        if wanted:
            self._forward(context, wanted)

    def _forward(self, context: RequestContext, topics: list[str]) -> None:
        request = self._request(topics)
        in_his_name = RequestContext(
            ApiKey.CREATE_TOPICS,
            _CREATE_TOPICS_VERSION,
            context.correlation_id,
            context.client_id,
            context.session,
            context.now_ms,
            context.authorizer,
        )
        pending = self._channel.forward(request, in_his_name, _no_answer)
        pending.on_complete(lambda response: self._answered(topics, response))

    def _request(self, topics: list[str]) -> CreateTopicsRequest:
        for topic in topics:
            self._in_flight[topic] = None
        return CreateTopicsRequest(
            topics=[creatable_topic(topic, self._config) for topic in topics],
            timeout_ms=self._config.integer("request.timeout.ms"),
        )

    def _answered(self, topics: list[str], response: Message | PeerError) -> None:
        for topic in topics:
            self._in_flight.pop(topic, None)
        if not isinstance(response, CreateTopicsResponse):
            more = len(topics) - NAMES_IN_LINE
            named = ", ".join(topics[:NAMES_IN_LINE]) + (f" and {more} more" if more > 0 else "")
            LOG.warning("Topics %s could not be created: the controller was not reached", named)
            return
        for result in response.topics:
            if result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                continue
            LOG.warning(
                "Topic %s could not be created on first use: %s %s",
                result.name,
                ErrorCode.of(result.error_code).name,
                result.error_message or "",
            )


def _no_answer(request: CreateTopicsRequest, error: ErrorCode) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(
                topic.name, error_code=error, error_message=error.message
            )
            for topic in request.topics
        ]
    )


def creatable_topic(topic: str, config: BrokerConfig) -> CreateTopicsRequest.CreatableTopic:
    """What a topic is created with when nobody says it.

    Clients' topics get this broker's `num.partitions` and `default.replication.factor` only where they are
    set, and otherwise the controller's; the coordinators' topics have configs of their own.
    """
    if topic == GROUP_TOPIC:
        return _internal(
            topic,
            config.integer("offsets.topic.num.partitions"),
            config.integer("offsets.topic.replication.factor"),
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(config.integer("offsets.topic.segment.bytes"))),
        )
    if topic == TRANSACTION_TOPIC:
        return _internal(
            topic,
            config.integer("transaction.state.log.num.partitions"),
            config.integer("transaction.state.log.replication.factor"),
            ("unclean.leader.election.enable", "false"),
            ("compression.type", "uncompressed"),
            ("cleanup.policy", "compact"),
            ("min.insync.replicas", str(config.integer("transaction.state.log.min.isr"))),
            ("segment.bytes", str(config.integer("transaction.state.log.segment.bytes"))),
        )
    if topic == SHARE_TOPIC:
        return _internal(
            topic,
            config.integer("share.coordinator.state.topic.num.partitions"),
            config.integer("share.coordinator.state.topic.replication.factor"),
            ("cleanup.policy", "delete"),
            ("compression.type", "producer"),
            ("min.insync.replicas", str(config.integer("share.coordinator.state.topic.min.isr"))),
            ("segment.bytes", str(config.integer("share.coordinator.state.topic.segment.bytes"))),
            ("retention.ms", "-1"),
        )
    return Creatable(topic, _if_set(config, "num.partitions"), _if_set(config, "default.replication.factor"))


def _internal(
    topic: str, partitions: int, replication_factor: int, *settings: tuple[str, str]
) -> CreateTopicsRequest.CreatableTopic:
    configs = [TopicSetting(name, value) for name, value in settings]
    return Creatable(topic, partitions, replication_factor, [], configs)


def _if_set(config: BrokerConfig, name: str) -> int:
    return config.integer(name) if config.is_set(name) else CONTROLLER_DECIDES
