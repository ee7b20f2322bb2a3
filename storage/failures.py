"""Noticing that a disk has failed, and taking its directory offline, alone.

Any call on a file may tell: an append, a sync, a checkpoint, a roll. What a full disk or a bound of the
process says (ENOSPC, EMFILE) passes by itself and concerns one call; what a broken disk says (EIO, EROFS, a
directory that is gone) concerns all that lies on it. Open files of a directory that was unmounted or renamed
work on as if nothing were, so housekeeping also looks at the directories themselves from time to time.

Apache Kafka takes the directory offline for a full disk too, as for any IOException, until a restart: its
readers lose it as well, and a pass of the cleaner that finds no space is enough. Here the append alone is
refused with KAFKA_STORAGE_ERROR, which clients try again; reads go on, and so does retention, which frees
space; appends succeed as soon as there is some, and a log for which there was none is tried again. The
cleaner leaves a log that it had no space for alone for ten minutes. Only the metadata log is as with Kafka: a
node that cannot write it ends.

A suspicion is only noted, since it comes up in the middle of something; `run` acts on it within a second.
Until then each call fails by itself. KIP-112.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from config.ports import Files
from storage.background_tasks import BackgroundTask, TaskKind
from storage.directories import FailedDirectory, LogDirectory
from storage.hosted_logs import HostedLogs, Key

_OF_A_BROKEN_DISK: Final = (
    errno.EIO,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENODEV,
    errno.ENXIO,
    errno.ENOTDIR,
    errno.ESTALE,
    errno.EUCLEAN,
    errno.EREMOTEIO,
    errno.ENOTCONN,
    errno.ESHUTDOWN,
)

_logger: Final = logging.getLogger("barnabas.storage")

DirectoryFailed = Callable[[FailedDirectory, list[Key]], None]
"""Called with a directory that cannot be used any more, and with the logs that were in it."""


class DirectoryFailures:
    """Notices failed directories of one node. All calls come from the loop."""

    def __init__(self, files: Files, hosted: HostedLogs, forget: Callable[[LogDirectory, Key], None]) -> None:
        """forget: drops the work that is planned for a log that is about to go offline."""
        self._files = files
        self._hosted = hosted
        self._forget = forget
        self._suspected: dict[str, BaseException] = {}
        self.on_failed: DirectoryFailed | None = None
        self.on_failing: Callable[[LogDirectory], None] | None = None
        """Called with a failed directory while its logs are still hosted."""

    def suspect(self, path: str, error: BaseException | None) -> None:
        """Notes that a call on a file under `path` has failed."""
        if isinstance(error, OSError) and error.errno in (*_OF_A_BROKEN_DISK, errno.ENOENT):
            directory = self._hosted.directory_over(path)
            if directory is not None:
                self._suspected.setdefault(directory.path, error)

    def background_task_failed(self, task: BackgroundTask, error: BaseException) -> None:
        """Notes that a task of `BackgroundTaskLanes` has failed, whose lane is a path."""
        self.suspect(task.lane, error)

    def checks(self) -> list[BackgroundTask]:
        """One task for each directory, which checks whether the directory can still be used."""
        return [
            BackgroundTask(
                TaskKind.CHECK,
                directory.path,
                directory.file(".look"),
                partial(require_directory, self._files, directory.path),
            )
            for directory in self._hosted.directories
        ]

    def run(self) -> None:
        """Takes the suspected directories offline that cannot be used."""
        suspected, self._suspected = self._suspected, {}
        for directory in list(self._hosted.directories):
            error = suspected.get(directory.path)
            if error is None:
                continue
            if isinstance(error, FileNotFoundError) and self._files.exists(directory.path):
                continue  # a single file or partition's directory has gone: that is not the disk
            self.fail(directory, str(error))

    def fail(self, directory: LogDirectory, reason: str) -> None:
        """Takes a directory offline. Nothing in it is used from now on."""
        hosted = self._hosted
        _logger.error(
            "Stopping serving logs in dir %s, because it has failed: %s. Its partitions answer "
            "KAFKA_STORAGE_ERROR until the broker starts with a directory that works",
            directory.path,
            reason,
        )
        hosted.directories.remove(directory)
        if self.on_failing is not None:
            self.on_failing(directory)
        failed = FailedDirectory(directory.path, directory.directory_id, reason)
        hosted.failed.append(failed)
        keys = [key for key, home in hosted.homes.items() if home is directory]
        for key in keys:
            self._forget(directory, key)
            hosted.take_offline(key, f"log directory {directory.path} has failed: {reason}")
        try:
            directory.release()
        except OSError as error:
            _logger.warning("The lock of %s could not be released: %s", directory.path, error)
        if self.on_failed is not None:
            self.on_failed(failed, keys)


def require_directory(files: Files, path: str) -> None:
    """Raises NotADirectoryError if the path is no directory, and OSError if it cannot be looked at."""
    try:
        is_directory = files.status(path).is_directory
    except FileNotFoundError:
        is_directory = False
    if not is_directory:
        raise NotADirectoryError(errno.ENOTDIR, "The log directory is not there any more", path)
