"""Control records: what brokers tell readers of a log between the producers' records.

    key    int16 version (0) | int16 type
    value  by type:

    type  name             value
    0     ABORT            int16 version (0) | int32 epoch of the transaction coordinator
    1     COMMIT           the same
    2     LEADER_CHANGE    LeaderChangeMessage          ┐
    3     SNAPSHOT_HEADER  SnapshotHeaderRecord         │ messages of the quorum, in flexible encoding;
    4     SNAPSHOT_FOOTER  SnapshotFooterRecord         │ their first field is their own int16 version;
    5     KRAFT_VERSION    KRaftVersionRecord           │ here they are bytes
    6     KRAFT_VOTERS     VotersRecord                 ┘

They lie in batches with the control bit, a transaction's marker alone in its own, with the producer's id and
epoch and no sequence. Clients skip them; a type that they do not know is skipped as well, and so do we.

Sources: KIP-98 (markers), KIP-595 (leader change), KIP-630 (snapshots), KIP-853 (version and voters).
"""

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from protocol.records.builder import BatchBuilder
from protocol.records.errors import InvalidRecord
from protocol.records.header import NO_LEADER_EPOCH

_KEY: Final = Struct(">hh")
_MARKER: Final = Struct(">hi")
_CURRENT_KEY_VERSION: Final = 0
_CURRENT_MARKER_VERSION: Final = 0


class ControlRecordType(IntEnum):
    """The type of a control record: the second number of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1
    """The type of a later release, which is not known here."""


class TransactionMarker(NamedTuple):
    """What a COMMIT or ABORT control record says: how a producer's transaction ended on one partition."""

    committed: bool
    coordinator_epoch: int
    """Epoch of the transaction coordinator that decided; an older one's marker is refused."""


def control_key(kind: ControlRecordType) -> bytes:
    return _KEY.pack(_CURRENT_KEY_VERSION, kind)


def control_type(key: bytes | memoryview | None) -> ControlRecordType:
    """The type that the key of a control record names; later versions of the key are read as version 0, as
    Kafka does.

    Raises InvalidRecord if it says nothing.
    """
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord(
            f"Invalid value size found for control record key. Must have at least {_KEY.size} bytes, "
            f"but found only {0 if key is None else len(key)}"
        )
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(
            f"Invalid version found for control record: {version}. May indicate data corruption"
        )
    try:
        return ControlRecordType(number)
    except ValueError:
        return ControlRecordType.UNKNOWN


def read_marker(key: bytes | None, value: bytes | None) -> TransactionMarker | None:
    """A transaction's end, or None if the control record is none. Raises InvalidRecord if it is a broken
    one."""
    kind = control_type(key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    if value is None or len(value) < _MARKER.size:
        raise InvalidRecord(
            f"Invalid value size found for end transaction marker. Must have at least {_MARKER.size} bytes, "
            f"but found only {0 if value is None else len(value)}"
        )
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise InvalidRecord(
            f"Invalid version found for end transaction marker: {version}. May indicate data corruption"
        )
    return TransactionMarker(kind is ControlRecordType.COMMIT, coordinator_epoch)


def marker_value(coordinator_epoch: int) -> bytes:
    return _MARKER.pack(_CURRENT_MARKER_VERSION, coordinator_epoch)


def build_marker_batch(
    marker: TransactionMarker,
    *,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The batch that ends a transaction on a partition: one record, control and transactional."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
    kind = ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT
    builder.append(control_key(kind), marker_value(marker.coordinator_epoch), timestamp_ms)
    return builder.build()


def build_control_batch(
    records: Iterable[tuple[ControlRecordType, bytes]],
    *,
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
) -> bytearray:
    """A batch of quorum records, values as bytes: one at an election or a snapshot's end, up to three at its
    beginning (header, KRaft version, voters)."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch, control=True)
    for kind, value in records:
        builder.append(control_key(kind), value, timestamp_ms)
    return builder.build()
