"""Opens the metadata log of a formatted node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from config.broker_config import BrokerConfig
from config.ports import Clock, Files, Offload
from controller.image.brokers import Endpoint
from controller.local_metadata_log import LocalMetadataLog
from controller.metadata_log import METADATA_PARTITION
from controller.snapshot_directory import SnapshotRetention
from controller.snapshots import BOOTSTRAP_FILE, read_snapshot
from controller.subjects.topic_names import METADATA_TOPIC
from protocol.codec.message import Message
from protocol.values import METADATA_TOPIC_ID
from storage.chores import Chores
from storage.file_names import PARTITION_METADATA, partition_directory
from storage.log_config import UNLIMITED, LogConfig
from storage.opening import create_log, open_log

__all__ = ["metadata_log_config", "open_metadata_log", "read_bootstrap_records"]


def metadata_log_config(config: BrokerConfig) -> LogConfig:
    """The log's own settings; it is never cleaned by age or size, only below a snapshot."""
    return LogConfig(
        segment_bytes=config.integer("metadata.log.segment.bytes"),
        segment_ms=config.integer("metadata.log.segment.ms"),
        max_message_bytes=config.integer("internal.metadata.max.batch.size.in.bytes"),
        retention_ms=UNLIMITED,
        retention_bytes=UNLIMITED,
    )


def open_metadata_log(
    config: BrokerConfig,
    *,
    directory_id: bytes,
    endpoints: Mapping[str, Endpoint],
    files: Files,
    clock: Clock,
    offload: Offload,
) -> LocalMetadataLog:
    """The log of a quorum of one, opened and leading its next epoch; synchronous, for the start of a node.

    endpoints: where the controller listeners are, with their real ports. Raises OSError, LogStorageError,
    OtherVoters, and what malformed files raise; each names the file.
    """
    directory = f"{config.metadata_log_directory}/{partition_directory(METADATA_TOPIC, METADATA_PARTITION)}"
    log_config = metadata_log_config(config)
    now_ms = clock.wall_ms()
    chores = Chores()
    identity = (files, directory, METADATA_TOPIC, METADATA_PARTITION, METADATA_TOPIC_ID, log_config, chores)
    if files.exists(f"{directory}/{PARTITION_METADATA}"):
        # No marker tells of this log's last end: its tail is looked at each time.
        partition_log, _ = open_log(*identity, is_clean=False, now_ms=now_ms)
    else:
        partition_log = create_log(*identity, now_ms=now_ms)
    log = LocalMetadataLog(
        partition_log,
        node_id=config.node_id,
        directory_id=directory_id,
        endpoints=endpoints,
        files=files,
        clock=clock,
        offload=offload,
        static_voters=[voter.node_id for voter in config.quorum_voters],
        retention=SnapshotRetention(
            config.integer("metadata.max.retention.bytes"), config.integer("metadata.max.retention.ms")
        ),
    )
    log.start()
    return log


def read_bootstrap_records(config: BrokerConfig, files: Files) -> Sequence[Message]:
    """What `storage format` left for the first life of the cluster; nothing if the file is not there."""
    path = f"{config.metadata_log_directory}/{BOOTSTRAP_FILE}"
    return read_snapshot(files, path).records if files.exists(path) else ()
