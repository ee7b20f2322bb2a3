"""The network between the nodes is cut, and clients reach all of them: who is cut off may promise nothing."""

from __future__ import annotations

from collections import defaultdict

import pytest

from protocol.errors import ErrorCode
from protocol.framing import decode_response
from protocol.messages.describe_quorum import DescribeQuorumResponse
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from protocol.messages.metadata import MetadataResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, OURS, Cluster
from tests.support.brokers.cut_network import BLACK_HOLE, RESET, CutNetwork
from tests.support.brokers.quorum import ABOUT_METADATA, config_change
from tests.support.brokers.replica_logs import await_same_logs, log_bytes, log_end
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all
from tests.support.clients.wire_client import ConnectionEnded, WireClient

Partition = MetadataResponse.MetadataResponsePartition
NODES = (1, 2, 3)
PRODUCE_VERSION = 12
WRITE_MS = 600_000


class Stage:
    """Three nodes with both roles, all controllers of one quorum."""

    def __init__(self, new_cluster: NewCluster, **properties: str) -> None:
        self.network = CutNetwork()
        given = {key.replace(".", "_"): value for key, value in FAST.items()}
        kinds = [OURS] * len(NODES)
        self.led_by: defaultdict[int, set[int]] = defaultdict(set)
        """By epoch of the quorum: each controller that ever said that it led."""
        self.cluster: Cluster = new_cluster(*kinds, network=self.network, **given | properties)

    def others(self, *node_ids: int) -> list[int]:
        return [each for each in NODES if each not in node_ids]

    def servers(self, *node_ids: int) -> str:
        return ",".join(self.cluster.nodes[each].client_address for each in node_ids)

    def create(self, *replicas: int) -> None:
        """The topic `t` of one partition, its replicas in sync."""
        create_placed(self.servers(*NODES), "t", [list(replicas)])
        for each in NODES:
            self.await_partition(each, "all in sync", isr=replicas)

    def partition(self, node_id: int) -> Partition | None:
        """That of `t` as this node tells it."""
        metadata = self.cluster.metadata(node_id, "t")
        found = [] if metadata is None else metadata.topics[0].partitions
        return found[0] if found else None

    def await_partition(
        self, node_id: int, what: str, *, isr: tuple[int, ...] = (), not_led_by: int = -1
    ) -> Partition:
        """As this node tells it, with a leader, and the ISR if one is given."""

        def is_so() -> Partition | None:
            found = self.partition(node_id)
            if found is None or found.leader_id in (-1, not_led_by):
                return None
            return found if not isr or sorted(found.isr_nodes) == sorted(isr) else None

        return self.cluster.wait(is_so, f"partition as node {node_id} tells it: {what}")

    def quorum_view(self, node_id: int) -> tuple[int, int] | None:
        """The epoch in which this controller says that it leads, and its high watermark; None: not so."""
        try:
            with WireClient(self.cluster.nodes[node_id].address, timeout_seconds=30) as client:
                answer = client.ask_for(DescribeQuorumResponse, ABOUT_METADATA, 2)
        except (OSError, ConnectionEnded):
            return None
        view = answer.topics[0].partitions[0]
        if view.error_code or view.leader_id != node_id:
            return None
        self.led_by[view.leader_epoch].add(node_id)
        return view.leader_epoch, view.high_watermark

    def await_controller(self, *among: int) -> int:
        """The one that leads the quorum and has committed something."""
        return self.await_quorum_leader(*among)[1]

    def await_quorum_leader(self, *among: int) -> tuple[int, int]:
        """The epoch of the quorum in which it leads, and who it is."""

        def leads() -> tuple[int, int] | None:
            views = {each: self.quorum_view(each) for each in among or NODES}
            known = [(view[0], each) for each, view in views.items() if view is not None and view[1] > 0]
            return max(known, default=None)

        return self.cluster.wait(leads, "controller that leads")


def send(client: WireClient, value: bytes, acks: int) -> None:
    batch = ProduceRequest.PartitionProduceData(0, build_batch([SimpleRecord(None, value, 1)]))
    topic = ProduceRequest.TopicProduceData("t", partition_data=[batch])
    client.send(ProduceRequest(None, acks, WRITE_MS, [topic]), PRODUCE_VERSION)


def answer(client: WireClient) -> tuple[ErrorCode, int]:
    """To the last `send`: its error and base offset."""
    _, response = decode_response(ProduceResponse, PRODUCE_VERSION, client.receive())
    ((found,),) = [each.partition_responses for each in response.responses]
    return ErrorCode.of(found.error_code), found.base_offset


