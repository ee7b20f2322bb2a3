"""Snapshot files of the metadata log, and the bootstrap file, which has the same form (KIP-630).

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
format`: it holds the first voters and no state. `bootstrap.checkpoint` holds the records with which the
first controller of a new cluster begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from config.ports import Files
from controller.levels import LATEST_METADATA_VERSION
from controller.metadata_log import SnapshotId
from controller.records import build_metadata_batch, read_metadata_batches
from protocol.codec.compiler import decode, encode
from protocol.codec.message import Message
from protocol.quorum.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.records.control import ControlRecordType, build_control_batch, control_type
from protocol.records.header import ReadBuffer, headers
from protocol.records.reader import records as read_records

__all__ = [
    "BOOTSTRAP_FILE",
    "DELETED_SUFFIX",
    "FORMAT_SNAPSHOT",
    "PART_SUFFIX",
    "MalformedSnapshot",
    "Snapshot",
    "encode_snapshot",
    "list_snapshots",
    "read_snapshot",
    "read_snapshot_timestamp",
    "snapshot_name",
    "snapshot_pieces",
    "write_snapshot",
]

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
FORMAT_SNAPSHOT: Final = SnapshotId(0, 0)
PART_SUFFIX: Final = ".checkpoint.part"
DELETED_SUFFIX: Final = ".deleted"
HEAD_BYTES: Final = 512
"""The header's batch lies within."""
RECORDS_PER_BATCH: Final = 100
"""A batch takes some 2 ms to encode: a turn of the loop, for who writes a snapshot beside serving."""

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class MalformedSnapshot(Exception):
    """The file is there and is no whole snapshot; the text names the file and what is wrong."""


class Snapshot(msgspec.Struct, frozen=True):
    """A snapshot's content. voters is None and kraft_version 0 where the file does not say."""

    records: Sequence[Message]
    last_contained_timestamp_ms: int = 0
    kraft_version: int = 0
    voters: VotersRecord | None = None


def snapshot_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def list_snapshots(files: Files, directory: str) -> list[SnapshotId]:
    """The whole ones in a directory, the oldest first."""
    found = (_NAME.fullmatch(name) for name in files.listdir(directory))
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)


def encode_snapshot(
    records: Iterable[Message],
    *,
    epoch: int,
    now_ms: int,
    last_contained_timestamp_ms: int,
    voters: VotersRecord | None = None,
) -> bytes:
    """The bytes of a snapshot; with voters for the log's own, without for the bootstrap file."""
    return b"".join(
        snapshot_pieces(
            records,
            epoch=epoch,
            now_ms=now_ms,
            last_contained_timestamp_ms=last_contained_timestamp_ms,
            voters=voters,
        )
    )


def snapshot_pieces(
    records: Iterable[Message],
    *,
    epoch: int,
    now_ms: int,
    last_contained_timestamp_ms: int,
    voters: VotersRecord | None,
    metadata_version: int = LATEST_METADATA_VERSION,
) -> Iterator[bytes]:
    """The same batch by batch, each encoded when it is asked for."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_timestamp_ms)
    opening = [(ControlRecordType.SNAPSHOT_HEADER, encode(header, 0))]
    if voters is not None:
        opening.append((ControlRecordType.KRAFT_VERSION, encode(KRaftVersionRecord(k_raft_version=1), 0)))
        opening.append((ControlRecordType.KRAFT_VOTERS, encode(voters, 0)))
    yield bytes(build_control_batch(opening, timestamp_ms=now_ms, base_offset=0, leader_epoch=epoch))
    offset = len(opening)
    remaining = iter(records)
    while chunk := list(islice(remaining, RECORDS_PER_BATCH)):
        batch = build_metadata_batch(
            chunk, base_offset=offset, epoch=epoch, timestamp_ms=now_ms, metadata_version=metadata_version
        )
        yield bytes(batch)
        offset += len(chunk)
    footer = [(ControlRecordType.SNAPSHOT_FOOTER, encode(SnapshotFooterRecord(), 0))]
    yield bytes(build_control_batch(footer, timestamp_ms=now_ms, base_offset=offset, leader_epoch=epoch))


def write_snapshot(files: Files, directory: str, snapshot: SnapshotId, content: bytes) -> None:
    """Whole and synced under its name when it returns; a crash leaves at most a `.part`."""
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


def read_snapshot(files: Files, path: str) -> Snapshot:
    """All of a snapshot; MalformedSnapshot for one without header or footer."""
    return decode_snapshot(files.read_bytes(path), path)


def read_snapshot_timestamp(files: Files, path: str) -> int:
    """Time of the last record that a snapshot holds; only the file's head is read. MalformedSnapshot without
    a header."""
    file = files.open(path)
    try:
        head = file.pread(HEAD_BYTES, 0)
        for position, header in headers(head):
            size_bytes = header.size_bytes
            if position + size_bytes <= len(head) and header.is_control:
                record = next(iter(read_records(head, position, check_crc=True)))
                if control_type(record.key) is ControlRecordType.SNAPSHOT_HEADER:
                    opening = decode(SnapshotHeaderRecord, 0, record.value or b"")
                    return opening.last_contained_log_timestamp
            break
    finally:
        file.close()
    return _timestamp_of_whole(files, path)


def _timestamp_of_whole(files: Files, path: str) -> int:
    """Where the first batch is longer: many voters stand beside the header."""
    return read_snapshot(files, path).last_contained_timestamp_ms


def decode_snapshot(content: ReadBuffer, path: str) -> Snapshot:
    """As `read_snapshot`, from bytes that came over the network; `path` is for the error."""
    control: dict[ControlRecordType, bytes] = {}
    for position, header in headers(content):
        if header.is_control:
            for record in read_records(content, position, check_crc=True):
                control[control_type(record.key)] = record.value or b""
    if ControlRecordType.SNAPSHOT_HEADER not in control or ControlRecordType.SNAPSHOT_FOOTER not in control:
        raise MalformedSnapshot(f"{path} is no whole snapshot: its header or its footer is missing")
    opening = decode(SnapshotHeaderRecord, 0, control[ControlRecordType.SNAPSHOT_HEADER])
    version, voters = 0, None
    if ControlRecordType.KRAFT_VERSION in control:
        version = decode(KRaftVersionRecord, 0, control[ControlRecordType.KRAFT_VERSION]).k_raft_version
    if ControlRecordType.KRAFT_VOTERS in control:
        voters = decode(VotersRecord, 0, control[ControlRecordType.KRAFT_VOTERS])
    return Snapshot(
        records=[record for batch in read_metadata_batches(content) for record in batch.records],
        last_contained_timestamp_ms=opening.last_contained_log_timestamp,
        kraft_version=version,
        voters=voters,
    )
