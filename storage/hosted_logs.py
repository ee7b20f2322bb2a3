"""The logs of a node, and the log directory of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from storage.directories import FailedDirectory, LogDirectory
from storage.partition_log import PartitionLog

Key = tuple[str, int]
"""The name of a topic, and the number of a partition."""


class HostedLogs:
    """The log directories and logs of a node. The log manager changes them, housekeeping reads them."""

    def __init__(self) -> None:
        self.directories: list[LogDirectory] = []
        """The log directories that can be used; one that fails leaves the list."""
        self.failed: list[FailedDirectory] = []
        self.logs: dict[Key, PartitionLog] = {}
        self.homes: dict[Key, LogDirectory] = {}
        self.offline: dict[Key, str] = {}
        """The partitions whose log cannot be used, with the reason."""
        self.unopened: dict[Key, LogDirectory] = {}
        """Offline partitions whose log this process has not opened. The checkpoints go on holding what they
        hold of them."""
        self.postponed: dict[Key, Callable[[], None]] = {}
        """Unopened partitions for whose log there was only no space. The call tries to open it, and notes the
        reason again if it cannot."""
        self.rivals: dict[Key, list[tuple[PartitionLog, LogDirectory]]] = {}
        """Logs of other topics of the same name, in other directories: a directory that had failed has come
        back, and its topic was created anew meanwhile. The id of the topic decides which is served."""
        self.on_offline: Callable[[Key, str], None] | None = None
        """Called with a log that was in use and cannot be used any more, and with the reason."""
        self._claimed: dict[Key, None] = {}
        """The logs that somebody has asked for. Their configuration is that of the topic, so retention may
        act, and producers may expire."""
        self._counts: dict[str, int] = {}
        """The number of logs in each directory, by its path."""

    def add(self, key: Key, log: PartitionLog, home: LogDirectory) -> None:
        self.logs[key] = log
        self.homes[key] = home
        log.durability.set_max_checkpointed_offset(partial(home.said.most, key))
        self._counts[home.path] = self._counts.get(home.path, 0) + 1

    def remove(self, key: Key) -> tuple[PartitionLog, LogDirectory] | None:
        """Forgets a log. Returns it and its directory, or None if there is none."""
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
        """Stops using the log. Its files stay as they are, for the next start."""
        found = self.remove(key)
        self.offline[key] = reason
        if found is None:
            return
        found[0].abandon()
        if self.on_offline is not None:
            self.on_offline(key, reason)

    def leave_to_next_start(self, key: Key, reason: str) -> None:
        """Takes a log offline whose files may not be as they should be. Its checkpoint entries are kept, and
        its directory gets no mark of a clean shutdown."""
        log, home = self.logs[key], self.homes[key]
        home.recovery_points[key] = log.durability.checkpointed_recovery_point
        home.high_watermarks[key] = log.durability.checkpointed_high_watermark(log.high_watermark)
        home.log_starts[key] = log.log_start_offset
        self.unopened[key] = home
        self.take_offline(key, reason)

    def move_home(self, key: Key, home: LogDirectory) -> None:
        """Notes that the log lies in another directory now."""
        self._counts[self.homes[key].path] -= 1
        self._counts[home.path] = self._counts.get(home.path, 0) + 1
        self.homes[key] = home
        self.logs[key].durability.set_max_checkpointed_offset(partial(home.said.most, key))

    def directory_over(self, path: str) -> LogDirectory | None:
        """The log directory in which a file lies. None if it lies in none that can be used."""
        for directory in self.directories:
            if path == directory.path or path.startswith(directory.file("")):
                return directory
        return None

    def directory_with(self, directory_id: bytes) -> LogDirectory | None:
        """The log directory with this id. None if there is none that can be used."""
        return next((each for each in self.directories if each.directory_id == directory_id), None)

    def claim(self, key: Key) -> None:
        self._claimed[key] = None

    def is_claimed(self, key: Key) -> bool:
        return key in self._claimed

    def emptiest_directory(self) -> LogDirectory:
        """The directory with the fewest logs, in which the next one is created. It is none that is cordoned,
        unless all of them are: then it is the first one, as in Kafka."""
        usable = [directory for directory in self.directories if not directory.is_cordoned]
        if not usable:
            return self.directories[0]
        return min(usable, key=lambda directory: self._counts.get(directory.path, 0))
