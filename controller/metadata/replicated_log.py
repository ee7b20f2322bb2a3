"""The metadata log as the controller uses it, kept by a quorum: `controller.metadata.log.MetadataLog`.

    controller ──append──▶ driver ──▶ raft node ──▶ disk, peers
         ▲                                │
         └── commit, leader_changed ◀─────┘ the high watermark has passed, a leader is established

A leader gets its own appends back as it gave them, one by one, though several may lie in one batch
(`controller.raft.batch_accumulator`); what it takes over from others, and everything that a follower applies,
is read from the log and decoded. Control batches that the quorum wrote by itself say nothing to a state
machine: a leader is not told of them, so that its commits are its appends, one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from config.ports import Clock
from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.image.cluster_image import ClusterImage, image_records
from controller.metadata.image.replayer import MetadataBatch
from controller.metadata.log import (
    NO_LEADER,
    LeaderAndEpoch,
    MetadataLogListener,
    NotLeader,
    QuorumView,
    ReadOutcome,
    ReplicaProgress,
    SnapshotId,
)
from controller.metadata.metadata_version import LATEST_METADATA_VERSION, at_level
from controller.metadata.records import metadata_batches, record_values
from controller.metadata.snapshots import read_image, snapshot_pieces
from controller.metadata.supported_features import UnsupportedCluster
from controller.raft.batch_accumulator import AccumulatedBatch, says_something, stays_alone
from controller.raft.disk import ReplicaDisk
from controller.raft.driver import RaftDriver
from controller.raft.effects import Ready
from controller.raft.identity import Address
from controller.raft.log_failure import named_refusals
from controller.raft.node import NotLeading, RaftNode
from controller.raft.quorum_metrics import Durations, QuorumMetrics, quorum_metrics_of
from controller.raft.roles import Progress
from controller.raft.transitions import Role
from protocol.codec.message import Message
from protocol.errors import ProtocolError, invariant
from protocol.records.header import headers
from protocol.serving.pending import Pending
from storage.partition_log import PartitionLog

__all__ = ["ReplicatedMetadataLog"]

READ_CHUNK_BYTES: Final = 1 << 20
CLEAN_UP_INTERVAL_MS: Final = 60_000
"""The time between two clean-ups of segments and snapshots that are not needed any more; it is Kafka's."""
PLAINTEXT: Final = 0
UNKNOWN_HIGH_WATERMARK: Final = -1


