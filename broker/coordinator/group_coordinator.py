"""The group coordinator as handlers and the composition root see it.

Requests come in decoded and authorized; each names an operation (a function of `classic/` or `offsets/`) and
the shard on which it runs, the one that its group hashes to. What comes back is a response, or a `Pending`
that is completed when others have come or records are committed. Leadership of `__consumer_offsets` and the
deletion of topics are told by the metadata publisher.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from broker.coordinator.classic.classic_group import ParkedJoin
from broker.coordinator.classic.describe import describe_group, list_groups
from broker.coordinator.classic.join import Joining, join_group
from broker.coordinator.classic.leave import leave_group
from broker.coordinator.classic.sync import heartbeat, sync_group
from broker.coordinator.consumer import classic_members
from broker.coordinator.consumer.classic_members import ClassicJoin
from broker.coordinator.consumer.consumer_group_requests import (
    ConsumerPorts,
    consumer_group_tombstones,
    fetch_refusal,
)
from broker.coordinator.consumer.describe_consumer_group import (
    describe_consumer_group,
    list_consumer_groups,
)
from broker.coordinator.consumer.heartbeat import Client, refused_request
from broker.coordinator.consumer.operation import ConsumerGroupSettings, GroupRefusal, TopicsView
from broker.coordinator.consumer.regexes import search_topics
from broker.coordinator.group_operation import GroupOperation, GroupSettings, fitted, join_error
from broker.coordinator.group_shard import GroupShard
from broker.coordinator.offsets.commit import commit_offsets, prepare_commit, refused_commit
from broker.coordinator.offsets.deletion import delete_group, delete_offsets
from broker.coordinator.offsets.fetch import FetchedGroup, failed_fetch, fetch_offsets
from broker.coordinator.offsets.transactional_commit import (
    PreparedTransactionalCommit,
    commit_in_transaction,
    plain_topic,
    refused_transactional_commit,
    transactional_answer,
)
from broker.coordinator.ports import (
    ClusterView,
    CoordinatorEndpoint,
    CurrentTime,
    InternalTopics,
    MetadataUpdate,
    PartitionReader,
    PartitionWriter,
    RuntimeSettings,
)
from broker.coordinator.runtime.coordinator_context import CoordinatorContext
from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from broker.coordinator.runtime.partitioning import CoordinatorPartitions
from broker.coordinator.runtime.pending_writes import Transaction
from broker.coordinator.runtime.result import CoordinatorResult
from config.ports import Clock, RandomSource, Timers
from controller.metadata.random_ids import random_uuid
from protocol.errors import EndsProcess, ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.describe_groups import DescribeGroupsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListGroupsResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from protocol.primitives import Uuid
from protocol.records.control import TransactionMarker
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns

LOG: Final = logging.getLogger("barnabas.groups")
GROUP_TOPIC: Final = "__consumer_offsets"
LOAD_SLICE_RECORDS: Final = 2_000
"""The number of records that are loaded in one turn of the loop: some ten milliseconds."""
R = TypeVar("R")
NOTHING_MATCHED: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})
NO_IDS: Final[Mapping[str, Uuid]] = MappingProxyType({})


def _no_overrides(_: str) -> Mapping[str, str]:
    return {}


class GroupCluster(ClusterView, TopicsView, Protocol):
    """What groups of both protocols need of the metadata cache."""


class GroupServices(Protocol):
    """What the group handlers need of the broker's services."""

    @property
    def groups(self) -> GroupCoordinator: ...


