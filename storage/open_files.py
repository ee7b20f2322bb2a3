"""How many segment files a node holds open, and which it closes when there are too many.

A log with a busy producer keeps its active file open, a consumer's segment stays open between its fetches;
ten thousand idle partitions want no descriptor at all. So a segment's file is opened when it is first needed,
and when more than the bound are open those that were opened longest ago are closed again: the next use opens
them anew, for some 10 µs. What is held (a slice on its way to a socket, a write in a helper thread) stays.

The bound comes from the limit of the process (`RLIMIT_NOFILE`): half of what it leaves beside the reserve,
the other half is for connections.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from config.limits import RESERVED_DESCRIPTORS

if TYPE_CHECKING:
    from storage.slices import SharedFile

FEWEST_OPEN: Final = 64
"""The smallest bound, because a few files must be open at the same time."""

_LOOKS: Final = 16
"""The largest number of files that are asked whether they can be closed, when one more has been opened."""


class OpenFiles:
    """Counts the open segment files of all logs of a node. All calls come from the loop, or before and after
    it runs."""

    __slots__ = ("_open", "bound", "closed_count")

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.closed_count = 0
        """The number of files that were closed because too many were open, for metrics."""
        self._open: dict[SharedFile, None] = {}
        """The open files in the order in which they were opened."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_over(self) -> bool:
        """Whether more files are open than the bound, because all that could be closed are held."""
        return len(self._open) > self.bound

    def opened(self, file: SharedFile) -> None:
        self._open[file] = None
        if len(self._open) > self.bound:
            self._make_room(file)

    def closed(self, file: SharedFile) -> None:
        self._open.pop(file, None)

    def _make_room(self, newest: SharedFile) -> None:
        for file in list(islice(self._open, _LOOKS)):
            if len(self._open) <= self.bound:
                return
            if file is newest:
                continue
            if file.close_if_unused():
                self.closed_count += 1
            else:
                del self._open[file]
                self._open[file] = None  # asked again when all others have been


def bound_for(descriptor_limit: int) -> int:
    """The bound for a process that may have so many descriptors open."""
    reserve = min(RESERVED_DESCRIPTORS, descriptor_limit // 4)
    return max((descriptor_limit - reserve) // 2, FEWEST_OPEN)
