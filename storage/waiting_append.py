"""One append that waits for helper threads (see `append_lane`), as its caller holds it.

`PartitionLog` returns a `WaitingAppend` instead of a result when an append takes too long for the loop. The
caller asks it with `then` to be called back with the outcome: the result, or the error.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.errors import invariant
from protocol.records.verdict import ValidatedBatch, ValidationRules
from storage.append import AppendResult, PreparedAppend, result_of_copies
from storage.append_queue import AppendQueue
from storage.errors import AppendRefused, LogStorageError

Outcome = AppendResult | AppendRefused | LogStorageError


class WaitingAppend:
    """One batch that waits. `then` may be called before and after its outcome is known."""

    __slots__ = (
        "_calls",
        "batch",
        "leader_epoch",
        "now_ms",
        "outcome",
        "records",
        "size_bytes",
        "transaction_version",
    )

    def __init__(
        self, records: bytearray, batch: ValidatedBatch | None, leader_epoch: int, now_ms: int
    ) -> None:
        """batch: None for batches of a leader, which are not validated here; see `WaitingCopies`."""
        self.records = records
        self.size_bytes = len(records)
        self.batch = batch
        self.leader_epoch = leader_epoch
        self.now_ms = now_ms
        self.transaction_version = 0
        self.outcome: Outcome | None = None
        self._calls: list[Callable[[Outcome], None]] = []

    def then(self, call: Callable[[Outcome], None]) -> None:
        """Calls back once, on the loop: at once if the outcome is known, else in the order of these calls."""
        if self.outcome is None:
            self._calls.append(call)
        else:
            call(self.outcome)

    def finish(self, outcome: Outcome) -> None:
        """Calls back with the outcome. If a callback sets `outcome`, those after it get the new one."""
        self.outcome = outcome
        self.records = bytearray()
        calls, self._calls = self._calls, []
        for call in calls:
            call(self.outcome)

    @property
    def is_judged(self) -> bool:
        """Whether its batch is validated, or needs no validation, so that it can be prepared."""
        return self.batch is None or self.batch.is_judged

    def prepare(self, queue: AppendQueue, rules: ValidationRules) -> list[PreparedAppend]:
        """Gives the batch its offsets and puts it at the end of the queue. Raises AppendRefused."""
        if self.batch is None:
            invariant(False, "A waiting append has a batch, or copies batches")
            return []
        return [
            queue.prepare(
                self.records, self.batch, rules, self.leader_epoch, self.now_ms, self.transaction_version
            )
        ]

    def committed(self, results: list[AppendResult]) -> Outcome | None:
        """Notes that these of its batches are in the log. Returns the outcome when all of them are."""
        return results[0]


class WaitingCopies(WaitingAppend):
    """Batches that a follower has fetched, which are appended as they are.

    If a write fails after some of them were appended, these stay in the log: the follower fetches from the
    end of its log.
    """

    __slots__ = ("_left", "_problem", "_results")

    def __init__(self, batches: bytearray, leader_epoch: int, now_ms: int) -> None:
        super().__init__(batches, None, leader_epoch, now_ms)
        self._left = 0
        self._results: list[AppendResult] = []
        self._problem: AppendRefused | None = None

    def prepare(self, queue: AppendQueue, rules: ValidationRules) -> list[PreparedAppend]:
        """Does as `WaitingAppend.prepare`. Raises AppendRefused if not even the first batch is good."""
        copies, self._problem = queue.prepare_copies(self.records, self.leader_epoch)
        self._left = len(copies)
        if self._problem is not None and not copies:
            raise self._problem
        return copies

    def committed(self, results: list[AppendResult]) -> Outcome | None:
        """Does as `WaitingAppend.committed`."""
        self._left -= len(results)
        self._results += results
        if self._left:
            return None
        if self._problem is not None:
            return self._problem
        last = self._results[-1]
        return result_of_copies(self._results, last.last_offset + 1, last.log_start_offset)
