"""Nodes that authorize each other: who is no super user is told so, and every node decides by the same
entries."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.support.brokers.cluster import BROKER, CONTROLLER, FAST, OURS, Cluster
from tests.support.brokers.quorum_members import await_found
from tests.support.clients.wire_client import WireClient

AUTHORIZER: Final = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
ME: Final = {"super.users": "User:ANONYMOUS"}


def test_a_node_that_is_no_super_user_is_told_so(tmp_path: Path) -> None:
    properties = FAST | AUTHORIZER
    with Cluster(tmp_path, [OURS] * 2, roles=[CONTROLLER, BROKER], properties=properties) as cluster:
        cluster.format()
        controller, broker = cluster.nodes[1], cluster.nodes[2]
        controller.start()
        broker.begin()
        await_found(
            lambda: "Name the principal of this node in super.users" in broker.log_tail() or None,
            "the broker's operator knows what is wrong", [broker],
        )  # fmt: skip
        assert "Principal = User:ANONYMOUS is Denied operation = CLUSTER_ACTION" in controller.log_tail()
        controller.stop()
        controller.properties |= ME
        controller.start()
        cluster.await_brokers(2)


def described(address: str) -> int:
    """How many entries a broker knows."""
    with WireClient(address) as client:
        request = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
        answer = client.ask_for(DescribeAclsResponse, request, 3)
    assert answer.error_code == 0
    return sum(len(resource.acls) for resource in answer.resources)


def test_every_node_decides_by_the_same_entries(tmp_path: Path) -> None:
    with Cluster(tmp_path, [OURS] * 3, properties=FAST | AUTHORIZER | ME) as cluster:
        cluster.format().start()
        cluster.await_brokers()
        nodes = list(cluster.nodes.values())
        for number, node in enumerate(nodes):
            entry = CreateAclsRequest.AclCreation(2, f"t{number}", 3, "User:ann", "*", 3, 3)
            with WireClient(node.client_address) as client:
                answer = client.ask_for(CreateAclsResponse, CreateAclsRequest([entry]), 3)
            assert [each.error_code for each in answer.results] == [0], "each passes it on to the controller"
        for node in nodes:
            await_found(lambda node=node: described(node.client_address) == 3 or None, "all three", [node])  # type: ignore[misc]
