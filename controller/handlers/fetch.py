"""Fetch (1) at a controller: observers and voters pull the metadata log. KIP-595, KIP-630, KIP-853, KIP-1166.

Versions 4-18, of which only 13 and above can name the topic, `__cluster_metadata`, by its id: the others are
answered INVALID_REQUEST, as by Apache Kafka. One partition, whose own limit counts for nothing, no sessions.
Each fetch names the epoch of the record before its offset: if the log has no such record there, the
answer says where the two part. A fetch at the end waits for news, at most max_wait_ms; a client that
tells its own high watermark (18) below ours is answered at once. Only the leader gives other nodes records,
committed or not (`controller.raft.serving`). This process's own broker is served whoever leads, with what is
committed and applied here; the high watermark is -1 to it until the quorum has told it. Needs CLUSTER_ACTION.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.log import METADATA_PARTITION, LeaderAndEpoch, ReadOutcome
from controller.metadata.topic_names import METADATA_TOPIC
from controller.services import LogServices
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from protocol.values import METADATA_TOPIC_ID
from storage.slices import LogSlice

REPLICA_STATE_SINCE: Final = 15
HIGH_WATERMARK_SINCE: Final = 18
UNKNOWN: Final = -1
LARGEST_ANSWER_BYTES: Final = 8 << 20

Partition = FetchRequest.FetchPartition


def handle(
    services: LogServices, context: RequestContext, request: FetchRequest
) -> FetchResponse | Pending[FetchResponse] | Pending[Message]:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not (context.session.is_in_process and _replica_id(request, context.version) == services.node_id):
        return services.log.ask(request, version=context.version, listener=context.session.listener)
    if request.cluster_id is not None and request.cluster_id != services.cluster_id:
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    partition = _the_partition(request)
    if partition is None:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    error = _fault(services.log.leader, request, partition)
    if error is not ErrorCode.NONE:
        return _answer(services, context, error, UNKNOWN, ReadOutcome(b""))
    outcome = _read(services, request, partition)
    behind = (
        context.version >= HIGH_WATERMARK_SINCE and partition.high_watermark < services.log.high_watermark
    )
    if _says_something(outcome) or request.max_wait_ms == 0 or behind:
        return _answer(services, context, ErrorCode.NONE, services.log.known_high_watermark, outcome)
    return _wait(services, context, request, partition)


def _the_partition(request: FetchRequest) -> Partition | None:
    """The metadata partition, if it is all that is asked for."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    partition = topic.partitions[0]
    is_ours = topic.topic_id == METADATA_TOPIC_ID and partition.partition == METADATA_PARTITION
    return partition if is_ours else None


def _replica_id(request: FetchRequest, version: int) -> int:
    if version < REPLICA_STATE_SINCE:
        return request.replica_id
    return UNKNOWN if request.replica_state is None else request.replica_state.replica_id


def _fault(leader: LeaderAndEpoch, request: FetchRequest, partition: Partition) -> ErrorCode:
    if (
        request.max_wait_ms < 0
        or partition.fetch_offset < 0
        or partition.last_fetched_epoch < 0
        or partition.current_leader_epoch < 0
        or partition.last_fetched_epoch > partition.current_leader_epoch
    ):
        return ErrorCode.INVALID_REQUEST
    if partition.current_leader_epoch < leader.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if partition.current_leader_epoch > leader.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE


def _read(services: LogServices, request: FetchRequest, partition: Partition) -> ReadOutcome:
    max_bytes = max(0, min(request.max_bytes, LARGEST_ANSWER_BYTES))
    return services.log.read(partition.fetch_offset, partition.last_fetched_epoch, max_bytes)


def _says_something(outcome: ReadOutcome) -> bool:
    if outcome.diverging is not None or outcome.snapshot is not None:
        return True
    records = outcome.records
    return bool(records) if isinstance(records, bytes) else True


def _wait(
    services: LogServices, context: RequestContext, request: FetchRequest, partition: Partition
) -> Pending[FetchResponse]:
    pending: Pending[FetchResponse] = Pending()

    def answer() -> None:
        forget()
        timer.cancel()
        pending.complete_by(answer_now)

    def answer_now() -> FetchResponse:
        outcome = _read(services, request, partition)
        return _answer(services, context, ErrorCode.NONE, services.log.known_high_watermark, outcome)

    def tidy_up() -> None:
        forget()
        timer.cancel()

    forget = services.log.on_advance(answer)
    timer = services.timers.call_at(services.clock.monotonic_ms() + request.max_wait_ms, answer)
    pending.on_cancel(tidy_up)
    return pending


def _answer(
    services: LogServices,
    context: RequestContext,
    error: ErrorCode,
    high_watermark: int,
    outcome: ReadOutcome,
) -> FetchResponse:
    leader = services.log.leader
    if isinstance(outcome.records, LogSlice):
        outcome.records.retain()  # whoever sends it releases it
    partition = FetchResponse.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=services.log.log_start_offset,
        records=outcome.records,
        current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch),
    )
    if outcome.diverging is not None:
        epoch, end_offset = outcome.diverging
        partition.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if outcome.snapshot is not None:
        partition.snapshot_id = FetchResponse.SnapshotId(
            end_offset=outcome.snapshot.end_offset, epoch=outcome.snapshot.epoch
        )
    topic = FetchResponse.FetchableTopicResponse(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return FetchResponse(responses=[topic], node_endpoints=_leader_endpoint(services, context, leader))


def _leader_endpoint(
    services: LogServices, context: RequestContext, leader: LeaderAndEpoch
) -> list[FetchResponse.NodeEndpoint]:
    endpoints = services.log.quorum(context.now_ms).endpoints.get(leader.leader_id, {})
    endpoint = endpoints.get(context.session.listener)
    if endpoint is None:
        return []
    return [FetchResponse.NodeEndpoint(node_id=leader.leader_id, host=endpoint.host, port=endpoint.port)]
