"""Fetch (1): read record batches, now or when there are some. KIP-74, KIP-98, KIP-227, KIP-320, KIP-392,
KIP-516.

Versions 4-18.

* 4: isolation level, aborted transactions; 5: log start offset; 6: KAFKA_STORAGE_ERROR may come, 5 and
  older are told NOT_LEADER_OR_FOLLOWER instead; 7: fetch sessions; 8: throttled after the answer; 9: leader
  epochs; 10: zstd;
* 11: the client's rack, so that a replica near it may be preferred; 12: flexible, the epoch of the last
  record (a diverging epoch is told without an error); 13: topics by id; 14: OFFSET_MOVED_TO_TIERED_STORAGE
  may come;
* 15: the replica's state in a tagged field; 16: where a leader went, in tagged fields (KIP-951); 17: the
  replica's directory; 18: the replica's high watermark.

Batches go out as they lie in the file, whatever the version, from the batch that holds the fetch offset on;
the last one may be cut off. `max_bytes` and each partition's limit hold from the second batch on: the first
one is always whole. An answer comes at once if there are `min_bytes`, an error while reading, or a
diverging epoch; otherwise with the append that completes them, or after `max_wait_ms` with what there is.
See `broker.replication.fetch_sessions` for sessions and `replication.fetching` for reading and waiting.

Needs READ on the topic, from a replica CLUSTER_ACTION. A partition that may not be read, or is not known,
does not make the others answer at once.

A negative `max_bytes` spoils the first partition that has records, a negative limit of a partition that one,
with UNKNOWN_SERVER_ERROR; so does an isolation level that does not exist the whole request.

read_committed reads up to the last stable offset, and is told which transactions it has to leave out.
Left out: the choice of a nearer replica (version 11), and remote storage (version 14).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.replication.fetch_sessions import WantedPartition
from broker.replication.fetching import Fetch, FetchLimits, refused_data
from broker.replication.partition import Partition
from broker.replication.partition_state import NO_BROKER_EPOCH
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_WITH_STORAGE_ERROR: Final = 6
FIRST_VERSION_WITH_RACK: Final = 11
FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
FIRST_VERSION_WITH_LEADERS: Final = 16

READ_COMMITTED: Final = 1
CONSUMER: Final = -1

_LEADER_MOVED: Final = (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH))
_READ: Final = Operation.READ
_TOPIC: Final = ResourceType.TOPIC


def handle(
    services: BrokerServices, context: RequestContext, request: FetchRequest
) -> FetchResponse | Pending[FetchResponse]:
    version = context.version
    fetches = services.fetches
    replica_id = _replica_id(request, version)
    session = fetches.sessions.begin(
        request,
        uses_topic_ids=version >= FIRST_VERSION_WITH_TOPIC_IDS,
        from_follower=replica_id >= 0,
        now_ms=fetches.clock.monotonic_ms(),
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(0, session)
    isolation_level = request.isolation_level
    if isolation_level and isolation_level != READ_COMMITTED and session.wanted:
        return _refuse_all(request, version, ErrorCode.UNKNOWN_SERVER_ERROR)
    max_bytes = min(fetches.max_bytes, request.max_bytes)
    limits = FetchLimits(
        request.max_wait_ms,
        min(max_bytes, request.min_bytes),
        max_bytes,
        isolation_level == READ_COMMITTED,
        replica_id,
        _replica_epoch(request, version),
        replica_id >= 0 or (replica_id == CONSUMER and version < FIRST_VERSION_WITH_RACK),
    )
    return Fetch(session, limits, services, context, _find, _refine).start()


def _refuse_all(request: FetchRequest, version: int, error: ErrorCode) -> FetchResponse:
    """The whole request is refused; clients that name topics look for it at each partition."""
    response = FetchResponse(0, error, request.session_id)
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        for topic in request.topics:
            refused = [refused_data(asked.partition, error) for asked in topic.partitions]
            response.responses.append(FetchResponse.FetchableTopicResponse(topic.topic, partitions=refused))
    return response


def _replica_id(request: FetchRequest, version: int) -> int:
    """Who reads: -1 a consumer, -2 a consumer that debugs, otherwise a replica."""
    if version < FIRST_VERSION_WITH_REPLICA_STATE:
        return request.replica_id
    state = request.replica_state
    return CONSUMER if state is None else state.replica_id


def _replica_epoch(request: FetchRequest, version: int) -> int:
    """The epoch of the replica's broker, where the request can tell it (KIP-903)."""
    state = request.replica_state
    return (
        NO_BROKER_EPOCH
        if version < FIRST_VERSION_WITH_REPLICA_STATE or state is None
        else state.replica_epoch
    )


def _find(fetch: Fetch, wanted: WantedPartition) -> Partition | ErrorCode:
    """The hosted partition that this request may read, or what stands before that."""
    partition = wanted.partition
    if partition is None or not partition.is_leader:
        return _look_up(fetch, wanted)
    if fetch.limits.replica_id >= 0:
        if not fetch.context.allows_cluster(Operation.CLUSTER_ACTION):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif not fetch.context.allows(_READ, _TOPIC, wanted.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return partition


def _look_up(fetch: Fetch, wanted: WantedPartition) -> Partition | ErrorCode:
    """As `_find`, from the beginning: the partition was not met yet, or moved, or is gone."""
    services, context = fetch.services, fetch.context
    by_id = fetch.session.uses_topic_ids
    hosted: Mapping[Any, Partition] = services.replicas.by_id if by_id else services.replicas.by_name
    partition = hosted.get(wanted.key)
    if partition is not None:
        wanted.topic = partition.topic
    if fetch.limits.replica_id >= 0 and not context.allows_cluster(Operation.CLUSTER_ACTION):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if partition is None and by_id:
        name = services.metadata.topic_name(wanted.topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        wanted.topic = name
    if fetch.limits.replica_id < 0 and not context.allows(_READ, _TOPIC, wanted.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if partition is None:
        error = services.replicas.why_not_hosted(wanted.topic, wanted.index)
        fetch.must_answer = error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or fetch.must_answer
        return error
    wanted.partition = partition
    if fetch.session.id:
        fetch.session.hold(wanted)
    return partition


def _refine(fetch: Fetch, response: FetchResponse) -> FetchResponse:
    """What a version says in other words, for an answer that holds errors."""
    version = fetch.context.version
    if version < FIRST_VERSION_WITH_STORAGE_ERROR:
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif version >= FIRST_VERSION_WITH_LEADERS:
        _add_leaders(fetch, response)
    return response


def _add_leaders(fetch: Fetch, response: FetchResponse) -> None:
    """Who leads the partitions of which the client has an old picture, and where it is reached (KIP-951)."""
    metadata = fetch.services.metadata
    view = metadata.view(fetch.context.session.listener)
    endpoints: dict[int, FetchResponse.NodeEndpoint] = {}
    for topic in response.responses:
        name = metadata.topic_name(topic.topic_id)
        for data in topic.partitions:
            if data.error_code not in _LEADER_MOVED or name is None:
                continue
            entry = metadata.partition(name, data.partition_index)
            if entry is None:
                continue
            data.current_leader = FetchResponse.LeaderIdAndEpoch(entry.leader, entry.leader_epoch)
            endpoint = view.reachable.get(entry.leader)
            if endpoint is not None:
                rack = view.brokers.by_id[entry.leader].rack
                endpoints[entry.leader] = FetchResponse.NodeEndpoint(
                    entry.leader, endpoint.host, endpoint.port, rack
                )
    response.node_endpoints = list(endpoints.values())
