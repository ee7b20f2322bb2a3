"""The snapshots of one replica's log: found at the start, read in pieces, written in steps, given up in time.

Older snapshots stay beside the newest one, with the log behind them, so that a slow observer can go on from
where it is. They go, the oldest first, as Kafka lets them go:

::

    snapshot 10 ──log──▶ snapshot 20 ──log──▶ snapshot 30 ──log──▶ end
    │                    │
    │                    └─ becomes the log's start; whole segments below it are removed
    └─ goes when snapshots and log together are larger than metadata.max.retention.bytes, or when its last
       record is older than metadata.max.retention.ms; never the newest

A file that goes is renamed to `….checkpoint.deleted` first and removed by a helper thread, so a crash between
leaves nothing that looks whole; what such a crash left is removed at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from config.ports import Files, Offload
from controller.raft.identity import SnapshotId
from controller.raft.log_failure import named_refusals, raise_if_refused
from controller.raft.snapshot_files import (
    DELETED_SUFFIX,
    FORMAT_SNAPSHOT,
    PART_SUFFIX,
    list_snapshots,
    read_snapshot_timestamp,
    snapshot_name,
    write_snapshot,
)

__all__ = ["SnapshotDirectory", "SnapshotRetention"]

UNLIMITED: Final = -1


class SnapshotRetention(msgspec.Struct, frozen=True):
    """`metadata.max.retention.bytes` and `metadata.max.retention.ms`. -1 means that there is no bound."""

    bytes_: int = UNLIMITED
    ms: int = UNLIMITED


class _Kept(msgspec.Struct, frozen=True):
    """A snapshot on the disk. timestamp_ms: that of the last record that it holds."""

    size_bytes: int
    timestamp_ms: int


class SnapshotDirectory:
    """newest: the latest snapshot that holds state, None before the first one."""

    def __init__(
        self, files: Files, directory: str, offload: Offload, retention: SnapshotRetention | None = None
    ) -> None:
        self.newest: SnapshotId | None = None
        self._files = files
        self._directory = directory
        self._offload = offload
        self._retention = retention or SnapshotRetention()
        self._kept: dict[SnapshotId, _Kept] = {}

    @property
    def newest_bytes(self) -> int:
        """The size of the snapshot that `newest` names; 0 before the first one."""
        kept = None if self.newest is None else self._kept.get(self.newest)
        return 0 if kept is None else kept.size_bytes

    def path(self, snapshot: SnapshotId) -> str:
        """The path of a snapshot, whether it is there or not."""
        return f"{self._directory}/{snapshot_name(snapshot)}"

    def load(self, log_start_offset: int) -> None:
        """Finds the snapshots, and removes incomplete ones and those below the log start. Raises
        MalformedSnapshot and OSError."""
        for name in self._files.listdir(self._directory):
            if name.endswith((PART_SUFFIX, DELETED_SUFFIX)):
                self._files.unlink(f"{self._directory}/{name}")
        found = list_snapshots(self._files, self._directory)
        for snapshot in found:
            path = self.path(snapshot)
            if snapshot.end_offset < log_start_offset and snapshot != found[-1]:
                self._files.unlink(path)
                continue
            timestamp_ms = read_snapshot_timestamp(self._files, path)
            self._kept[snapshot] = _Kept(self._files.status(path).size_bytes, timestamp_ms)
        if found and found[-1] != FORMAT_SNAPSHOT:
            self.newest = found[-1]

    def read_piece(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Bytes from a position, and the size of the whole snapshot. None if there is no such snapshot.
        Raises MetadataLogFailed."""
        if not self._files.exists(self.path(snapshot)):
            return None
        with named_refusals(self._directory, "read"):
            file = self._files.open(self.path(snapshot))
            try:
                return file.pread(max_bytes, position), file.size()
            finally:
                file.close()

    def write_in_steps(
        self, snapshot: SnapshotId, content: Iterable[bytes], timestamp_ms: int, written: Callable[[], None]
    ) -> Iterator[None]:
        """Takes one part of the content in each step. After the last one a helper thread writes the file.

        timestamp_ms: that of the last record that the snapshot holds. written: called when the file is
        durable.
        """
        pieces = []
        for piece in content:
            pieces.append(piece)
            yield
        whole = b"".join(pieces)

        def finished(outcome: object) -> None:
            raise_if_refused(self._directory, outcome)
            self._kept[snapshot] = _Kept(len(whole), timestamp_ms)
            self.newest = snapshot if self.newest is None else max(snapshot, self.newest)
            written()

        self._offload.submit(lambda: write_snapshot(self._files, self._directory, snapshot, whole), finished)

    def fetched(self, snapshot: SnapshotId) -> None:
        """A snapshot that was fetched from the leader is complete and has its name. Raises
        MetadataLogFailed."""
        path = self.path(snapshot)
        with named_refusals(self._directory, "read"):
            timestamp_ms = read_snapshot_timestamp(self._files, path)
            self._kept[snapshot] = _Kept(self._files.status(path).size_bytes, timestamp_ms)
        self.newest = snapshot

    # Deletion

    def new_log_start(self, log_size_bytes: int, now_ms: int) -> int | None:
        """The snapshot at which the log may begin because the oldest snapshot is not needed any more. None if
        it is needed."""
        if len(self._kept) < 2:
            return None
        oldest, following = sorted(self._kept)[:2]
        limits = self._retention
        size_bytes = log_size_bytes + sum(each.size_bytes for each in self._kept.values())
        too_much = 0 <= limits.bytes_ < size_bytes
        too_old = 0 <= limits.ms < now_ms - self._kept[oldest].timestamp_ms
        return following.end_offset if too_much or too_old else None

    def forget_before(self, offset: int) -> None:
        """Removes the snapshots that end below an offset of the log, but never the newest."""
        for snapshot in sorted(self._kept)[:-1]:
            if snapshot.end_offset < offset:
                del self._kept[snapshot]
                leaving = self.path(snapshot) + DELETED_SUFFIX
                self._files.rename(self.path(snapshot), leaving)
                removal = partial(self._files.unlink, leaving)
                self._offload.submit(removal, partial(raise_if_refused, self._directory))
