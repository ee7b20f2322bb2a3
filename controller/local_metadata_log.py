"""The metadata log of a quorum of one: this node's disk decides, and nobody else.

    <metadata.log.dir>/__cluster_metadata-0/
        00000000000000000000.log …                      batches as in any partition; leader epoch = raft epoch
        00000000000000000000-0000000000.checkpoint      first voters, from `storage format`
        <end offset>-<epoch>.checkpoint                 snapshots of the state
        quorum-state                                    leader and epoch, replaced before each life begins
        leader-epoch-checkpoint, partition.metadata

A life of the node is an epoch: at the start it takes the next one, writes it to quorum-state, and opens its
epoch in the log with a LEADER_CHANGE record (with the voters beside it, when the log does not know them or
they listen elsewhere now). That much is synced before anything else happens, at start-up and so
synchronously.

Later appends are written at once and synced by a helper thread; what was written while a sync ran shares
the next one. When a sync returns, everything written before it began is committed. If a sync fails nothing
after it can be trusted, and the exception goes up to the loop and ends the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from config.ports import Clock, Files, Offload
from controller.image.brokers import Endpoint
from controller.image.cluster_image import ClusterImage
from controller.image.replayer import MetadataBatch
from controller.levels import LATEST_METADATA_VERSION
from controller.metadata_log import (
    NO_LEADER,
    LeaderAndEpoch,
    MetadataLogListener,
    NotLeader,
    QuorumView,
    ReadOutcome,
    ReplicaProgress,
    SnapshotId,
)
from controller.observers import Observers
from controller.quorum_state import QuorumStateFile
from controller.quorum_state import read as read_quorum_state
from controller.quorum_state import write as write_quorum_state
from controller.records import build_metadata_batch, read_metadata_batches
from controller.snapshot_directory import SnapshotDirectory, SnapshotRetention
from controller.voters import Voter, VoterSet, voters_in
from protocol.codec.compiler import encode
from protocol.codec.message import Message
from protocol.errors import invariant
from protocol.quorum.control_records import KRaftVersionRecord, LeaderChangeMessage
from protocol.records.control import ControlRecordType, build_control_batch
from protocol.records.header import headers
from storage.checkpoints import encode_leader_epochs
from storage.chores import Chore
from storage.partition_log import PartitionLog

__all__ = ["LocalMetadataLog", "OtherVoters"]

READ_CHUNK_BYTES: Final = 1 << 20
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
CLEAN_UP_INTERVAL_MS: Final = 60_000
"""Between two looks at what may go; as in Kafka."""
REMOVAL: Final = "remove "
"""How the log's chores begin for which no commit waits."""


class OtherVoters(Exception):
    """The quorum has other voters than this node; one line for the operator."""


