"""Opens this node's replica of the metadata log, by what is on the disk and in the config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from config.broker_config import BrokerConfig
from config.ports import Clock, Files, Offload, RandomSource, Timers
from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.log import METADATA_PARTITION
from controller.metadata.replicated_log import ReplicatedMetadataLog
from controller.metadata.topic_names import METADATA_TOPIC
from controller.raft.config import RaftConfig
from controller.raft.disk import ReplicaDisk, hard_state_of
from controller.raft.driver import RaftDriver
from controller.raft.effects import HardState
from controller.raft.identity import Address, ReplicaKey, SnapshotId
from controller.raft.node import RaftNode
from controller.raft.peers import ClosablePeerChannel, ReplicaPeers
from controller.raft.quorum_state import read as read_quorum_state
from controller.raft.snapshot_directory import SnapshotDirectory, SnapshotRetention
from protocol.values import METADATA_TOPIC_ID
from storage.background_tasks import BackgroundTasks
from storage.file_names import PARTITION_METADATA, partition_directory
from storage.log_config import UNLIMITED, LogConfig
from storage.opening import create_log, open_log
from storage.partition_log import PartitionLog
from storage.retention import SNAPSHOT_GENERATED

__all__ = [
    "METADATA_LOG",
    "OtherVoters",
    "metadata_log_config",
    "open_metadata_log",
    "open_replica",
    "raft_config",
    "read_hard_state",
    "repair_after_crash",
]

FORMATTED: Final = SnapshotId(0, 0)
METADATA_LOG: Final = LogConfig(retention_ms=UNLIMITED, retention_bytes=UNLIMITED, sync_full_segments=True)
"""Settings that always hold for the metadata log. Segments are deleted only below a snapshot, not by age or
size. Full segments are synced before the next begins: if a replica's log ended at a gap, it would be elected
for records that it has lost."""


class OtherVoters(Exception):
    """The voters in the config and those on the disk contradict each other. The text is one line for the
    operator."""


def metadata_log_config(config: BrokerConfig) -> LogConfig:
    """The log's settings from the broker's config."""
    return msgspec.structs.replace(
        METADATA_LOG,
        segment_bytes=config.integer("metadata.log.segment.bytes"),
        segment_ms=config.integer("metadata.log.segment.ms"),
        max_message_bytes=config.integer("internal.metadata.max.batch.size.in.bytes"),
    )


def raft_config(
    config: BrokerConfig, *, cluster_id: str, directory_id: bytes, endpoints: Mapping[str, BrokerEndpoint]
) -> RaftConfig:
    """The config of this node's raft replica.

    endpoints: the addresses of the controller listeners, with the ports that they really have.
    """
    servers = config.items("controller.quorum.bootstrap.servers")
    return RaftConfig(
        node=ReplicaKey(config.node_id, directory_id),
        cluster_id=cluster_id,
        listener=config.controller_listener_names[0],
        endpoints=MappingProxyType({name: Address(e.host, e.port) for name, e in endpoints.items()}),
        static_voters=MappingProxyType(
            {voter.node_id: Address(voter.host, voter.port) for voter in config.quorum_voters}
        ),
        bootstrap_servers=tuple(_address(server) for server in servers),
        can_be_voter=config.is_controller,
        auto_join=config.flag("controller.quorum.auto.join.enable"),
        election_timeout_ms=config.integer("controller.quorum.election.timeout.ms"),
        election_backoff_max_ms=config.integer("controller.quorum.election.backoff.max.ms"),
        fetch_timeout_ms=config.integer("controller.quorum.fetch.timeout.ms"),
        request_timeout_ms=config.integer("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=config.integer("controller.quorum.retry.backoff.ms"),
        fetch_max_bytes=config.integer("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=config.integer("controller.quorum.fetch.snapshot.max.bytes"),
    )


def _address(server: str) -> Address:
    """The address in a text `host:port`, whose form the config's validator has checked."""
    host, _, port = server.rpartition(":")
    return Address(host.strip("[]"), int(port))


