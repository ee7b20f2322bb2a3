"""The committed offsets of one partition of `__consumer_offsets`, and how records change them.

A live record and a loaded one go through the same `replay`. What is committed is kept as the bytes of the
record and read when it is first asked for: most offsets of a large partition belong to groups that are long
gone.

While loading, the place of a group's offsets in a topic is remembered by the bytes of their keys without the
partition, because a partition of a million records often holds a few thousand keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from broker.coordinator.group_keys import LEGACY_OFFSET, PARTITION_BYTES, GroupKey, offset_key, read_key
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.offsets.committed_offsets import CommittedOffsets, KeptOffset
from broker.coordinator.offsets.offset_records import offset_record, read_offset
from broker.coordinator.offsets.pending_transactional_offsets import PendingTransactionalOffsets
from broker.coordinator.offsets.topic_deletions import TopicDeletions
from broker.coordinator.runtime.result import UndoLog
from protocol.errors import ProtocolError


class OffsetMetadataManager:
    """The committed offsets of the groups of one partition, and those that open transactions would commit."""

    def __init__(self, groups: GroupMetadataManager) -> None:
        self._groups = groups
        self.committed = CommittedOffsets()
        self.pending = PendingTransactionalOffsets()
        self.topic_deletions = TopicDeletions(self.committed, self.pending)
        self._places: dict[bytes, dict[int, KeptOffset]] = {}
        """While loading, the place of offsets by the bytes of a key without the partition."""

    # Replay

    def replay(
        self, key: bytes, value: bytes | None, undo: UndoLog | None, position: int | None = None
    ) -> None:
        """Applies the record of an offset. One of a transaction that is committed now has its position among
        the pending records. Raises ProtocolError for bytes that are no key of an offset."""
        if self.pending.by_producer:
            self.pending.supersede(key, position, is_gone=value is None, undo=undo)
        place = self._places.get(key[:-PARTITION_BYTES])
        if place is None:
            read = read_key(key)
            if read is None or offset_key(read.group, read.topic, read.partition) != key:
                raise ProtocolError(f"{len(key)} bytes are no key of an offset")
            if value is not None:
                self._groups.ensure(read.group, undo)
            elif undo is not None:  # what is undone brings back the group, too, if it is gone by then
                undo.add(partial(self._ensure_if_any, read.group))
            if value is not None:
                self.topic_deletions.offset_written(key, undo)
            if undo is not None or value is None:
                self.committed.set(read.group, read.topic, read.partition, value, undo)
                return
            place = self.committed.place(read.group, read.topic)
            self._places[key[:-PARTITION_BYTES]] = place
        partition = int.from_bytes(key[-PARTITION_BYTES:], "big", signed=True)
        if value is None:
            place.pop(partition, None)
        else:
            place[partition] = value

    def _ensure_if_any(self, group_id: str) -> None:
        if self.committed.has_group(group_id):
            self._groups.ensure(group_id, None)

    def replay_legacy(self, key: GroupKey, value: bytes | None, undo: UndoLog | None) -> None:
        """Applies an offset that was committed before Kafka 0.9, as if it were committed today."""
        if value is None:
            self.replay(offset_key(key.group, key.topic, key.partition), None, undo)
            return
        offset = read_offset(LEGACY_OFFSET, value)
        record = offset_record(key.group, key.topic, key.partition, offset)
        self.replay(record.key, record.value, undo)

    def replay_transactional(
        self, producer_id: int, key: bytes, value: bytes | None, undo: UndoLog | None
    ) -> None:
        """Applies a record of a transaction, which counts when the transaction is committed. Its group exists
        from now on. If the transaction is aborted, the next look for expired offsets removes the group."""
        self.pending.hold(producer_id, key, value, undo)
        group_id = self.pending.group_of(key)
        if value is not None and group_id is not None:
            self._groups.ensure(group_id, undo)

    def end_transaction(
        self, producer_id: int, undo: UndoLog | None
    ) -> list[tuple[bytes, bytes | None, int]]:
        """Ends the producer's transaction. Returns the records that a commit writes, in their order, each
        with its position among the pending records."""
        return self.pending.end(producer_id, undo)

    def group_removed(self, group_id: str) -> None:
        """Takes in, while loading, that the group's record was a tombstone. Offsets that are committed after
        it create the group again."""
        for topic in self.committed.topics_of(group_id):
            self._places.pop(offset_key(group_id, topic, 0)[:-PARTITION_BYTES], None)

    def build(self) -> Iterator[str]:
        """Removes what is empty, after the end of the log. Yields the groups that have offsets."""
        self._places.clear()
        for group_id in self.committed.groups():
            if self.committed.tidy(group_id):
                yield group_id

    # Questions

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction would change the offset."""
        return bool(self.pending.by_producer) and self.pending.is_pending(
            offset_key(group_id, topic, partition)
        )
