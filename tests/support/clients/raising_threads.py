"""Threads whose failure is somebody's: it is raised in the thread that waits for them.

A failed assertion ends the thread in which it was made, and nobody else: a load that has died looks like one
that was told to end, and what it was about to find is not found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["RaisingThread"]


class RaisingThread:
    """A daemon that runs a function from its start on. What the function raises, `join` and `check` raise."""

    def __init__(self, run: Callable[..., object], *arguments: Any, name: str | None = None) -> None:
        self.failure: BaseException | None = None
        self._run = run
        self._thread = threading.Thread(target=self._keep_failure, args=arguments, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_seconds: float | None = None) -> None:
        """Waits for the end. Raises what ended it, and TimeoutError if nothing did in that time."""
        self._thread.join(timeout_seconds)
        self.check()
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} does not come back")

    def check(self) -> None:
        """Raises what has ended it, if anything has."""
        if self.failure is not None:
            raise self.failure

    def _keep_failure(self, *arguments: Any) -> None:
        try:
            self._run(*arguments)
        except BaseException as failure:
            self.failure = failure