class ReplicatedMetadataLog:
    """The metadata log, kept by a raft replica. `start` must be called first."""

    def __init__(
        self,
        driver: RaftDriver,
        disk: ReplicaDisk,
        clock: Clock,
        *,
        node_id: int,
        clean_up_interval_ms: int = CLEAN_UP_INTERVAL_MS,
    ) -> None:
        """clean_up_interval_ms: the least time between two clean-ups."""
        self._driver = driver
        self._node = driver.node
        self._disk = disk
        self._clock = clock
        self._node_id = node_id
        self._listeners: list[MetadataLogListener] = []
        self._leader_watchers: list[Callable[[], None]] = []
        self._own: deque[tuple[MetadataBatch, AccumulatedBatch | None]] = deque()
        self._applied_offset = self._node.high_watermark
        self._leader = LeaderAndEpoch(NO_LEADER, self._node.epoch)
        self._advance_waiters: dict[object, Callable[[], None]] = {}
        self._size_since_snapshot_bytes = 0
        self._is_writing_snapshot = False
        self._is_within_batch = False
        self._clean_up_interval_ms = clean_up_interval_ms
        self._next_clean_up_ms = 0
        self._commits = Durations()
        self._elections = Durations()
        self._elected_leaders = 0
        self._leaderless_since_ms: int | None = None
        self._is_closed = False
        driver.on_commit = self._committed
        driver.on_leader = self._leader_changed
        driver.on_installed = self._installed

    def start(self) -> None:
        """Starts the replica. A voter that is alone in its quorum leads when this returns. Raises OSError and
        LogStorageError."""
        self._driver.start()

    def _chunks(self, offset: int) -> Iterator[bytes]:
        """The bytes of the log from the batch at `offset` on, in parts of whole batches, until all that is
        applied has come."""
        while offset < self._applied_offset:
            content = self._disk.read_bytes(offset, READ_CHUNK_BYTES)
            after = offset
            for _, header in headers(content):
                after = header.next_offset
            invariant(after > offset, "a read gives a whole batch", offset=offset)
            yield content
            offset = after

    # What is known

    @property
    def raft(self) -> RaftNode:
        """The state of this replica in the quorum, for reading only."""
        return self._node

    @property
    def stored(self) -> PartitionLog:
        """What is on the disk, for reading only."""
        return self._disk.log

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader as the listeners know it: this replica only after it has committed a record of its
        epoch."""
        return self._leader

    def watch_leader(self, callback: Callable[[], None]) -> None:
        """Calls back whenever another leader is known, or none any more."""
        self._leader_watchers.append(callback)

    @property
    def leader_address(self) -> Address | None:
        """The address at which controllers reach the leader; None if there is none or this replica leads."""
        leader = self._node.leader_peer
        return None if leader is None else Address(leader.host, leader.port)

    @property
    def log_start_offset(self) -> int:
        return self._node.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._driver.next_offset

    @property
    def high_watermark(self) -> int:
        return self._node.high_watermark

    @property
    def known_high_watermark(self) -> int:
        return self._node.high_watermark if self._node.knows_high_watermark else UNKNOWN_HIGH_WATERMARK

    @property
    def is_caught_up(self) -> bool:
        return self._node.is_caught_up and self._applied_offset >= self._node.high_watermark

    @property
    def size_since_snapshot_bytes(self) -> int:
        return self._size_since_snapshot_bytes

    @property
    def kraft_version(self) -> int:
        return self._node.kraft_version

    # Append and commit

    def append(
        self, epoch: int, records: Sequence[Message], *, metadata_version: int = LATEST_METADATA_VERSION
    ) -> MetadataBatch:
        if self._leader != (self._node_id, epoch):
            raise NotLeader(f"epoch {epoch} is not led here, {self._leader} is known")
        # If the node has just lost the epoch and the listeners are about to hear of it, the driver drops the
        # batch: it is one of those that are never committed.
        invariant(bool(records), "a batch has records")
        base_offset = self._driver.next_offset
        values = record_values(records, metadata_version)
        accumulated = self._driver.append(
            epoch,
            values,
            self._clock.wall_ms(),
            is_alone=stays_alone(records),
            is_news=says_something(records),
        )
        last_offset = base_offset + len(records) - 1
        batch = MetadataBatch(base_offset, last_offset, epoch, accumulated.timestamp_ms, tuple(records))
        self._own.append((batch, accumulated))
        return batch

    def _committed(self, high_watermark: int) -> None:
        self._disk.log.update_high_watermark(high_watermark)
        oldest_ms = self._own[0][0].timestamp_ms if self._own else None
        while self._applied_offset < high_watermark:
            if self._own and self._own[0][0].base_offset == self._applied_offset:
                batch, accumulated = self._own.popleft()
                self._is_within_batch = (
                    accumulated is not None and batch.last_offset + 1 < accumulated.end_offset
                )
                if accumulated is not None and not self._is_within_batch:
                    self._size_since_snapshot_bytes += accumulated.size_bytes
                self._apply(batch)
            else:
                self._apply_from_log(high_watermark)
        waiters, self._advance_waiters = self._advance_waiters, {}
        for callback in waiters.values():
            callback()
        now_ms = self._clock.wall_ms()
        if oldest_ms is not None:
            self._commits.note(max(0, now_ms - oldest_ms), now_ms)
        if now_ms >= self._next_clean_up_ms:
            self._next_clean_up_ms = now_ms + self._clean_up_interval_ms
            self.clean_up()

    def _apply(self, batch: MetadataBatch) -> None:
        self._applied_offset = batch.last_offset + 1
        for listener in self._listeners:
            listener.commit(batch)

    def _apply_from_log(self, high_watermark: int) -> None:
        """Applies batches that this replica did not append itself, up to the next one that it did."""
        leads = self._leader.leader_id == self._node_id
        content = self._disk.read_bytes(self._applied_offset, READ_CHUNK_BYTES)
        end_offset = min(self._own[0][0].base_offset, high_watermark) if self._own else high_watermark
        was = self._applied_offset
        for batch in self._decoded(content):
            if batch.last_offset < self._applied_offset:
                continue
            if leads and not batch.records:
                self._applied_offset = batch.last_offset + 1
            else:
                self._apply(batch)
            if self._applied_offset >= end_offset:
                break  # before the next batch is decoded, which may never be committed
        invariant(self._applied_offset > was, "what is committed is in the log", offset=was)
        for _, header in headers(content):
            if was <= header.base_offset and header.last_offset < self._applied_offset:
                self._size_since_snapshot_bytes += header.size_bytes

    def _decoded(self, content: bytes) -> Iterator[MetadataBatch]:
        """The batches in a piece of the log. Raises UnsupportedCluster for a record that is not known here:
        nobody can follow the log past it."""
        try:
            yield from metadata_batches(content)
        except ProtocolError as fault:
            raise _of_another_release(f"The metadata log in {self._disk.directory}", fault) from fault

    def _leader_changed(self, leader: LeaderAndEpoch) -> None:
        if self._leader.leader_id == self._node_id:
            self._own.clear()  # what is committed of it later is read from the log
        self._leader = leader
        self._note_election(leader)
        for listener in self._listeners:
            listener.leader_changed(self._leader)
        for callback in self._leader_watchers:
            callback()

    def _note_election(self, leader: LeaderAndEpoch) -> None:
        now_ms = self._clock.monotonic_ms()
        if leader.leader_id == NO_LEADER:
            if self._leaderless_since_ms is None:
                self._leaderless_since_ms = now_ms
            return
        self._elected_leaders += 1
        if self._leaderless_since_ms is not None:
            self._elections.note(now_ms - self._leaderless_since_ms, now_ms)
            self._leaderless_since_ms = None

    def quorum_metrics(self) -> QuorumMetrics:
        """The state of this replica, for metrics."""
        wall_ms, now_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        return quorum_metrics_of(
            self._node,
            self._elected_leaders,
            self._commits.mean_and_max_ms(wall_ms),
            self._elections.mean_and_max_ms(now_ms),
        )

    def register(self, listener: MetadataLogListener) -> None:
        offset = self._disk.start_offset
        snapshot = self._disk.snapshot_directory.newest
        if snapshot is not None:
            listener.load_snapshot(snapshot, self._image_of(snapshot))
            offset = max(offset, snapshot.end_offset)
        for chunk in self._chunks(offset):
            for batch in self._decoded(chunk):
                if batch.base_offset >= offset and batch.last_offset < self._applied_offset:
                    listener.commit(batch)
                if batch.last_offset + 1 >= self._applied_offset:
                    break  # what follows may never be committed, nor be of a kind that is known here
        self._listeners.append(listener)
        listener.leader_changed(self._leader)

    def check_kraft_version(self, epoch: int, version: int) -> None:
        try:
            self._node.check_kraft_version(epoch, version)
        except NotLeading as refusal:
            raise NotLeader(str(refusal)) from refusal

    def raise_kraft_version(self, epoch: int, version: int) -> MetadataBatch:
        try:
            base_offset = self._driver.raise_kraft_version(epoch, version)
        except NotLeading as refusal:
            raise NotLeader(str(refusal)) from refusal
        batch = MetadataBatch(base_offset, base_offset + 1, epoch, self._clock.wall_ms(), ())
        self._own.append((batch, None))
        return batch

    # Requests of the quorum

    def ask(self, message: Message, *, version: int, listener: str) -> Pending[Message]:
        """Answers Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot and the changes of voters."""
        return self._driver.ask(message, version=version, listener=listener)

    def read(self, offset: int, last_fetched_epoch: int, max_bytes: int) -> ReadOutcome:
        """Reads for the broker of this process, whoever leads: only records that are committed, and applied
        here."""
        fit = self._node.fit(offset, last_fetched_epoch)
        if fit.snapshot is not None:
            return ReadOutcome(b"", snapshot=fit.snapshot)
        if fit.diverging is not None:
            return ReadOutcome(b"", diverging=fit.diverging)
        if offset >= self._applied_offset:
            return ReadOutcome(b"")
        piece = self._disk.log.read(offset, max_bytes=max_bytes, up_to_offset=self._applied_offset)
        return ReadOutcome(b"" if piece is None else piece)

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        token = object()
        self._advance_waiters[token] = callback

        def forget() -> None:
            self._advance_waiters.pop(token, None)

        return forget

    def quorum(self, now_ms: int) -> QuorumView:
        voters, observers = self._node.progress(self._clock.monotonic_ms())
        is_established = self._leader == self._node.leader
        return QuorumView(
            leader=self._node.leader,
            leads=self._node.role is Role.LEADER,
            high_watermark=self._node.high_watermark if is_established else UNKNOWN_HIGH_WATERMARK,
            voters=[self._progress_of(each, now_ms) for each in voters],
            observers=[self._progress_of(each, now_ms) for each in observers],
            endpoints=self._voter_endpoints(),
        )

    def _progress_of(self, progress: Progress, now_ms: int) -> ReplicaProgress:
        if progress.key.id == self._node_id:
            return ReplicaProgress(*self._own_key(), self.end_offset, now_ms, now_ms)
        wall_offset_ms = self._node.wall_offset_ms
        return ReplicaProgress(
            progress.key.id,
            progress.key.directory_id,
            progress.end_offset,
            _wall(progress.last_fetch_ms, wall_offset_ms),
            _wall(progress.last_caught_up_ms, wall_offset_ms),
        )

    def _own_key(self) -> tuple[int, bytes]:
        return self._node.key.id, self._node.key.directory_id

    def _voter_endpoints(self) -> Mapping[int, Mapping[str, BrokerEndpoint]]:
        found: dict[int, Mapping[str, BrokerEndpoint]] = {}
        for voter in self._node.voters.by_id.values():
            addresses = {
                name: BrokerEndpoint(address.host, address.port, PLAINTEXT)
                for name, address in voter.endpoints.items()
            }
            found[voter.key.id] = MappingProxyType(addresses)
        return MappingProxyType(found)

    # Snapshots

    def latest_snapshot(self) -> SnapshotId | None:
        return self._disk.snapshot_directory.newest

    @property
    def latest_snapshot_bytes(self) -> int:
        return self._disk.snapshot_directory.newest_bytes

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        return self._disk.snapshot_directory.read_piece(snapshot, position, max_bytes)

    def snapshot_steps(self, image: ClusterImage) -> Iterator[None]:
        invariant(
            image.offset < self._applied_offset,
            "a snapshot holds committed state only",
            offset=image.offset,
            applied=self._applied_offset,
        )
        snapshot = SnapshotId(image.offset + 1, image.epoch)
        size_bytes = self._size_since_snapshot_bytes
        self._is_writing_snapshot = True

        def written() -> None:
            self._is_writing_snapshot = False
            self._size_since_snapshot_bytes = max(0, self._size_since_snapshot_bytes - size_bytes)
            self._driver.feed(partial(self._taken, snapshot))

        control = self._node.control_at(snapshot.end_offset)
        voters = control.voters if control.kraft_version > 0 else None
        pieces = snapshot_pieces(
            at_level(image, image_records(image)),
            epoch=snapshot.epoch,
            now_ms=self._clock.wall_ms(),
            last_contained_timestamp_ms=image.timestamp_ms,
            voters=voters,
            metadata_version=image.features.metadata_version,
        )
        return self._disk.snapshot_directory.write_in_steps(snapshot, pieces, image.timestamp_ms, written)

    def _image_of(self, snapshot: SnapshotId) -> ClusterImage:
        path = self._disk.snapshot_directory.path(snapshot)
        try:
            with named_refusals(self._disk.directory, "read"):
                return read_image(self._disk.files, path, snapshot)
        except ProtocolError as fault:
            raise _of_another_release(f"The snapshot {path}", fault) from fault

    def _taken(self, snapshot: SnapshotId, now_ms: int) -> Ready:
        """Drops the snapshot that was written here if a newer one of the leader has arrived meanwhile."""
        newest = self._node.latest_snapshot
        if newest is not None and snapshot <= newest:
            self._disk.forget_snapshots_before(newest.end_offset)
            return self._node.tick(now_ms)
        return self._node.snapshot_taken(snapshot, now_ms)

    @property
    def is_writing_snapshot(self) -> bool:
        return self._is_writing_snapshot

    @property
    def is_within_batch(self) -> bool:
        return self._is_within_batch

    def write_snapshot(self, image: ClusterImage) -> SnapshotId:
        """Writes a snapshot without pause, and returns its id."""
        for _ in self.snapshot_steps(image):
            pass
        return SnapshotId(image.offset + 1, image.epoch)

    def _installed(self, snapshot: SnapshotId) -> None:
        """Gives the listeners the leader's snapshot, which replaces everything that was applied here."""
        image = self._image_of(snapshot)
        self._own.clear()
        self._applied_offset = snapshot.end_offset
        self._size_since_snapshot_bytes = 0
        for listener in self._listeners:
            listener.load_snapshot(snapshot, image)

    def clean_up(self) -> None:
        """Looks which snapshots and which part of the log can be deleted, as soon as the replica is ready for
        it."""
        self._driver.feed(self._clean_up)

    def _clean_up(self, now_ms: int) -> Ready:
        """Deletes the oldest snapshot if it is too old or they are too many, and the log that only it needed;
        then looks again. A snapshot of which the node is about to be told waits for the next time."""
        snapshots = self._disk.snapshot_directory
        offset = snapshots.new_log_start(self._disk.log.size_bytes, self._clock.wall_ms())
        snapshot = None if offset is None else self._node.snapshot_at(offset)
        if snapshot is None or snapshot.end_offset <= self.log_start_offset:
            return self._node.tick(now_ms)
        self._driver.feed(self._clean_up)
        return self._node.advance_log_start(snapshot, now_ms)

    # The end

    def resign_and_stop(self, timeout_ms: int, done: Callable[[], None]) -> None:
        """Resigns as the leader: tells the other voters, and stays until one of them leads or the time is
        over."""
        self._driver.shut_down(timeout_ms, done)

    def shut_down(self) -> None:
        """Syncs what is written and closes the files. Requests get no answer any more."""
        if self._is_closed:
            return
        self._is_closed = True
        self._leader = LeaderAndEpoch(NO_LEADER, self._leader.epoch)
        self._driver.stop()
        self._disk.close()


def _of_another_release(what: str, fault: ProtocolError) -> UnsupportedCluster:
    return UnsupportedCluster(
        f"{what} cannot be read by this release: {fault}. Start this node with the release that wrote it."
    )


def _wall(monotonic_ms: int, wall_offset_ms: int) -> int:
    return monotonic_ms if monotonic_ms < 0 else monotonic_ms + wall_offset_ms
