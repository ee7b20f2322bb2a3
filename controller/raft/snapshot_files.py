"""Snapshot files of the metadata log as the quorum sees them: names, whole files, control records (KIP-630).

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint

    ┌──────────────────────────────────────────────────────────────┐
    │ control batch   SNAPSHOT_HEADER  time of the last record     │
    │                 KRAFT_VERSION    ┐ only in the log's own     │
    │                 KRAFT_VOTERS     ┘ snapshots, kraft.version 1│
    ├──────────────────────────────────────────────────────────────┤
    │ data batches    metadata records, offsets from 0 in the file │
    ├──────────────────────────────────────────────────────────────┤
    │ control batch   SNAPSHOT_FOOTER  without it: not whole       │
    └──────────────────────────────────────────────────────────────┘

The offset in the name is exclusive. A file is written as `….checkpoint.part`, synced and renamed, so a name
without the suffix means a whole file. `00000000000000000000-0000000000.checkpoint` is written by `storage
format`: it holds the first voters and no state.

The quorum reads only the control records: whether the file is whole, and which voters it names. The metadata
records between them are written and read by `controller.metadata.snapshots`.
"""

from __future__ import annotations

import re
from typing import Final

from config.ports import Files
from controller.raft.identity import SnapshotId
from controller.raft.log_port import SnapshotControl
from protocol.codec.compiler import decode
from protocol.errors import ProtocolError
from protocol.quorum import KRaftVersionRecord, SnapshotHeaderRecord, VotersRecord
from protocol.records.control import ControlRecordType, control_type
from protocol.records.errors import RecordsError
from protocol.records.header import ReadBuffer, headers, is_intact
from protocol.records.reader import records as read_records

__all__ = [
    "DELETED_SUFFIX",
    "FORMAT_SNAPSHOT",
    "PART_SUFFIX",
    "MalformedMetadataSnapshot",
    "check_snapshot",
    "list_snapshots",
    "read_control",
    "read_snapshot_timestamp",
    "snapshot_name",
    "write_snapshot",
]

FORMAT_SNAPSHOT: Final = SnapshotId(0, 0)
PART_SUFFIX: Final = ".checkpoint.part"
DELETED_SUFFIX: Final = ".deleted"
HEAD_BYTES: Final = 512
"""The batch with the header is no longer than this, unless it names many voters as well."""

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class MalformedMetadataSnapshot(Exception):
    """The file is not a complete snapshot. The text names the file and what is wrong."""


def snapshot_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def list_snapshots(files: Files, directory: str) -> list[SnapshotId]:
    """The complete snapshots in a directory, the oldest first."""
    found = (_NAME.fullmatch(name) for name in files.listdir(directory))
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)


def write_snapshot(files: Files, directory: str, snapshot: SnapshotId, content: bytes) -> None:
    """Writes a snapshot, which is complete and synced under its name when this returns. A crash leaves at
    most a `.part` file."""
    path = f"{directory}/{snapshot_name(snapshot)}"
    part = files.open(path + ".part", create=True)
    try:
        part.truncate(0)
        written = part.write((content,), 0)
        if written != len(content):
            raise OSError(f"{path}.part: the disk took {written} of {len(content)} bytes")
        part.fsync()
    finally:
        part.close()
    files.rename(path + ".part", path)
    files.fsync_directory(directory)


def read_snapshot_timestamp(files: Files, path: str) -> int:
    """The timestamp of the last record that a snapshot holds, in milliseconds, from the snapshot's header.
    Only the beginning of the file is read where that is enough. Raises MalformedSnapshot for a file without a
    header, and OSError."""
    file = files.open(path)
    try:
        timestamp_ms = _header_timestamp(file.pread(HEAD_BYTES, 0))
    finally:
        file.close()
    if timestamp_ms is None:
        timestamp_ms = _header_timestamp(files.read_bytes(path))
    if timestamp_ms is None:
        raise MalformedMetadataSnapshot(f"{path} is no whole snapshot: its header is missing")
    return timestamp_ms


def _header_timestamp(content: ReadBuffer) -> int | None:
    """The timestamp in the snapshot's header. None if the first batch is incomplete or holds no header."""
    for position, header in headers(content):
        if position + header.size_bytes <= len(content) and header.is_control:
            record = next(iter(read_records(content, position, check_crc=True)))
            if control_type(record.key) is ControlRecordType.SNAPSHOT_HEADER:
                return decode(SnapshotHeaderRecord, 0, record.value or b"").last_contained_log_timestamp
        break
    return None


def read_control(files: Files, path: str) -> SnapshotControl:
    """Reads the control records of a snapshot that has its name. Raises MalformedSnapshot and OSError."""
    return check_snapshot(files.read_bytes(path), path)


def check_snapshot(content: ReadBuffer, path: str) -> SnapshotControl:
    """Checks that every batch is intact, that the first one begins with the header and the last one ends with
    the footer. Raises MalformedSnapshot otherwise."""
    kinds: list[ControlRecordType] = []
    version, voters = 0, None
    end = 0
    try:
        for position, header in headers(content):
            if not is_intact(content, position, header):
                raise MalformedMetadataSnapshot(f"{path}: the batch at byte {position} is damaged")
            end = position + header.size_bytes
            if not header.is_control:
                continue
            for record in read_records(content, position, check_crc=False):
                kind = control_type(record.key)
                kinds.append(kind)
                if kind is ControlRecordType.KRAFT_VERSION:
                    version = decode(KRaftVersionRecord, 0, record.value or b"").k_raft_version
                elif kind is ControlRecordType.KRAFT_VOTERS:
                    voters = decode(VotersRecord, 0, record.value or b"")
    except (RecordsError, ProtocolError) as fault:
        raise MalformedMetadataSnapshot(f"{path} is no snapshot: {fault}") from fault
    is_whole = bool(kinds) and (kinds[0], kinds[-1]) == (
        ControlRecordType.SNAPSHOT_HEADER,
        ControlRecordType.SNAPSHOT_FOOTER,
    )
    if not is_whole or end != len(content):
        raise MalformedMetadataSnapshot(
            f"{path} is no whole snapshot: its header, footer or middle is missing"
        )
    return SnapshotControl(version, voters)
