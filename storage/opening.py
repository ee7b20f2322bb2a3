"""Makes the directory of a partition with its `partition.metadata`, and opens the log in it.

`partition.metadata` says whose log the directory holds::

    version: 0
    topic_id: hEJTDJmlT-Crmk2HTt9Mxw

Two lines, the last without a newline. A topic that was deleted and created again has a new id. So if a log
directory was away meanwhile, its replicas are recognised as those of the deleted topic and are not served.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from config.ports import Files
from protocol.values import uuid_from_text, uuid_to_text
from storage.background_tasks import BackgroundTasks, TaskKind
from storage.file_io import sync_files
from storage.file_names import PARTITION_METADATA
from storage.loaded_log import LoadedLog, RecoveredLog
from storage.log_config import LogConfig
from storage.partition_log import PartitionLog
from storage.recovery import OnDamage, begin_log, load_log

_VERSION: Final = "0"
_HEAD: Final = f"version: {_VERSION}\ntopic_id: "
_WHOLE_LENGTH: Final = len(_HEAD) + 22


class MalformedPartitionMetadata(Exception):
    """The file does not say what it must."""


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


def read_partition_metadata(files: Files, path: str) -> bytes | None:
    """The topic id, 16 bytes; None if there is no such file (a log from before topic ids), or if it was cut
    off when it was written for the first time.

    Raises MalformedPartitionMetadata.
    """
    try:
        text = files.read_text(path)
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise MalformedPartitionMetadata(f"{path} is no text: {error}") from error
    if _HEAD.startswith(text.rstrip("\0")[: len(_HEAD)]) and len(text.rstrip("\0")) < _WHOLE_LENGTH:
        return None  # a crash came while the log was made: it has no records yet
    if len(text) == _WHOLE_LENGTH and text.startswith(_HEAD):
        fields = {"version": _VERSION, "topic_id": text[len(_HEAD) :]}  # as it is written, in one of many
    else:
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != _VERSION:
        raise MalformedPartitionMetadata(f"{path} has version {fields.get('version')!r}, wanted {_VERSION!r}")
    try:
        return uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise MalformedPartitionMetadata(f"{path} names no topic id: {text!r:.200}") from error


def create_log(
    files: Files,
    directory: str,
    topic: str,
    partition: int,
    topic_id: bytes,
    config: LogConfig,
    background_tasks: BackgroundTasks,
    *,
    now_ms: int,
) -> PartitionLog:
    """Creates a log in a new directory. Its files reach the disk with the first sync. Raises OSError."""
    is_new = not files.exists(directory)
    files.makedirs(directory)
    path = f"{directory}/{PARTITION_METADATA}"
    content = encode_partition_metadata(topic_id)
    metadata = files.open(path, create=True)
    try:
        metadata.write([content], 0)
        metadata.truncate(len(content))
    finally:
        metadata.close()
    call = partial(sync_files, files, [directory], [path])
    background_tasks.add(TaskKind.SYNC, path, directory, call)
    if is_new:
        found = begin_log(files, directory, now_ms)
        log = PartitionLog(files, directory, topic, partition, topic_id, config, background_tasks, found)
        log.durability.note_new_directory()
        return log
    return open_log(
        files, directory, topic, partition, topic_id, config, background_tasks, is_clean=True, now_ms=now_ms
    )[0]


def give_topic_id(log: PartitionLog, topic_id: bytes) -> None:
    """Sets the topic id of a log whose `partition.metadata` is from before topic ids, or was lost in a power
    cut."""
    log.set_topic_id(topic_id)
    path = f"{log.directory}/{PARTITION_METADATA}"
    call = partial(log.files.write_atomically, path, encode_partition_metadata(topic_id))
    log.background_tasks.add(TaskKind.SYNC, path, log.directory, call)


def open_log(
    files: Files,
    directory: str,
    topic: str,
    partition: int,
    topic_id: bytes,
    config: LogConfig,
    background_tasks: BackgroundTasks,
    *,
    is_clean: bool,
    now_ms: int,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    cleaned_offset: int = 0,
    on_damage: OnDamage = OnDamage.AUTO,
    recovered: RecoveredLog | None = None,
) -> tuple[PartitionLog, LoadedLog]:
    """Opens the log in a directory. Returns it, and what was found there. Raises OSError and
    LogStorageError.

    Producers that have expired are still in it (`PartitionLog.forget_expired_producers`).
    """
    found = load_log(
        files,
        directory,
        is_clean=is_clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        index_interval_bytes=config.index_interval_bytes,
        now_ms=now_ms,
        cleaned_offset=cleaned_offset,
        on_damage=on_damage,
        recovered=recovered,
    )
    return PartitionLog(files, directory, topic, partition, topic_id, config, background_tasks, found), found
