"""Producers and readers at work in a cluster that loses nodes: what they are told holds, and none is idle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from broker.simulation.clients.client_kinds import last_readers, make_client
from broker.simulation.clients.cluster_client import ClusterClient
from broker.simulation.clients.readers import Reader
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import NodePlace
from broker.simulation.histories.checker import Verdict, check
from broker.simulation.histories.history import READ_UNCOMMITTED, History
from broker.simulation.verdict import without_logs
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from storage.memory_files import Torn

HOSTS = ("node-1", "node-2", "node-3")
BOTH = ("fire", "earth")
PROPERTIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
WRITERS = (
    ClientPlan("producer", "acks-0", BOTH, options={"acks": "0"}),
    ClientPlan("producer", "acks-1", BOTH, options={"acks": "1"}),
    ClientPlan("producer", "acks-all", BOTH, options={"idempotent": "false"}),
    ClientPlan("producer", "idempotent", BOTH),
    ClientPlan("transactional", "newer", BOTH),
    ClientPlan("transactional", "older", BOTH, options={"protocol": "1"}),
    ClientPlan("transactional", "copier", ("earth",), group="copiers", options={"source": "fire"}),
)
READERS = (
    ClientPlan("reader", "reader", BOTH),
    ClientPlan("reader", "sees-all", BOTH, options={"isolation": READ_UNCOMMITTED, "sessions": "false"}),
    ClientPlan("reader", "late", BOTH, options={"start": "latest", "checks": "fetch"}),
)


class Creator(ClusterClient):
    """Makes the topics."""

    async def run(self) -> None:
        topics = [CreateTopicsRequest.CreatableTopic(name, 2, 3) for name in BOTH]
        await self.ask_any(CreateTopicsRequest(topics=topics, timeout_ms=5_000))


class Play:
    """A cluster and its clients, from the start to the verdict. Nodes are lost if `is_in_trouble`."""

    def __init__(self, seed: int, *, is_in_trouble: bool) -> None:
        self.world = ClusterWorld(seed, [NodePlace(number, True, True, PROPERTIES) for number in (1, 2, 3)])
        with without_logs():
            self.world.start_all()
            self._until_over([self._creator()])
            clients = [make_client(self.world, plan, HOSTS) for plan in (*WRITERS, *READERS)]
            for client in clients:
                client.start()
            self.world.loop.run_for(5_000)
            if is_in_trouble:
                self._lose_nodes()
            for client in clients:
                client.finish()
            self._until_over(clients)
            self.have_come_to_the_end = self._read_all()

    def _creator(self) -> ClusterClient:
        creator = Creator(self.world, ClientPlan("", "creator", BOTH), HOSTS)
        creator.start()
        return creator

    def _until_over(self, clients: Sequence[ClusterClient]) -> None:
        self.world.loop.run_until(lambda: all(client.is_over for client in clients), limit_ms=180_000)

    def _lose_nodes(self) -> None:
        """One ends its process, another one loses its power and what was not synced."""
        world = self.world
        first, second = world.nodes[1 + world.seed % 3], world.nodes[1 + (world.seed + 1) % 3]
        first.machine.close()
        world.loop.run_for(4_000)
        first.start()
        world.loop.run_for(8_000)
        second.machine.cut_power(lambda _path, _unsynced_bytes: Torn(0))
        world.loop.run_for(4_000)
        second.start()
        world.loop.run_for(4_000)

    def _read_all(self) -> list[bool]:
        readers = last_readers(self.world, BOTH, HOSTS)
        ended: list[bool] = []

        async def read(reader: Reader) -> None:
            ended.append(await reader.read_to_end())

        for reader in readers:
            reader.begin(read(reader))
        self._until_over(readers)
        return ended

    @property
    def verdict(self) -> Verdict:
        return check(History(self.world.history))


def outcomes(play: Play) -> Counter[str]:
    """How operations have ended, by client."""
    names = [plan.name for plan in WRITERS]
    counts: Counter[str] = Counter()
    for operation in History(play.world.history).operations:
        name = next(name for name in names if operation.process.split(".")[0] == name)
        counts[f"{name} {operation.outcome}"] += 1
    return counts


@pytest.mark.parametrize("seed", [1, 2])
def test_what_clients_were_told_holds_though_nodes_are_lost(seed: int) -> None:
    play = Play(seed, is_in_trouble=True)
    verdict = play.verdict
    assert verdict.is_clean, verdict.stories
    assert play.have_come_to_the_end == [True, True]
    assert verdict.counts["records seen"] > 1_000
    assert verdict.counts["transactions ok"] > 10
    assert verdict.counts["transactions fail"] > 0
    ended = outcomes(play)
    for name in ("acks-all", "idempotent", "newer", "older", "copier"):
        assert ended[f"{name} ok"] > 0
    for name in ("acks-0", "acks-1"):
        assert ended[f"{name} info"] > 0
        assert not ended[f"{name} ok"], "it may be lost"
    assert any(operation.reads for operation in History(play.world.history).operations)
    answered = play.world.coverage.counts
    assert answered["Produce: no answer"] > 0
    assert answered["AddPartitionsToTxn: NONE"] > 0
    assert answered["OffsetForLeaderEpoch: NONE"] > 0


class Grower(ClusterClient):
    """Makes a topic of one partition, and later gives it another one."""

    async def run(self) -> None:
        topic = CreateTopicsRequest.CreatableTopic("fire", 1, 1)
        await self.ask_any(CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        await self.sleep_ms(20_000)
        grown = CreatePartitionsRequest.CreatePartitionsTopic("fire", 2, None)
        await self.ask_any(CreatePartitionsRequest(topics=[grown], timeout_ms=5_000))


def test_the_leader_of_a_classic_group_distributes_new_partitions() -> None:
    place = NodePlace(1, True, True, {"offsets.topic.replication.factor": "1"})
    world = ClusterWorld(1, [place])
    grower = Grower(world, ClientPlan("", "grower", ("fire",)), HOSTS[:1])
    plan = ClientPlan("classic_consumer", "member", ("fire",), group="g")
    with without_logs():
        world.start_all()
        grower.start()
        make_client(world, plan, HOSTS[:1]).start()
        world.loop.run_until(
            lambda: any(each.partitions == ("fire-0", "fire-1") for each in world.history), limit_ms=120_000
        )
    assert any(each.partitions == ("fire-0",) for each in world.history)


def test_the_same_seed_is_the_same_run() -> None:
    digests = [Play(seed, is_in_trouble=False).world.network.digest for seed in (3, 3, 4)]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]
