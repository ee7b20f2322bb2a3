"""Offsets that open transactions would commit.

A transaction's offsets are in the log when the producer has sent them, and count when its commit marker
comes. Until then they are pending: a client that wants stable offsets is told to wait, and these offsets do
not expire. A plain commit to the same partition meanwhile is newer, so the pending value is dropped, but the
partition stays unstable until the marker.
"""

from __future__ import annotations

from functools import partial

from broker.coordinator.group_keys import GROUP, GroupKey, read_key
from broker.coordinator.runtime.result import UndoLog
from protocol.errors import ProtocolError


class PendingTransactionalOffsets:
    """Records of transactions whose marker has not come, by producer, as keys and values of the log. Changes
    take an undo log, except while loading."""

    def __init__(self) -> None:
        self.by_producer: dict[int, dict[bytes, bytes | None]] = {}
        """The pending records by producer. Others read it to see whether a transaction is open."""
        self._writers: dict[bytes, dict[int, None]] = {}
        """The producers whose open transactions have written each key."""
        self._partitions: dict[str, dict[bytes, tuple[str, int]]] = {}
        """The keys of each group, with topic and partition."""
        self._superseded: set[tuple[int, bytes]] = set()
        self._gone: set[bytes] = set()
        """Pending keys that a tombstone has removed: they are not unstable any longer."""

    def hold(self, producer_id: int, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        """Keeps a record until the end of its transaction."""
        if undo is not None:
            undo.add(self._restorer(producer_id, key))
        self.by_producer.setdefault(producer_id, {})[key] = value
        writers = self._writers.get(key)
        if writers is None:
            writers = self._writers[key] = {}
            read = _read(key)
            if read is not None:
                self._partitions.setdefault(read.group, {})[key] = (read.topic, read.partition)
        writers[producer_id] = None
        self._superseded.discard((producer_id, key))
        self._gone.discard(key)

    def supersede(self, key: bytes, *, is_gone: bool, undo: UndoLog | None) -> None:
        """Takes in that the key was written outside of any transaction, so what is pending for it is older. A
        tombstone removes it altogether; the transaction stays open, and keeps its group from being
        removed."""
        for producer_id in self._writers.get(key, ()):
            mark = (producer_id, key)
            if mark not in self._superseded:
                self._superseded.add(mark)
                if undo is not None:
                    undo.add(partial(self._superseded.discard, mark))
        if is_gone and key in self._writers and key not in self._gone:
            self._gone.add(key)
            if undo is not None:
                undo.add(partial(self._gone.discard, key))

    def end(self, producer_id: int, undo: UndoLog | None) -> list[tuple[bytes, bytes | None]]:
        """Ends the producer's transaction. Returns what a commit writes, in the order in which it was
        sent."""
        written = self.by_producer.get(producer_id, {})
        if undo is not None:
            for key in reversed(written):  # the undo log runs backwards, so the first key is held first
                undo.add(self._restorer(producer_id, key))
        effective: list[tuple[bytes, bytes | None]] = []
        for key, value in list(written.items()):
            if (producer_id, key) not in self._superseded:
                effective.append((key, value))
            self._drop(producer_id, key)
        return effective

    def _restorer(self, producer_id: int, key: bytes) -> partial[None]:
        """A function that restores the producer's present pending record of the key."""
        written = self.by_producer.get(producer_id, {})
        return partial(
            self._restore,
            producer_id,
            key,
            (written[key],) if key in written else None,
            (producer_id, key) in self._superseded,
            key in self._gone,
        )

    def _restore(
        self, producer_id: int, key: bytes, held: tuple[bytes | None] | None, superseded: bool, gone: bool
    ) -> None:
        if held is None:
            self._drop(producer_id, key)
        else:
            self.hold(producer_id, key, held[0], None)
        if superseded:
            self._superseded.add((producer_id, key))
        if gone and key in self._writers:
            self._gone.add(key)

    def _drop(self, producer_id: int, key: bytes) -> None:
        """Notes that the producer's transaction has not written the key any longer."""
        written = self.by_producer[producer_id]
        del written[key]
        if not written:
            del self.by_producer[producer_id]
        self._superseded.discard((producer_id, key))
        writers = self._writers[key]
        del writers[producer_id]
        if writers:
            return
        del self._writers[key]
        self._gone.discard(key)
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
        return key in self._writers and key not in self._gone

    def has_group(self, group: str) -> bool:
        """Whether an open transaction has written offsets of the group."""
        return group in self._partitions

    def partitions(self, group: str) -> list[tuple[str, int]]:
        """Topics and partitions of a group that open transactions have written and no tombstone has taken
        away since."""
        return [place for key, place in self._partitions.get(group, {}).items() if key not in self._gone]

    def has_offsets(self, group: str) -> bool:
        """Whether open transactions would commit offsets of the group, rather than take some away."""
        return any(
            self.by_producer[producer_id][key] is not None
            for key in self._partitions.get(group, ())
            if key not in self._gone
            for producer_id in self._writers[key]
        )

    def groups(self) -> list[str]:
        """Groups of which open transactions have written offsets."""
        return list(self._partitions)


def _read(key: bytes) -> GroupKey | None:
    try:
        return read_key(key)
    except ProtocolError:
        return None
