"""What must hold of the metadata: of the images of all nodes, and of the quorum's log beneath them.

    images at one offset are equal              of brokers and controllers, subject by subject
    an image never goes back                    in one life of a node
    one leader of the quorum per epoch          of all nodes that ever lived, each in one life
    the quorum's epoch never falls              in one life
    the quorum's high watermark never falls     in one life
    the committed metadata log is one           all replicas have the same batches below their high watermark

Images share what did not change, so two that were equal once need not be compared again in what both still
have. What raft itself promises is the matter of the quorum's own simulator (`broker.simulation.quorum`),
which knows every message; here it is the floor that the cluster stands upon.
"""

from __future__ import annotations

from typing import Final

from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.histories.history import Event
from broker.simulation.rules.committed_logs import CommittedLog, Difference
from broker.simulation.rules.seen_logs import SeenLog
from broker.simulation.rules.seen_partitions import SeenCluster
from broker.simulation.verdict import Violation
from controller.metadata.image.cluster_image import ClusterImage
from controller.raft.transitions import Role

__all__ = [
    "IMAGES_DIFFER",
    "IMAGE_GOES_BACK",
    "METADATA_DIFFERS",
    "QUORUM_EPOCH_FALLS",
    "QUORUM_HIGH_WATERMARK_FALLS",
    "TWO_QUORUM_LEADERS",
    "ImageRules",
    "QuorumRules",
    "different_subjects",
]

IMAGES_DIFFER: Final = "images at one offset are equal"
IMAGE_GOES_BACK: Final = "an image never goes back"
TWO_QUORUM_LEADERS: Final = "one leader of the quorum per epoch"
QUORUM_EPOCH_FALLS: Final = "the quorum's epoch never falls"
QUORUM_HIGH_WATERMARK_FALLS: Final = "the quorum's high watermark never falls"
METADATA_DIFFERS: Final = "the committed metadata log is one"

_SUBJECTS: Final = tuple(
    name for name in ClusterImage.__struct_fields__ if name not in ("offset", "epoch", "timestamp_ms")
)
_KEPT_IMAGES: Final = 500
"""So many offsets are known with their image; who is further behind is not compared."""


def different_subjects(one: ClusterImage, other: ClusterImage) -> list[str]:
    """Their names. What one and the same object says is not looked at."""
    return [
        name
        for name in _SUBJECTS
        if (mine := getattr(one, name)) is not (theirs := getattr(other, name)) and mine != theirs
    ]


class ImageRules:
    """`partition_watch.ImageRule`: all images beside each other."""

    def __init__(self, cluster: SeenCluster) -> None:
        self._count = cluster.coverage.count
        self._known: dict[tuple[int, int], ClusterImage] = {}
        """The first image that came, by offset and epoch."""
        self._equal: dict[tuple[int, bool], dict[str, tuple[object, object]]] = {}
        """By node and role: of each subject, the node's object that was found equal to another one."""

    def came(
        self, node: SimulatedNode, before: ClusterImage, image: ClusterImage, *, controller: bool
    ) -> None:
        """See `partition_watch.ImageRule`."""
        if image.offset < before.offset:
            raise Violation(IMAGE_GOES_BACK, f"{node} was at offset {before.offset}, is at {image.offset}")
        known = self._known
        first = known.setdefault((image.offset, image.epoch), image)
        if first is image:
            if len(known) > _KEPT_IMAGES:
                del known[next(iter(known))]
            return
        self._count("looked at: image beside another node's")
        equal = self._equal.setdefault((node.node_id, controller), {})
        for name in _SUBJECTS:
            mine, theirs = getattr(image, name), getattr(first, name)
            if mine is theirs:
                continue
            was_mine, was_theirs = equal.get(name, (None, None))
            if mine is was_mine and theirs is was_theirs:
                continue
            if mine != theirs:
                raise Violation(
                    IMAGES_DIFFER,
                    f"{node} has at offset {image.offset} other {name} than another node: {mine} beside "
                    f"{theirs}",
                )
            equal[name] = (mine, theirs)


