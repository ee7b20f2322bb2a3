"""Policies of an operator, as classes in a module of his own: what they see, what they forbid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import ROOT, BarnabasProcess
from tests.support.clients.wire_client import WireClient

pytestmark = barnabas_only

RULES = """
import json, os
import config  # his own, beside him; ours has no such name
from barnabas_policies import PolicyViolation


class Create:
    def configure(self, configs):
        self.seen = open(configs["seen.file"], "a", buffering=1)
        print("a policy may print", config.NAME)

    def validate(self, request):
        self.seen.write(json.dumps(vars(request)) + "\\n")
        if request.topic.startswith("deny"):
            raise PolicyViolation(f"no {request.topic} here")
        if request.topic == "bare":
            raise PolicyViolation
        if request.topic == "boom":
            raise KeyError("boom")
        if request.topic == "crash":
            os._exit(3)

    def close(self):
        self.seen.write("closed\\n")


class Alter:
    def validate(self, request):
        if request.configs.get("retention.ms") == "13":
            raise PolicyViolation(f"13 is unlucky for {request.resource_type} {request.resource_name}")
"""

NO_REPLICAS: Final[dict[str, Any]] = {"replicas_assignments": None}

Outcome = tuple[str, int, str | None]


class WithRules(BarnabasProcess):
    """A broker whose PYTHONPATH has a folder with the operator's modules."""

    def __init__(self, data: Path, folder: Path, overrides: dict[str, str]) -> None:
        super().__init__(data, overrides)
        self.folder = folder

    def _environment(self) -> dict[str, str]:
        return super()._environment() | {"PYTHONPATH": f"{ROOT}:{self.folder}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "rules.py").write_text(RULES)
    (folder / "config.py").write_text("NAME = 'his own config'\n")
    return folder


@pytest.fixture(scope="module")
def strict(folder: Path) -> Iterator[WithRules]:
    overrides = {
        "create.topic.policy.class.name": "rules:Create",
        "alter.config.policy.class.name": "rules:Alter",
        "seen.file": str(folder / "seen"),
    }
    with WithRules(folder / "data", folder, overrides) as running:
        yield running


@pytest.fixture
def seen(folder: Path) -> Callable[[], list[str]]:
    """The requests that the create policy saw since the test began."""
    file = folder / "seen"
    before = len(file.read_text().splitlines()) if file.exists() else 0
    return lambda: file.read_text().splitlines()[before:]


def topic(
    name: str, partitions: int = 1, assigned: tuple[int, ...] = (), **configs: str
) -> CreateTopicsRequest.CreatableTopic:
    made = CreateTopicsRequest.CreatableTopic(name, partitions, -1)
    if assigned:
        made.num_partitions = -1
    for index in assigned:
        made.assignments.append(CreateTopicsRequest.CreatableReplicaAssignment(index, [1]))
    for key, value in configs.items():
        made.configs.append(CreateTopicsRequest.CreatableTopicConfig(key.replace("_", "."), value))
    return made


def create(
    broker: BarnabasProcess, *topics: CreateTopicsRequest.CreatableTopic, validate_only: bool = False
) -> list[Outcome]:
    with WireClient(broker.bootstrap_servers) as client:
        request = CreateTopicsRequest(list(topics), 30_000, validate_only)
        answer = client.ask_for(CreateTopicsResponse, request, 7)
    return [(each.name, each.error_code, each.error_message) for each in answer.topics]


def test_what_a_policy_forbids_is_told_in_its_words(strict: WithRules, seen: Callable[[], list[str]]) -> None:
    answers = create(strict, topic("deny-1"), topic("fine"), topic("bare"), topic("boom"))
    assert answers == [
        ("deny-1", ErrorCode.POLICY_VIOLATION, "no deny-1 here"),
        ("fine", 0, None),
        ("bare", ErrorCode.POLICY_VIOLATION, None),
        ("boom", ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ]
    assert len(seen()) == 4
    assert "KeyError: 'boom'" in strict.log_file.read_text()
    assert "a policy may print his own config" in strict.log_file.read_text()


def test_a_policy_sees_the_request_with_its_defaults(
    strict: WithRules, seen: Callable[[], list[str]]
) -> None:
    chosen = topic("chosen", assigned=(0, 1), retention_ms="5", segment_bytes="2000000")
    assert create(strict, topic("three", 3), topic("default", -1), chosen, validate_only=True) == [
        ("three", 0, None),
        ("default", 0, None),
        ("chosen", 0, None),
    ]
    assert [json.loads(line) for line in seen()] == [
        {**NO_REPLICAS, "topic": "three", "num_partitions": 3, "replication_factor": 1, "configs": {}},
        {**NO_REPLICAS, "topic": "default", "num_partitions": 1, "replication_factor": 1, "configs": {}},
        {
            "topic": "chosen",
            "num_partitions": None,
            "replication_factor": None,
            "replicas_assignments": {"0": [1], "1": [1]},
            "configs": {"retention.ms": "5", "segment.bytes": "2000000"},
        },
    ]


def test_what_is_bad_anyway_is_not_asked(strict: WithRules, seen: Callable[[], list[str]]) -> None:
    answers = create(strict, topic("deny a"), topic("deny-b", 0), topic("deny-c", nonsense="1"))
    assert [code for _, code, _ in answers] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_CONFIG,
    ]
    assert seen() == []


def test_the_configs_of_a_new_topic_pass_the_alter_policy_first(
    strict: WithRules, seen: Callable[[], list[str]]
) -> None:
    assert create(strict, topic("deny-too", retention_ms="13")) == [
        ("deny-too", ErrorCode.POLICY_VIOLATION, "13 is unlucky for TOPIC deny-too")
    ]
    assert seen() == []


def test_altered_configs_pass_the_alter_policy(strict: WithRules) -> None:
    assert create(strict, topic("altered")) == [("altered", 0, None)]
    with WireClient(strict.bootstrap_servers) as client:
        cls = IncrementalAlterConfigsRequest
        configs = [cls.AlterableConfig("retention.ms", 0, "13")]
        request = cls([cls.AlterConfigsResource(2, "altered", configs)])
        answer = client.ask_for(IncrementalAlterConfigsResponse, request, 1)
    (altered,) = answer.responses
    assert (altered.error_code, altered.error_message) == (
        ErrorCode.POLICY_VIOLATION,
        "13 is unlucky for TOPIC altered",
    )


def test_a_policy_that_dies_refuses_and_comes_back(strict: WithRules) -> None:
    assert create(strict, topic("crash")) == [("crash", ErrorCode.UNKNOWN_SERVER_ERROR, None)]
    assert create(strict, topic("deny-2"), topic("after")) == [
        ("deny-2", ErrorCode.POLICY_VIOLATION, "no deny-2 here"),
        ("after", 0, None),
    ]


def test_policies_are_closed_with_the_broker(folder: Path, tmp_path: Path) -> None:
    overrides = {"create.topic.policy.class.name": "rules:Create", "seen.file": str(tmp_path / "seen")}
    broker = WithRules(tmp_path / "data", folder, overrides).start()
    assert create(broker, topic("deny")) == [("deny", ErrorCode.POLICY_VIOLATION, "no deny here")]
    assert broker.stop() == 0
    assert (tmp_path / "seen").read_text().splitlines()[-1] == "closed"


def test_a_policy_that_cannot_be_loaded_stops_the_start(folder: Path, tmp_path: Path) -> None:
    broker = WithRules(tmp_path / "data", folder, {"create.topic.policy.class.name": "com.example.Policy"})
    with pytest.raises(RuntimeError, match="ended with 1"):
        broker.start()
    last = broker.log_tail().splitlines()[-1]
    assert last == (
        "barnabas: The policies cannot be used (create.topic.policy.class.name=com.example.Policy): "
        "LookupError: 'com.example.Policy' is no entry point of the group barnabas.policies; a class is "
        "named as package.module:Class"
    )
