"""Where the parts of `tests.performance.cluster` find what they measure.

Most parts work on one cluster of each kind that runs all the time; the first of them starts both. A part that
wants the machine for itself asks for an `alone` cluster, before which all others are ended.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.performance.cluster_side import Side
from tests.support.genuine.tool_server import ToolServer

__all__ = ["Ground"]


class Ground:
    """kinds: which are measured, `OURS`, `KAFKAS` or both. `close` ends all that runs."""

    def __init__(self, kinds: Sequence[str], folder: Path, tools: ToolServer) -> None:
        self.kinds = kinds
        self._folder = folder
        self._tools = tools
        self._sides: list[Side] = []
        self._made = 0

    @property
    def sides(self) -> list[Side]:
        """The clusters that run all the time."""
        if not self._sides:
            for kind in self.kinds:
                self._sides.append(Side(kind, self.new_folder(), self._tools))
        return self._sides

    @contextmanager
    def alone(self, kind: str) -> Iterator[Side]:
        """A new cluster of three brokers and a controller, and no other. Nothing is left of it."""
        self.close()
        folder = self.new_folder()
        side = Side(kind, folder, self._tools, with_controller=True)
        try:
            yield side
        finally:
            side.close()
            shutil.rmtree(folder)

    def new_folder(self) -> Path:
        self._made += 1
        folder = self._folder / f"cluster-{self._made}"
        folder.mkdir()
        return folder

    def close(self) -> None:
        """What asks for the running clusters later gets new ones."""
        while self._sides:
            self._sides.pop().close()