class _SeenReplicaOfQuorum:
    """A node's replica of the metadata log in one life."""

    def __init__(self, life: int, log: SeenLog) -> None:
        self.life = life
        self.log = log
        self.standing: tuple[Role, int, int, int, int] | None = None
        self.verified_end = 0


class QuorumRules:
    """`cluster_world.Rule`: the metadata log and who leads it."""

    def __init__(self, cluster: SeenCluster) -> None:
        self.committed = CommittedLog()
        self.leaders: dict[int, tuple[int, int]] = {}
        """By epoch: the node and its life."""
        self._count = cluster.coverage.count
        self._replicas: dict[int, _SeenReplicaOfQuorum] = {}

    def has_ended(self, node: SimulatedNode) -> None:
        """Another life begins with another log."""
        self._replicas.pop(node.node_id, None)

    def has_happened(self, event: Event) -> None:
        """Clients are no matter of these rules."""

    def after_turn(self, node: SimulatedNode) -> None:
        """See `cluster_world.Rule`."""
        running = node.machine.node
        replica = None if running is None else running.replica
        if replica is None:
            return
        raft, stored = replica.log.raft, replica.log.stored
        seen = self._replicas.get(node.node_id)
        if seen is None or seen.life != node.lives:
            seen = _SeenReplicaOfQuorum(node.lives, SeenLog(stored, node.machine.files))
            self._replicas[node.node_id] = seen
        segments = stored.segments
        standing = (
            raft.role, raft.epoch, raft.high_watermark, segments.log_end_offset, segments.truncations
        )  # fmt: skip
        before = seen.standing
        if standing != before:
            seen.standing = standing
            self._changed(node, seen, before, standing)

    def _changed(
        self,
        node: SimulatedNode,
        seen: _SeenReplicaOfQuorum,
        before: tuple[Role, int, int, int, int] | None,
        now: tuple[Role, int, int, int, int],
    ) -> None:
        role, epoch, high_watermark, _, _ = now
        if before is not None and epoch < before[1]:
            raise Violation(QUORUM_EPOCH_FALLS, f"{node} was in epoch {before[1]}, is in {epoch}")
        if before is not None and high_watermark < before[2]:
            raise Violation(
                QUORUM_HIGH_WATERMARK_FALLS, f"{node}: {before[2]} became {high_watermark} in epoch {epoch}"
            )
        if role is Role.LEADER:
            self._count("looked at: leader of the quorum")
            who = (node.node_id, seen.life)
            known = self.leaders.setdefault(epoch, who)
            if known != who:
                raise Violation(
                    TWO_QUORUM_LEADERS,
                    f"epoch {epoch}: node {who[0]} leads in its life {who[1]}, and node {known[0]} in its "
                    f"life {known[1]} did",
                )
        if seen.log.look() == 0:
            seen.verified_end = 0
            if not seen.log.is_from_the_beginning:
                self._count("looked at: metadata log that begins with a snapshot")
        committed_end = min(high_watermark, seen.log.end_offset)  # a snapshot may be on its way to the disk
        if committed_end > seen.verified_end:
            self._verify(node, seen, committed_end)

    def _verify(self, node: SimulatedNode, seen: _SeenReplicaOfQuorum, committed_end: int) -> None:
        self._count("looked at: committed metadata log")
        committed, log = self.committed, seen.log
        start_offset = log.batches[0].base_offset if log.batches else log.end_offset
        try:
            seen.verified_end = committed.agreed_end(log, seen.verified_end, start_offset, committed_end)
        except Difference as difference:
            raise Violation(METADATA_DIFFERS, f"{node}: {difference}") from difference
        if committed_end > committed.end_offset:
            committed.extend(log, committed_end)
            seen.verified_end = committed.end_offset
