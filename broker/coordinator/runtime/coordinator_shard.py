"""What the runtime asks of a coordinator's state machine.

A shard is the state of one partition of the internal topic. It changes its recorded state in the `replay`
methods alone, and they are the same for a record that an operation has just returned and for a record that is
read from the log at start. The one difference is the undo log: a live record may still be refused by the log,
so its replay notes how to take the change back; a loaded record stands, so there is nothing to note.
"""

from __future__ import annotations

from typing import Protocol

from broker.coordinator.ports import CurrentTime, MetadataUpdate
from broker.coordinator.runtime.result import CoordinatorResult, UndoLog


class CoordinatorPlayback(Protocol):
    """The part of a shard that changes its recorded state."""

    def replay(self, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        """Applies a record that belongs to no transaction. `undo` is None while loading.

        Raises ProtocolError for bytes that cannot be read: a loaded record is then left out, and a live one
        counts as refused.
        """
        ...

    def replay_transactional(
        self, producer_id: int, key: bytes, value: bytes | None, undo: UndoLog | None
    ) -> None:
        """Applies a record of a transaction whose end may or may not follow."""
        ...

    def replay_end_transaction_marker(self, producer_id: int, committed: bool, undo: UndoLog | None) -> None:
        """Applies the end of the producer's transaction."""
        ...

    def build(self, max_records: int) -> bool:
        """Makes what loading has put off, for up to so many records, after the end of the log. Returns True
        when nothing is left to do."""
        ...

    def loaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        """Starts the deadlines, because everything is built."""
        ...


class CoordinatorShard(CoordinatorPlayback, Protocol):
    """The state machine of one partition. It is not reentrant: the runtime calls one method at a time and
    delivers answers in between."""

    def unloaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        """Answers all waiting clients, because the partition has another leader. This is the last call."""
        ...

    def metadata_updated(self, update: MetadataUpdate, now: CurrentTime) -> CoordinatorResult[None]:
        """Takes in a change of the cluster's metadata."""
        ...

    def next_look_ms(self) -> int | None:
        """The monotonic time at which `expire` is to be called. It may be too early, but never too late."""
        ...

    def expire(self, now: CurrentTime) -> CoordinatorResult[None] | None:
        """The outcome of one deadline that has passed; None when none has."""
        ...

    def mend(self, now: CurrentTime, *, everything: bool) -> CoordinatorResult[None]:
        """Repairs the state in memory after the last operation has raised, or (`everything`) one that is not
        known. None of its records was replayed."""
        ...
