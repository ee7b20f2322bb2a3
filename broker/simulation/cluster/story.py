"""What happened in a run, told to people: who led, who was in sync, what was cut off, what befell whom.

       12.345  step: node-2 is killed
       12.771  node-1 leads flights-0 in epoch 3, from offset 120, in sync 1, 3
       14.020  node-3 cuts flights-0 from 131 to 120
       14.020  committed records are never lost: …

A story is told only where one is wanted: while a failure is being shrunk nobody listens. It ends with what
each node holds of the partitions that the failure names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.replication.partition import Partition
from broker.replication.roles import Leader
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.histories.history import Event
from controller.raft.identity import LeaderAndEpoch

__all__ = ["Story"]

MOST_PARTITIONS: Final = 8
"""Of so many at most it is told who holds what, where the failure names none."""


class Story:
    """A rule that always holds: it looks as the rules do, and tells what has changed. lines: so far."""

    def __init__(self, world: ClusterWorld) -> None:
        self.lines: list[str] = []
        self._world = world
        self._seen: dict[tuple[int, str, int], tuple[object, ...]] = {}
        self._ends: dict[tuple[int, str, int], int] = {}
        self._quorum: dict[int, LeaderAndEpoch] = {}
        world.listeners.append(self.tell)
        world.rules.insert(0, self)

    def tell(self, text: str) -> None:
        self.lines.append(f"{self._world.now_ms / 1e3:10.3f}  {text}")

    # What the rules see

    def after_turn(self, node: SimulatedNode) -> None:
        for partition in node.partitions:
            self._look_at(node, partition)
        controller = node.controller
        if controller is None:
            return
        leader = controller.log.leader
        if leader != self._quorum.get(node.node_id):
            self._quorum[node.node_id] = leader
            if leader.leader_id == node.node_id:
                self.tell(f"{node} leads the controllers in epoch {leader.epoch}")

    def has_ended(self, node: SimulatedNode) -> None:
        self.tell(f"{node} is down")
        self._seen = {key: seen for key, seen in self._seen.items() if key[0] != node.node_id}
        self._ends = {key: end for key, end in self._ends.items() if key[0] != node.node_id}
        self._quorum.pop(node.node_id, None)

    def has_happened(self, event: Event) -> None:
        if event.type == "fail" and event.why:
            self.tell(f"{event.process} fails: {event.why}")

    def _look_at(self, node: SimulatedNode, partition: Partition) -> None:
        key = (node.node_id, partition.topic, partition.index)
        end = partition.log.log_end_offset
        before_end = self._ends.get(key, 0)
        if end != before_end:
            self._ends[key] = end
            if end < before_end:
                self.tell(f"{node} cuts {_name(partition)} from {before_end} to {end}")
        state = partition.state
        seen: tuple[object, ...] = (partition.role, partition.leader_epoch, partition.isr)
        before = self._seen.get(key)
        if seen == before:
            return
        self._seen[key] = seen
        if isinstance(state, Leader):
            isr = ", ".join(str(each) for each in partition.isr)
            if before is None or before[:2] != seen[:2]:
                self.tell(
                    f"{node} leads {_name(partition)} in epoch {partition.leader_epoch}, "
                    f"from offset {partition.leader_epoch_start_offset}, in sync {isr}"
                )
            else:
                self.tell(f"{node} has in sync for {_name(partition)}: {isr}")
        elif partition.is_offline:
            self.tell(f"{node} has lost the disk of {_name(partition)}")

    # The end

    def holdings(self, text: str) -> list[str]:
        """Who holds what of the partitions that a failure's text names; of the first few if it names none."""
        names = {_name(each) for node in self._world.nodes.values() for each in node.partitions}
        named = sorted(name for name in names if name in text) or sorted(names)[:MOST_PARTITIONS]
        return [line for name in named for line in [f"{name}:", *self._held(name)]]

    def _held(self, name: str) -> Iterable[str]:
        for node in self._world.nodes.values():
            if not node.is_up:
                yield f"    {node}  is down"
            for partition in node.partitions:
                if _name(partition) == name:
                    yield f"    {node}  {_held_by(partition)}"


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.index}"


def _held_by(partition: Partition) -> str:
    log = partition.log
    epochs = ", ".join(f"{epoch} from {start}" for epoch, start in log.leader_epochs.entries())
    return (
        f"{partition.role.value} in epoch {partition.leader_epoch}, offsets {log.log_start_offset} to "
        f"{log.log_end_offset}, high watermark {log.high_watermark}, leader epochs {epochs or 'none'}"
    )
