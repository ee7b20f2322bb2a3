"""Which logs a node has, and where each of them lies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from storage.directories import FailedDirectory, LogDirectory
from storage.partition_log import PartitionLog

Key = tuple[str, int]
"""Topic and partition."""


class HostedLogs:
    """The log directories and logs of a node. The log manager changes them, housekeeping reads them."""

    def __init__(self) -> None:
        self.directories: list[LogDirectory] = []
        """The log directories that can be used; one that fails leaves the list."""
        self.failed: list[FailedDirectory] = []
        self.logs: dict[Key, PartitionLog] = {}
        self.homes: dict[Key, LogDirectory] = {}
        self.offline: dict[Key, str] = {}
        """Partitions whose log cannot be used, and why."""
        self.unopened: dict[Key, LogDirectory] = {}
        """Those among them that this life has not opened: the next one must know as much of them as this."""
        self.postponed: dict[Key, Callable[[], None]] = {}
        """Unopened ones for which there was no space only: the call opens one, or notes again why not."""
        self.rivals: dict[Key, list[tuple[PartitionLog, LogDirectory]]] = {}
        """Logs of other topics of the same name, in other directories: a directory that had failed has come
        back, and its topic was made anew meanwhile. Who knows the topic's id decides."""
        self.on_offline: Callable[[Key, str], None] | None = None
        """Called with a log that was in use and cannot be used any more, and with the reason."""
        self._claimed: dict[Key, None] = {}
        """Logs that somebody has asked for: their configuration is the topic's, retention may act."""
        self._counts: dict[str, int] = {}
        """How many logs lie in each directory, by path."""

    def add(self, key: Key, log: PartitionLog, home: LogDirectory) -> None:
        self.logs[key] = log
        self.homes[key] = home
        log.durability.set_max_checkpointed_offset(partial(home.said.most, key))
        self._counts[home.path] = self._counts.get(home.path, 0) + 1

    def remove(self, key: Key) -> tuple[PartitionLog, LogDirectory] | None:
        """Forgets a log; returns it and its directory, None if there is none."""
        log = self.logs.pop(key, None)
        if log is None:
            return None
        home = self.homes.pop(key)
        self._counts[home.path] -= 1
        self._claimed.pop(key, None)
        return log, home

    def add_rival(self, key: Key) -> None:
        """The next log that claims to be this partition, if there is one."""
        rivals = self.rivals.get(key)
        if rivals:
            log, home = rivals.pop(0)
            self.add(key, log, home)
            if not rivals:
                del self.rivals[key]

    def take_offline(self, key: Key, reason: str) -> None:
        """Nobody uses the log any more; its files stay as they are, for the next start to look at."""
        found = self.remove(key)
        self.offline[key] = reason
        if found is None:
            return
        found[0].abandon()
        if self.on_offline is not None:
            self.on_offline(key, reason)

    def leave_to_next_start(self, key: Key, reason: str) -> None:
        """Takes a log offline whose files may not be as it should be. What the checkpoints say of it goes on
        being said, and its directory gets no clean mark."""
        log, home = self.logs[key], self.homes[key]
        home.recovery_points[key] = log.recovery_point
        home.high_watermarks[key] = log.high_watermark
        home.log_starts[key] = log.log_start_offset
        self.unopened[key] = home
        self.take_offline(key, reason)

    def move_home(self, key: Key, home: LogDirectory) -> None:
        """The log lies in another directory now."""
        self._counts[self.homes[key].path] -= 1
        self._counts[home.path] = self._counts.get(home.path, 0) + 1
        self.homes[key] = home
        self.logs[key].durability.set_max_checkpointed_offset(partial(home.said.most, key))

    def directory_over(self, path: str) -> LogDirectory | None:
        """In which directory a file lies; None if in none that can be used."""
        for directory in self.directories:
            if path == directory.path or path.startswith(directory.file("")):
                return directory
        return None

    def claim(self, key: Key) -> None:
        self._claimed[key] = None

    def is_claimed(self, key: Key) -> bool:
        return key in self._claimed

    def emptiest_directory(self) -> LogDirectory:
        """The directory with the fewest logs: the next one is made there."""
        return min(self.directories, key=lambda directory: self._counts.get(directory.path, 0))
