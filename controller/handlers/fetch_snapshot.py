"""FetchSnapshot (59): pieces of a snapshot of the metadata log. KIP-630, KIP-853.

Versions 0-1; 1 brings the fetcher's directory id. One partition of `__cluster_metadata`. A piece is at most
max_bytes long and may end anywhere; the fetcher asks again from where it ended until it has `size` bytes.
Other nodes are served by the leader (`controller.raft.serving`), this process's own broker whoever leads.
Needs CLUSTER_ACTION.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.log import METADATA_PARTITION, SnapshotId
from controller.metadata.topic_names import METADATA_TOPIC
from controller.services import LogServices
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

PartitionSnapshot = FetchSnapshotResponse.PartitionSnapshot

LARGEST_PIECE_BYTES: Final = 1 << 20


def handle(
    services: LogServices, context: RequestContext, request: FetchSnapshotRequest
) -> FetchSnapshotResponse | Pending[Message]:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return FetchSnapshotResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.replica_id != services.node_id:
        return services.log.ask(request, version=context.version, listener=context.session.listener)
    if request.cluster_id is not None and request.cluster_id != services.cluster_id:
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
    topic = request.topics[0]
    asked = topic.partitions[0]
    if (topic.name, asked.partition) != (METADATA_TOPIC, METADATA_PARTITION):
        answer = PartitionSnapshot(index=asked.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    else:
        answer = _piece(services, asked, request.max_bytes)
    return FetchSnapshotResponse(
        topics=[FetchSnapshotResponse.TopicSnapshot(name=topic.name, partitions=[answer])]
    )


def _piece(
    services: LogServices, asked: FetchSnapshotRequest.PartitionSnapshot, max_bytes: int
) -> PartitionSnapshot:
    leader = services.log.leader
    answer = PartitionSnapshot(
        index=asked.partition,
        snapshot_id=FetchSnapshotResponse.SnapshotId(
            end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch
        ),
        current_leader=FetchSnapshotResponse.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.epoch
        ),
    )
    if asked.current_leader_epoch < leader.epoch:
        answer.error_code = ErrorCode.FENCED_LEADER_EPOCH
    elif asked.current_leader_epoch > leader.epoch:
        answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif asked.position < 0 or max_bytes < 0:
        answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
    if answer.error_code:
        return answer
    snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    found = services.log.read_snapshot(snapshot, asked.position, min(max_bytes, LARGEST_PIECE_BYTES))
    if found is None:
        answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        return answer
    piece, size_bytes = found
    if asked.position >= size_bytes:
        answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        return answer
    answer.size = size_bytes
    answer.position = asked.position
    answer.unaligned_records = piece
    return answer
