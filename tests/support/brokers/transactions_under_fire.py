"""A cluster under fire (`faults`) while transactions are written and read, and what its clients say of it.

Genuine clients write down what they do and are told, in one history, and the checker of histories
(`broker.simulation.histories.checker`) finds what should not be: for Apache Kafka as for Barnabas.

By hand, for as long as one likes:
`python -m tests.support.brokers.transactions_under_fire --seconds 600 --seed 7`; with `--faults nodes` the
network is left alone, and `--against kafka` sets the original on fire. The history stays, for
`python -m broker.simulation.histories.checker`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from broker.simulation.histories.checker import Verdict, check
from broker.simulation.histories.history import READ_COMMITTED, READ_UNCOMMITTED, read_history
from tests.support.brokers.cluster import KAFKAS, OURS, Cluster
from tests.support.brokers.cut_network import CutNetwork
from tests.support.brokers.faults import CUTS, FIRE, ON_NODES, Faults, await_in_sync
from tests.support.clients.spread import create_placed
from tests.support.clients.transactional_consumers import Copier, Reader, ends_of
from tests.support.clients.transactional_producers import (
    TRANSACTION_TIMEOUT_MS,
    Client,
    Hasty,
    PlainWriter,
    Rival,
    Writer,
)
from tests.support.genuine.tool_server import ToolServer
from tests.support.histories.history_file import HistoryFile

__all__ = ["TRANSACTIONS_FIRE", "TransactionsFire"]

TOPIC: Final = "fire"
COPIES: Final = "copies"
PLACES: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]]
PARTITIONS: Final = [f"{TOPIC}-{index}" for index in range(len(PLACES))]
COPIED: Final = [f"{COPIES}-{index}" for index in range(len(PLACES))]
TRANSACTIONS_FIRE: Final = {
    **FIRE,
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
"""Properties of its nodes."""
CALM_SECONDS: Final = (0.5, 3.0)
SETTLE_SECONDS: Final = 60 + TRANSACTION_TIMEOUT_MS / 1000


class TransactionsFire:
    """`TransactionsFire(cluster, seed, path).burn(seconds)` is the verdict; the history is in path.

    The cluster has three nodes with both roles and the properties `TRANSACTIONS_FIRE`, and runs. faults: the
    names of those that may happen.
    """

    def __init__(self, cluster: Cluster, seed: int, path: Path, faults: Sequence[str] = ()) -> None:
        self.troubles: Counter[str] = Counter()
        """What clients did to the cluster, and how it refused them."""
        self._cluster = cluster
        self._random = random.Random(seed)
        self._faults = Faults(cluster, self._random, TOPIC, faults)
        self.faults = self._faults.names
        self._history = HistoryFile(path)
        self._servers = ",".join(node.client_address for node in cluster.nodes.values())
        for topic in (TOPIC, COPIES):
            create_placed(self._servers, topic, PLACES)
            await_in_sync(cluster, topic, len(PLACES))
        self._readers = [
            Reader("reader-1", self._history, self._servers, PARTITIONS + COPIED),
            Reader("reader-2", self._history, self._servers, PARTITIONS + COPIED),
            Reader("reads-all", self._history, self._servers, PARTITIONS + COPIED, READ_UNCOMMITTED),
        ]
        place = (self._history, self._servers, seed)
        self._clients: list[Client] = [
            Writer("writer-1", *place, PARTITIONS),
            Writer("writer-2", *place, PARTITIONS),
            Rival("rival-1", *place, PARTITIONS, "throne"),
            Rival("rival-2", *place, PARTITIONS, "throne"),
            Hasty("hasty", *place, PARTITIONS),
            PlainWriter("plain", *place, PARTITIONS),
            Copier("copier-1", *place, TOPIC, COPIES),
            Copier("copier-2", *place, TOPIC, COPIES),
        ]

    def burn(self, seconds: float, faults: int = 1) -> Verdict:
        """For so long, and until there were so many faults."""
        ends_at = time.monotonic() + seconds
        time.sleep(2)
        while time.monotonic() < ends_at or self._faults.counts.total() < faults:
            name, node = self._faults.begin()
            about = {"process": "nemesis", "operation": "fault", "name": name, "why": f"node {node.node_id}"}
            self._history.add(type="invoke", **about)
            self._faults.run(name, node)
            self._history.add(type="ok", **about)
            for topic in (TOPIC, COPIES):
                await_in_sync(self._cluster, topic, len(PLACES))
            time.sleep(self._random.uniform(*CALM_SECONDS))
        for client in self._clients:
            client.end()
        for client in self._clients:
            client.join()
            self.troubles += client.troubles
        self._read_to_the_end()
        self._history.close()
        return check(read_history(self._history.path))

    def _read_to_the_end(self) -> None:
        """Those who have read all the time, and one who has come afterwards."""
        everywhere = PARTITIONS + COPIED
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            stable = ends_of(self._servers, everywhere, READ_COMMITTED)
            high = ends_of(self._servers, everywhere, READ_UNCOMMITTED)
            if stable == high or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        self._readers.append(Reader("comes-afterwards", self._history, self._servers, everywhere))
        for reader in self._readers:
            reader.come_to_the_end(high, high if reader.isolation == READ_UNCOMMITTED else stable)


def main() -> int:
    parser = argparse.ArgumentParser(description="Transactions on a cluster of three under fire.")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", choices=["all", "nodes", "cuts"], default="all")
    parser.add_argument("--against", choices=["barnabas", "kafka"], default="barnabas")
    options = parser.parse_args()
    faults = {"all": ON_NODES + CUTS, "nodes": ON_NODES, "cuts": CUTS}[options.faults]
    folder = Path(tempfile.mkdtemp(prefix="transactions-under-fire-"))
    print(f"the nodes' logs and data, and history.jsonl: {folder}", flush=True)
    kind, tools = (KAFKAS, ToolServer(folder)) if options.against == "kafka" else (OURS, None)
    with (
        tools or nullcontext(),
        CutNetwork() as network,
        Cluster(folder, [kind] * 3, tools=tools, properties=TRANSACTIONS_FIRE, network=network) as cluster,
    ):
        cluster.format().start().await_brokers()
        fire = TransactionsFire(cluster, options.seed, folder / "history.jsonl", faults)
        verdict = fire.burn(options.seconds, len(fire.faults))
    if not verdict.is_clean:
        print(verdict.stories)
    print(verdict.line)
    print(", ".join(f"{count} x {name}" for name, count in sorted(fire.troubles.items())))
    assert set(verdict.faults) == set(fire.faults), "each kind of fault has happened"
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
