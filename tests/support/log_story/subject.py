"""One partition of a story: its model, and what is under way on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.log_story.appending import Sent
from tests.support.log_story.hosts import Key
from tests.support.log_story.model import Batch, LogModel


@dataclass
class Subject:
    """One partition, and what is under way on it."""

    key: Key
    model: LogModel = field(default_factory=LogModel)
    topic_id: bytes = bytes(16)
    appending: list[Sent | bytes] = field(default_factory=list)
    """Not answered: after a crash they may be there, whole and in order, or not."""
    leftovers: list[list[Sent | bytes]] = field(default_factory=list)
    """Refused, but the disk would not even cut them off: until that is synced they may come back."""
    cutting: int | None = None
    """A truncation that has not returned."""
    is_starting_anew: bool = False
    is_compacting: bool = False
    is_removing: bool = False
    """Retention is under way."""
    is_deleting: bool = False
    is_offline: bool = False
    may_return: list[Batch] = field(default_factory=list)
    """Cut off, and the cut need not be on the disk: a power cut may bring them back."""
    returns_from: int = 0
    """The lowest of these cuts."""
    started_at: int = 0
    """Where the log started before them: with what was cut off that may be so again."""
    synced: int = 0
    """At the last crash: what must have survived it."""

    def cut_stays(self) -> None:
        """What was cut off cannot come back any more."""
        self.may_return = []

    @property
    def name(self) -> str:
        return f"{self.key[0]}-{self.key[1]}"
