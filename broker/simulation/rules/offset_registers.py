"""What may be committed for a partition of a group, by what clients asked for and were told.

    settled    was acknowledged, and nothing that was asked for after that has been
    pending    was asked for, and nobody knows whether or when it comes: its client was told nothing, or has
               died, or still waits
    floor      from where somebody goes on, whatever is committed: the next commits may lie as low, but nobody
               has committed it

A commit without an answer may be on a connection that has been given up, and come after later ones. It comes
no more when another member has committed in a later generation: then its own has passed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.simulation.histories.history import Event
from broker.simulation.verdict import Violation

__all__ = ["GOES_BACK", "NOTHING", "REMEMBERED", "STALE", "OffsetRegister"]

NOTHING: Final = -1
GOES_BACK: Final = "committed offsets never go back"
REMEMBERED: Final = "what was committed is found later"
STALE: Final = "nobody commits in a generation that has passed"


class Commit(NamedTuple):
    """One that was asked for, in a line of the history. why_stale: why it must be refused, if it must."""

    offset: int
    generation: int
    owner: str
    line: int
    why_stale: str | None


class Settled(NamedTuple):
    """line: of the answer."""

    offset: int
    line: int


class OffsetRegister:
    """Of one partition of one group. name: of both, for people."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._settled = [Settled(NOTHING, -1)]
        self._pending: list[Commit] = []
        self._floors: list[Settled] = []
        """line: in which somebody has said so."""
        self._once = {NOTHING}
        """What may have been committed at some time, beside what is pending."""
        self._open: dict[str, Commit] = {}
        """By process."""
        self._lookups: dict[str, set[int]] = {}
        """By process that looks it up: what it may be answered."""

    @property
    def possible(self) -> set[int]:
        """One of these is committed now."""
        return {each.offset for each in self._settled} | {each.offset for each in self._pending}

    def may_once_be(self, offset: int) -> bool:
        """Whether it may be committed now, or may have been at some time."""
        return offset in self._once or any(each.offset == offset for each in self._pending)

    # Commits

    def begin(self, event: Event, offset: int, line: int, why_stale: str | None) -> None:
        commit = Commit(offset, event.generation, event.instance or event.member, line, why_stale)
        self._pending.append(commit)
        self._open[event.process] = commit
        for allowed in self._lookups.values():
            allowed.add(offset)

    def succeed(self, process: str, line: int) -> None:
        """It was acknowledged. Raises Violation where it should not have been."""
        commit = self._open.pop(process)
        if commit.why_stale is not None:
            raise Violation(
                STALE,
                f"{process} has committed {commit.offset} of {self.name} in generation "
                f"{commit.generation}, and {commit.why_stale}",
            )
        known = (*self._settled, *self._floors)
        before = [each.offset for each in known if each.line <= commit.line]
        others = [each.offset for each in self._pending if each is not commit]
        floor = min([*before, *others], default=NOTHING)
        if commit.offset < floor:
            raise Violation(
                GOES_BACK,
                f"{process} has committed {commit.offset} of {self.name} in generation "
                f"{commit.generation}, where {floor} was committed before",
            )
        self._settled = [each for each in self._settled if each.line > commit.line]
        self._settled.append(Settled(commit.offset, line))
        self._floors = [each for each in self._floors if each.line > commit.line]
        self._leave_pending(
            [
                each
                for each in self._pending
                if each is not commit and (each.owner == commit.owner or each.generation >= commit.generation)
            ]
        )

    def fail(self, process: str) -> None:
        """It was refused, and never comes."""
        commit = self._open.pop(process)
        self._pending = [each for each in self._pending if each is not commit]

    def stay_open(self, process: str) -> None:
        """Nobody knows, and nobody will be told."""
        self._open.pop(process)

    def reset(self, offset: int, line: int) -> None:
        """Somebody goes on from here."""
        self._floors.append(Settled(offset, line))

    def begin_anew(self, offset: int, line: int) -> None:
        """What is known of it counts no longer: this is committed."""
        self._settled = [Settled(offset, line)]
        self._floors = []
        self._once.add(offset)
        self._leave_pending(list(self._open.values()))
        for allowed in self._lookups.values():
            allowed.add(offset)

    def _leave_pending(self, pending: list[Commit]) -> None:
        """No others than these can come any more."""
        self._once.update(each.offset for each in self._pending if each not in pending)
        self._pending = pending

    # Looking it up

    def begin_lookup(self, process: str) -> None:
        self._lookups[process] = self.possible

    def end_lookup(self, process: str) -> set[int]:
        """What it may have been answered."""
        return self._lookups.pop(process, set())
