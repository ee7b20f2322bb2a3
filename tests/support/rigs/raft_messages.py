"""The quorum's requests and answers as other replicas would send them, for tests of one node."""

from __future__ import annotations

from collections.abc import Sequence

from controller.raft.identity import NOBODY, ReplicaKey, SnapshotId
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterRequest
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.values import METADATA_TOPIC_ID, ZERO_UUID
from tests.support.rigs.raft_rig import CLUSTER_ID, LISTENER, address, directory, key

TOPIC = "__cluster_metadata"


def vote(
    candidate: int,
    epoch: int,
    *,
    last_epoch: int = 0,
    last_offset: int = 0,
    pre_vote: bool = False,
    to: ReplicaKey | None = None,
    directory_id: bytes | None = None,
    cluster_id: str | None = CLUSTER_ID,
) -> VoteRequest:
    partition = VoteRequest.PartitionData(
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=directory(candidate) if directory_id is None else directory_id,
        voter_directory_id=ZERO_UUID if to is None else to.directory_id,
        last_offset_epoch=last_epoch,
        last_offset=last_offset,
        pre_vote=pre_vote,
    )
    topic = VoteRequest.TopicData(topic_name=TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=cluster_id, voter_id=-1 if to is None else to.id, topics=[topic])


def vote_answer(
    epoch: int, granted: bool, *, leader: int = NOBODY, error: ErrorCode = ErrorCode.NONE
) -> VoteResponse:
    partition = VoteResponse.PartitionData(
        error_code=error, leader_id=leader, leader_epoch=epoch, vote_granted=granted
    )
    return VoteResponse(topics=[VoteResponse.TopicData(topic_name=TOPIC, partitions=[partition])])


def begin(
    leader: int, epoch: int, *, to: ReplicaKey | None = None, named: bool = True
) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequest.PartitionData(
        voter_directory_id=ZERO_UUID if to is None else to.directory_id,
        leader_id=leader,
        leader_epoch=epoch,
    )
    endpoint = BeginQuorumEpochRequest.LeaderEndpoint(LISTENER, *address(leader))
    return BeginQuorumEpochRequest(
        cluster_id=CLUSTER_ID,
        voter_id=-1 if to is None else to.id,
        topics=[BeginQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[endpoint] if named else [],
    )


def end(leader: int, epoch: int, successors: Sequence[int] = ()) -> EndQuorumEpochRequest:
    partition = EndQuorumEpochRequest.PartitionData(
        leader_id=leader,
        leader_epoch=epoch,
        preferred_candidates=[
            EndQuorumEpochRequest.ReplicaInfo(each, directory(each)) for each in successors
        ],
    )
    topic = EndQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[partition])
    endpoint = EndQuorumEpochRequest.LeaderEndpoint(LISTENER, *address(leader))
    return EndQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=[topic], leader_endpoints=[endpoint])


def end_answer(leader: int, epoch: int) -> EndQuorumEpochResponse:
    partition = EndQuorumEpochResponse.PartitionData(leader_id=leader, leader_epoch=epoch)
    topic = EndQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[partition])
    return EndQuorumEpochResponse(topics=[topic])


def fetch(
    replica: int,
    epoch: int,
    offset: int,
    last_epoch: int,
    *,
    high_watermark: int = 1 << 40,
    max_wait_ms: int = 500,
    directory_id: bytes | None = None,
    max_bytes: int = 1 << 20,
) -> FetchRequest:
    """By default of a replica that believes to know more than is committed, so that it waits for records."""
    partition = FetchRequest.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=directory(replica) if directory_id is None else directory_id,
        high_watermark=high_watermark,
    )
    return FetchRequest(
        cluster_id=CLUSTER_ID,
        replica_state=FetchRequest.ReplicaState(replica_id=replica),
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        topics=[FetchRequest.FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def fetch_answer(
    leader: int,
    epoch: int,
    records: bytes = b"",
    *,
    high_watermark: int = -1,
    error: ErrorCode = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
    snapshot: SnapshotId | None = None,
    named: bool = False,
) -> FetchResponse:
    partition = FetchResponse.PartitionData(
        error_code=error,
        high_watermark=high_watermark,
        current_leader=FetchResponse.LeaderIdAndEpoch(leader, epoch),
        records=records,
    )
    if diverging is not None:
        partition.diverging_epoch = FetchResponse.EpochEndOffset(*diverging)
    if snapshot is not None:
        partition.snapshot_id = FetchResponse.SnapshotId(*snapshot)
    topic = FetchResponse.FetchableTopicResponse(
        topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    answer = FetchResponse(responses=[topic])
    if named:
        answer.node_endpoints = [FetchResponse.NodeEndpoint(leader, *address(leader))]
    return answer


def fetched(answer: object) -> FetchResponse.PartitionData:
    """The one partition of a fetch's answer."""
    assert isinstance(answer, FetchResponse)
    assert not answer.error_code
    return answer.responses[0].partitions[0]


def fetch_snapshot(
    replica: int, epoch: int, snapshot: SnapshotId, position: int, max_bytes: int = 1 << 20
) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequest.PartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=FetchSnapshotRequest.SnapshotId(*snapshot),
        position=position,
        replica_directory_id=directory(replica),
    )
    topic = FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[partition])
    return FetchSnapshotRequest(
        cluster_id=CLUSTER_ID, replica_id=replica, max_bytes=max_bytes, topics=[topic]
    )


def snapshot_piece(
    leader: int,
    epoch: int,
    snapshot: SnapshotId,
    position: int,
    content: bytes,
    size: int,
    error: ErrorCode = ErrorCode.NONE,
) -> FetchSnapshotResponse:
    partition = FetchSnapshotResponse.PartitionSnapshot(
        error_code=error,
        snapshot_id=FetchSnapshotResponse.SnapshotId(*snapshot),
        current_leader=FetchSnapshotResponse.LeaderIdAndEpoch(leader, epoch),
        size=size,
        position=position,
        unaligned_records=content,
    )
    topic = FetchSnapshotResponse.TopicSnapshot(name=TOPIC, partitions=[partition])
    return FetchSnapshotResponse(topics=[topic])


def add_voter(node_id: int, *, ack: bool = True, directory_id: bytes | None = None) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=2_000,
        voter_id=node_id,
        voter_directory_id=directory(node_id) if directory_id is None else directory_id,
        listeners=[AddRaftVoterRequest.Listener(LISTENER, *address(node_id))],
        ack_when_committed=ack,
    )


def remove_voter(node_id: int, *, directory_id: bytes | None = None) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        CLUSTER_ID, node_id, directory(node_id) if directory_id is None else directory_id
    )


def update_voter(
    node_id: int, epoch: int, *, host: str = "elsewhere", versions: tuple[int, int] = (0, 1)
) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=epoch,
        voter_id=node_id,
        voter_directory_id=directory(node_id),
        listeners=[UpdateRaftVoterRequest.Listener(LISTENER, host, 1)],
        k_raft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(*versions),
    )


__all__ = [
    "add_voter",
    "begin",
    "end",
    "end_answer",
    "fetch",
    "fetch_answer",
    "fetch_snapshot",
    "fetched",
    "key",
    "remove_voter",
    "snapshot_piece",
    "update_voter",
    "vote",
    "vote_answer",
]
