"""The content of a snapshot of the metadata log, encoded and decoded. The bootstrap file has the same form.

`controller.raft.snapshot_files` draws the file. Between its control batches lie the metadata records of one
image. `bootstrap.checkpoint` holds the records with which the first controller of a new cluster begins.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from config.ports import Files
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, replay
from controller.metadata.metadata_version import LATEST_METADATA_VERSION
from controller.metadata.records import build_metadata_batch, metadata_batches_in_steps
from controller.raft.identity import SnapshotId
from controller.raft.snapshot_files import MalformedMetadataSnapshot
from protocol.codec.compiler import decode, encode
from protocol.codec.message import Message
from protocol.quorum import (
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
    "MetadataSnapshot",
    "encode_snapshot",
    "read_image",
    "read_snapshot",
    "snapshot_pieces",
]

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
RECORDS_PER_BATCH: Final = 100
"""The number of records in a batch. To encode it takes some 2 ms, which is a turn of the loop when a snapshot
is written beside serving."""


class MetadataSnapshot(msgspec.Struct, frozen=True):
    """The content of a snapshot. voters is None and kraft_version is 0 if the file does not hold them."""

    records: Sequence[Message]
    last_contained_timestamp_ms: int = 0
    kraft_version: int = 0
    voters: VotersRecord | None = None


def encode_snapshot(
    records: Iterable[Message],
    *,
    epoch: int,
    now_ms: int,
    last_contained_timestamp_ms: int,
    voters: VotersRecord | None = None,
) -> bytes:
    """The bytes of a snapshot. voters: given for snapshots of the log, and not for the bootstrap file."""
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
    """A snapshot batch by batch; each batch is encoded when it is asked for."""
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


def read_snapshot(files: Files, path: str) -> MetadataSnapshot:
    """Reads a whole snapshot. Raises MalformedMetadataSnapshot if its header or its footer is missing."""
    return decode_snapshot(files.read_bytes(path), path)


def read_image(files: Files, path: str, snapshot: SnapshotId) -> ClusterImage:
    """The image that a snapshot under its name holds. Raises MalformedSnapshot and OSError."""
    content = read_snapshot(files, path)
    return replay(
        EMPTY_IMAGE,
        content.records,
        offset=snapshot.end_offset - 1,
        epoch=snapshot.epoch,
        timestamp_ms=content.last_contained_timestamp_ms,
    )[0]


def decode_snapshot(content: ReadBuffer, path: str) -> MetadataSnapshot:
    """Does as `read_snapshot`, from bytes that were fetched. `path` is named in error messages."""
    steps = decode_snapshot_in_steps(content, path)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: MetadataSnapshot = end.value
            return result


def decode_snapshot_in_steps(content: ReadBuffer, path: str) -> Generator[None, None, MetadataSnapshot]:
    """Does as `decode_snapshot`, as a generator: the caller serves others between the steps, and gets the
    result at the end."""
    control: dict[ControlRecordType, bytes] = {}
    for position, header in headers(content):
        if header.is_control:
            for record in read_records(content, position, check_crc=True):
                control[control_type(record.key)] = record.value or b""
    if ControlRecordType.SNAPSHOT_HEADER not in control or ControlRecordType.SNAPSHOT_FOOTER not in control:
        raise MalformedMetadataSnapshot(f"{path} is no whole snapshot: its header or its footer is missing")
    opening = decode(SnapshotHeaderRecord, 0, control[ControlRecordType.SNAPSHOT_HEADER])
    version, voters = 0, None
    if ControlRecordType.KRAFT_VERSION in control:
        version = decode(KRaftVersionRecord, 0, control[ControlRecordType.KRAFT_VERSION]).k_raft_version
    if ControlRecordType.KRAFT_VOTERS in control:
        voters = decode(VotersRecord, 0, control[ControlRecordType.KRAFT_VOTERS])
    records: list[Message] = []
    for batch in metadata_batches_in_steps(content):
        records += () if batch is None else batch.records
        yield
    return MetadataSnapshot(
        records=records,
        last_contained_timestamp_ms=opening.last_contained_log_timestamp,
        kraft_version=version,
        voters=voters,
    )