class GroupCoordinator:
    """Coordinates the groups of the partitions that this broker leads."""

    def __init__(
        self,
        settings: GroupSettings,
        *,
        writer: PartitionWriter,
        reader: PartitionReader,
        cluster: GroupCluster,
        topics: InternalTopics,
        clock: Clock,
        timers: Timers,
        random_source: RandomSource,
        group_overrides: Callable[[str], Mapping[str, str]] = _no_overrides,
    ) -> None:
        self.settings = settings
        self._timers = timers
        consumer_ports = self._consumer_ports = ConsumerPorts(settings.consumer, cluster, group_overrides)
        self.cluster = cluster
        self._clock = clock
        self._topics = topics
        self._partitions = CoordinatorPartitions(GROUP_TOPIC, cluster, settings.offsets_topic_partition_count)
        make_uuid = partial(random_uuid, random_source)
        self._runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            GROUP_TOPIC,
            lambda partition: GroupShard(partition, settings, make_uuid, consumer_ports),
            writer=writer,
            reader=reader,
            clock=clock,
            timers=timers,
            settings=RuntimeSettings(
                write_timeout_ms=settings.offsets_commit_timeout_ms,
                load_buffer_bytes=settings.offsets_load_buffer_bytes,
                slice_records=LOAD_SLICE_RECORDS,
            ),
        )

    @property
    def failures(self) -> int:
        """The number of exceptions of the broker, see `CoordinatorRuntime`."""
        return self._runtime.failures

    @property
    def contexts(self) -> Mapping[int, CoordinatorContext[GroupShard]]:
        """The partitions of `__consumer_offsets` that this broker leads; for those who watch."""
        return self._runtime.contexts

    # Cluster

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Called when this broker has become the leader of a partition of `__consumer_offsets`."""
        self._runtime.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """Called when it is not the leader any more, or (None) the partition is deleted."""
        self._runtime.resigned(partition, leader_epoch)

    def topics_changed(self, deleted: Mapping[str, Uuid], changed: frozenset[str] = frozenset()) -> None:
        """Forgets offsets of deleted topics, which are given by name with the id of the deleted one. Consumer
        groups look at topics that have changed."""
        if GROUP_TOPIC in changed:
            self._partitions.look()
        self._runtime.metadata_updated(MetadataUpdate(deleted, changed))

    def configure(self, consumer: ConsumerGroupSettings) -> None:
        """Takes over changed settings of consumer groups."""
        self._consumer_ports.settings = consumer

    def close(self) -> None:
        """Tells all waiting clients to look for another coordinator, because the broker stops."""
        self._runtime.close()

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` to which the group belongs."""
        return self._partitions.partition_for(group_id)

    def locate(self, group_id: str, listener: str) -> CoordinatorEndpoint | ErrorCode:
        """The group's coordinator at the address for clients of `listener`. Has the topic created on first
        use."""
        if not self._topics.ensure(GROUP_TOPIC):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        endpoint = self.cluster.leader_endpoint(GROUP_TOPIC, self.partition_for(group_id), listener)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if endpoint is None else endpoint

    # Members

    def join(
        self, request: JoinGroupRequest, context: RequestContext
    ) -> JoinGroupResponse | Pending[JoinGroupResponse]:
        version = context.version
        error = ErrorCode.NONE
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not self._is_session_timeout_allowed(request.session_timeout_ms):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        if error is not ErrorCode.NONE:
            return fitted(join_error(request.member_id, error), version)
        waiting: Pending[JoinGroupResponse] = Pending()
        protocols: dict[str, bytes] = {}
        for protocol in request.protocols:
            protocols.setdefault(protocol.name, bytes(protocol.metadata))
        joining = Joining(
            parked=ParkedJoin(waiting, version),
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            client_id=context.client_id,
            client_host=f"/{context.session.host}",
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple(protocols.items()),
            reason=request.reason or "no reason given",
        )
        return self._write(
            request.group_id,
            lambda shard, operation: self._join(shard, request.group_id, joining, operation),
            lambda error: fitted(join_error("", error), version),
            waiting,
        )

    def _join(
        self, shard: GroupShard, group_id: str, joining: Joining, operation: GroupOperation
    ) -> JoinGroupResponse | None:
        """Handles a JoinGroup. An empty consumer group of that name is replaced by a classic one; one with
        members takes a classic member in."""
        consumer = shard.group_metadata.consumers.get(group_id)
        if consumer is not None and consumer.members:
            asked = classic_join(joining)
            answer = shard.consumers.run(
                consumer, operation, lambda begun: classic_members.join(consumer, asked, begun)
            )
            return fitted(answer, joining.version)
        if consumer is not None and not joining.member_id:
            operation.result.records.extend(consumer_group_tombstones(consumer))
        join_group(shard.group_metadata, group_id, joining, operation)
        return None

    def _is_session_timeout_allowed(self, session_timeout_ms: int) -> bool:
        settings = self.settings
        return (
            settings.group_min_session_timeout_ms
            <= session_timeout_ms
            <= settings.group_max_session_timeout_ms
        )

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse | Pending[SyncGroupResponse]:
        if not request.group_id:
            return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        waiting: Pending[SyncGroupResponse] = Pending()
        return self._write(
            request.group_id,
            lambda shard, operation: self._sync(shard, request, waiting, operation),
            lambda error: SyncGroupResponse(error_code=error),
            waiting,
        )

    def _sync(
        self,
        shard: GroupShard,
        request: SyncGroupRequest,
        waiting: Pending[SyncGroupResponse],
        operation: GroupOperation,
    ) -> SyncGroupResponse | None:
        consumer = shard.group_metadata.consumers.get(request.group_id)
        if consumer is not None:
            return shard.consumers.run(
                consumer, operation, lambda begun: classic_members.sync(consumer, request, begun)
            )
        sync_group(shard.group_metadata, request, waiting, operation)
        return None

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        if not request.group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        error = self._runtime.read(
            self.partition_for(request.group_id),
            lambda shard, now: _heartbeat(shard, request, shard.begin(now, request.group_id)),
            _same,
        )
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Nothing is known of the member yet, so nothing is wrong with it.
            error = ErrorCode.NONE
        return HeartbeatResponse(error_code=error)

    def leave(
        self, group_id: str, members: list[LeaveGroupRequest.MemberIdentity]
    ) -> LeaveGroupResponse | Pending[LeaveGroupResponse]:
        if not group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        return self._write(
            group_id,
            lambda shard, operation: _leave(shard, group_id, members, operation),
            lambda error: LeaveGroupResponse(error_code=error),
        )

    # Members of consumer groups

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse | Pending[ConsumerGroupHeartbeatResponse]:
        refused = refused_request(request, context.version, self.settings.consumer.group_consumer_assignors)
        if refused is not None:
            return ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message)
        client = Client(context.client_id, f"/{context.session.host}")
        group_id = request.group_id
        asks_for_expressions = False

        def beat(shard: GroupShard, operation: GroupOperation) -> ConsumerGroupHeartbeatResponse:
            nonlocal asks_for_expressions
            answer = shard.consumers.heartbeat(request, client, operation)
            asks_for_expressions = group_id in shard.consumers.to_resolve
            return answer

        response = self._write(group_id, beat, lambda error: ConsumerGroupHeartbeatResponse(error_code=error))
        if asks_for_expressions:
            self._look_at_expressions(group_id, context)
        return response

    def _look_at_expressions(self, group_id: str, context: RequestContext) -> None:
        """Matches the expressions that a heartbeat has asked for, in later turns of the loop. Only topics are
        matched that the client may describe."""
        partition = self.partition_for(group_id)
        expressions = self._runtime.read(
            partition, lambda shard, _: shard.consumers.take_expressions(group_id), lambda _: NOTHING_MATCHED
        )
        if not expressions:
            return
        may_describe = partial(context.may_see, Operation.DESCRIBE, ResourceType.TOPIC)
        search = search_topics(expressions, self.cluster, may_describe, self._clock.wall_ms())

        def go_on() -> None:
            found = None
            try:
                next(search)
            except StopIteration as end:
                found = end.value
            except EndsProcess:
                raise
            except Exception:
                self._runtime.shard_failed()
                LOG.exception("group %s: a search for topics failed; this is our fault", group_id)
            else:
                self._timers.call_soon(go_on)
                return
            self._write(
                group_id,
                lambda shard, operation: shard.consumers.searched(group_id, found, operation),
                lambda _: ErrorCode.NONE,
            )

        self._timers.call_soon(go_on)

    # Offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, version: int
    ) -> Turns[OffsetCommitResponse | Pending[OffsetCommitResponse]]:
        """Commits in turns (see `protocol.serving.turns`). Every topic in the request has a name, exists and
        may be committed to."""
        most_bytes = self._runtime.max_batch_bytes(self.partition_for(request.group_id))
        prepared = yield from prepare_commit(request, self.settings, self._clock.wall_ms(), most_bytes)
        return self._write(
            request.group_id,
            lambda shard, operation: commit_offsets(
                shard.group_metadata, request, version, prepared, operation, self.cluster
            ),
            lambda error: refused_commit(request, error),
        )

    def prepare_transactional_commit(
        self, request: TxnOffsetCommitRequest
    ) -> Turns[PreparedTransactionalCommit]:
        """What `commit_in_transaction` writes, made in turns. Every topic in the request exists and may be
        committed to."""
        plain = OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
        )
        for topic in request.topics:
            plain.topics.append(plain_topic(topic))
            yield None
        most_bytes = self._runtime.max_batch_bytes(self.partition_for(request.group_id))
        prepared = yield from prepare_commit(plain, self.settings, self._clock.wall_ms(), most_bytes)
        return PreparedTransactionalCommit(plain, prepared, transactional_answer(prepared))

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, prepared: PreparedTransactionalCommit
    ) -> TxnOffsetCommitResponse | Pending[TxnOffsetCommitResponse]:
        """Commits offsets that count when the producer's transaction is committed."""

        def commit(shard: GroupShard, operation: GroupOperation) -> TxnOffsetCommitResponse:
            taken = commit_in_transaction(shard.group_metadata, prepared, operation, self.cluster)
            return refused_transactional_commit(request, taken) if isinstance(taken, ErrorCode) else taken

        return self._write(
            request.group_id,
            commit,
            lambda error: refused_transactional_commit(request, error),
            transaction=Transaction(request.producer_id, request.producer_epoch),
        )

    def end_transaction(
        self, partition: int, producer: tuple[int, int], marker: TransactionMarker, version: int
    ) -> ErrorCode | Pending[ErrorCode]:
        """Writes the marker of a producer's transaction into a partition of `__consumer_offsets`: what the
        transaction has committed here counts from now on, or is dropped. producer: its id and epoch. version:
        the version of transactions with which it was ended."""
        return self._runtime.write(
            partition,
            lambda _, __: CoordinatorResult(ErrorCode.NONE),
            _same,
            transaction=Transaction(*producer, marker, version),
        )

    def fetch_offsets(
        self,
        group_id: str,
        wanted: Sequence[tuple[str, list[int]]] | None,
        *,
        require_stable: bool,
        topic_ids: Mapping[str, Uuid] = NO_IDS,
        member: tuple[str | None, int] = (None, -1),
    ) -> FetchedGroup | Pending[FetchedGroup]:
        """The committed offsets by topic name and partition; all of them if `wanted` is None. `topic_ids` are
        those by which the client named its topics. `member` is its id and epoch if it is one of a consumer
        group."""
        return self._write(
            group_id,
            lambda shard, _: (
                _refused_fetch(shard, group_id, member)
                or fetch_offsets(shard.offset_metadata, group_id, wanted, topic_ids, require_stable)
            ),
            failed_fetch,
        )

    # Administration

    def describe(self, group_id: str, version: int) -> DescribeGroupsResponse.DescribedGroup:
        return self._runtime.read(
            self.partition_for(group_id),
            lambda shard, _: describe_group(
                group_id,
                shard.group_metadata.get(group_id),
                version,
                exists=shard.group_metadata.exists(group_id),
            ),
            lambda error: DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=error),
        )

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescribeResponse.DescribedGroup:
        default = self.settings.consumer.group_consumer_assignors[0]
        return self._runtime.read(
            self.partition_for(group_id),
            lambda shard, _: describe_consumer_group(
                group_id,
                shard.group_metadata.consumers.get(group_id),
                default,
                self.cluster,
                exists=shard.group_metadata.exists(group_id),
            ),
            lambda error: ConsumerGroupDescribeResponse.DescribedGroup(group_id=group_id, error_code=error),
        )

    def loaded_partitions(self) -> list[int]:
        """The partitions of the coordinator's topic that are led here and loaded, in order."""
        return [index for index, shard in self._runtime.shards() if shard is not None]

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> ListGroupsResponse:
        """The groups of all partitions that are led here; an error while one of them is loading."""
        response = ListGroupsResponse()
        for _, shard in self._runtime.shards():
            if shard is None:
                return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            response.groups.extend(list_groups(shard.group_metadata.groups.values(), states, types))
            consumers = shard.group_metadata.consumers.groups.values()
            response.groups.extend(list_consumer_groups(consumers, states, types))
        return response

    def delete_group(self, group_id: str) -> ErrorCode | Pending[ErrorCode]:
        """Deletes an empty group and its offsets."""
        return self._write(
            group_id,
            lambda shard, operation: delete_group(
                shard.group_metadata, shard.offset_metadata, group_id, operation
            ),
            _same,
        )

    def delete_offsets(
        self, request: OffsetDeleteRequest
    ) -> OffsetDeleteResponse | Pending[OffsetDeleteResponse]:
        """Deletes offsets of a group, except those of topics to which it subscribes."""
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        return self._write(
            request.group_id,
            lambda shard, operation: delete_offsets(
                shard.group_metadata, shard.offset_metadata, request, operation
            ),
            lambda error: OffsetDeleteResponse(error_code=error),
        )

    def _write(
        self,
        group_id: str,
        operation: Callable[[GroupShard, GroupOperation], R | None],
        failed: Callable[[ErrorCode], R],
        waiting: Pending[R] | None = None,
        transaction: Transaction | None = None,
    ) -> R | Pending[R]:
        """Runs an operation on the group's shard. It returns the response, or None if it answers `waiting`;
        an operation on a consumer group may also refuse. transaction: the one to which its records belong."""

        def run(shard: GroupShard, now: CurrentTime) -> CoordinatorResult[R]:
            begun = shard.begin(now, group_id)
            try:
                begun.result.response = operation(shard, begun)
            except GroupRefusal as refusal:
                begun.result.response = failed(refusal.code)
            return begun.result

        return self._runtime.write(
            self.partition_for(group_id), run, failed, waiting=waiting, transaction=transaction
        )


