"""The quorum's own requests and answers, built from the replica; and the checks which part of a peer's
message is for this replica.

All of them are about one partition, `__cluster_metadata`-0. An answer names the leader if it is known. From
the version on that has a field for it, it holds the leader's address at the listener by which the request
came (KIP-853).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

from controller.raft.identity import NOBODY, Address, ReplicaKey, SnapshotId
from controller.raft.log_view import FITS, Fit
from controller.raft.replica import Replica
from controller.raft.voters import Endpoints
from protocol.errors import ErrorCode
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.primitives import Records
from protocol.values import METADATA_TOPIC_ID

__all__ = [
    "METADATA_TOPIC",
    "Caller",
    "NodeAddress",
    "begin_epoch_request",
    "end_epoch_request",
    "endpoints_of",
    "epoch_answer",
    "fetch_answer",
    "fetch_request",
    "fetch_snapshot_answer",
    "fetch_snapshot_request",
    "the_partition",
    "told_endpoints",
    "update_voter_answer",
    "vote_answer",
    "vote_request",
]

METADATA_TOPIC: Final = "__cluster_metadata"
UNKNOWN: Final = -1
NODE_ENDPOINTS_SINCE: Final = 1
FETCH_NODE_ENDPOINTS_SINCE: Final = 16


class Caller(NamedTuple):
    """The one that sent a request: the token for the answer, the version of the API, and the listener by
    which it came ("" for that of the quorum)."""

    token: object
    version: int
    listener: str


# Reading requests

PartitionT = TypeVar("PartitionT", covariant=True)


class _Topic(Protocol[PartitionT]):
    @property
    def topic_name(self) -> str: ...
    @property
    def partitions(self) -> Sequence[PartitionT]: ...


def the_partition(topics: Sequence[_Topic[PartitionT]]) -> PartitionT | None:
    """The partition of a Vote, BeginQuorumEpoch or EndQuorumEpoch message. None if it is not the metadata
    partition alone."""
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if getattr(partition, "partition_index", 0) == 0 else None


class _NamedAddress(Protocol):
    name: str
    host: str
    port: int


class NodeAddress(Protocol):
    """The address of a node, in the form that several kinds of answers have."""

    node_id: int
    host: str
    port: int


def endpoints_of(entries: Iterable[_NamedAddress]) -> Endpoints:
    """The addresses of a leader or a voter, by listener name."""
    return MappingProxyType({entry.name: Address(entry.host, entry.port) for entry in entries})


def told_endpoints(replica: Replica, leader_id: int, entries: Iterable[NodeAddress]) -> Mapping[str, Address]:
    """The leader's address at the quorum's listener, if the answer holds it. Otherwise the addresses from the
    set of voters."""
    for entry in entries:
        if entry.node_id == leader_id and entry.host:
            return MappingProxyType({replica.config.listener: Address(entry.host, entry.port)})
    return replica.voters.endpoints_of(leader_id)


# Elections


def vote_request(replica: Replica, voter: ReplicaKey, *, pre_vote: bool) -> VoteRequest:
    """A Vote request. A candidate asks in the new epoch that it has begun, a prospective replica in the epoch
    in which it is."""
    partition = VoteRequest.PartitionData(
        replica_epoch=replica.epoch,
        replica_id=replica.key.id,
        replica_directory_id=replica.key.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=replica.log.last_epoch,
        last_offset=replica.log.end_offset,
        pre_vote=pre_vote,
    )
    topic = VoteRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=replica.config.cluster_id, voter_id=voter.id, topics=[topic])


def vote_answer(replica: Replica, caller: Caller, error: ErrorCode, *, granted: bool = False) -> VoteResponse:
    partition = VoteResponse.PartitionData(
        error_code=error, leader_id=replica.leader_id, leader_epoch=replica.epoch, vote_granted=granted
    )
    topic = VoteResponse.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    endpoints = _leader_endpoints(replica, caller, VoteResponse.NodeEndpoint)
    return VoteResponse(topics=[topic], node_endpoints=endpoints)


def begin_epoch_request(replica: Replica, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequest.PartitionData(
        voter_directory_id=voter.directory_id, leader_id=replica.key.id, leader_epoch=replica.epoch
    )
    return BeginQuorumEpochRequest(
        cluster_id=replica.config.cluster_id,
        voter_id=voter.id,
        topics=[BeginQuorumEpochRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_own_endpoints(replica, BeginQuorumEpochRequest.LeaderEndpoint),
    )


def end_epoch_request(replica: Replica, successors: Sequence[ReplicaKey]) -> EndQuorumEpochRequest:
    """An EndQuorumEpoch request. Version 0 names the successors by their ids, version 1 by their keys, so
    both are filled in."""
    partition = EndQuorumEpochRequest.PartitionData(
        leader_id=replica.key.id,
        leader_epoch=replica.epoch,
        preferred_successors=[key.id for key in successors],
        preferred_candidates=[EndQuorumEpochRequest.ReplicaInfo(*key) for key in successors],
    )
    return EndQuorumEpochRequest(
        cluster_id=replica.config.cluster_id,
        topics=[EndQuorumEpochRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_own_endpoints(replica, EndQuorumEpochRequest.LeaderEndpoint),
    )


AnswerT = TypeVar("AnswerT", BeginQuorumEpochResponse, EndQuorumEpochResponse)


def epoch_answer(replica: Replica, caller: Caller, kind: type[AnswerT], error: ErrorCode) -> AnswerT:
    """The answer to BeginQuorumEpoch or to EndQuorumEpoch, which have the same fields."""
    partition = kind.PartitionData(error_code=error, leader_id=replica.leader_id, leader_epoch=replica.epoch)
    topic = kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return kind(topics=[topic], node_endpoints=_leader_endpoints(replica, caller, kind.NodeEndpoint))


# Replication


def fetch_request(replica: Replica, max_wait_ms: int) -> FetchRequest:
    """A fetch from the end of the log. It tells the leader that everything below is durable here."""
    log = replica.log
    config = replica.config
    partition = FetchRequest.FetchPartition(
        current_leader_epoch=replica.epoch,
        fetch_offset=log.end_offset,
        last_fetched_epoch=log.last_epoch,
        partition_max_bytes=0,
        replica_directory_id=config.node.directory_id,
        high_watermark=replica.high_watermark,
    )
    return FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=FetchRequest.ReplicaState(replica_id=config.node.id),
        max_wait_ms=max_wait_ms,
        max_bytes=config.fetch_max_bytes,
        topics=[
            FetchRequest.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
        ],
    )


def fetch_answer(
    replica: Replica,
    caller: Caller,
    error: ErrorCode,
    *,
    records: Records = b"",
    fit: Fit = FITS,
    high_watermark: int = UNKNOWN,
) -> FetchResponse:
    partition = FetchResponse.PartitionData(
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=replica.log.start_offset,
        current_leader=FetchResponse.LeaderIdAndEpoch(replica.leader_id, replica.epoch),
        records=records,
    )
    if fit.diverging is not None:
        partition.diverging_epoch = FetchResponse.EpochEndOffset(*fit.diverging)
    if fit.snapshot is not None:
        partition.snapshot_id = FetchResponse.SnapshotId(*fit.snapshot)
    topic = FetchResponse.FetchableTopicResponse(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    endpoints = _leader_endpoints(replica, caller, FetchResponse.NodeEndpoint, FETCH_NODE_ENDPOINTS_SINCE)
    return FetchResponse(responses=[topic], node_endpoints=endpoints)


def fetch_snapshot_request(replica: Replica, snapshot: SnapshotId, position: int) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequest.PartitionSnapshot(
        current_leader_epoch=replica.epoch,
        snapshot_id=FetchSnapshotRequest.SnapshotId(*snapshot),
        position=position,
        replica_directory_id=replica.key.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=replica.config.cluster_id,
        replica_id=replica.key.id,
        max_bytes=replica.config.fetch_snapshot_max_bytes,
        topics=[FetchSnapshotRequest.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def fetch_snapshot_answer(
    replica: Replica,
    caller: Caller,
    partition: FetchSnapshotResponse.PartitionSnapshot,
    topic_name: str = METADATA_TOPIC,
) -> FetchSnapshotResponse:
    """Wraps the answer for the partition, and names the leader in it."""
    if partition.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        partition.current_leader = FetchSnapshotResponse.LeaderIdAndEpoch(replica.leader_id, replica.epoch)
    topic = FetchSnapshotResponse.TopicSnapshot(name=topic_name, partitions=[partition])
    endpoints = _leader_endpoints(replica, caller, FetchSnapshotResponse.NodeEndpoint)
    return FetchSnapshotResponse(topics=[topic], node_endpoints=endpoints)


# Voters


def update_voter_answer(replica: Replica, caller: Caller, error: ErrorCode) -> UpdateRaftVoterResponse:
    address = replica.leader_address(caller.listener) or Address("", 0)
    leader = UpdateRaftVoterResponse.CurrentLeader(replica.leader_id, replica.epoch, *address)
    return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


# Addresses

EndpointT = TypeVar("EndpointT")


def _own_endpoints(replica: Replica, endpoint: Callable[[str, str, int], EndpointT]) -> list[EndpointT]:
    return [endpoint(name, *address) for name, address in replica.config.endpoints.items()]


def _leader_endpoints(
    replica: Replica,
    caller: Caller,
    endpoint: Callable[[int, str, int], EndpointT],
    since: int = NODE_ENDPOINTS_SINCE,
) -> list[EndpointT]:
    """The leader's address, if it is known and the version of the answer has a field for it."""
    if caller.version < since or replica.leader_id == NOBODY:
        return []
    address = replica.leader_address(caller.listener)
    return [] if address is None else [endpoint(replica.leader_id, *address)]
