"""The snapshots of one replica's log: found at the start, read in pieces, written in steps.

Beside the newest snapshot only the first voters' file of `storage format` is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from config.ports import Files, Offload
from controller.image.cluster_image import EMPTY_IMAGE, ClusterImage, image_records, replay
from controller.metadata_log import SnapshotId
from controller.snapshots import (
    FORMAT_SNAPSHOT,
    list_snapshots,
    read_snapshot,
    snapshot_name,
    snapshot_pieces,
    write_snapshot,
)
from controller.voters import VoterSet
from protocol.quorum.control_records import VotersRecord

__all__ = ["SnapshotDirectory"]


class SnapshotDirectory:
    """newest: the latest snapshot that holds state, None before the first."""

    def __init__(self, files: Files, directory: str, offload: Offload) -> None:
        self.newest: SnapshotId | None = None
        self._files = files
        self._directory = directory
        self._offload = offload

    def _path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_name(snapshot)}"

    def load(self) -> VoterSet:
        """Finds the newest, and the voters as the snapshots know them. Raises MalformedSnapshot, OSError."""
        voters = VoterSet()
        for snapshot in list_snapshots(self._files, self._directory):
            content = read_snapshot(self._files, self._path(snapshot))
            if content.voters is not None:
                voters = VoterSet.from_record(content.voters, content.kraft_version)
            if snapshot != FORMAT_SNAPSHOT:
                self.newest = snapshot
        return voters

    def image_of(self, snapshot: SnapshotId) -> ClusterImage:
        content = read_snapshot(self._files, self._path(snapshot))
        return replay(
            EMPTY_IMAGE,
            content.records,
            offset=snapshot.end_offset - 1,
            epoch=snapshot.epoch,
            timestamp_ms=content.last_contained_timestamp_ms,
        )[0]

    def read_piece(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Bytes from a position and the whole size; None if there is no such snapshot."""
        if not self._files.exists(self._path(snapshot)):
            return None
        file = self._files.open(self._path(snapshot))
        try:
            return file.pread(max_bytes, position), file.size()
        finally:
            file.close()

    def write_in_steps(
        self, image: ClusterImage, voters: VotersRecord | None, now_ms: int, written: Callable[[], None]
    ) -> Iterator[None]:
        """Encodes a batch of records a step; after the last one a helper thread writes the file."""
        snapshot = SnapshotId(image.offset + 1, image.epoch)
        pieces = []
        for piece in snapshot_pieces(
            image_records(image),
            epoch=snapshot.epoch,
            now_ms=now_ms,
            last_contained_timestamp_ms=image.timestamp_ms,
            voters=voters,
        ):
            pieces.append(piece)
            yield

        def finished(outcome: object) -> None:
            _raise_if_failed(outcome)
            replaced, self.newest = self.newest, snapshot
            if replaced is not None and replaced < snapshot:
                path = self._path(replaced)
                self._offload.submit(lambda: self._files.unlink(path), _raise_if_failed)
            written()

        self._offload.submit(
            lambda: write_snapshot(self._files, self._directory, snapshot, b"".join(pieces)), finished
        )


def _raise_if_failed(outcome: object) -> None:
    """What a disk refuses goes up to the loop."""
    if isinstance(outcome, BaseException):
        raise outcome