class LocalMetadataLog:
    """`controller.metadata_log.MetadataLog` over one PartitionLog. `start` before anything else."""

    def __init__(
        self,
        log: PartitionLog,
        *,
        node_id: int,
        directory_id: bytes,
        endpoints: Mapping[str, Endpoint],
        files: Files,
        clock: Clock,
        offload: Offload,
        static_voters: Sequence[int] = (),
        retention: SnapshotRetention | None = None,
    ) -> None:
        """endpoints: where this controller listens now. static_voters: ids of `controller.quorum.voters`.
        retention: how long snapshots and the log behind them are kept; for ever without.

        The log's chores must be its own: they are what a commit waits for.
        """
        self._log = log
        self._node_id = node_id
        self._directory_id = directory_id
        self._endpoints = endpoints
        self._files = files
        self._clock = clock
        self._offload = offload
        self._static_voters = tuple(static_voters)
        self._epoch = 0
        self._voters = VoterSet()
        self._high_watermark = 0
        self._listeners: list[MetadataLogListener] = []
        self._uncommitted: deque[MetadataBatch] = deque()
        self._syncing = False
        self._advance_waiters: dict[object, Callable[[], None]] = {}
        self._observers = Observers()
        self._snapshots = SnapshotDirectory(files, log.directory, offload, retention)
        self._size_since_snapshot_bytes = 0
        self._next_clean_up_ms = 0
        self._closed = False

    # The beginning

    def start(self) -> None:
        """Takes the next epoch and opens it. Raises OtherVoters, LogStorageError, OSError, Malformed…"""
        state = read_quorum_state(self._files, self._log.directory) or QuorumStateFile()
        self._load_voters()
        known = max(state.leader_epoch, self._log.leader_epochs.latest_epoch, 0)
        self._epoch = known + 1
        dynamic = self._voters.kraft_version > 0
        write_quorum_state(
            self._files,
            self._log.directory,
            QuorumStateFile(
                leader_epoch=self._epoch,
                leader_id=self._node_id,
                data_version=1 if dynamic else 0,
                voters=() if dynamic else (self._node_id,),
            ),
        )
        self._open_epoch()
        self._log.flush()
        for chore in self._log.chores.take_all():
            chore.call()
            if chore.done is not None:
                chore.done()
        self._files.write_atomically(
            f"{self._log.directory}/{LEADER_EPOCH_CHECKPOINT}",
            encode_leader_epochs(self._log.leader_epochs.entries()),
        )
        self._high_watermark = self._log.log_end_offset
        self._log.update_high_watermark(self._high_watermark)

    def _load_voters(self) -> None:
        """From the snapshots and then the log; refuses a quorum that is not this node alone."""
        self._voters = self._snapshots.load(self._log.log_start_offset)
        snapshot = self._snapshots.newest
        for chunk in self._chunks(self._log.log_start_offset):
            self._voters = voters_in(chunk, self._voters)
            if snapshot is None or _last_offset(chunk) >= snapshot.end_offset:
                self._size_since_snapshot_bytes += len(chunk)
        ids = tuple(self._voters.by_id) or self._static_voters
        if ids != (self._node_id,):
            raise OtherVoters(
                f"{self._log.directory}: the quorum's voters are {list(ids)}, and this release runs a quorum "
                f"of one only, this node ({self._node_id})"
            )

    def _open_epoch(self) -> None:
        """LEADER_CHANGE, and the voters if the log does not have them as they are."""
        voter = LeaderChangeMessage.Voter(voter_id=self._node_id)
        change = LeaderChangeMessage(leader_id=self._node_id, voters=[voter], granting_voters=[voter])
        content = [(ControlRecordType.LEADER_CHANGE, encode(change, 0))]
        if self._voters.kraft_version > 0:
            present = self._present_voters(self._voters.kraft_version)
            if present.to_record() != self._voters.to_record() or self._log.log_end_offset == 0:
                self._voters = present
                content += _voters_content(present)
        now_ms = self._clock.wall_ms()
        batch = build_control_batch(
            content, timestamp_ms=now_ms, base_offset=self._log.log_end_offset, leader_epoch=self._epoch
        )
        self._log.append_as_follower(batch, now_ms=now_ms)

    def _present_voters(self, kraft_version: int) -> VoterSet:
        own = Voter(self._node_id, self._directory_id, MappingProxyType(dict(self._endpoints)))
        return VoterSet(MappingProxyType({own.id: own}), kraft_version)

    def _chunks(self, offset: int) -> Iterator[bytes]:
        """The log's bytes from the batch at `offset` on, whole batches first, perhaps a cut-off one
        behind."""
        while (piece := self._log.read(offset, max_bytes=READ_CHUNK_BYTES)) is not None:
            content = piece.read()
            last_offset = _last_offset(content)
            invariant(last_offset >= offset, "a read gives a whole batch", offset=offset)
            yield content
            offset = last_offset + 1

    def register(self, listener: MetadataLogListener) -> None:
        offset = self._log.log_start_offset
        snapshot = self._snapshots.newest
        if snapshot is not None:
            listener.load_snapshot(snapshot, self._snapshots.image_of(snapshot))
            offset = max(offset, snapshot.end_offset)
        for chunk in self._chunks(offset):
            for batch in read_metadata_batches(chunk):
                if batch.base_offset >= offset and batch.last_offset < self._high_watermark:
                    listener.commit(batch)
        self._listeners.append(listener)
        listener.leader_changed(self.leader)

    # What is known

    @property
    def leader(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(NO_LEADER if self._closed else self._node_id, self._epoch)

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def size_since_snapshot_bytes(self) -> int:
        return self._size_since_snapshot_bytes

    @property
    def kraft_version(self) -> int:
        return self._voters.kraft_version

    # Append, sync, commit

    def append(
        self, epoch: int, records: Sequence[Message], *, metadata_version: int = LATEST_METADATA_VERSION
    ) -> MetadataBatch:
        self._check_leads(epoch)
        invariant(bool(records), "a batch has records")
        now_ms = self._clock.wall_ms()
        content = build_metadata_batch(
            records,
            base_offset=self._log.log_end_offset,
            epoch=epoch,
            timestamp_ms=now_ms,
            metadata_version=metadata_version,
        )
        return self._write(content, tuple(records), now_ms)

    def raise_kraft_version(self, epoch: int, version: int) -> MetadataBatch:
        self._check_leads(epoch)
        self._voters = self._present_voters(version)
        now_ms = self._clock.wall_ms()
        content = build_control_batch(
            _voters_content(self._voters),
            timestamp_ms=now_ms,
            base_offset=self._log.log_end_offset,
            leader_epoch=epoch,
        )
        batch = self._write(content, (), now_ms)
        state = QuorumStateFile(leader_epoch=epoch, leader_id=self._node_id, data_version=1)
        self._offload.submit(
            partial(write_quorum_state, self._files, self._log.directory, state), _raise_if_failed
        )
        return batch

    def _check_leads(self, epoch: int) -> None:
        if self._closed or epoch != self._epoch:
            raise NotLeader(f"epoch {epoch} is not led here, {self.leader} is known")

    def _write(self, content: bytes | bytearray, records: Sequence[Message], now_ms: int) -> MetadataBatch:
        base_offset = self._log.log_end_offset
        self._log.append_as_follower(content, now_ms=now_ms)
        self._size_since_snapshot_bytes += len(content)
        batch = MetadataBatch(base_offset, self._log.log_end_offset - 1, self._epoch, now_ms, records)
        self._uncommitted.append(batch)
        if not self._syncing:
            self._sync()
        return batch

    def _sync(self) -> None:
        """Hands what is written to a helper thread; its return commits."""
        self._syncing = True
        end_offset = self._log.log_end_offset
        self._log.flush()
        due = self._log.chores.take_due(self._clock.wall_ms())
        chores = [chore for chore in due if not chore.what.startswith(REMOVAL)]
        invariant(bool(chores), "what was written needs a sync", end_offset=end_offset)
        for removal in due:
            if removal.what.startswith(REMOVAL):
                self._offload.submit(removal.call, _raise_if_failed)
        waiting = [len(chores)]

        def finished(chore: Chore, outcome: object) -> None:
            if isinstance(outcome, BaseException):
                raise outcome
            if chore.done is not None:
                chore.done()
            waiting[0] -= 1
            if not waiting[0]:
                self._synced(end_offset)

        for chore in chores:
            self._offload.submit(chore.call, partial(finished, chore))

    def _synced(self, end_offset: int) -> None:
        self._syncing = False
        self._high_watermark = end_offset
        self._log.update_high_watermark(end_offset)
        while self._uncommitted and self._uncommitted[0].last_offset < end_offset:
            batch = self._uncommitted.popleft()
            for listener in self._listeners:
                listener.commit(batch)
        waiters, self._advance_waiters = self._advance_waiters, {}
        for callback in waiters.values():
            callback()
        if self._uncommitted and not self._closed and not self._syncing:
            self._sync()
        if self._clock.wall_ms() >= self._next_clean_up_ms and not self._closed:
            self._clean_up()

    def _clean_up(self) -> None:
        """Gives up snapshots that are too old or too many, and the log that only they needed."""
        now_ms = self._clock.wall_ms()
        self._next_clean_up_ms = now_ms + CLEAN_UP_INTERVAL_MS
        while (offset := self._snapshots.new_log_start(self._log.size_bytes, now_ms)) is not None:
            self._log.increase_log_start(offset)
            self._log.delete_old_segments(now_ms)
            self._snapshots.forget_before(offset)

    # Observers

    def read(self, offset: int, last_fetched_epoch: int, max_bytes: int) -> ReadOutcome:
        start = self._log.log_start_offset
        snapshot = self._snapshots.newest
        if snapshot is not None and (offset < start or not offset):
            return ReadOutcome(b"", snapshot=snapshot)  # a beginner need not read what it stands for
        if (offset, last_fetched_epoch, start) != (0, 0, 0):
            epoch, end_offset = self._log.end_offset_for_epoch(last_fetched_epoch)
            if epoch < 0:
                epoch, end_offset = 0, start
            if epoch != last_fetched_epoch or end_offset < offset:
                return ReadOutcome(b"", diverging=(epoch, end_offset))
        if offset >= self._high_watermark:
            return ReadOutcome(b"")
        piece = self._log.read(offset, max_bytes=max_bytes, up_to_offset=self._high_watermark)
        return ReadOutcome(b"" if piece is None else piece)

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        token = object()
        self._advance_waiters[token] = callback

        def forget() -> None:
            self._advance_waiters.pop(token, None)

        return forget

    def observed(self, replica_id: int, directory_id: bytes, fetch_offset: int, now_ms: int) -> None:
        if replica_id < 0 or replica_id == self._node_id:
            return  # a tool that looks in, or this process's own broker: Kafka lists neither
        self._observers.fetched(replica_id, directory_id, fetch_offset, self.end_offset, now_ms)

    def quorum(self, now_ms: int) -> QuorumView:
        own = ReplicaProgress(self._node_id, self._directory_id, self.end_offset, now_ms, now_ms)
        return QuorumView(
            leader=self.leader,
            high_watermark=self._high_watermark,
            voters=(own,),
            observers=self._observers.present(now_ms),
            endpoints=MappingProxyType({self._node_id: self._endpoints}),
        )

    # Snapshots

    def latest_snapshot(self) -> SnapshotId | None:
        return self._snapshots.newest

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        return self._snapshots.read_piece(snapshot, position, max_bytes)

    def snapshot_steps(self, image: ClusterImage) -> Iterator[None]:
        invariant(
            image.offset < self._high_watermark,
            "a snapshot holds committed state only",
            offset=image.offset,
            high_watermark=self._high_watermark,
        )
        size_bytes = self._size_since_snapshot_bytes

        def written() -> None:
            self._size_since_snapshot_bytes -= size_bytes

        voters = self._voters.to_record() if self._voters.kraft_version > 0 else None
        return self._snapshots.write_in_steps(image, voters, self._clock.wall_ms(), written)

    def write_snapshot(self, image: ClusterImage) -> SnapshotId:
        """All steps at once."""
        for _ in self.snapshot_steps(image):
            pass
        return SnapshotId(image.offset + 1, image.epoch)

    # The end

    def shut_down(self) -> None:
        """Syncs what is written; it is found again by the next life, committed. Nothing is answered any
        more."""
        if self._closed:
            return
        self._closed = True
        self._log.flush()
        self._log.write_snapshot()
        for chore in self._log.chores.take_all():
            chore.call()
            if chore.done is not None:
                chore.done()
        self._log.close()


def _voters_content(voters: VoterSet) -> list[tuple[ControlRecordType, bytes]]:
    """The control records that say who votes."""
    version = KRaftVersionRecord(k_raft_version=voters.kraft_version)
    return [
        (ControlRecordType.KRAFT_VERSION, encode(version, 0)),
        (ControlRecordType.KRAFT_VOTERS, encode(voters.to_record(), 0)),
    ]


def _raise_if_failed(outcome: object) -> None:
    """What a disk refuses goes up to the loop."""
    if isinstance(outcome, BaseException):
        raise outcome


def _last_offset(content: bytes) -> int:
    """Of the last whole batch, -1 without any."""
    last_offset = -1
    for _, header in headers(content):
        last_offset = header.last_offset
    return last_offset
