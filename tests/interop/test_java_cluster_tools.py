"""The tools that look at the cluster: api-versions, metadata-quorum, cluster, features."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.registry import api
from tests.conftest import AnyBroker
from tests.support.brokers.against import barnabas_only
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.tool_server import Tool, ToolServer

pytestmark = pytest.mark.java


def test_api_versions(broker: AnyBroker, tool: Tool) -> None:
    lines = tool("kafka-broker-api-versions").lines
    assert lines[0] == f"{broker.bootstrap_servers} (id: 1 rack: null isFenced: false) -> ("
    with WireClient(broker.bootstrap_servers) as client:
        response = client.ask_for(ApiVersionsResponse, ApiVersionsRequest("wire", "1"), 4)
    for entry in response.api_keys:
        versions = f"{entry.min_version} to {entry.max_version}"
        if entry.min_version == entry.max_version:
            versions = str(entry.min_version)
        line = f"\t{api(entry.api_key).name}({entry.api_key}): {versions} [usable: {entry.max_version}]"
        assert any(found.rstrip(",") == line for found in lines), line


@pytest.fixture
def quorum(broker: AnyBroker, tool_server: ToolServer) -> dict[str, str]:
    at = ("--bootstrap-server", broker.bootstrap_servers)
    told = tool_server.run("kafka-metadata-quorum", *at, "describe", "--status").lines
    return {name: value.strip() for name, _, value in (line.partition(":") for line in told)}


def test_the_quorum_s_state(quorum: dict[str, str]) -> None:
    assert re.fullmatch(r"[\w-]{22}", quorum["ClusterId"])
    assert (quorum["LeaderId"], quorum["MaxFollowerLag"], quorum["MaxFollowerLagTimeMs"]) == ("1", "0", "0")
    assert int(quorum["LeaderEpoch"]) >= 1
    assert int(quorum["HighWatermark"]) > 5
    assert quorum["CurrentObservers"] == "[]"
    voter = r'\[\{"id": 1, "directoryId": "[\w-]{22}", "endpoints": \["CONTROLLER://127\.0\.0\.1:\d+"\]\}\]'
    assert re.fullmatch(voter, quorum["CurrentVoters"])


def test_the_quorum_s_replicas(broker: AnyBroker, tool_server: ToolServer, quorum: dict[str, str]) -> None:
    at = ("--bootstrap-server", broker.bootstrap_servers)
    head, row = tool_server.run("kafka-metadata-quorum", *at, "describe", "--replication").lines
    assert head.split()[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    id_, directory, end, lag, *_, status = row.split()
    assert (id_, lag, status) == ("1", "0", "Leader")
    assert directory in quorum["CurrentVoters"]
    assert int(end) >= int(quorum["HighWatermark"])


def test_the_quorum_as_its_controllers_tell_it(tool_server: ToolServer, quorum: dict[str, str]) -> None:
    address = quorum["CurrentVoters"].partition("CONTROLLER://")[2].partition('"')[0]
    at = ("--bootstrap-controller", address)
    told = tool_server.run("kafka-metadata-quorum", *at, "describe", "--status")
    assert told.code == 0, told.err
    assert f"ClusterId:              {quorum['ClusterId']}" in told.lines
    endpoints = tool_server.run("kafka-cluster", "list-endpoints", *at).lines
    assert endpoints[1].split() == ["1", *address.split(":"), "null", "controller"]
    assert tool_server.run("kafka-cluster", "cluster-id", *at).out == f"Cluster ID: {quorum['ClusterId']}\n"


def test_the_cluster(broker: AnyBroker, tool_server: ToolServer, quorum: dict[str, str]) -> None:
    at = ("--bootstrap-server", broker.bootstrap_servers)
    assert tool_server.run("kafka-cluster", "cluster-id", *at).out == f"Cluster ID: {quorum['ClusterId']}\n"
    head, row = tool_server.run("kafka-cluster", "list-endpoints", *at).lines
    assert head.split() == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
    assert row.split() == ["1", *broker.bootstrap_servers.split(":"), "null", "unfenced", "broker"]


def test_the_features(broker: AnyBroker, tool_server: ToolServer) -> None:
    at = ("--bootstrap-server", broker.bootstrap_servers)
    lines = tool_server.run("kafka-features", *at, "describe").lines
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", "\n".join(lines)))
    assert {name: level for name, level in levels.items() if level != "0"} == {
        "eligible.leader.replicas.version": "1",
        "group.version": "1",
        "kraft.version": "1",
        "metadata.version": "4.3-IV0",
        "transaction.version": "2",
    }


@barnabas_only
def test_what_is_not_there_yet_says_so_at_once(
    broker: AnyBroker, tool_server: ToolServer, tmp_path: Path
) -> None:
    (settings := tmp_path / "admin.properties").touch()
    at = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(settings))
    refused = tool_server.run("kafka-delegation-tokens", *at, "--describe", timeout_seconds=50)
    assert refused.code == 1
    assert "The node does not support DESCRIBE_DELEGATION_TOKEN" in refused.out + refused.err


def test_without_an_authorizer_there_are_no_acls(broker: AnyBroker, tool_server: ToolServer) -> None:
    at = ("--bootstrap-server", broker.bootstrap_servers)
    listed = tool_server.run("kafka-acls", *at, "--list")
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in listed.out + listed.err
