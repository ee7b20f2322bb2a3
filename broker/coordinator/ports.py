"""What a coordinator asks of the rest of the broker, as small protocols, and what it is told.

The replica manager is the writer and the reader, the metadata cache the view of the cluster, and whoever may
create topics makes the internal ones. Tests and the simulator give their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from config.ports import Clock, Timers
from protocol.errors import ErrorCode
from protocol.primitives import Uuid
from storage.append import AppendResult
from storage.errors import AppendRefused


class CoordinatorEndpoint(NamedTuple):
    """The address of a broker for clients of one listener."""

    node_id: int
    host: str
    port: int


class CurrentTime(NamedTuple):
    """The time at which an operation runs, on both clocks: wall time goes into records, monotonic time into
    deadlines."""

    wall_ms: int
    monotonic_ms: int


class PartitionWriter(Protocol):
    """Appends to partitions that this broker leads."""

    def append_internal(
        self,
        topic: str,
        index: int,
        batch: bytes,
        on_result: Callable[[AppendResult | AppendRefused], None],
        transaction_version: int = 0,
    ) -> None:
        """Appends one batch with acks=all. The log fills in base offset and leader epoch.

        `on_result` is called once, at once or later, in the order of the appends: with the batch's place when
        the high watermark has passed it; with an error when the batch was refused (then nothing of it is in
        the log) or when this broker does not lead the partition any more.
        """
        ...

    def await_committed(self, topic: str, index: int, on_result: Callable[[ErrorCode], None]) -> None:
        """Calls `on_result` once, at once or later: with NONE when the high watermark has passed all that the
        log of the partition holds now, with an error when this broker does not lead the partition any
        more."""
        ...

    def max_batch_bytes(self, topic: str, index: int) -> int:
        """The size of the largest batch that the partition takes (`max.message.bytes`)."""
        ...


class PartitionReader(Protocol):
    """Reads partitions from this broker's disk."""

    def read_batches(self, topic: str, index: int, from_offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `from_offset` (or the next one) on; `b""` at the log's end.

        At least one batch, however large, otherwise up to `max_bytes`. An offset before the log's start means
        the start. Raises OSError if the disk fails, LookupError if the partition is not here, CorruptRecord
        where the file holds no batch and for an offset beyond the log's end.
        """
        ...


class InternalTopics(Protocol):
    """Creates the coordinators' topics on first use."""

    def ensure(self, topic: str) -> bool:
        """Whether the topic exists. If not, its creation has begun when this returns. It may be asked
        often."""
        ...


class ClusterView(Protocol):
    """What a coordinator needs of the metadata cache."""

    def topic_id(self, name: str) -> Uuid | None: ...

    def topic_name(self, topic_id: Uuid) -> str | None: ...

    def partition_count(self, name: str) -> int | None:
        """The number of partitions; None for a topic that does not exist."""
        ...

    def leader_endpoint(self, topic: str, index: int, listener: str) -> CoordinatorEndpoint | None:
        """The address of the partition's leader for clients of `listener`; None if there is no leader or no
        such address."""
        ...


class MetadataUpdate(msgspec.Struct, frozen=True):
    """The changes in the cluster's metadata that concern coordinators."""

    deleted_topics: Mapping[str, Uuid]
    """The names of deleted topics, with the ids that they had."""
    changed_topics: frozenset[str] = frozenset()
    """The names of topics that are new, deleted, or have other partitions or replicas."""


class RuntimeSettings(msgspec.Struct, frozen=True):
    """The settings of a coordinator runtime; every coordinator has its own."""

    write_timeout_ms: int = 5000
    """The time for which a response waits for its records."""
    slice_records: int = 2000
    """The number of records that are replayed in one turn of the loop while loading."""
    load_buffer_bytes: int = 1024 * 1024
    """The number of bytes that are read from disk at once while loading."""
    batch_bytes: int = 900_000
    """Records that need not be in one batch are split into batches of this size, or of the size that the log
    takes if that is less."""


class CoordinatorPorts(NamedTuple):
    """What a coordinator runtime works with."""

    topic: str
    """The internal topic that holds the coordinator's records."""
    writer: PartitionWriter
    reader: PartitionReader
    clock: Clock
    timers: Timers
    settings: RuntimeSettings
