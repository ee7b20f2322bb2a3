"""One log directory (an entry of `log.dirs`): its lock, its identity, its checkpoints, the partitions in it.

<log dir>/.lock                               held as long as the node lives
         /meta.properties                     which cluster, which node, which directory
         /.kafka_cleanshutdown                there if the last life ended in order
         /recovery-point-offset-checkpoint    /log-start-offset-checkpoint
         /replication-offset-checkpoint       /cleaner-offset-checkpoint
         /<topic>-<partition>/                a log each
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from config.ports import FileLock, Files, Space
from storage.checkpoints import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpoint,
    PartitionOffsets,
    read_offsets,
)
from storage.clean_shutdown import CLEAN_SHUTDOWN_FILE, read_clean_shutdown
from storage.file_names import DirectoryKind, DirectoryName, parse_directory
from storage.meta_properties import META_PROPERTIES_FILE, MetaProperties, read_meta_properties
from storage.truncation_markers import CheckpointedOffsets

LOCK_FILE: Final = ".lock"

_OTHER_DIRECTORIES: Final = ("remote-log-index-cache", "lost+found")


class DirectoryRefused(Exception):
    """A log directory cannot be used. The text is one line for the operator, and says what to do."""


class FailedDirectory(msgspec.Struct, frozen=True):
    """A log directory that cannot be used until the node starts again."""

    path: str
    directory_id: bytes | None
    """The id of the directory. None if it failed before its meta.properties could be read."""
    reason: str

    @property
    def absolute_path(self) -> str:
        """The path by which administrators name the directory."""
        return os.path.join(os.getcwd(), self.path)


class LogDirectory:
    """A log directory that this node uses: it is locked, and its meta.properties are of this node."""

    __slots__ = (
        "_files",
        "_lock",
        "clean_broker_epoch",
        "cleaner_offsets",
        "high_watermarks",
        "is_cordoned",
        "log_starts",
        "path",
        "problems",
        "properties",
        "recovery_points",
        "said",
    )

    def __init__(self, files: Files, path: str) -> None:
        """Locks the directory and reads what is beside the logs. Raises DirectoryRefused, OSError."""
        self._files = files
        self.path = path
        self.is_cordoned = False
        """Whether new logs are created elsewhere, unless somebody has chosen this directory (KIP-1066)."""
        self.problems: list[str] = []
        """Faults of files without which the directory can be used. They are logged."""
        self.said = CheckpointedOffsets()
        """The offsets that the checkpoints of the directory may hold on the disk, see
        `truncation_markers`."""
        try:
            files.makedirs(path)
            self._lock: FileLock = files.lock(self.file(LOCK_FILE))
        except BlockingIOError:
            raise DirectoryRefused(
                f"{path} is in use by another process (it holds {LOCK_FILE}). Stop that one first, or "
                "give this one other log.dirs"
            ) from None
        try:
            self.properties: MetaProperties | None = read_meta_properties(
                files, self.file(META_PROPERTIES_FILE)
            )
            self.clean_broker_epoch = read_clean_shutdown(files, self.file(CLEAN_SHUTDOWN_FILE))
            """Broker epoch of the last life if it ended in order, else None."""
            self.recovery_points = self._offsets(RECOVERY_POINT_CHECKPOINT)
            self.log_starts = self._offsets(LOG_START_CHECKPOINT)
            self.high_watermarks = self._offsets(HIGH_WATERMARK_CHECKPOINT)
            self.cleaner_offsets = self._offsets(CLEANER_CHECKPOINT)
        except BaseException:
            self._lock.release()
            raise

    @property
    def had_clean_shutdown(self) -> bool:
        return self.clean_broker_epoch is not None

    @property
    def directory_id(self) -> bytes | None:
        """The UUID by which the controller knows the directory."""
        return None if self.properties is None else self.properties.directory_id

    @property
    def absolute_path(self) -> str:
        """The path by which administrators name the directory."""
        return os.path.join(os.getcwd(), self.path)

    def space(self) -> Space:
        """The size of the directory's volume, and its free space. Raises OSError."""
        return self._files.space(self.path)

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def forget_clean_shutdown(self) -> None:
        """Removes the note of a clean shutdown, before anything is written to the directory."""
        if self.had_clean_shutdown:
            self._files.unlink(self.file(CLEAN_SHUTDOWN_FILE))
            self._files.fsync_directory(self.path)  # a power cut must not bring it back

    def partitions(self) -> list[tuple[str, DirectoryName]]:
        """The directories of partitions that are, were or will be served: name, and kind. Other directories
        are added to `problems`."""
        found: list[tuple[str, DirectoryName]] = []
        for name in self._files.subdirectories(self.path):
            if name in _OTHER_DIRECTORIES:
                continue
            parsed = parse_directory(name)
            if parsed.kind is DirectoryKind.UNKNOWN:
                self.problems.append(
                    f"{self.file(name)} is no partition's directory (<topic>-<partition>); it is left alone"
                )
            else:
                found.append((name, parsed))
        return found

    def release(self) -> None:
        """Releases the lock of the directory."""
        self._lock.release()

    def _offsets(self, name: str) -> PartitionOffsets:
        try:
            offsets = read_offsets(self._files, self.file(name))
        except MalformedCheckpoint as error:
            self.problems.append(str(error))
            return {}
        self.said.says(self.file(name), offsets)
        return offsets


def directory_path(path: str) -> str:
    """The path of a log directory as `LogDirectory.path` has it, from an entry of log.dirs."""
    return path.rstrip("/") or "/"


def open_directories(
    files: Files,
    paths: list[str],
    *,
    cluster_id: str | None = None,
    node_id: int | None = None,
    required: str | None = None,
) -> tuple[list[LogDirectory], list[FailedDirectory]]:
    """Locks and reads all log directories. One whose disk fails is left out.

    Raises DirectoryRefused if one is locked or belongs to another node, if the `required` one cannot be used,
    or if none can.
    """
    opened: list[LogDirectory] = []
    failed: list[FailedDirectory] = []
    try:
        for path in paths:
            path = directory_path(path)
            try:
                opened.append(LogDirectory(files, path))
            except OSError as error:
                if path == required:
                    raise DirectoryRefused(
                        f"Encountered I/O error in metadata log directory {path}. Cannot continue: {error}"
                    ) from error
                failed.append(FailedDirectory(path, None, str(error)))
                continue
            _require_ours(opened[-1], cluster_id, node_id)
        if not opened:
            reasons = "; ".join(each.reason for each in failed)
            raise DirectoryRefused(
                f"None of the specified log dirs from {', '.join(paths)} can be used: {reasons}"
            )
    except BaseException:
        for directory in opened:
            directory.release()
        raise
    return opened, failed


def _require_ours(directory: LogDirectory, cluster_id: str | None, node_id: int | None) -> None:
    properties = directory.properties
    if properties is None:
        return
    where = directory.file(META_PROPERTIES_FILE)
    if cluster_id is not None and properties.cluster_id != cluster_id:
        raise DirectoryRefused(
            f"{where} says cluster.id={properties.cluster_id}, this node is of cluster {cluster_id}. Give it "
            "its own log.dirs, or remove the directory if it is from an earlier life"
        )
    if node_id is not None and properties.node_id != node_id:
        raise DirectoryRefused(
            f"{where} says node.id={properties.node_id}, this is node {node_id}. Give it its own log.dirs, "
            "or correct node.id"
        )
