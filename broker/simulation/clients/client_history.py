"""How a client writes down what it does and is told, for `broker.simulation.histories`.

A process of a history does one thing after the other. A client that dies in the middle and comes back is
another process: what it had begun has no end that anybody knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.histories.history import READ_COMMITTED, Event, Record

__all__ = ["ClientHistory"]


class ClientHistory:
    """process: the name in the history; the client's own, with a number from its second life on."""

    def __init__(self, world: ClusterWorld, name: str) -> None:
        self.process = name
        self._world = world
        self._name = name
        self._lives = 1
        self._operation: Literal["", "transaction", "write"] = ""

    @property
    def is_under_way(self) -> bool:
        """Whether an operation has begun and not ended."""
        return self._operation != ""

    def renew(self) -> None:
        """The client begins another life; what was under way is left without an end."""
        self._lives += 1
        self._operation = ""
        self.process = f"{self._name}.{self._lives}"

    # Operations that begin and end

    def begin_write(self, writes: Sequence[Record]) -> None:
        """Before anybody is asked to write."""
        self._operation = "write"
        self._note("invoke", "write", writes=tuple(writes))

    def begin_transaction(
        self,
        transactional_id: str,
        writes: Sequence[Record],
        *,
        reads: Sequence[Record] = (),
        group: str = "",
    ) -> None:
        """reads: whose offsets it will commit for the group."""
        self._operation = "transaction"
        self._note(
            "invoke",
            "transaction",
            transactional_id=transactional_id,
            writes=tuple(writes),
            reads=tuple(reads),
            group=group,
        )

    def asks(self, ending: Literal["commit", "abort"]) -> None:
        """Before the request that ends the transaction is sent for the first time."""
        self._note("asks", "transaction", ending=ending)

    def ends(
        self, outcome: Literal["ok", "fail", "info"], *, writes: Sequence[Record] = (), why: str = ""
    ) -> None:
        """What the client believes of the operation that is under way. writes: with the offsets that it was
        told; an offset says that the record is there for good."""
        operation, self._operation = self._operation, ""
        self._note(outcome, operation, writes=tuple(writes), why=why)

    # What is said in one line

    def assign(self, positions: Mapping[str, int], isolation: str = READ_COMMITTED) -> None:
        """Of all partitions that it reads from now on."""
        self._note("ok", "assign", positions=dict(positions), isolation=isolation)

    def poll(self, reads: Sequence[Record]) -> None:
        if reads:
            self._note("ok", "poll", reads=tuple(reads))

    def end(self, positions: Mapping[str, int], high_watermarks: Mapping[str, int]) -> None:
        """It has read up to these positions, and nothing more was there."""
        self._note("ok", "end", positions=dict(positions), high_watermarks=dict(high_watermarks))

    def deletes(self, partition: str, before: int) -> None:
        """Before it asks that all below an offset be deleted."""
        self._note("ok", "deleted", positions={partition: before})

    def _note(self, kind: str, operation: str, **fields: Any) -> None:
        event: Any = {"type": kind, "operation": operation, **fields}
        self._world.note(Event(time_ms=self._world.now_ms, process=self.process, **event))
