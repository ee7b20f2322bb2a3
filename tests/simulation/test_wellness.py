"""What must come to pass when the trouble is over, and by when: each look finds what it is there for."""

from __future__ import annotations

import msgspec
import pytest

from broker.coordinator.transaction.transaction_states import TransactionState
from broker.simulation.cluster import cluster_run
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.restarts import ENDS_BY_ITSELF
from broker.simulation.cluster.simulated_node import NodePlace
from broker.simulation.cluster.surroundings import LifeEnd
from broker.simulation.rules import wellness
from broker.simulation.rules.wellness import reason_not_well
from broker.simulation.verdict import Violation, without_logs
from controller.metadata.image.topics import NO_LEADER, PartitionRegistration
from controller.raft.voters import VoterSet
from protocol.values import ZERO_UUID
from tests.simulation.changing_cluster import ChangingCluster
from tests.simulation.cluster_by_hand import ClusterByHand
from tests.simulation.test_address_changes import wait_until_in_sync
from tests.simulation.traffic import Traffic, becomes
from tests.simulation.transaction_fates import ProducerByHand

GONE = 9
"""A broker that has left the cluster."""
LOOKS = 120


def without_leader(**holders: tuple[int, ...]) -> PartitionRegistration:
    replicas = (1, 2, 3)
    partition = PartitionRegistration(replicas, (ZERO_UUID,) * 3, (), leader=NO_LEADER)
    return msgspec.structs.replace(partition, **holders)


@pytest.mark.parametrize(
    ("partition", "may_lose", "reason"),
    [
        (without_leader(isr=(2,)), False, "has no leader"),
        (without_leader(elr=(2, GONE)), False, "has no leader"),
        (without_leader(), False, "has no leader"),
        (without_leader(), True, None),
        (without_leader(isr=(GONE,)), False, None),
        (without_leader(elr=(GONE,)), False, None),
    ],
)
def test_a_partition_that_nobody_leads(
    partition: PartitionRegistration, may_lose: bool, reason: str | None
) -> None:
    """It is excused where those who could lead it have left. Where nobody could, the cluster has forgotten
    who has what is committed."""
    places = tuple(NodePlace(number, True, True) for number in (1, 2, 3))
    world = ClusterWorld(1, places, may_lose_records=may_lose)
    assert wellness._reason_of(partition, world) == reason


def is_found(cluster: ChangingCluster, reason: str | None) -> bool:
    """Whether the cluster is once not well in this way (None: well)."""
    found = None
    for _ in range(LOOKS):
        found = reason_not_well(cluster.run.world)
        if found is None if reason is None else reason in (found or ""):
            return True
        cluster.pass_by(250)
    raise AssertionError(f"{found!r} in the end")


@pytest.mark.parametrize("is_told", [True, False])
def test_a_voter_at_another_address(monkeypatch: pytest.MonkeyPatch, is_told: bool) -> None:
    """The leader of the quorum must hear where it is."""
    if not is_told:
        monkeypatch.setattr(VoterSet, "differs_from", lambda self, voter: False)
    cluster = ChangingCluster(is_dynamic=True, has_other_ports=True)
    cluster.play("move a controller")
    wait_until_in_sync(cluster, 1)
    assert is_found(cluster, None if is_told else "looks for node-1 at ")


def test_a_transaction_whose_end_is_not_recorded() -> None:
    """No log has an open transaction; its coordinator waits for ever, and so would its producer."""
    hand = ProducerByHand(1)
    world, transactional_id = hand.cluster.world, hand.client.transactional_id
    session = hand.session()
    hand.write(session, hand.begin(session, "first"))
    hand.end_transaction(session, committed=True)
    for _ in range(LOOKS):
        if reason_not_well(world) is None:
            break
        hand.cluster.wait_ms(250)
    assert reason_not_well(world) is None
    node = hand.coordinator
    assert node.broker is not None
    coordinator = node.broker.services.transactions
    shards = dict(coordinator._runtime.shards())
    shard = shards[coordinator.partition_for(transactional_id)]
    assert shard is not None
    ended = shard.by_id[transactional_id]
    shard._by_id[transactional_id] = msgspec.structs.replace(ended, state=TransactionState.PREPARE_COMMIT)
    assert reason_not_well(world) == f"{transactional_id} is in PrepareCommit by what {node} knows"


def test_offsets_that_wait_for_a_marker_for_ever() -> None:
    """No transaction is open any more, and members of the group are told that its offsets are not stable."""
    with without_logs():
        traffic = Traffic(1)
        traffic.until_over(traffic.find_coordinator())
        assert becomes(traffic, None)
    node, index, context = next(
        (node, index, context)
        for node in traffic.world.nodes.values()
        if node.broker is not None
        for index, context in node.broker.services.groups.contexts.items()
    )
    context.shard.offset_metadata.pending.by_producer[7] = {}
    reason = f"offsets in __consumer_offsets-{index} wait for the end of a transaction on {node}"
    assert reason_not_well(traffic.world) == reason


def test_a_node_that_stays_away_is_missed_within_a_minute() -> None:
    """By the time since the trouble was over, however long clients take to come to their end."""
    cluster = ClusterByHand()
    world = cluster.world
    with cluster.quiet():
        cluster.run.calm()
        began_ms = world.now_ms
        cluster.followers[0].machine.kill()
        with pytest.raises(Violation, match="is down") as caught:
            cluster.run.finish()
    assert caught.value.rule == cluster_run.BECOMES_WELL
    assert cluster_run.QUIET_MS < world.now_ms - began_ms < cluster_run.WELL_LIMIT_MS + 1_000


def test_each_who_writes_does_so_when_all_is_well() -> None:
    """Also one that had come to its end before."""
    cluster = ClusterByHand()
    cluster.producer.finish()
    cluster.wait_ms(2_000)
    written = len(cluster.world.history)
    cluster.end()
    new = [event for event in cluster.world.history[written:] if event.operation == "write"]
    assert [event.type for event in new] == ["invoke", "ok"]
    assert cluster.world.coverage.counts["clients that wrote when all was well"] == 1


def test_who_cannot_register_though_all_is_calm() -> None:
    """While there is trouble a broker may find no controller in time, and in a life that began then."""
    cluster = ClusterByHand()
    world, node = cluster.world, cluster.followers[0]
    end = LifeEnd("stopped", by_itself=True, sentence="Broker 2 could not register within 60000 ms")
    world.restarts.has_ended(node, end)
    world.restarts.start_all_now()
    world.restarts.has_ended(node, end)
    assert world.coverage.counts["a broker could not register in time"] == 2
    world.restarts.after(node, 1_000)
    node.machine.kill()
    cluster.wait_until(lambda: node.is_ready)
    with pytest.raises(Violation, match="could not register within") as caught:
        world.restarts.has_ended(node, end)
    assert caught.value.rule == ENDS_BY_ITSELF
