"""The leader's side of Fetch and FetchSnapshot: what followers and observers pull. KIP-595, 630, 1166.

Each fetch names the epoch of the record before its offset. If the leader's log has no such record there,
the answer says where the two logs part, or which snapshot to load; else the offset counts as the replica's
progress, and records are given, committed or not (only replicas of the log ask here). A fetch at the end
waits for records, for a higher high watermark, or for its time to be over. That records are committed which
change nothing (KIP-835, two a second) is not worth an answer of its own: it would double what an idle quorum
costs each of its nodes.

Error answers: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE (shutting down), and for snapshots UNKNOWN_TOPIC_OR_PARTITION,
SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE.
"""

from __future__ import annotations

from controller.raft.identity import ReplicaKey, SnapshotId
from controller.raft.log_view import BOOTSTRAP_SNAPSHOT
from controller.raft.progress import commit_what_a_majority_has, note_following, record_fetch
from controller.raft.replica import Replica
from controller.raft.roles import DelayedRaftFetch, Leader
from controller.raft.transitions import Role
from controller.raft.wire import METADATA_TOPIC, Caller, fetch_answer, fetch_snapshot_answer
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.values import METADATA_TOPIC_ID

__all__ = ["answer_waiting", "handle_fetch", "handle_fetch_snapshot", "leader_only_error", "refuse_waiting"]

REPLICA_STATE_SINCE = 15
LARGEST_ANSWER_BYTES = 8 << 20
LARGEST_WAIT_MS = 30_000
ANYBODY = -1


def leader_only_error(replica: Replica, epoch: int) -> ErrorCode:
    """The error for a request to the leader of that epoch, if this replica is not that leader."""
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > replica.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if replica.role is not Role.LEADER:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if replica.is_shutting_down:
        return ErrorCode.BROKER_NOT_AVAILABLE
    return ErrorCode.NONE


