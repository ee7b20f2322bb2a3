"""What a process has cost so far, by the kernel's account: all its threads, those that have ended too."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, NamedTuple, Self

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PROCESS_CLOCK: Final = 2
"""`clock_getcpuclockid`: the scheduler's clock of a whole process, in nanoseconds."""


class Spent(NamedTuple):
    """Processor seconds and page faults. The sum is exact; user and system are told apart by the kernel's
    tick, so their shares mean little below a second. page_faults: minor ones, each a page that was made."""

    user: float
    system: float
    page_faults: int

    @property
    def seconds(self) -> float:
        return self.user + self.system

    def __sub__(self, before: Self) -> Spent:
        return Spent(
            self.user - before.user, self.system - before.system, self.page_faults - before.page_faults
        )


def spent(process_id: int) -> Spent:
    """Of a process that runs; raises FileNotFoundError where there is none."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(") ")[2].split()
    user, system = (int(ticks) / _TICKS_PER_SECOND for ticks in fields[11:13])
    exact = time.clock_gettime(~process_id << 3 | _PROCESS_CLOCK)
    share = exact / (user + system) if user + system else 1.0
    return Spent(user * share, system * share, int(fields[7]))
