"""Offsets that open transactions would commit.

A transaction's offsets are in the log when the producer has sent them, and count when its commit marker
comes. Until then they are pending: a client that wants stable offsets is told to wait, and these offsets do
not expire. What the log has for a partition behind a pending offset is newer, whether it was committed at
once or by another transaction. Then the pending offset is superseded and its marker does not apply it, but
the partition stays unstable until the marker.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from broker.coordinator.group_keys import GROUP, GroupKey, read_key
from broker.coordinator.runtime.result import UndoLog
from protocol.errors import ProtocolError


class _Write(NamedTuple):
    """How a pending record stands to what else the log has for its key.

    position: its place in the order of the log, counted over all pending records. is_gone: a tombstone has
    removed it, so it does not make its partition unstable any longer.
    """

    position: int
    is_superseded: bool = False
    is_gone: bool = False


class PendingTransactionalOffsets:
    """Records of transactions whose marker has not come, by producer, as keys and values of the log. Changes
    take an undo log, except while loading."""

    def __init__(self) -> None:
        self.by_producer: dict[int, dict[bytes, bytes | None]] = {}
        """The pending records by producer. Others read it to see whether a transaction is open."""
        self._writes: dict[bytes, dict[int, _Write]] = {}
        """For each key, what open transactions have written to it, by producer."""
        self._partitions: dict[str, dict[bytes, tuple[str, int]]] = {}
        """The keys of each group, with topic and partition."""
        self._held = 0
        """The number of records that were ever held, which gives the next one its position."""

    def hold(self, producer_id: int, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        """Keeps a record until the end of its transaction."""
        if undo is not None:
            undo.add(self._restorer(producer_id, key))
        self._held += 1
        self._put(producer_id, key, value, _Write(self._held))

    def _put(self, producer_id: int, key: bytes, value: bytes | None, write: _Write) -> None:
        self.by_producer.setdefault(producer_id, {})[key] = value
        writes = self._writes.get(key)
        if writes is None:
            writes = self._writes[key] = {}
            read = _read(key)
            if read is not None:
                self._partitions.setdefault(read.group, {})[key] = (read.topic, read.partition)
        writes[producer_id] = write

    def supersede(self, key: bytes, position: int | None, *, is_gone: bool, undo: UndoLog | None) -> None:
        """Takes in that a record of the key counts from now on, so what is pending for it is older. The
        record of a transaction has the position at which it was held, and leaves alone what was held after
        it. A tombstone removes what is older altogether; the transactions stay open, and keep their group
        from being removed."""
        writes = self._writes.get(key, {})
        for producer_id, write in list(writes.items()):
            is_older = position is None or write.position < position
            if not is_older or write.is_gone or (write.is_superseded and not is_gone):
                continue
            if undo is not None:
                undo.add(self._restorer(producer_id, key))
            writes[producer_id] = write._replace(is_superseded=True, is_gone=is_gone)

    def end(self, producer_id: int, undo: UndoLog | None) -> list[tuple[bytes, bytes | None, int]]:
        """Ends the producer's transaction. Returns the key, value and position of each record that a commit
        writes, in the order in which they were sent."""
        written = self.by_producer.get(producer_id, {})
        if undo is not None:
            for key in reversed(written):  # the undo log runs backwards, so the first key is held first
                undo.add(self._restorer(producer_id, key))
        effective: list[tuple[bytes, bytes | None, int]] = []
        for key, value in list(written.items()):
            write = self._writes[key][producer_id]
            if not write.is_superseded:
                effective.append((key, value, write.position))
            self._drop(producer_id, key)
        return effective

    def _restorer(self, producer_id: int, key: bytes) -> partial[None]:
        """A function that restores the producer's present pending record of the key."""
        write = self._writes.get(key, {}).get(producer_id)
        if write is None:
            return partial(self._drop, producer_id, key)
        return partial(self._put, producer_id, key, self.by_producer[producer_id][key], write)

    def _drop(self, producer_id: int, key: bytes) -> None:
        """Notes that the producer's transaction has not written the key any longer."""
        written = self.by_producer[producer_id]
        del written[key]
        if not written:
            del self.by_producer[producer_id]
        writes = self._writes[key]
        del writes[producer_id]
        if writes:
            return
        del self._writes[key]
        read = _read(key)
        if read is not None:
            partitions = self._partitions[read.group]
            del partitions[key]
            if not partitions:
                del self._partitions[read.group]

    def group_of(self, key: bytes) -> str | None:
        """The group of an offset's key; None for any other key."""
        read = _read(key)
        return None if read is None or read.kind == GROUP else read.group

    def is_pending(self, key: bytes) -> bool:
        """Whether an open transaction has written the key, and no tombstone came after that."""
        return not all(write.is_gone for write in self._writes.get(key, {}).values())

    def has_group(self, group: str) -> bool:
        """Whether an open transaction has written offsets of the group."""
        return group in self._partitions

    def partitions(self, group: str) -> list[tuple[str, int]]:
        """Topics and partitions of a group that open transactions have written and no tombstone has taken
        away since."""
        return [place for key, place in self._partitions.get(group, {}).items() if self.is_pending(key)]

    def has_offsets(self, group: str) -> bool:
        """Whether open transactions would commit offsets of the group, rather than take some away."""
        return any(
            self.by_producer[producer_id][key] is not None
            for key in self._partitions.get(group, ())
            for producer_id, write in self._writes[key].items()
            if not write.is_gone
        )

    def groups(self) -> list[str]:
        """Groups of which open transactions have written offsets."""
        return list(self._partitions)


def _read(key: bytes) -> GroupKey | None:
    try:
        return read_key(key)
    except ProtocolError:
        return None