@pytest.mark.parametrize("how", [RESET, BLACK_HOLE])
@pytest.mark.parametrize("is_controller", [False, True], ids=["a broker", "the controller"])
def test_a_leader_that_is_cut_off_acknowledges_nothing(
    new_cluster: NewCluster, how: str, is_controller: bool
) -> None:
    """What it took with acks=1 meanwhile is lost, as its producer was told it may be."""
    stage = Stage(new_cluster)
    controller = stage.await_controller()
    leader = controller if is_controller else stage.others(controller)[0]
    rest = stage.others(leader)
    stage.create(leader, *rest)
    write_to_all(stage.servers(*NODES), "t", partitions=1, count=10)
    await_same_logs(stage.cluster, "t", [0], 10)
    with (
        WireClient(stage.servers(leader), timeout_seconds=90) as safe,
        WireClient(stage.servers(leader), timeout_seconds=90) as quick,
    ):
        stage.network.cut_off(leader, how)
        send(safe, b"never acknowledged", acks=-1)
        log = stage.cluster.nodes[leader].data
        stage.cluster.wait(lambda: log_end(log_bytes(log, "t", 0)) == 11 or None, "the record is written")
        send(quick, b"acknowledged by the leader alone", acks=1)
        assert answer(quick) == (ErrorCode.NONE, 11)
        stage.await_partition(rest[0], "another leader", not_led_by=leader)
        write_to_all(stage.servers(*rest), "t", partitions=1, count=10, first=10)
        send(safe, b"never acknowledged either", acks=-1)
        found = stage.partition(leader)
        assert found is not None
        assert found.leader_id == leader, "it does not know better"
        stage.network.heal()
        assert answer(safe)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer(safe)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for each in NODES:
        stage.await_partition(each, "all in sync again", isr=NODES, not_led_by=leader)
    await_same_logs(stage.cluster, "t", [0], 20)
    assert read_all(stage.servers(*NODES), "t", 1, 20) == numbered_values(1, 20)
    assert not stage.network.strangers


@pytest.mark.parametrize("how", [RESET, BLACK_HOLE])
def test_a_follower_cut_from_its_leader_alone_leaves_and_comes_back(
    new_cluster: NewCluster, how: str
) -> None:
    """The controller, on the third node, hears of it all the time and fences nobody. It stays the controller
    and the leader stays the leader, though one of them may get no processor time for a while."""
    stage = Stage(new_cluster, broker_session_timeout_ms="15000", controller_quorum_fetch_timeout_ms="60000")
    controller = stage.await_controller()
    leader, follower = stage.others(controller)
    stage.create(leader, follower, controller)
    write_to_all(stage.servers(*NODES), "t", partitions=1, count=10)
    stage.network.cut(leader, follower, how)
    write_to_all(stage.servers(*NODES), "t", partitions=1, count=10, first=10)
    found = stage.await_partition(controller, "without the follower", isr=(leader, controller))
    assert found.leader_id == leader
    assert stage.cluster.alive_brokers(controller) == list(NODES)
    write_to_all(stage.servers(*NODES), "t", partitions=1, count=10, first=20)
    stage.network.heal()
    found = stage.await_partition(controller, "with the follower", isr=NODES)
    assert (found.leader_id, found.leader_epoch) == (leader, 0)
    await_same_logs(stage.cluster, "t", [0], 30)
    assert read_all(stage.servers(*NODES), "t", 1, 30) == numbered_values(1, 30)


@pytest.mark.parametrize("how", [RESET, BLACK_HOLE])
def test_a_controller_that_is_cut_off_is_replaced_and_resigns(new_cluster: NewCluster, how: str) -> None:
    stage = Stage(new_cluster)
    epoch, former = stage.await_quorum_leader()
    rest = stage.others(former)
    with WireClient(stage.cluster.nodes[former].address, timeout_seconds=90) as client:
        stage.network.cut_off(former, how)
        client.send(config_change(1_234_567), 1)
        next_epoch, _ = stage.await_quorum_leader(*rest)
        assert next_epoch > epoch
        stage.cluster.wait(
            lambda: stage.quorum_view(former) is None or None, "former controller that resigns"
        )
        _, told = decode_response(IncrementalAlterConfigsResponse, 1, client.receive())
        assert told.responses[0].error_code != ErrorCode.NONE, "nobody else has it"
    stage.network.heal()
    stage.cluster.await_brokers(*NODES)

    def leads_alone() -> bool | None:
        return len([each for each in NODES if stage.quorum_view(each) is not None]) == 1 or None

    stage.cluster.wait(leads_alone, "single controller that leads")
    assert all(len(leaders) == 1 for leaders in stage.led_by.values()), stage.led_by
    # The next controller may fence the former broker yet, until it has had a heartbeat from it. Where the
    # former led the partition, the producer, which is not idempotent, would write to two leaders in turn.
    stage.create(*rest, former)
    write_to_all(stage.servers(*NODES), "t", partitions=1, count=10)
    await_same_logs(stage.cluster, "t", [0], 10)
