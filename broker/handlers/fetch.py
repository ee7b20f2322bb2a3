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
the last one may be cut off. The first batch of an answer is always whole; `max_bytes` and each partition's
limit hold for what follows it. An answer comes at once if there are `min_bytes`, an error while reading, or a
diverging epoch; otherwise with the append that completes them, or after `max_wait_ms` with what there is.
See `broker.replication.fetch_sessions` for sessions, `replication.reading` for what stands before a read and
`replication.delayed_fetch` for waiting.

Needs READ on the topic, from a replica CLUSTER_ACTION. A partition that may not be read, or is not known,
does not make the others answer at once; if there are no others, the answer comes at once.

With a negative `max_bytes` the first partition that has records is answered UNKNOWN_SERVER_ERROR; with a
negative limit of a partition, that partition is; with an isolation level that does not exist, the whole
request is.

read_committed reads up to the last stable offset, and is told which transactions it has to leave out.
A consumer that names its rack may be told a replica near it instead of records; see
`replication.replica_selector`. Left out: remote storage (version 14).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from broker.quotas.client_quotas import ClientQuotas
from broker.replication.delayed_fetch import DelayedFetch
from broker.replication.fetch_sessions import NO_SESSION_ID, FetchSession, WantedPartition
from broker.replication.partition import Partition
from broker.replication.partition_state import NO_BROKER_EPOCH
from broker.replication.reading import (
    CONSUMER,
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_ROOM,
    READ_COMMITTED,
    DivergingEpoch,
    FetchParams,
    FollowerFetch,
    ReadRefused,
    aborted_transactions,
    fetch_records,
    note_unnamed_partitions,
    params_of,
)
from broker.replication.replica_selector import NO_PREFERRED_REPLICA, RackAwareReplicaSelector
from broker.services import HasFetches, HasMetadata, HasReplicas
from protocol.errors import ErrorCode
from protocol.framing import frame_size_bytes
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from storage.slices import LogSlice

FIRST_VERSION_WITH_STORAGE_ERROR: Final = 6
FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
FIRST_VERSION_WITH_LEADERS: Final = 16

FetchedRecords: TypeAlias = LogSlice | bytes | DivergingEpoch | ReadRefused | None
PartitionData = FetchResponse.PartitionData

_NONE: Final = int(ErrorCode.NONE)
_LEADER_MOVED: Final = (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH))
_KNOWN_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)
"""The errors that Kafka expects of a read: none of them is counted as a failure."""
_READ: Final = Operation.READ
_TOPIC: Final = ResourceType.TOPIC


class FetchServices(HasMetadata, HasReplicas, HasFetches, Protocol):
    """What this handler needs of the broker's services."""


