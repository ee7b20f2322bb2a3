"""Changes of configs on their way through a broker: what it answers itself, what it passes on, and the one
answer that its client gets."""

from __future__ import annotations

import pytest

from broker.handlers import alter_configs, incremental_alter_configs, list_config_resources
from config.broker_config import BrokerConfig
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsResponse
from protocol.messages.envelope import EnvelopeResponse
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.metadata_log.cluster import ConfigRecord
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from tests.support.questions.config_steps import BROKER, GROUP, LOGGER, TOPIC, change, put, replace
from tests.support.rigs.controllers import one_node_config
from tests.support.rigs.handler_rig import HandlerRig, now

KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS


@pytest.fixture
def rig() -> HandlerRig:
    return HandlerRig()


def ask(rig: HandlerRig, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    context = rig.context(KEY, 1)
    answer = incremental_alter_configs.handle(rig.services, context, request)
    response = now(answer) if isinstance(answer, Pending) else answer
    assert isinstance(response, IncrementalAlterConfigsResponse)
    return response


def outcomes(response: IncrementalAlterConfigsResponse | AlterConfigsResponse) -> list[tuple[int, str, int]]:
    return [(each.resource_type, each.resource_name, each.error_code) for each in response.responses]


def test_what_concerns_this_broker_alone_never_reaches_the_controller(rig: HandlerRig) -> None:
    response = ask(
        rig,
        change(
            (LOGGER, "1", [put("barnabas", "DEBUG")]),
            (BROKER, "1", [put("num.partitions", "3")]),
            (GROUP, "g", [put("share.isolation.level", None)]),
        ),
    )
    assert rig.peer.requests == []
    assert outcomes(response) == [(LOGGER, "1", 0), (BROKER, "1", 42), (GROUP, "g", 42)]
    assert rig.services.loggers.levels()["barnabas"] == "DEBUG"


@pytest.mark.parametrize("name", [" 1", "1\n", "0_1", "\U0001d7cf", "4294967297"])
@pytest.mark.parametrize("kind", [BROKER, LOGGER])
def test_a_name_in_which_java_reads_no_number_is_no_node(rig: HandlerRig, kind: int, name: str) -> None:
    (outcome,) = ask(rig, change((kind, name, []))).responses
    assert outcome.error_code == ErrorCode.INVALID_REQUEST
    assert outcome.error_message == f"Node id must be an integer, but it is: {name}"
    assert rig.peer.requests == []


def test_levels_are_changed_all_or_none_and_not_only_to_see(rig: HandlerRig) -> None:
    bad = change((LOGGER, "1", [put("barnabas", "DEBUG"), put("nobody", "INFO")]))
    assert outcomes(ask(rig, bad)) == [(LOGGER, "1", ErrorCode.INVALID_CONFIG)]
    seen = change((LOGGER, "1", [put("barnabas", "DEBUG")]), validate_only=True)
    assert outcomes(ask(rig, seen)) == [(LOGGER, "1", 0)]
    assert rig.services.loggers.levels()["barnabas"] == "INFO"


def test_who_may_not_alter_the_cluster_alters_no_logger(rig: HandlerRig) -> None:
    rig.authorizer.denied.add((Operation.ALTER_CONFIGS, ResourceType.CLUSTER, None))
    response = ask(rig, change((LOGGER, "1", [put("barnabas", "DEBUG")])))
    assert outcomes(response) == [(LOGGER, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    assert rig.services.loggers.levels()["barnabas"] == "INFO"


@pytest.mark.parametrize("name", ["1", ""])
def test_who_may_not_alter_the_cluster_has_no_store_opened(rig: HandlerRig, name: str) -> None:
    """A store may be a pipe, and what is told of it says which files exist."""
    opened: list[BrokerConfig] = []
    rig.services.check_stores = opened.append
    rig.authorizer.denied.add((Operation.ALTER_CONFIGS, ResourceType.CLUSTER, None))
    key = "listener.name.ssl.ssl.keystore.location"
    response = ask(rig, change((BROKER, name, [put(key, "/dev/stdout")])))
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [each.error_message for each in response.responses] == [refused.message]
    assert outcomes(response) == [(BROKER, name, refused)]
    older = replace((BROKER, name, {key: "/dev/stdout"}))
    answer = alter_configs.handle(rig.services, rig.context(ApiKey.ALTER_CONFIGS, 2), older)
    assert isinstance(answer, AlterConfigsResponse)
    assert outcomes(answer) == [(BROKER, name, refused)]
    assert opened == []
    assert rig.peer.requests == []


def test_a_controller_that_cannot_be_asked_refuses_only_what_was_its_own(rig: HandlerRig) -> None:
    answers: list[Message] = [EnvelopeResponse(None, ErrorCode.UNKNOWN_SERVER_ERROR)]
    rig.peer.answer = lambda request: answers.pop()
    response = ask(
        rig, change((TOPIC, "t", [put("retention.ms", "5")]), (LOGGER, "1", [put("barnabas", "WARN")]))
    )
    assert outcomes(response) == [(TOPIC, "t", ErrorCode.UNKNOWN_SERVER_ERROR), (LOGGER, "1", 0)]
    assert len(rig.peer.requests) == 1


def test_the_older_request_knows_no_loggers_and_repeats_nothing(rig: HandlerRig) -> None:
    request = replace((LOGGER, "1", {"root": "INFO"}), (TOPIC, "t", {}), (TOPIC, "t", {"flush.ms": "1"}))
    answer = alter_configs.handle(rig.services, rig.context(ApiKey.ALTER_CONFIGS, 2), request)
    assert isinstance(answer, AlterConfigsResponse)
    assert [each.error_message for each in answer.responses] == [
        "Unknown resource type 8",
        "Each resource must appear at most once.",
        "Each resource must appear at most once.",
    ]


def test_settings_are_checked_against_what_is_set_already(rig: HandlerRig) -> None:
    rig.apply(ConfigRecord(BROKER, "1", "log.retention.bytes", "1000"))
    rig.services.config = one_node_config().with_dynamic({"log.retention.bytes": "1000"}, {})
    response = ask(rig, change((BROKER, "1", [put("log.local.retention.bytes", "2000")])))
    assert response.responses[0].error_message is not None
    assert "not be more than log.retention.bytes property value: 1000" in response.responses[0].error_message


def test_resources_are_listed_for_those_who_may_see_configs(rig: HandlerRig) -> None:
    rig.apply(ConfigRecord(GROUP, "g", "share.isolation.level", "read_committed"))
    context = rig.context(ApiKey.LIST_CONFIG_RESOURCES, 1)
    listed = list_config_resources.handle(rig.services, context, ListConfigResourcesRequest([GROUP, BROKER]))
    assert [(each.resource_type, each.resource_name) for each in listed.config_resources] == [
        (GROUP, "g"),
        (BROKER, "1"),
    ]
    rig.apply(ConfigRecord(GROUP, "g", "share.isolation.level", None))
    again = list_config_resources.handle(rig.services, context, ListConfigResourcesRequest([GROUP]))
    assert again.config_resources == []
    rig.authorizer.denied.add((Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, None))
    denied = list_config_resources.handle(rig.services, context, ListConfigResourcesRequest([]))
    assert (denied.error_code, denied.config_resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
