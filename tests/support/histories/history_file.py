"""A history of a real cluster, written by many threads while it happens."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Self

import msgspec

from broker.simulation.histories.history import Event

__all__ = ["HistoryFile"]


class HistoryFile:
    """The time of its lines is that of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by `close`
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._encoder = msgspec.json.Encoder()

    def add(self, **fields: Any) -> None:
        """One line, with its time."""
        with self._lock:
            time_ms = round((time.monotonic() - self._began) * 1000, 1)
            self._file.write(self._encoder.encode(Event(time_ms=time_ms, **fields)) + b"\n")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