def handle_fetch(replica: Replica, caller: Caller, request: FetchRequest) -> None:
    if not replica.is_of_cluster(request.cluster_id):
        replica.answer(caller.token, FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    partition = _partition(request)
    if partition is None:
        replica.answer(caller.token, FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    if (
        request.max_wait_ms < 0
        or partition.fetch_offset < 0
        or partition.last_fetched_epoch < 0
        or partition.last_fetched_epoch > partition.current_leader_epoch
    ):
        replica.answer(caller.token, fetch_answer(replica, caller, ErrorCode.INVALID_REQUEST))
        return
    key = ReplicaKey(_replica_id(request, caller.version), partition.replica_directory_id)
    answer = _try(replica, caller, request, partition, key)
    if request.max_wait_ms == 0 or _says_something(answer) or _is_behind(replica, partition):
        replica.answer(caller.token, answer)
        return
    wait_ms = min(request.max_wait_ms, LARGEST_WAIT_MS)
    replica.leading().waiting.append(
        DelayedRaftFetch(
            caller.token, caller.version, caller.listener, request, key, replica.now_ms + wait_ms
        )
    )


def _partition(request: FetchRequest) -> FetchRequest.FetchPartition | None:
    """The metadata partition, if the request asks for it alone. The partition is found by its topic id, so
    the request has version 13 or later."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    partition = topic.partitions[0]
    return partition if topic.topic_id == METADATA_TOPIC_ID and partition.partition == 0 else None


def _replica_id(request: FetchRequest, version: int) -> int:
    if version < REPLICA_STATE_SINCE:
        return request.replica_id
    return ANYBODY if request.replica_state is None else request.replica_state.replica_id


def _try(
    replica: Replica,
    caller: Caller,
    request: FetchRequest,
    partition: FetchRequest.FetchPartition,
    key: ReplicaKey,
    *,
    has_waited: bool = False,
) -> FetchResponse:
    """Answers a fetch, or has it wait. A replica that has waited was counted when its request came, and may
    have died since."""
    error = leader_only_error(replica, partition.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return fetch_answer(replica, caller, error)
    log = replica.log
    fit = log.fit(partition.fetch_offset, partition.last_fetched_epoch)
    if fit.diverging is not None or fit.snapshot is not None:
        return fetch_answer(
            replica, caller, ErrorCode.NONE, fit=fit, high_watermark=_known_high_watermark(replica)
        )
    if request.max_bytes < 0 and partition.fetch_offset < log.end_offset:
        return fetch_answer(replica, caller, ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka fails on it
    is_replica = key.id >= 0 and key.id != replica.key.id  # else a tool, or this process's own broker
    if is_replica and not has_waited and record_fetch(replica, key, partition.fetch_offset):
        commit_what_a_majority_has(replica)
    records = log.read(partition.fetch_offset, max(min(request.max_bytes, LARGEST_ANSWER_BYTES), 1))
    return fetch_answer(
        replica, caller, ErrorCode.NONE, records=records, high_watermark=_known_high_watermark(replica)
    )


def _known_high_watermark(replica: Replica) -> int:
    """The high watermark for answers. A new leader knows it only when it has committed a record of its own.
    Until then it is -1, so that it does not seem to fall."""
    return replica.high_watermark if replica.leading().is_established else -1


def _says_something(answer: FetchResponse) -> bool:
    """Whether an answer has a reason not to wait: an error, records, or a log that diverges."""
    partition = answer.responses[0].partitions[0]
    if partition.error_code or partition.diverging_epoch is not None or partition.snapshot_id is not None:
        return True
    records = partition.records
    return not isinstance(records, bytes) or len(records) > 0


def _is_behind(replica: Replica, partition: FetchRequest.FetchPartition) -> bool:
    """Whether the replica does not know the newest high watermark (KIP-1166). Requests of older versions
    cannot tell."""
    state = replica.leading()
    return state.is_established and state.has_news(partition.high_watermark, replica.high_watermark)


def answer_waiting(replica: Replica, *, has_news: bool) -> None:
    """Answers the fetches whose time is over, and all of them if there are records or a new high
    watermark."""
    state = replica.leading()
    if not state.waiting:
        return
    now_ms = replica.now_ms
    due = state.waiting if has_news else [each for each in state.waiting if each.deadline_ms <= now_ms]
    if not due:
        return
    state.waiting = [] if has_news else [each for each in state.waiting if each.deadline_ms > now_ms]
    for waiting in due:
        caller = Caller(waiting.token, waiting.version, waiting.listener)
        partition = waiting.request.topics[0].partitions[0]
        answer = _try(replica, caller, waiting.request, partition, waiting.replica, has_waited=True)
        replica.answer(waiting.token, answer)


def refuse_waiting(replica: Replica, state: Leader) -> None:
    """Answers all waiting fetches with an error, because this replica does not lead any more."""
    for waiting in state.waiting:
        caller = Caller(waiting.token, waiting.version, waiting.listener)
        replica.answer(waiting.token, fetch_answer(replica, caller, ErrorCode.NOT_LEADER_OR_FOLLOWER))


def handle_fetch_snapshot(replica: Replica, caller: Caller, request: FetchSnapshotRequest) -> None:
    if not replica.is_of_cluster(request.cluster_id):
        replica.answer(caller.token, FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        replica.answer(caller.token, FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    topic = request.topics[0]
    asked = topic.partitions[0]
    answer = FetchSnapshotResponse.PartitionSnapshot(index=asked.partition)
    if topic.name != METADATA_TOPIC or asked.partition != 0:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        answer.error_code = leader_only_error(replica, asked.current_leader_epoch)
        if not answer.error_code:
            _fill_piece(replica, request, asked, answer)
    replica.answer(caller.token, fetch_snapshot_answer(replica, caller, answer, topic.name))


def _fill_piece(
    replica: Replica,
    request: FetchSnapshotRequest,
    asked: FetchSnapshotRequest.PartitionSnapshot,
    answer: FetchSnapshotResponse.PartitionSnapshot,
) -> None:
    snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    port = replica.log.port
    size_bytes = None if snapshot == BOOTSTRAP_SNAPSHOT else port.snapshot_size(snapshot)
    if size_bytes is None:
        answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        return
    if not 0 <= asked.position < size_bytes:
        answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        return
    max_bytes = max(min(request.max_bytes, LARGEST_ANSWER_BYTES), 1)
    answer.snapshot_id = FetchSnapshotResponse.SnapshotId(*snapshot)
    answer.size = size_bytes
    answer.position = asked.position
    answer.unaligned_records = port.read_snapshot(snapshot, asked.position, max_bytes)
    note_following(replica, ReplicaKey(request.replica_id, asked.replica_directory_id))
