"""A cluster whose nodes are killed, stopped, paused, cut off and lose disks while clients write and read.

Afterwards nothing that was acknowledged or shown may be missing (`tests.support.clients.checked_load`), no
high watermark may have fallen (`tests.support.clients.watermarks`), and the logs of all replicas must be the
same, byte for byte (`replica_logs`): for Apache Kafka as for Barnabas.

One node at a time is out of order, or one pair of nodes has no network between them, so that a majority of
controllers and two of three replicas (as many as `min.insync.replicas`) remain: clients may wait, and nothing
may be lost. When one node is killed while another is cut off there is no majority for a while.

A node's second disk (`failing_disks`) is full for a while, goes, or is replaced by an empty one. Barnabas
goes on by itself when a full disk has room; Apache Kafka gives the directory up and is started anew.

By hand, for as long as one likes: `python -m tests.support.brokers.under_fire --seconds 3600 --seed 7`; with
`--faults cuts` the network alone is in trouble, and `--kind kafka` sets the original on fire.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from tests.support.brokers.cluster import FAST, KAFKAS, OURS, Cluster, Node
from tests.support.brokers.cut_network import BLACK_HOLE, RESET, CutNetwork
from tests.support.brokers.failing_disks import FailingDisks, NodeDisk
from tests.support.brokers.replica_logs import await_same_logs, require_same_dumps, require_same_when_served
from tests.support.clients.checked_load import CheckedLoad
from tests.support.clients.spread import create_placed
from tests.support.clients.watermarks import Watermarks
from tests.support.genuine.tool_server import ToolServer

__all__ = ["CUTS", "FIRE", "ON_DISKS", "ON_NODES", "Fire", "Outcome"]

TOPIC: Final = "fire"
PLACES: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]]
"""Each node leads two partitions: one that an idempotent producer writes, one that a plain one writes."""
SESSION_MS: Final = 4_000
BEYOND_SESSION_SECONDS: Final = 1.5 * SESSION_MS / 1000
FIRE: Final = {
    **FAST,
    "broker.session.timeout.ms": str(SESSION_MS),
    "min.insync.replicas": "2",
    "log.segment.bytes": "1048576",
    "offsets.topic.replication.factor": "3",
}
CALM_SECONDS: Final = (0.5, 3.0)
"""Between two faults."""


ON_NODES: Final = ("kill -9", "clean stop", "short pause", "pause beyond the session")
CUTS: Final = (
    f"two nodes cut, {RESET}",
    f"two nodes cut, {BLACK_HOLE}",
    "two nodes cut, one way",
    f"a node cut off, {RESET}",
    f"a node cut off, {BLACK_HOLE}",
    "a node cut off, another one killed",
)
"""Of a cluster with a `network`; some end within the session, some do not."""
FULL_DISK: Final = "full disk"
ON_DISKS: Final = (FULL_DISK, "log directory gone for a while", "disk replaced by an empty one")
"""Of a cluster with `FailingDisks`; the first one only where they can be full."""


class Outcome:
    """What happened, in numbers; `line` is for people."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.in_flight_at_faults = 0
        self.acknowledged = 0
        self.unplaced = 0
        """Acknowledged without an offset."""
        self.refused = 0
        self.seen = 0
        self.longest_pause_seconds = 0.0
        self.longest_pause_at = ""
        """The fault in or after which it was."""
        self.given_up = 0
        """Full disks after which a node had to be started anew."""
        self.watermarks: Counter[str] = Counter()
        """How many high watermarks were told, by the request that asked."""

    @property
    def line(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        watermarks = " and ".join(f"{count} by {name}" for name, count in sorted(self.watermarks.items()))
        return (
            f"{faults}; {self.in_flight_at_faults} writes in flight at faults, {self.acknowledged} "
            f"acknowledged and {self.unplaced} without an offset, {self.refused} not, "
            f"{self.seen} seen by the consumer; high watermarks told: {watermarks}; longest pause "
            f"between acknowledgements {self.longest_pause_seconds:.1f} s ({self.longest_pause_at}); "
            f"directories given up for a full disk: {self.given_up}"
        )


class Fire:
    """`Fire(cluster, seed).burn(seconds)` does all of it and raises where a promise is broken.

    The cluster has three nodes with both roles and the properties `FIRE`, and runs. disks: attached to it.
    faults: the names of those that may happen; without them all for which there are a network and disks. Each
    happens once in a round, in an order of its own.
    """

    def __init__(
        self,
        cluster: Cluster,
        seed: int,
        faults: Sequence[str] = (),
        *,
        disks: FailingDisks | None = None,
    ) -> None:
        self.outcome = Outcome()
        on_disks = [
            each for each in ON_DISKS if disks is not None and (disks.can_be_full or each != FULL_DISK)
        ]
        possible = [*ON_NODES, *(CUTS if cluster.network is not None else ()), *on_disks]
        self.faults = [each for each in possible if not faults or each in faults]
        self._round: list[str] = []
        self._gave_up: set[tuple[int, int]] = set()
        """Processes that could not write to a full disk and gave it up: Apache Kafka then lowers the high
        watermark of a follower below what it has told ("Non-monotonic update of high watermark")."""
        self._cluster = cluster
        self._disks = disks
        self._random = random.Random(seed)
        self._servers = ",".join(node.client_address for node in cluster.nodes.values())
        create_placed(self._servers, TOPIC, PLACES)
        self._await_in_sync()
        self._load = CheckedLoad(self._servers, TOPIC, len(PLACES))
        watched = {
            node_id: (node.client_address, partial(getattr, node, "pid"))
            for node_id, node in cluster.nodes.items()
        }
        self._watermarks = Watermarks(watched, TOPIC, len(PLACES))

    def burn(self, seconds: float, faults: int = 1) -> Outcome:
        """For so long, and until there were so many faults."""
        ends_at = time.monotonic() + seconds
        time.sleep(1)
        while time.monotonic() < ends_at or self.outcome.faults.total() < faults:
            name = self._one_fault()
            self._await_in_sync()
            time.sleep(self._random.uniform(*CALM_SECONDS))
            self._note_pause(name)
        self._load.end_writing()
        self._await_in_sync()
        ends = self._load.check(self._servers)
        self._watermarks.check(ends, self._gave_up)
        for partition, end in ends.items():
            await_same_logs(self._cluster, TOPIC, [partition], end)
        require_same_when_served(self._cluster, TOPIC, ends)
        require_same_dumps(self._cluster, TOPIC, self._random.choice(list(ends)))
        outcome, load = self.outcome, self._load
        outcome.watermarks = self._watermarks.answers
        outcome.acknowledged, outcome.refused, outcome.seen = load.acknowledged, load.refused, load.seen
        outcome.unplaced = load.unplaced
        return outcome

    def _note_pause(self, name: str) -> None:
        longest = self._load.longest_pause_seconds
        if longest > self.outcome.longest_pause_seconds:
            self.outcome.longest_pause_seconds, self.outcome.longest_pause_at = longest, name

    # Faults

    def _one_fault(self) -> str:
        """The name of what was done, and is over."""
        node = self._cluster.nodes[self._random.choice(list(self._cluster.nodes))]
        if not self._round:
            self._round = self._random.sample(self.faults, len(self.faults))
        name = self._round.pop()
        self.outcome.faults[name] += 1
        self.outcome.in_flight_at_faults += self._load.in_flight
        away_seconds = self._random.uniform(0.2, 2.0)
        if name == "kill -9":
            node.kill()
            time.sleep(away_seconds)
            node.start()
        elif name == "clean stop":
            node.stop()
            time.sleep(away_seconds)
            node.start()
        elif name in CUTS:
            self._cut(name, node.node_id, away_seconds)
        elif name == FULL_DISK:
            self._fill(node, away_seconds)
        elif name in ON_DISKS:
            self._take_away(name, node, away_seconds)
        else:
            node.pause()
            time.sleep(away_seconds if name == "short pause" else away_seconds + BEYOND_SESSION_SECONDS)
            node.resume()
        return name

    def _cut(self, name: str, node_id: int, away_seconds: float) -> None:
        """Between this node and another one or all others, for so long or until sessions are over."""
        network = self._cluster.network
        if network is None:
            raise ValueError("a cluster without CutNetwork cannot be cut")
        other = self._random.choice([each for each in self._cluster.nodes if each != node_id])
        how = RESET if name.endswith(RESET) else BLACK_HOLE
        if name.endswith("killed"):
            network.cut_off(node_id, how)
            self._cluster.nodes[other].kill()
        elif name.startswith("a node"):
            network.cut_off(node_id, how)
        elif name.endswith("one way"):
            network.cut_one_way(node_id, other)
        else:
            network.cut(node_id, other, how)
        time.sleep(away_seconds + self._random.choice([0, BEYOND_SESSION_SECONDS]))
        if not self._cluster.nodes[other].is_running:
            self._cluster.nodes[other].start()
        network.heal()

    def _fill(self, node: Node, away_seconds: float) -> None:
        """For longer than followers may lag, every other time."""
        disk = self._disk(node)
        disk.fill()
        time.sleep(away_seconds + self._random.choice([0, BEYOND_SESSION_SECONDS]))
        disk.make_room()
        if disk.is_offline():
            self.outcome.given_up += 1
            self._gave_up.add((node.node_id, node.pid))
            node.stop()
            node.start()

    def _take_away(self, name: str, node: Node, away_seconds: float) -> None:
        """Until others know that its replicas are offline, and a little longer; then it is stopped or killed,
        and started."""
        disk = self._disk(node)
        disk.take_away()
        gone = disk.away(TOPIC)
        other = min(each for each in self._cluster.nodes if each != node.node_id)

        def are_offline() -> bool | None:
            metadata = self._cluster.metadata(other, TOPIC)
            found = [] if metadata is None else metadata.topics[0].partitions
            offline = [each.partition_index for each in found if node.node_id in each.offline_replicas]
            return set(gone) <= set(offline) or None

        self._cluster.wait(are_offline, f"offline replicas of {gone} on node {node.node_id}")
        time.sleep(away_seconds)
        self._random.choice([node.stop, node.kill])()
        if name == ON_DISKS[-1]:
            disk.replace()
        else:
            disk.give_back()
        node.start()

    def _disk(self, node: Node) -> NodeDisk:
        if self._disks is None:
            raise ValueError("a cluster without FailingDisks has no disk that fails")
        return self._disks[node.node_id]

    def _await_in_sync(self) -> None:
        """All three replicas of each partition are in sync, as every node knows it."""
        nodes = sorted(self._cluster.nodes)
        self._cluster.await_brokers(*nodes)

        def all_in_sync() -> bool | None:
            for node_id in nodes:
                metadata = self._cluster.metadata(node_id, TOPIC)
                if metadata is None:
                    return None
                partitions = [each for topic in metadata.topics for each in topic.partitions]
                if len(partitions) != len(PLACES):
                    return None
                if any(sorted(each.isr_nodes) != nodes or each.leader_id < 0 for each in partitions):
                    return None
            return True

        self._cluster.wait(all_in_sync, f"cluster in which all replicas of {TOPIC} are in sync")


def main() -> None:
    parser = argparse.ArgumentParser(description="A cluster of three under fire.")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", choices=["all", "nodes", "cuts", "disks"], default="all")
    parser.add_argument("--kind", choices=["ours", "kafka"], default="ours")
    options = parser.parse_args()
    faults = {"all": (), "nodes": ON_NODES, "cuts": CUTS, "disks": ON_DISKS}[options.faults]
    folder = Path(tempfile.mkdtemp(prefix="under-fire-"))
    print(f"the nodes' logs and data: {folder}")
    kind, tools = (OURS, None) if options.kind == "ours" else (KAFKAS, ToolServer(folder))
    with (
        tools or nullcontext(),
        CutNetwork() as network,
        FailingDisks(folder, size_mib=512) as disks,
        Cluster(folder, [kind] * 3, tools=tools, properties=FIRE, network=network) as cluster,
    ):
        disks.attach(cluster.format())
        cluster.start().await_brokers()
        fire = Fire(cluster, options.seed, faults, disks=disks)
        outcome = fire.burn(options.seconds, len(fire.faults))
        print(outcome.line)
        assert set(outcome.faults) == set(fire.faults), "each kind of fault has happened"
        assert outcome.in_flight_at_faults > 0


if __name__ == "__main__":
    main()