def open_replica(
    config: BrokerConfig,
    quorum: RaftConfig,
    *,
    files: Files,
    clock: Clock,
    timers: Timers,
    offload: Offload,
    random_source: RandomSource,
    make_channel: Callable[[str, int], ClosablePeerChannel],
    sync_offload: Offload | None = None,
) -> ReplicatedMetadataLog:
    """Opens the metadata log for the start of a node, without starting the replica.

    sync_offload: runs the syncs of the log and of quorum-state, which follow one another; a thread of their
    own does not wait for snapshots. Raises OSError, LogStorageError, OtherVoters, and the errors of malformed
    files, each with the name of the file.
    """
    directory = f"{config.metadata_log_directory}/{partition_directory(METADATA_TOPIC, METADATA_PARTITION)}"
    retention = SnapshotRetention(
        config.integer("metadata.max.retention.bytes"), config.integer("metadata.max.retention.ms")
    )
    log = open_metadata_log(directory, metadata_log_config(config), files, clock)
    snapshots = SnapshotDirectory(files, directory, offload, retention)
    snapshots.load(log.log_start_offset)
    disk = ReplicaDisk(log, snapshots, files, clock, sync_offload or offload)
    repair_after_crash(disk)
    node = RaftNode(quorum, disk, read_hard_state(files, directory, quorum), random_source)
    if not node.voters.by_id and not quorum.bootstrap_servers:
        raise OtherVoters(
            f"{log.directory}: nobody is known to vote. Give controller.quorum.bootstrap.servers or "
            "controller.quorum.voters, or format the directory with --standalone or --initial-controllers"
        )
    peers = ReplicaPeers(make_channel)
    linger_ms = config.integer("controller.quorum.append.linger.ms")
    driver = RaftDriver(node, disk, peers, clock, timers, linger_ms=linger_ms)
    return ReplicatedMetadataLog(driver, disk, clock, node_id=config.node_id)


def open_metadata_log(directory: str, log_config: LogConfig, files: Files, clock: Clock) -> PartitionLog:
    """The log in this directory, which is created if it is not there. Raises OSError and LogStorageError."""
    now_ms = clock.wall_ms()
    background_tasks = BackgroundTasks()
    identity = (
        files,
        directory,
        METADATA_TOPIC,
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        log_config,
        background_tasks,
    )
    if files.exists(f"{directory}/{PARTITION_METADATA}"):
        # Nothing marks a clean shutdown of this log, so its tail is checked each time.
        return open_log(*identity, is_clean=False, now_ms=now_ms)[0]
    return create_log(*identity, now_ms=now_ms)


def repair_after_crash(disk: ReplicaDisk) -> None:
    """Completes what a crash interrupted: the log is begun anew behind a snapshot that was fetched, or its
    log start offset is raised to the first snapshot. Syncs the log, because the replica will claim to hold
    it. Raises OSError, LogStorageError."""
    log = disk.log
    found = [each for each in disk.snapshots() if each != FORMATTED]
    if found:
        newest = found[-1]
        # The log may end before the snapshot, or have another epoch there, even a later one of which nothing
        # was committed.
        is_ours = log.leader_epochs.epoch_of(newest.end_offset - 1) == newest.epoch
        is_held = is_ours and newest.end_offset <= log.log_end_offset
        if not is_held and newest.end_offset > log.log_start_offset:
            disk.begin_log_behind(newest)
        elif log.log_start_offset > 0 and found[0].end_offset > log.log_start_offset:
            log.increase_log_start(found[0].end_offset, SNAPSHOT_GENERATED)
    disk.sync_now()


def read_hard_state(files: Files, directory: str, quorum: RaftConfig) -> HardState | None:
    """The raft state that the file `quorum-state` holds; None if there is no file.

    Raises MalformedQuorumState, and OtherVoters if the file names other voters than the config does.
    """
    state = read_quorum_state(files, directory)
    if state is None:
        return None
    configured = sorted(quorum.static_voters)
    if state.data_version == 0 and state.voters and configured and sorted(state.voters) != configured:
        raise OtherVoters(
            f"{directory}/quorum-state remembers the voters {sorted(state.voters)}, and "
            f"controller.quorum.voters says {configured}. Check the config, or remove the file if the quorum "
            "was changed on purpose"
        )
    return hard_state_of(state)