def _heartbeat(shard: GroupShard, request: HeartbeatRequest, operation: GroupOperation) -> ErrorCode:
    consumer = shard.group_metadata.consumers.get(request.group_id)
    if consumer is not None:
        try:
            return shard.consumers.run(
                consumer, operation, lambda begun: classic_members.heartbeat(consumer, request, begun)
            )
        except GroupRefusal as refusal:
            return refusal.code
    return heartbeat(shard.group_metadata, request, operation)


def _leave(
    shard: GroupShard,
    group_id: str,
    members: list[LeaveGroupRequest.MemberIdentity],
    operation: GroupOperation,
) -> LeaveGroupResponse:
    consumer = shard.group_metadata.consumers.get(group_id)
    if consumer is not None:
        return shard.consumers.run(
            consumer, operation, lambda begun: classic_members.leave(consumer, members, begun)
        )
    return leave_group(shard.group_metadata, group_id, members, operation)


def classic_join(joining: Joining) -> ClassicJoin:
    """A JoinGroup in the form in which consumer groups take it."""
    return ClassicJoin(
        version=joining.version,
        member_id=joining.member_id,
        instance_id=joining.group_instance_id,
        client=Client(joining.client_id, joining.client_host),
        session_timeout_ms=joining.session_timeout_ms,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        protocol_type=joining.protocol_type,
        protocols=joining.protocols,
    )


def _refused_fetch(shard: GroupShard, group_id: str, member: tuple[str | None, int]) -> FetchedGroup | None:
    consumer = shard.group_metadata.consumers.get(group_id)
    error = ErrorCode.NONE if consumer is None else fetch_refusal(consumer, *member)
    return None if error is ErrorCode.NONE else failed_fetch(error)


def _same(error: ErrorCode) -> ErrorCode:
    return error
