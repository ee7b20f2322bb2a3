"""Prints `.log` and `.checkpoint` files: a line for each batch, and one for each record if wanted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Final

import msgspec

from config.ports import File
from protocol.codec.compiler import decode
from protocol.codec.message import Message
from protocol.errors import ProtocolError
from protocol.json_form import json_form
from protocol.quorum import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.records.compression import codec_numbered
from protocol.records.control import ControlRecordType, control_type, read_marker
from protocol.records.errors import RecordsError
from protocol.records.header import BatchHeader, is_intact
from protocol.records.reader import Record, records
from storage.dump.decoders import Decoder, as_text
from storage.stored_batches import stored_batches

Write = Callable[[str], None]

NO_LIMIT: Final = 1 << 62
_QUORUM_RECORDS: Final[tuple[tuple[ControlRecordType, str, type[Message]], ...]] = (
    (ControlRecordType.LEADER_CHANGE, "LeaderChange:", LeaderChangeMessage),
    (ControlRecordType.SNAPSHOT_HEADER, "SnapshotHeader", SnapshotHeaderRecord),
    (ControlRecordType.SNAPSHOT_FOOTER, "SnapshotFooter", SnapshotFooterRecord),
    (ControlRecordType.KRAFT_VERSION, "KRaftVersion", KRaftVersionRecord),
    (ControlRecordType.KRAFT_VOTERS, "KRaftVoters", VotersRecord),
)


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed of each record. max_bytes: so much of the file is read, in whole batches."""

    deep: bool = False
    print_data: bool = False
    skip_metadata: bool = False
    max_bytes: int = NO_LIMIT
    decoder: Decoder = as_text


def dump_log(file: File, options: LogOptions, write: Write, complain: Write) -> None:
    """Prints the file. Raises NoKey if the decoder cannot go on."""
    size_bytes = file.size()  # once: the log may grow meanwhile
    end = 0
    last_offset = -1
    gaps: list[tuple[int, int]] = []
    for position, header, batch in stored_batches(file, size_bytes):
        if position + header.size_bytes > options.max_bytes:
            break
        end = position + header.size_bytes
        write(batch_line(header, batch, position))
        if options.deep or options.print_data:
            last_offset = _dump_records(header, batch, options, last_offset, gaps, write, complain)
    if gaps:
        complain(f"Non-consecutive offsets in {file.path}")
        for before, after in gaps:
            complain(f"  {before} is followed by {after}")
    left = size_bytes - end
    if left > 0 and options.max_bytes == NO_LIMIT:
        write(f"Found {left} invalid bytes at the end of {os.path.basename(file.path)}")


def batch_line(header: BatchHeader, batch: memoryview, position: int) -> str:
    horizon = f"OptionalLong[{header.base_timestamp}]" if header.has_delete_horizon else "OptionalLong.empty"
    kind = "LogAppendTime" if header.timestamp_type else "CreateTime"
    parts = (
        ("baseOffset", header.base_offset),
        ("lastOffset", header.last_offset),
        ("count", header.record_count),
        ("baseSequence", header.base_sequence),
        ("lastSequence", header.last_sequence),
        ("producerId", header.producer_id),
        ("producerEpoch", header.producer_epoch),
        ("partitionLeaderEpoch", header.partition_leader_epoch),
        ("isTransactional", header.is_transactional),
        ("isControl", header.is_control),
        ("deleteHorizonMs", horizon),
        ("position", position),
        (kind, header.max_timestamp),
        ("size", header.size_bytes),
        ("magic", header.magic),
        ("compresscodec", _codec_name(header)),
        ("crc", header.crc),
        ("isvalid", is_intact(batch, 0, header)),
    )
    return " ".join(f"{name}: {_plain(value)}" for name, value in parts)


def _codec_name(header: BatchHeader) -> str:
    try:
        return codec_numbered(header.codec).name
    except RecordsError:
        return f"unknown({header.codec})"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _dump_records(
    header: BatchHeader,
    batch: memoryview,
    options: LogOptions,
    last_offset: int,
    gaps: list[tuple[int, int]],
    write: Write,
    complain: Write,
) -> int:
    """Prints the records of one batch, and returns the offset of the last one. Gaps between offsets are left
    by compaction, or are damage."""
    try:
        for record in records(batch):
            if last_offset >= 0 and record.offset != last_offset + 1:
                gaps.append((last_offset, record.offset))
            last_offset = record.offset
            write(_record_line(header, record, options))
    except RecordsError as error:
        complain(f"The records of the batch with offset {header.base_offset} cannot be read: {error.message}")
    return last_offset


def _record_line(header: BatchHeader, record: Record, options: LogOptions) -> str:
    line = "|"
    if options.skip_metadata and header.is_control:
        return ""
    if not options.skip_metadata:
        line += " " + _record_metadata(header, record)
        if header.is_control:
            return line + " " + _control_text(record)
    if options.print_data:
        key, payload = options.decoder(record)
        if key is not None:
            line += f" key: {key}"
        if payload is not None:
            line += f" payload: {payload}"
    return line


def _record_metadata(header: BatchHeader, record: Record) -> str:
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + record.offset - header.base_offset) & 0x7FFFFFFF
    kind = "LogAppendTime" if header.timestamp_type else "CreateTime"
    key_bytes = -1 if record.key is None else len(record.key)
    value_bytes = -1 if record.value is None else len(record.value)
    names = ",".join(name for name, _ in record.headers)
    return (
        f"offset: {record.offset} {kind}: {record.timestamp} keySize: {key_bytes} valueSize: {value_bytes} "
        f"sequence: {sequence} headerKeys: [{names}]"
    )


def _control_text(record: Record) -> str:
    """Describes a control record."""
    try:
        marker = read_marker(record.key, record.value)
        if marker is not None:
            name = "COMMIT" if marker.committed else "ABORT"
            return f"endTxnMarker: {name} coordinatorEpoch: {marker.coordinator_epoch}"
        kind = control_type(record.key)
        for known, name, cls in _QUORUM_RECORDS:
            if kind is known and record.value is not None:
                version = int.from_bytes(record.value[:2], "big")
                form = json_form(decode(cls, version, record.value), version)
                return f"{name} {json.dumps(form, separators=(',', ':'))}"
    except (RecordsError, ProtocolError) as error:
        return f"unreadable control record: {error}"
    return f"controlType: {kind.name}({int.from_bytes((record.key or b'')[2:4], 'big')})"
