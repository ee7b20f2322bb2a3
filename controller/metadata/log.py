"""The port to the replicated metadata log: what the controller needs of it, whatever keeps the replicas.

    append ──▶ written ──▶ committed ──▶ listeners
                 │             │
                 │             └─ high_watermark: the end of what can never be lost again
                 └─ end_offset

The log of an only voter commits when its disk has synced; that of several voters when a majority has. The
controller sees only the difference in time. A listener gets everything in order: first a snapshot if there is
one, then each committed batch, and a change of the leader only after the batches before it. All calls happen
on the loop.

`replicated_log` implements it, with one voter or many. A contract test compares it with this text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.replayer import MetadataBatch
from controller.metadata.metadata_version import LATEST_METADATA_VERSION
from controller.raft.identity import LeaderAndEpoch, SnapshotId
from protocol.codec.message import Message
from protocol.primitives import Records
from protocol.serving.pending import Pending

__all__ = [
    "METADATA_PARTITION",
    "NO_LEADER",
    "LeaderAndEpoch",
    "MetadataLog",
    "MetadataLogListener",
    "NotLeader",
    "QuorumView",
    "ReadOutcome",
    "ReplicaProgress",
    "SnapshotId",
]

METADATA_PARTITION: Final = 0
NO_LEADER: Final = -1


class NotLeader(Exception):
    """The append was refused, because only the leader may append, and only in its own epoch."""


class MetadataLogListener(Protocol):
    """Follows the committed log. No call may raise: a record that cannot be replayed ends the process."""

    def load_snapshot(self, snapshot: SnapshotId, image: ClusterImage) -> None:
        """Called with all records of a snapshot; the listener drops what it had before."""
        ...

    def commit(self, batch: MetadataBatch) -> None:
        """Called with the next committed batch. A leader gets its own batches here too. Control batches come
        without records."""
        ...

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        """Called when the leader has changed. If the listener itself is the leader, all batches of earlier
        epochs have been committed to it before."""
        ...


class ReplicaProgress(NamedTuple):
    """How far a voter or observer has fetched. Times are wall-clock milliseconds, -1 if unknown."""

    replica_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumView(NamedTuple):
    """The quorum as its leader sees it. leads: whether this replica is the leader; one that has resigned is
    none, though the epoch still is its own. endpoints: by voter id, then by listener name."""

    leader: LeaderAndEpoch
    leads: bool
    high_watermark: int
    voters: Sequence[ReplicaProgress]
    observers: Sequence[ReplicaProgress]
    endpoints: Mapping[int, Mapping[str, BrokerEndpoint]]


class ReadOutcome(NamedTuple):
    """What a replica gets that fetches from an offset, with the epoch of the record before it: exactly one of

    * records: committed batches from the offset on, empty at the end;
    * diverging: its log differs, and it must truncate to this epoch and end offset;
    * snapshot: the offset is below the log's start, and it must load this snapshot first.
    """

    records: Records
    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None


class MetadataLog(Protocol):
    """One replica of the metadata log, as its users see it."""

    @property
    def leader(self) -> LeaderAndEpoch: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """The offset of the next record that is appended to this replica."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset after the last committed record."""
        ...

    @property
    def known_high_watermark(self) -> int:
        """`high_watermark`, or -1 until a leader has told it since the start."""
        ...

    @property
    def is_caught_up(self) -> bool:
        """Whether the listeners know everything that is committed, as far as the leader has told: what they
        know is then the present, and not a state that later records have changed."""
        ...

    @property
    def size_since_snapshot_bytes(self) -> int:
        """The size of the log after the newest snapshot, which a restart must replay."""
        ...

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version. 0: the voters are configured. 1: they are in the log
        (KIP-853)."""
        ...

    def register(self, listener: MetadataLogListener) -> None:
        """Adds a listener. It gets what is committed already first: at once, or as soon as the log has
        started."""
        ...

    def append(
        self, epoch: int, records: Sequence[Message], *, metadata_version: int = LATEST_METADATA_VERSION
    ) -> MetadataBatch:
        """Writes these records, of which all are committed or none. Returns what was written. Appends at the
        same time may share a batch; listeners get each by itself.

        metadata_version: the finalized level, which decides in which versions the records are written. Raises
        NotLeader if `epoch` is not the one that this replica leads. If the disk refuses later, the process
        ends, because the log is its only memory.
        """
        ...

    def raise_kraft_version(self, epoch: int, version: int) -> MetadataBatch:
        """Writes the version and the voters into the log, as a batch without metadata records (KIP-853).

        From then on the voters of the log count, not those of the config. Raises NotLeader, and
        VersionChangeRefused while a voter has not told its directory and versions yet.
        """
        ...

    def check_kraft_version(self, epoch: int, version: int) -> None:
        """Raises what `raise_kraft_version` would raise now, and writes nothing."""
        ...

    def ask(self, message: Message, *, version: int, listener: str) -> Pending[Message]:
        """Answers a request of the quorum (Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot of
        other nodes, AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter) that came by the listener with this
        name."""
        ...

    def read(self, offset: int, last_fetched_epoch: int, max_bytes: int) -> ReadOutcome:
        """Reads for an observer, which may see committed records only."""
        ...

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once, when the high watermark next moves. Calling the result cancels that."""
        ...

    def quorum(self, now_ms: int) -> QuorumView: ...

    def latest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot that holds state. The one written by `storage format` does not count."""
        ...

    @property
    def latest_snapshot_bytes(self) -> int:
        """The size of the snapshot that `latest_snapshot` names; 0 if there is none."""
        ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Bytes from a position, and the snapshot's whole size; None if there is no such snapshot."""
        ...

    @property
    def is_writing_snapshot(self) -> bool:
        """Whether a snapshot that was begun by `snapshot_steps` is not durable yet. Another one must wait."""
        ...

    @property
    def is_within_batch(self) -> bool:
        """Whether the last committed record lies within a batch, at which a snapshot may not end."""
        ...

    def snapshot_steps(self, image: ClusterImage) -> Iterator[None]:
        """Keeps an image of committed state, so that the log before it need not be replayed again.

        Each step is a few milliseconds of work; after the last one the file is handed to a helper thread.
        """
        ...

    def shut_down(self) -> None:
        """Writes what must be on disk, and closes the files."""
        ...
