"""Which logs a node has, and where each of them lies."""

from __future__ import annotations

from storage.directories import LogDirectory
from storage.partition_log import PartitionLog

Key = tuple[str, int]
"""Topic and partition."""


class HostedLogs:
    """The log manager changes it, housekeeping reads it."""

    def __init__(self) -> None:
        self.directories: list[LogDirectory] = []
        self.logs: dict[Key, PartitionLog] = {}
        self.homes: dict[Key, LogDirectory] = {}
        self.offline: dict[Key, str] = {}
        """Partitions whose log cannot be used, and why."""
        self._claimed: dict[Key, None] = {}
        """Logs that somebody has asked for: their configuration is the topic's, retention may act."""
        self._counts: dict[str, int] = {}
        """How many logs lie in each directory, by path."""

    def add(self, key: Key, log: PartitionLog, home: LogDirectory) -> None:
        self.logs[key] = log
        self.homes[key] = home
        self._counts[home.path] = self._counts.get(home.path, 0) + 1

    def remove(self, key: Key) -> tuple[PartitionLog, LogDirectory] | None:
        """The log and where it lay; None if there is none."""
        log = self.logs.pop(key, None)
        if log is None:
            return None
        home = self.homes.pop(key)
        self._counts[home.path] -= 1
        self._claimed.pop(key, None)
        return log, home

    def take_offline(self, key: Key, reason: str) -> None:
        """Nobody uses the log any more; its files stay as they are, for the next start to look at."""
        found = self.remove(key)
        if found is not None:
            found[0].abandon()
        self.offline[key] = reason

    def claim(self, key: Key) -> None:
        self._claimed[key] = None

    def is_claimed(self, key: Key) -> bool:
        return key in self._claimed

    def emptiest_directory(self) -> LogDirectory:
        """Where the next log shall lie."""
        return min(self.directories, key=lambda directory: self._counts.get(directory.path, 0))
