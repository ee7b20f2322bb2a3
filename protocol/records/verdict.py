"""What a batch is judged by, and what comes of it.

Rules are a topic's, the verdict is one batch's. `validation` says what the header tells, `record_validation`
what only the records can tell.
"""

from typing import Final

import msgspec

from protocol.records.header import BatchHeader
from protocol.records.reader import DEFAULT_LIMIT_BYTES

NO_BOUND_MS: Final = (1 << 63) - 1
_ONE_HOUR_MS: Final = 3_600_000


class ValidationRules(msgspec.Struct, frozen=True, gc=False):
    """The rules that a topic's configuration sets for its batches."""

    partition_name: str
    """The partition as error messages name it, such as `topic-0`."""
    max_message_bytes: int
    compacted: bool = False
    log_append_time: bool = False
    """Whether every record gets the append time (`message.timestamp.type`)."""
    before_max_ms: int = NO_BOUND_MS
    after_max_ms: int = _ONE_HOUR_MS
    codec: int | None = None
    """The codec that batches are stored in; None keeps the producer's (`compression.type=producer`)."""
    level: int | None = None
    """The compression level of that codec; None stands for the codec's default."""
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    """The largest size to which a compressed batch may decompress."""


class ValidatedBatch(msgspec.Struct, gc=False):
    """A batch that was accepted and has no offset yet."""

    header: BatchHeader
    """The header as the client sent it."""
    max_timestamp: int
    """The largest timestamp of the stored batch: the append time, or that of the records if they were
    walked."""
    max_timestamp_delta: int
    """Offset delta of the record with that timestamp; the batch's last if the records were not walked."""
    log_append_time: bool
    """Whether the stored batch has the timestamp type LogAppendTime."""
    restamp: bool
    """Largest timestamp or timestamp type differ from what the client sent: the checksum must be renewed."""
    must_rebuild: bool
    """The batch cannot be stored as it is (other codec, offset deltas with gaps), or is not judged yet."""
    plain: bytes | bytearray | memoryview | None
    """The decompressed records if they were walked, numbered 0, 1, 2 …; may be a view into the request."""
    is_judged: bool = True
    """Whether the records were checked too. If not, only the header was, and the records are checked beside
    the loop."""
    rebuilt: bytearray | None = None
    """The batch that is stored instead, with base offset 0, once it was rebuilt; see `record_validation`."""
