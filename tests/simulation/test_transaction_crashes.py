"""A transaction coordinator dies between any two of its steps, once or twice, and another one goes on.

One transaction is committed, aborted, fenced by the next producer of its id, or open for too long, and its
partitions are real logs. The coordinator dies before or after any of its records is stored, and between any
two markers; those that it has sent arrive, are lost, or arrive when all is over. Its producer repeats what
was not answered, or is never heard of again. Whatever the moment, the transaction ends as its producer was
told: every partition of it has that marker, readers see all of it or nothing, and the next transaction of the
id is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, Final

import pytest

from broker.coordinator.transaction.transaction_operation import EndedTransaction
from broker.coordinator.transaction.transaction_states import TransactionState
from protocol.errors import ErrorCode
from storage.append import AppendResult
from storage.errors import AppendRefused
from tests.support.rigs.group_world import MemoryLog, now
from tests.support.rigs.log_rig import LogRig
from tests.support.rigs.transaction_world import TransactionWorld
from tests.support.rigs.transactions import TransactionWriter

ID: Final = "t"
TIMEOUT_MS: Final = 60_000
FIRST: Final = [("a", 0), ("b", 0)]
SECOND: Final = [("a", 1)]
OTHER: Final = [("c", 0)]
"""Of the next transaction."""
VERSIONS: Final = [(0, 0), (1, 1), (2, 2), (2, 0)]
"""The cluster's transaction.version, and its client's."""
LOST, AT_ONCE, LATE = "lost", "at once", "late"
"""When markers arrive that a coordinator had sent before it died."""


class DyingLog(MemoryLog):
    """`dies` is asked before each record is stored and after it; from a yes on nothing is stored or
    answered any more, until `is_dead` is taken back."""

    def __init__(self, dies: Callable[[], bool]) -> None:
        super().__init__()
        self.is_dead = False
        self._dies = dies

    def append_internal(
        self,
        topic: str,
        index: int,
        batch: bytes,
        on_result: Callable[[AppendResult | AppendRefused], None],
        transaction_version: int = 0,
    ) -> None:
        def stored(result: AppendResult | AppendRefused) -> None:
            self.is_dead = self._dies()
            if not self.is_dead:
                on_result(result)

        self.is_dead = self.is_dead or self._dies()
        if not self.is_dead:
            super().append_internal(topic, index, batch, stored, transaction_version)


class Stage:
    """A producer, its coordinator, and the partitions to which it writes. crashes: the moments, from 1, at
    which the coordinator dies."""

    def __init__(
        self, version: int, client_version: int, crashes: tuple[int, ...] = (), on_the_way: str = LOST
    ) -> None:
        self.moments = 0
        self.crashes = crashes
        self.late: list[tuple[EndedTransaction, int]] = []
        """Markers of coordinators that have died, with their epochs."""
        self._on_the_way = on_the_way
        self.client_version = client_version
        self.partitions = {place: TransactionWriter(LogRig().log) for place in [*FIRST, *SECOND, *OTHER]}
        self.markers: dict[tuple[str, int], set[tuple[int, int, bool]]] = {
            place: set() for place in self.partitions
        }
        self._version = version
        self._coordinators = 1
        self.log = DyingLog(self._dies)
        self.world = TransactionWorld(version, log=self.log)

    def _dies(self) -> bool:
        self.moments += 1
        return self.moments in self.crashes

    def _another_coordinator(self) -> None:
        given = self.world.next_producer_id
        for ended in self.world.markers.sent.values():
            if self._on_the_way == AT_ONCE:
                for place in sorted(ended.partitions):
                    self.write_marker(place, ended, self._coordinators)
            elif self._on_the_way == LATE:
                self.late.append((ended, self._coordinators))
        self.log.is_dead = True
        while self.log.is_dead:
            self._coordinators += 1
            self.log.is_dead = False
            self.world = TransactionWorld(self._version, log=self.log)
            self.world.next_producer_id = given
            self.world.timers.advance(1)  # and what it has to go on with

    def ask(self, question: Callable[[TransactionWorld], Any]) -> Any:
        """The answer, after as many repetitions as a client makes."""
        for _ in range(10):
            answer = question(self.world)
            if self.log.is_dead:
                self._another_coordinator()
                continue
            response = now(answer)
            error = response if isinstance(response, ErrorCode) else ErrorCode(response.error_code)
            if error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                assert error is ErrorCode.NONE
                return response
            self.write_markers()
        raise AssertionError("the transactional id is stuck")

    def init(self) -> tuple[int, int]:
        response = self.ask(lambda world: world.init(ID, TIMEOUT_MS))
        return response.producer_id, response.producer_epoch

    def write(self, producer: tuple[int, int], places: list[tuple[str, int]]) -> None:
        self.ask(lambda world: world.add(ID, producer, places, self.client_version))
        for place in places:
            self.partitions[place].write(producer[0], epoch=producer[1])

    def end(self, producer: tuple[int, int], commits: bool) -> tuple[int, int]:
        """The producer of the next transaction."""
        response = self.ask(lambda world: world.end(ID, producer, commits, self.client_version))
        if self.client_version < 2:
            return producer
        return response.producer_id, response.producer_epoch

    def write_markers(self) -> None:
        """Those that the coordinator wants to have written; it may die after any of them."""
        ended = self.world.markers.sent.get(ID)
        if ended is None:
            return
        for place in sorted(ended.partitions):
            if self._dies():
                self._another_coordinator()
                return
            self.write_marker(place, ended, self._coordinators)
        self.world.write_markers(ID)
        if self.log.is_dead:
            self._another_coordinator()

    def write_marker(self, place: tuple[str, int], ended: EndedTransaction, coordinator_epoch: int) -> None:
        self.partitions[place].end(
            ended.producer_id,
            epoch=ended.producer_epoch,
            commit=ended.committed,
            coordinator_epoch=coordinator_epoch,
            transaction_version=ended.client_version,
        )
        self.markers[place].add((ended.producer_id, ended.producer_epoch, ended.committed))

    def let_time_pass(self, time_ms: int) -> None:
        self.world.timers.advance(time_ms)
        while self.log.is_dead:
            self._another_coordinator()
            self.world.timers.advance(time_ms)

    @property
    def state(self) -> TransactionState:
        return self.world.shard.by_id[ID].state


def play(stage: Stage, ending: str) -> None:
    """One transaction, until it is over everywhere."""
    producer = stage.init()
    stage.write(producer, FIRST)
    stage.write(producer, SECOND)
    if ending == "given up":  # nobody waits for the answer
        stage.world.end(ID, producer, True, stage.client_version)
        if stage.log.is_dead:
            stage.let_time_pass(1)
    if ending in ("overdue", "given up"):
        while stage.state is TransactionState.ONGOING:
            stage.let_time_pass(TIMEOUT_MS + 20_000)
    elif ending == "fenced":
        stage.init()
    else:
        stage.end(producer, commits=ending == "commit")
    for _ in range(10):
        stage.let_time_pass(2_000)
        stage.write_markers()


def require_right(stage: Stage, ending: str) -> None:
    """What a reader of what is committed sees, and that nobody is in anybody's way."""
    commits = ending == "commit"
    last = {"commit": TransactionState.COMPLETE_COMMIT, "fenced": TransactionState.EMPTY}
    if ending == "given up":  # either, as long as it is the same everywhere
        commits = stage.state is TransactionState.COMPLETE_COMMIT
        last[ending] = stage.state
    assert stage.state is last.get(ending, TransactionState.COMPLETE_ABORT)
    for place in FIRST + SECOND:
        (marker,) = stage.markers[place]
        assert marker[2] == commits
        log = stage.partitions[place].log
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == log.log_end_offset, "nothing is open"
        assert len(stage.partitions[place].aborted()) == (0 if commits else 1)
    assert not stage.markers[OTHER[0]], "a marker where it does not belong"
    producer = stage.init()
    stage.write(producer, FIRST + OTHER)
    for ended, coordinator_epoch in stage.late:
        with pytest.raises(AppendRefused):
            stage.write_marker(FIRST[0], ended, coordinator_epoch)
    stage.end(producer, commits=True)
    stage.write_markers()
    assert stage.state is TransactionState.COMPLETE_COMMIT
    assert [each[2] for each in stage.markers[OTHER[0]]] == [True]


@pytest.mark.parametrize(("version", "client_version"), VERSIONS)
@pytest.mark.parametrize("ending", ["commit", "abort", "fenced", "overdue", "given up"])
def test_it_ends_as_it_was_decided(version: int, client_version: int, ending: str) -> None:
    undisturbed = Stage(version, client_version)
    play(undisturbed, ending)
    moments = undisturbed.moments
    require_right(undisturbed, ending)
    assert moments > 10, "before and after each record, and between markers"
    once = [(moment,) for moment in range(1, moments + 1)]
    twice = list(combinations(range(1, moments + 6), 2))
    for crashes in once + twice:
        for on_the_way in (LOST, AT_ONCE, LATE):
            stage = Stage(version, client_version, crashes, on_the_way)
            play(stage, ending)
            stage.crashes = ()
            require_right(stage, ending)
