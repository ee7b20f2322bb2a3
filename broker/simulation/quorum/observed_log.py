"""A replica's log as the world outside sees it: which batches it holds, and whom they make voters.

The rules of the quorum (`invariants`) are judged by it. For a replica on the model of a disk (`disk`) it is
the log itself; for one that runs the product's disk code (`watched_disk`) it is what was seen to be written.
"""

from __future__ import annotations

from bisect import bisect_right

from broker.simulation.quorum.library import (
    EMPTY_CHAIN,
    NO_VOTERS,
    Batch,
    Electorate,
    Library,
    Voters,
)
from broker.simulation.verdict import Violation
from controller.raft.effects import HardState
from controller.raft.identity import Address, ReplicaKey
from controller.raft.log_port import SnapshotControl

__all__ = ["ObservedLog", "voters_of"]


def voters_of(control: SnapshotControl) -> Voters:
    """Who votes as a snapshot says it."""
    return Voters(control.kraft_version, control.voters)


class ObservedLog:
    """One replica's log. `library` is the outside world's: it sees every batch that is written."""

    def __init__(self, library: Library, first: SnapshotControl | None = None) -> None:
        """first: what `storage format` wrote, for a replica of a quorum whose log knows its voters."""
        self.library = library
        self.batches: list[Batch] = []
        self._ends: list[int] = []
        self.start_offset = 0
        self.start_epoch = 0
        self.start_chain = EMPTY_CHAIN
        self._voters: list[tuple[int, Voters]] = [(0, NO_VOTERS if first is None else voters_of(first))]
        """(end offset of the batch that says so, or the log's start; the voters from there on), ascending."""

    # What survives a power cut in any case

    @property
    def synced_end(self) -> int:
        """Everything below it is on the disk."""
        raise NotImplementedError

    @property
    def hard_state(self) -> HardState | None:
        """What the quorum-state file on the disk says; None without one."""
        raise NotImplementedError

    # What is there

    @property
    def end_offset(self) -> int:
        return self._ends[-1] if self._ends else self.start_offset

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else self.start_epoch

    @property
    def chain(self) -> int:
        """The fingerprint of the whole log."""
        return self.batches[-1].chain if self.batches else self.start_chain

    @property
    def voters(self) -> Voters:
        """Those that the log's end names."""
        return self._voters[-1][1]

    def voters_since_before(self, batch: Batch) -> int:
        """Where the voters were named that held before this batch."""
        return next(since for since, _ in reversed(self._voters) if since < batch.end_offset)

    def electorates(self, committed_end: int) -> list[Electorate]:
        """All sets of voters that may still count here: the newest committed one and those behind it."""
        sure = [index for index, (since, _) in enumerate(self._voters) if since <= committed_end]
        return [voters.electorate for _, voters in self._voters[sure[-1] if sure else 0 :] if voters.record]

    def address_of(self, key: ReplicaKey) -> Address | None:
        """Where the newest voters say that this replica listens; None if they do not name it."""
        record = self.voters.record
        for entry in record.voters if record is not None else ():
            if (entry.voter_id, entry.voter_directory_id) == key:
                return Address(entry.endpoints[0].host, entry.endpoints[0].port)
        return None

    def voters_before_epoch(self, epoch: int) -> Voters:
        """Those that the log named before its first batch of the epoch."""
        index = len(self.batches)
        while index and self.batches[index - 1].epoch >= epoch:
            index -= 1
        return self.voters_at(self.batches[index - 1].end_offset if index else self.start_offset)

    def voters_at(self, end_offset: int) -> Voters:
        return next(voters for since, voters in reversed(self._voters) if since <= end_offset)

    def index_from(self, offset: int) -> int:
        """Where in `batches` the one stands that holds `offset`."""
        return bisect_right(self._ends, offset)

    def chain_at(self, end_offset: int) -> int | None:
        """The fingerprint up to the batch that ends there; None if none does."""
        if end_offset == self.start_offset:
            return self.start_chain
        index = bisect_right(self._ends, end_offset) - 1
        if index < 0 or self._ends[index] != end_offset:
            return None
        return self.batches[index].chain

    def holds(self, batch: Batch, up_to: int) -> bool:
        """Whether the batch lies below `up_to` in this log, or in the snapshot before it."""
        if batch.end_offset > up_to:
            return False
        if batch.end_offset <= self.start_offset:
            return True
        index = bisect_right(self._ends, batch.base_offset)
        return index < len(self.batches) and self.batches[index] is batch

    # Changes

    def append(self, base_offset: int, end_offset: int, records: bytes) -> list[Batch]:
        if base_offset != self.end_offset:
            raise Violation(
                "appends are whole and without gaps", f"an append at {base_offset}, log end {self.end_offset}"
            )
        batches = self.library.admit(records, base_offset, self.last_epoch, self.chain, self.voters)
        for batch in batches:
            self.batches.append(batch)
            self._ends.append(batch.end_offset)
            if batch.voters is not None:
                self._voters.append((batch.end_offset, batch.voters))
        if end_offset != self.end_offset:
            raise Violation(
                "appends are whole and without gaps", f"an append up to {end_offset}, not {self.end_offset}"
            )
        return batches

    def truncate(self, offset: int) -> list[Batch]:
        """Gives back what was cut off."""
        index = bisect_right(self._ends, offset)
        gone = self.batches[index:]
        if offset < self.start_offset or (gone and gone[0].base_offset != offset):
            raise Violation("a log is truncated at a batch", f"{offset} is inside {gone[:1]}")
        self._cut(index)
        return gone

    def _cut(self, index: int) -> None:
        del self.batches[index:], self._ends[index:]
        while self._voters[-1][0] > self.end_offset:
            self._voters.pop()

    def begin_at(self, end_offset: int, epoch: int, chain: int, voters: Voters) -> None:
        """The log begins behind a snapshot: what lies below its end offset is gone."""
        index = bisect_right(self._ends, end_offset)
        del self.batches[:index], self._ends[:index]
        self.start_offset, self.start_epoch, self.start_chain = end_offset, epoch, chain
        later = [each for each in self._voters if each[0] > end_offset]
        self._voters = [(end_offset, voters), *later]

    def drop_all(self) -> None:
        """Cuts off every batch."""
        self._cut(0)
