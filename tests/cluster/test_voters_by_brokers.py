"""The quorum's voters are changed by way of any broker, with Kafka's tool and its `--bootstrap-server`."""

from __future__ import annotations

from typing import Final

import pytest

from protocol.messages.describe_quorum import DescribeQuorumResponse
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import BROKER, CONTROLLER, KAFKAS, OURS, Cluster
from tests.support.brokers.quorum import ABOUT_METADATA
from tests.support.brokers.voter_changes import change_voters
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.tool_server import ToolServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

BY_BROKER: Final = "--bootstrap-server"
NEW: Final = 3


def voters(cluster: Cluster) -> list[int]:
    """As the active controller, asked by way of the broker, lists them."""
    with WireClient(cluster.bootstrap) as client:
        answer = client.ask_for(DescribeQuorumResponse, ABOUT_METADATA, 2)
    return sorted(each.replica_id for each in answer.topics[0].partitions[0].current_voters)


@pytest.mark.parametrize(("controllers", "broker"), [(OURS, OURS), (KAFKAS, OURS), (OURS, KAFKAS)])
def test_a_controller_comes_and_goes(
    new_cluster: NewCluster, tool_server: ToolServer, controllers: str, broker: str
) -> None:
    cluster = new_cluster(controllers, broker, roles=[CONTROLLER, BROKER])
    cluster.tools = tool_server
    joining = cluster.add(NEW, controllers, CONTROLLER)
    cluster.format_node(NEW)
    cluster.start(NEW)
    config = ("--command-config", str(joining.properties_file))
    added = change_voters(cluster, cluster.bootstrap, *config, "add-controller", by=BY_BROKER)
    assert f"Added controller {NEW}" in added.out
    assert voters(cluster) == [1, NEW]
    again = tool_server.run("kafka-metadata-quorum", BY_BROKER, cluster.bootstrap, *config, "add-controller")
    assert again.code == 1
    assert "DuplicateVoterException" in again.out + again.err
    which = ("--controller-id", str(NEW), "--controller-directory-id", joining.formatted_directory_id())
    change_voters(cluster, cluster.bootstrap, "remove-controller", *which, by=BY_BROKER)
    assert voters(cluster) == [1]
    again = tool_server.run(
        "kafka-metadata-quorum", BY_BROKER, cluster.bootstrap, "remove-controller", *which
    )
    assert again.code == 1
    assert "VoterNotFoundException" in again.out + again.err