def handle(
    services: FetchServices, context: RequestContext, request: FetchRequest
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
    follower = None
    if replica_id >= 0 and context.allows_cluster(Operation.CLUSTER_ACTION):
        follower = _follower(services, request, version, replica_id)
    most_bytes = fetches.max_bytes
    if fetches.client_quotas is not None and replica_id < 0:
        most_bytes = min(most_bytes, fetches.client_quotas.most_fetched_bytes(context) or most_bytes)
    params = params_of(request, version, replica_id, most_bytes, follower)
    return Fetch(session, params, services, context).start()


def _refuse_all(request: FetchRequest, version: int, error: ErrorCode) -> FetchResponse:
    """The whole request is refused; clients that name topics look for the error at each partition."""
    response = FetchResponse(0, error, request.session_id)
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        for topic in request.topics:
            refused = [_not_looked_at(asked.partition, error) for asked in topic.partitions]
            response.responses.append(FetchResponse.FetchableTopicResponse(topic.topic, partitions=refused))
    return response


def _replica_id(request: FetchRequest, version: int) -> int:
    """The replica id in the request: -1 for a consumer, -2 for a consumer that debugs, otherwise that of a
    replica."""
    if version < FIRST_VERSION_WITH_REPLICA_STATE:
        return request.replica_id
    state = request.replica_state
    return CONSUMER if state is None else state.replica_id


def _follower(services: FetchServices, request: FetchRequest, version: int, replica_id: int) -> FollowerFetch:
    """What a replica's request says of the replica's broker (KIP-903)."""
    state = request.replica_state
    says_epoch = version >= FIRST_VERSION_WITH_REPLICA_STATE and state is not None
    return FollowerFetch(
        services.fetches.clock.monotonic_ms(),
        state.replica_epoch if says_epoch and state is not None else NO_BROKER_EPOCH,
        services.metadata.broker_epoch(replica_id),
        services.metadata.image.brokers,
    )


class Fetch:
    """One request: a look at the session's active partitions, in order, and the answer made of it.

    A look stops giving records when the request's budget is spent. The answer follows at once, or after a
    wait and a second look (see `replication.delayed_fetch`).
    """

    __slots__ = (
        "_context",
        "_found",
        "_has_errors",
        "_must_answer",
        "_params",
        "_replica",
        "_services",
        "_session",
        "bytes_found",
        "epoch",
        "is_incremental",
    )

    def __init__(
        self, session: FetchSession, params: FetchParams, services: FetchServices, context: RequestContext
    ) -> None:
        self._session = session
        self.epoch = session.epoch
        """The session's epoch when this request was accepted; another by the end means that it was
        overtaken."""
        self.is_incremental = session.id != NO_SESSION_ID
        self._params = params
        self._services = services
        self._context = context
        self._replica = services.fetches.replication.reader(params.replica_id)
        self._must_answer = False
        """Something was found that is told at once, however few the bytes."""
        self._has_errors = False
        self.bytes_found = 0
        self._found: list[tuple[WantedPartition, FetchResponse.PartitionData]] = []

    def start(self) -> FetchResponse | Pending[FetchResponse]:
        """The answer, or the promise of one."""
        params, session, fetches = self._params, self._session, self._services.fetches
        if params.follower is not None:
            note_unnamed_partitions(session, params, fetches.unnamed_every_ms)
        self._look()
        if (
            self._must_answer
            or self.bytes_found >= params.min_bytes
            or params.max_wait_ms <= 0
            or self._finds_nothing_to_read()
            or fetches.is_full
        ):
            return self._answer()
        self._found = []
        missing_bytes = params.min_bytes - self.bytes_found
        delayed = DelayedFetch(
            self, session, fetches, missing_bytes=missing_bytes, read_committed=params.read_committed,
            replica=self._replica,
        )  # fmt: skip
        return delayed.start(params.max_wait_ms)

    def look_again(self) -> FetchResponse:
        """See `delayed_fetch.WaitingFetch`."""
        self._has_errors = False
        if self._params.follower is not None:
            self._params = msgspec.structs.replace(self._params, follower=None)
        self._look()
        return self._answer()

    def overtaken(self) -> FetchResponse:
        """See `delayed_fetch.WaitingFetch`."""
        return FetchResponse(0, ErrorCode.INVALID_FETCH_SESSION_EPOCH, self._session.id)

    def _finds_nothing_to_read(self) -> bool:
        """Whether all partitions of the session are unknown, or may not be read: no append would end a
        wait."""
        found = self._found
        return len(found) == len(self._session.wanted) and all(data.error_code for _, data in found)

    # The look.

    def _look(self) -> None:
        """Fill `_found` with what an answer would tell now."""
        params, session, is_incremental = self._params, self._session, self.is_incremental
        found = self._found = []
        quiet: list[WantedPartition] = []
        budget = params.max_bytes
        read_committed = params.read_committed
        replica = self._replica
        selector = self._services.fetches.selector if params.rack else None
        total = 0
        for wanted in session.active.values():
            partition = self._find(wanted)
            if not isinstance(partition, Partition):
                self._has_errors = True
                found.append((wanted, _not_looked_at(wanted.index, partition)))
                continue
            partition.counters.total_fetch_requests += 1
            log = partition.log
            high_watermark = log.high_watermark
            start = log.log_start_offset
            if selector is not None and self._sends_away(selector, partition, wanted):
                continue
            records = fetch_records(params, partition, wanted, budget, not total)
            if budget < 0:
                budget = 0  # a negative limit spoils the first partition only
            aborted: list[FetchResponse.AbortedTransaction] | None = None
            if read_committed:
                records, aborted = _without_aborted(partition, wanted, records)
            if records is None:
                if (
                    is_incremental
                    and wanted.high_watermark == high_watermark == log.high_watermark
                    and wanted.log_start_offset == start
                ):
                    quiet.append(wanted)
                    continue
                records = b""
            elif isinstance(records, LogSlice):
                if replica is not None and replica.is_held_back(partition):
                    records = NO_ROOM
                else:
                    size_bytes = records.size_bytes
                    total += size_bytes
                    budget = budget - size_bytes if size_bytes < budget else 0
            elif not isinstance(records, bytes):
                found.append((wanted, self._unreadable(partition, wanted, records)))
                continue
            data = PartitionData(
                wanted.index,
                _NONE,
                high_watermark,
                log.last_stable_offset,
                start,
                None,
                None,
                None,
                aborted,
                NO_PREFERRED_REPLICA,
                records,
            )
            found.append((wanted, data))
        self.bytes_found = total
        for wanted in quiet:
            session.rest(wanted)

    def _sends_away(
        self, selector: RackAwareReplicaSelector, partition: Partition, wanted: WantedPartition
    ) -> bool:
        """Whether the consumer is told to read from another replica; it is told that at once."""
        services, listener = self._services, self._context.session.listener
        brokers = services.metadata.image.brokers.by_id
        preferred = selector.select(partition, self._params.rack, wanted.fetch_offset, brokers, listener)
        if preferred == NO_PREFERRED_REPLICA or partition.refusal(wanted.current_leader_epoch):
            return False
        self._must_answer = True
        log = partition.log
        data = PartitionData(
            wanted.index,
            _NONE,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=preferred,
            records=b"",
        )
        self._found.append((wanted, data))
        return True

    def _find(self, wanted: WantedPartition) -> Partition | ErrorCode:
        """The hosted partition that this request may read, or what stands before that."""
        partition = wanted.partition
        if partition is None or not partition.is_leader:
            return self._look_up(wanted)
        if self._params.replica_id >= 0:
            if not self._context.allows_cluster(Operation.CLUSTER_ACTION):
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not self._context.allows(_READ, _TOPIC, wanted.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return partition

    def _look_up(self, wanted: WantedPartition) -> Partition | ErrorCode:
        """Finds a partition as `_find` does, from the beginning, because it was not looked up yet, has moved,
        or is gone."""
        services, context, session = self._services, self._context, self._session
        is_replica = self._params.replica_id >= 0
        by_id = session.uses_topic_ids
        hosted: Mapping[Any, Partition] = services.replicas.by_id if by_id else services.replicas.by_name
        partition = hosted.get(wanted.key)
        if partition is not None:
            wanted.name_topic(partition.topic)
        if is_replica and not context.allows_cluster(Operation.CLUSTER_ACTION):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if partition is None and by_id:
            name = services.metadata.topic_name(wanted.topic_id)
            if name is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            wanted.name_topic(name)
        if not is_replica and not context.allows(_READ, _TOPIC, wanted.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if partition is None:
            error = services.replicas.why_not_hosted(wanted.topic, wanted.index)
            self._must_answer = error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or self._must_answer
            return error
        session.found(wanted, partition)
        return partition

    def _unreadable(
        self, partition: Partition, wanted: WantedPartition, why: DivergingEpoch | ReadRefused
    ) -> FetchResponse.PartitionData:
        """What came up while reading is told at once."""
        self._must_answer = True
        if isinstance(why, DivergingEpoch):
            log = partition.log
            return PartitionData(
                wanted.index,
                _NONE,
                log.high_watermark,
                log.last_stable_offset,
                log.log_start_offset,
                diverging_epoch=FetchResponse.EpochEndOffset(why.epoch, why.end_offset),
                aborted_transactions=None,
                records=b"",
            )
        self._has_errors = True
        if why.error_code not in _KNOWN_ERRORS:
            partition.counters.failed_fetch_requests += 1
        if why.cause is not None:
            self._services.replicas.read_failed(partition, why.cause)
        return PartitionData(wanted.index, why.error_code, -1, -1, -1, None, None, None, None, -1, b"")

    # The answer.

    def _answer(self) -> FetchResponse:
        """The response for what the last look found; the session remembers what it was told."""
        session = self._session
        found = self._found
        throttle_ms = 0
        quotas = self._services.fetches.client_quotas
        if quotas is not None and self._replica is None and quotas.limits_fetches_of(self._context):
            is_given, throttle_ms = self._take_of_quota(quotas)
            if not is_given:
                return self._without_records(throttle_ms)
        if not self.is_incremental:
            if session.may_stay:
                fetches = self._services.fetches
                fetches.sessions.remember(session, now_ms=fetches.clock.monotonic_ms())
        elif session.epoch != self.epoch:
            return self.overtaken()
        topics: list[FetchResponse.FetchableTopicResponse] = []
        append: Callable[[FetchResponse.PartitionData], None] | None = None
        name: str | bytes | None = None
        for wanted, data in found:
            records = data.records
            if self.is_incremental and not (
                records
                or data.error_code
                or data.high_watermark != wanted.high_watermark
                or data.log_start_offset != wanted.log_start_offset
                or data.diverging_epoch is not None
                or data.preferred_read_replica != NO_PREFERRED_REPLICA
            ):
                continue
            if wanted.key[0] != name:
                name = wanted.key[0]
                partitions: list[FetchResponse.PartitionData] = []
                append = partitions.append
                topics.append(FetchResponse.FetchableTopicResponse(wanted.topic, wanted.topic_id, partitions))
            append(data)  # type: ignore[misc]
            if isinstance(records, LogSlice) and wanted.partition is not None:
                records.retain()
                if self._replica is None:
                    wanted.partition.counters.bytes_out += records.size_bytes
                else:
                    self._replica.is_sent(wanted.partition, records.size_bytes)
        if session.is_kept:
            session.settle(found)
        response = FetchResponse(throttle_ms, _NONE, session.id, topics)
        if self._has_errors:
            _in_words_of_the_version(self._services, self._context, response)
            if self._params.replica_id >= 0:
                response.node_endpoints = []  # followers know the brokers from the metadata log
        return response

    def _take_of_quota(self, quotas: ClientQuotas) -> tuple[bool, int]:
        """Whether the client's quota allows to give what was found, and for how long the client is throttled,
        in milliseconds."""
        topics = [
            FetchResponse.FetchableTopicResponse(topic, topic_id, [data for _, data in found])
            for (topic, topic_id), found in groupby(
                self._found, lambda each: (each[0].topic, each[0].topic_id)
            )
        ]
        size_bytes = frame_size_bytes(
            FetchResponse(0, _NONE, self._session.id, topics), self._context.version
        )
        return quotas.take_fetched(self._context, size_bytes)

    def _without_records(self, throttle_ms: int) -> FetchResponse:
        """The answer to a client that is over its quota. The session goes on as if nothing had been found; a
        full fetch gets none."""
        session = self._session
        if not self.is_incremental:
            return FetchResponse(throttle_ms, _NONE, NO_SESSION_ID)
        return (
            FetchResponse(throttle_ms, _NONE, session.id) if session.epoch == self.epoch else self.overtaken()
        )


def _without_aborted(
    partition: Partition, wanted: WantedPartition, records: FetchedRecords
) -> tuple[FetchedRecords, list[FetchResponse.AbortedTransaction]]:
    """For read_committed: the records, and the transactions whose records the client leaves out."""
    if not isinstance(records, LogSlice):
        return records, []
    aborted = aborted_transactions(partition, wanted.fetch_offset, records)
    if isinstance(aborted, ReadRefused):
        return aborted, []
    return records, [FetchResponse.AbortedTransaction(*each) for each in aborted]


def _not_looked_at(index: int, error: ErrorCode) -> FetchResponse.PartitionData:
    """A partition that is not allowed, or not there."""
    return PartitionData(index, int(error), -1, -1, -1, None, None, None, [], -1, b"")


def _in_words_of_the_version(
    services: FetchServices, context: RequestContext, response: FetchResponse
) -> None:
    """What a version says in other words, in an answer that holds errors."""
    version = context.version
    if version < FIRST_VERSION_WITH_STORAGE_ERROR:
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif version >= FIRST_VERSION_WITH_LEADERS:
        _add_leaders(services, context, response)


def _add_leaders(services: FetchServices, context: RequestContext, response: FetchResponse) -> None:
    """Adds the leaders and their addresses for those partitions whose leader the client does not know any
    more (KIP-951)."""
    metadata = services.metadata
    view = metadata.view(context.session.listener)
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
