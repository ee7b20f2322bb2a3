"""The transcript of a run, for people: who becomes what, who says what to whom, and what befalls them.

       12.345120 n2  Candidate of epoch 4, leader none, log [0..17), committed 12
       12.346002 n3  ◀ n2  Vote epoch=4 candidate=n2 log=17/3

A line is made only if a trace is wanted: runs without one are three times as fast.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from broker.simulation.quorum.message_texts import in_words
from protocol.codec.message import Message

if TYPE_CHECKING:
    from broker.simulation.quorum.machine import Machine

__all__ = ["Trace"]


class Trace:
    """The lines so far. The digest is that of all of them, also of those that are kept no longer."""

    def __init__(self, largest_lines: int = 1 << 20) -> None:
        self.lines: list[str] = []
        self._largest_lines = largest_lines
        self._digest = sha256()

    def line(self, now: int, machine: Machine | None, text: str) -> None:
        who = "" if machine is None else f" {machine}"
        line = f"{now / 1e6:12.6f}{who}  {text}"
        self._digest.update(line.encode())
        self.lines.append(line)
        if len(self.lines) > 2 * self._largest_lines:
            del self.lines[: self._largest_lines]

    def message(self, now: int, source: Machine | None, target: Machine, message: Message) -> None:
        """It arrives. Answers name no source."""
        self.line(now, target, f"◀ {'' if source is None else f'{source}  '}{in_words(message)}")

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()
