"""A cluster whose nodes are killed, stopped, paused, cut off and lose disks while clients write and read.

Afterwards nothing that was acknowledged or shown may be missing (`tests.support.clients.checked_load`), no
high watermark may have fallen (`tests.support.clients.watermarks`), the logs of all replicas must be the
same, byte for byte, and their lists of leader epochs must be right (`replica_logs`). After each fault no
replica may have truncated what is committed. All this holds for Apache Kafka as for Barnabas, except that
the high watermark of a replica of Kafka's may fall while its new leader does not know it yet; how often that
was seen is told.

What happens to the nodes is in `faults`. By hand, for as long as one likes:
`python -m tests.support.brokers.under_fire --seconds 3600 --seed 7`; with `--faults cuts` the network alone
is in trouble, and `--kind kafka` sets the original on fire.
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

from tests.support.brokers.cluster import KAFKAS, OURS, Cluster, GenuineNode
from tests.support.brokers.cut_network import CutNetwork
from tests.support.brokers.failing_disks import FailingDisks
from tests.support.brokers.faults import CUTS, FIRE, ON_DISKS, ON_NODES, Faults, await_in_sync
from tests.support.brokers.replica_logs import (
    await_right_epochs,
    await_same_logs,
    require_nothing_committed_truncated,
    require_same_dumps,
    require_same_when_served,
)
from tests.support.clients.checked_load import CheckedLoad
from tests.support.clients.spread import create_placed
from tests.support.clients.watermarks import Watermarks
from tests.support.genuine.tool_server import ToolServer

__all__ = ["Fire", "Outcome"]

TOPIC: Final = "fire"
PLACES: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]]
"""Each node leads two partitions: one that an idempotent producer writes, one that a plain one writes."""
CALM_SECONDS: Final = (0.5, 3.0)
"""Between two faults."""


class Outcome:
    """What happened, in numbers; `line` is for people."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.in_flight_at_faults = 0
        self.acknowledged = 0
        self.fewest_acknowledged = 0
        """Of one producer."""
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
        self.watermarks_by_node: Counter[int] = Counter()
        """How many each node has told to the requests that every replica answers."""
        self.falls_of_replicas = 0

    @property
    def line(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        watermarks = " and ".join(f"{count} by {name}" for name, count in sorted(self.watermarks.items()))
        return (
            f"{faults}; {self.in_flight_at_faults} writes in flight at faults, {self.acknowledged} "
            f"acknowledged and {self.unplaced} without an offset, {self.refused} not, "
            f"{self.seen} seen by the consumer; high watermarks told: {watermarks}, "
            f"{self.falls_of_replicas} of them lower than the same replica told before; longest pause "
            f"between acknowledgements {self.longest_pause_seconds:.1f} s ({self.longest_pause_at}); "
            f"directories given up for a full disk: {self.given_up}"
        )


class Fire:
    """`Fire(cluster, seed).burn(seconds)` does all of it and raises where a promise is broken.

    The cluster has three nodes with both roles and the properties `FIRE`, and runs. disks: attached to it.
    faults: the names of those that may happen, as `Faults` takes them.
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
        self._cluster = cluster
        self._random = random.Random(seed)
        self._faults = Faults(cluster, self._random, TOPIC, faults, disks=disks)
        self.faults = self._faults.names
        self.outcome.faults = self._faults.counts
        self._servers = ",".join(node.client_address for node in cluster.nodes.values())
        create_placed(self._servers, TOPIC, PLACES)
        await_in_sync(self._cluster, TOPIC, len(PLACES))
        self._load = CheckedLoad(self._servers, TOPIC, len(PLACES))
        watched = {
            node_id: (node.client_address, partial(getattr, node, "pid"))
            for node_id, node in cluster.nodes.items()
        }
        genuine = any(isinstance(node, GenuineNode) for node in cluster.nodes.values())
        self._watermarks = Watermarks(watched, TOPIC, len(PLACES), replicas_may_fall=genuine)

    def burn(self, seconds: float, faults: int = 1) -> Outcome:
        """For so long, and until there were so many faults."""
        ends_at = time.monotonic() + seconds
        time.sleep(1)
        while time.monotonic() < ends_at or self.outcome.faults.total() < faults:
            name, node = self._faults.begin()
            self.outcome.in_flight_at_faults += self._load.in_flight
            self._faults.run(name, node)
            await_in_sync(self._cluster, TOPIC, len(PLACES))
            require_nothing_committed_truncated(self._cluster)
            time.sleep(self._random.uniform(*CALM_SECONDS))
            self._note_pause(name)
        self._load.end_writing()
        await_in_sync(self._cluster, TOPIC, len(PLACES))
        ends = self._load.check(self._servers)
        self._watermarks.check(ends)
        for partition, end in ends.items():
            await_same_logs(self._cluster, TOPIC, [partition], end)
        await_right_epochs(self._cluster, TOPIC, ends)
        require_same_when_served(self._cluster, TOPIC, ends)
        require_same_dumps(self._cluster, TOPIC, self._random.choice(list(ends)))
        outcome, load = self.outcome, self._load
        outcome.watermarks = self._watermarks.answers
        outcome.watermarks_by_node = self._watermarks.told_by_node
        outcome.falls_of_replicas = self._watermarks.falls_of_replicas
        outcome.acknowledged, outcome.refused, outcome.seen = load.acknowledged, load.refused, load.seen
        outcome.fewest_acknowledged, outcome.unplaced = load.fewest_acknowledged, load.unplaced
        outcome.given_up = self._faults.given_up
        return outcome

    def _note_pause(self, name: str) -> None:
        longest = self._load.longest_pause_seconds
        if longest > self.outcome.longest_pause_seconds:
            self.outcome.longest_pause_seconds, self.outcome.longest_pause_at = longest, name


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
