"""What becomes of the offsets of topics that are deleted.

They are removed in slices, because a topic may have been read by very many groups. An offset that was
committed for an older or newer topic of the same name stays: it has the id of its topic. Offsets of
transactions and those of older versions have none; of these, what is committed after the deletion stays.

What open transactions would commit is removed at once. If the partition gets another leader meanwhile, what
is left expires like other offsets that nobody needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from broker.coordinator.group_keys import offset_key
from broker.coordinator.group_operation import DeadlineKind, GroupOperation
from broker.coordinator.offsets.committed_offsets import CommittedOffsets
from broker.coordinator.offsets.offset_records import offset_tombstone
from broker.coordinator.offsets.pending_transactional_offsets import PendingTransactionalOffsets
from broker.coordinator.runtime.result import CoordinatorRecord, UndoLog
from protocol.primitives import Uuid
from protocol.values import ZERO_UUID

DELETION_SLICE_OFFSETS: Final = 200
"""The number of offsets that one turn of the loop removes, or of groups that it looks at, in each partition
that this broker leads. All of them do so at once."""


class _Deletion:
    """Topics that were deleted together, by name with their ids, and the groups that are left to look at."""

    def __init__(self, topics: Mapping[str, Uuid], groups: list[str]) -> None:
        self.topics = topics
        self.groups_left = groups
        self.written: set[bytes] = set()
        """The keys of offsets that were committed since the deletion."""

    def tombstones(self, group_id: str, committed: CommittedOffsets) -> list[CoordinatorRecord]:
        """Tombstones for what the group had committed for the topics."""
        found = []
        for topic, index in committed.partitions_in(group_id, self.topics):
            offset = committed.get(group_id, topic, index)
            if (
                offset is not None
                and offset.topic_id in (ZERO_UUID, self.topics[topic])
                and offset_key(group_id, topic, index) not in self.written
            ):
                found.append(offset_tombstone(group_id, topic, index))
        return found


class TopicDeletions:
    """The deletions of topics of which one partition has not removed all offsets."""

    def __init__(self, committed: CommittedOffsets, pending: PendingTransactionalOffsets) -> None:
        self._committed = committed
        self._pending = pending
        self._deletions: list[_Deletion] = []

    def begin(self, topics: Mapping[str, Uuid], operation: GroupOperation) -> None:
        """Writes the first tombstones for the offsets of deleted topics, which are given by name with their
        ids."""
        for group_id in self._pending.groups():
            for topic, index in self._pending.partitions(group_id):
                if topic in topics:
                    operation.result.records.append(offset_tombstone(group_id, topic, index))
        self._deletions.append(_Deletion(topics, self._committed.groups()))
        self.go_on(operation)

    def go_on(self, operation: GroupOperation) -> None:
        """Writes the next tombstones. The others follow after other work of the loop."""
        operation.result.atomic = False
        budget = DELETION_SLICE_OFFSETS
        while self._deletions and budget > 0:
            deletion = self._deletions[0]
            if not deletion.groups_left:
                del self._deletions[0]
                continue
            found = deletion.tombstones(deletion.groups_left.pop(), self._committed)
            operation.result.records.extend(found)
            budget -= max(1, len(found))
        self.schedule(operation)

    def schedule(self, operation: GroupOperation) -> None:
        """Goes on soon, if anything is left."""
        if self._deletions:
            due_ms = operation.now.monotonic_ms + 1
            operation.deadlines.set((DeadlineKind.DELETE_TOPICS, "", ""), due_ms)

    def offset_written(self, key: bytes, undo: UndoLog | None) -> None:
        """Takes in that an offset was committed."""
        for deletion in self._deletions:
            if key not in deletion.written:
                deletion.written.add(key)
                if undo is not None:
                    undo.add(partial(deletion.written.discard, key))
