"""What the quorum needs to know of a snapshot file: whether it is whole, and which voters it names.

The state in it is not looked at here; that is read by who replays it.
"""

from __future__ import annotations

from config.ports import Files
from controller.raft.log_port import SnapshotControl
from controller.snapshots import MalformedSnapshot
from protocol.codec.compiler import decode
from protocol.errors import ProtocolError
from protocol.quorum.control_records import KRaftVersionRecord, VotersRecord
from protocol.records.control import ControlRecordType, control_type
from protocol.records.errors import RecordsError
from protocol.records.header import ReadBuffer, headers, is_intact
from protocol.records.reader import records as read_records

__all__ = ["check_snapshot", "read_control"]


def read_control(files: Files, path: str) -> SnapshotControl:
    """Of a snapshot that is there under its name. Raises MalformedSnapshot and OSError."""
    return check_snapshot(files.read_bytes(path), path)


def check_snapshot(content: ReadBuffer, path: str) -> SnapshotControl:
    """Every batch is intact, the first begins with the header and the last ends with the footer; or
    MalformedSnapshot."""
    kinds: list[ControlRecordType] = []
    version, voters = 0, None
    end = 0
    try:
        for position, header in headers(content):
            if not is_intact(content, position, header):
                raise MalformedSnapshot(f"{path}: the batch at byte {position} is damaged")
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
        raise MalformedSnapshot(f"{path} is no snapshot: {fault}") from fault
    is_whole = bool(kinds) and (kinds[0], kinds[-1]) == (
        ControlRecordType.SNAPSHOT_HEADER,
        ControlRecordType.SNAPSHOT_FOOTER,
    )
    if not is_whole or end != len(content):
        raise MalformedSnapshot(f"{path} is no whole snapshot: its header, footer or middle is missing")
    return SnapshotControl(version, voters)
