"""A group coordinator with everything around it made by hand: clock, log, cluster, clients.

The log of `__consumer_offsets` is real batches in memory, so what was written can be loaded into another
coordinator. Appends are committed at once, or held back until a test commits or refuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from broker.coordinator.consumer.metadata_hash import topic_hash
from broker.coordinator.group_coordinator import GROUP_TOPIC, GroupCoordinator
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.group_shard import GroupShard
from broker.coordinator.ports import CoordinatorEndpoint
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.records.errors import CorruptRecord
from protocol.records.header import headers, patch_offset_and_epoch
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session
from protocol.serving.turns import run_through
from storage.append import AppendResult
from storage.errors import AppendRefused
from tests.support.rigs.authorizers import HandmadeAuthorizer
from tests.support.rigs.hand_clock import HandClock, HandTimers

PARTITIONS: Final = 50


class CountingRandomSource:
    """Randomness that counts: ids are different and the same in every run."""

    def __init__(self) -> None:
        self._count = 0

    def random_bytes(self, count: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(count, "big")

    def below(self, bound: int) -> int:
        return 0

    def fraction(self) -> float:
        return 0.0


class MemoryLog:
    """`PartitionWriter` and `PartitionReader` over lists of batches."""

    def __init__(self) -> None:
        self.batches: dict[tuple[str, int], list[bytes]] = {}
        self.transaction_versions: list[int] = []
        """That the appends were given, in their order."""
        self.held: list[Callable[[ErrorCode], None]] | None = None
        """Set to a list, appends wait in it for a verdict."""
        self.refusal = ErrorCode.NONE
        """Appends are refused with this, unless NONE."""
        self.unreadable = False
        self.failure: Exception | None = None
        """Appends raise it."""
        self.largest_batch_bytes = 2**31 - 1
        self.uncommitted: list[Callable[[ErrorCode], None]] | None = None
        """Who waits for what was found in the log to be committed; None: it is."""

    def await_committed(self, topic: str, index: int, on_result: Callable[[ErrorCode], None]) -> None:
        if self.uncommitted is None:
            on_result(ErrorCode.NONE)
        else:
            self.uncommitted.append(on_result)

    def append_internal(
        self,
        topic: str,
        index: int,
        batch: bytes,
        on_result: Callable[[AppendResult | AppendRefused], None],
        transaction_version: int = 0,
    ) -> None:
        if self.failure is not None:
            raise self.failure
        self.transaction_versions.append(transaction_version)
        too_large = len(batch) > self.largest_batch_bytes

        def decide(error: ErrorCode) -> None:
            error = error or self.refusal or (ErrorCode.MESSAGE_TOO_LARGE if too_large else ErrorCode.NONE)
            on_result(AppendRefused(error, "") if error else self._append(topic, index, batch))

        if self.held is None:
            decide(ErrorCode.NONE)
        else:
            self.held.append(decide)

    def _append(self, topic: str, index: int, batch: bytes) -> AppendResult:
        log = self.batches.setdefault((topic, index), [])
        offset = self.end_offset(topic, index)
        placed = bytearray(batch)
        patch_offset_and_epoch(placed, 0, offset, 0)
        log.append(bytes(placed))
        return AppendResult(offset, self.end_offset(topic, index) - 1, -1, 0)

    def end_offset(self, topic: str, index: int) -> int:
        log = self.batches.get((topic, index), [])
        return next(headers(log[-1]))[1].next_offset if log else 0

    def decide(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Commit, or refuse, the oldest append that is held back."""
        assert self.held
        self.held.pop(0)(error)

    def max_batch_bytes(self, topic: str, index: int) -> int:
        return self.largest_batch_bytes

    def read_batches(self, topic: str, index: int, from_offset: int, max_bytes: int) -> bytes:
        if self.unreadable:
            raise OSError("the disk does not answer")
        if from_offset > self.end_offset(topic, index):
            raise CorruptRecord(f"offset {from_offset} is beyond the log's end")
        data = b""
        for end_offset, batch in self._stored(topic, index):
            if end_offset > from_offset and (not data or len(data) < max_bytes):
                data += batch
        return data

    def _stored(self, topic: str, index: int) -> Iterator[tuple[int, bytes]]:
        """Each batch with the offset after it."""
        for batch in self.batches.get((topic, index), []):
            yield next(headers(batch))[1].next_offset, batch


class DamagedLog(MemoryLog):
    """A log whose batches say something else than they did when they were written: the reader finds them by
    where they were, as an index does."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged: dict[tuple[str, int], dict[int, bytes]] = {}
        """By place and by a batch's number what now stands there."""

    def _stored(self, topic: str, index: int) -> Iterator[tuple[int, bytes]]:
        changed = self.damaged.get((topic, index), {})
        for number, (end_offset, batch) in enumerate(super()._stored(topic, index)):
            yield end_offset, changed.get(number, batch)


class HandCluster:
    """`ClusterView` and `InternalTopics` with topics that tests put in."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {GROUP_TOPIC: PARTITIONS}
        self.endpoint: CoordinatorEndpoint | None = CoordinatorEndpoint(1, "broker.test", 9092)

    def topic_id(self, name: str) -> bytes | None:
        return name.encode().rjust(16, b"\0")[-16:] if name in self.topics else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name in self.topics if self.topic_id(name) == topic_id), None)

    def topic_names(self) -> list[str]:
        return list(self.topics)

    def topic_hash(self, name: str) -> int | None:
        topic_id = self.topic_id(name)
        return None if topic_id is None else topic_hash(topic_id, name, [()] * self.topics[name])

    @property
    def newest_topic_version(self) -> int:
        return len(self.topics)

    def partition_count(self, name: str) -> int | None:
        return self.topics.get(name)

    def leader_endpoint(self, topic: str, index: int, listener: str) -> CoordinatorEndpoint | None:
        return self.endpoint if listener == "PLAINTEXT" else None

    def ensure(self, topic: str) -> bool:
        return topic in self.topics


class HandAuthorizer(HandmadeAuthorizer):
    """Allows everything but what is in `denied`, as (operation, resource, name); a name of "*" is any."""

    def __init__(self) -> None:
        self.denied: set[tuple[Operation, ResourceType, str]] = set()

    def permits(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
        return not {(operation, resource, name), (operation, resource, "*")} & self.denied


class GroupWorld:
    """A coordinator that leads all partitions, and short words for what clients do."""

    def __init__(self, settings: GroupSettings | None = None, log: MemoryLog | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.log = log or MemoryLog()
        self.cluster = HandCluster()
        self.authorizer = HandAuthorizer()
        self.random_source = CountingRandomSource()
        self.groups = self.coordinator()
        self.lead_all(self.groups)

    def coordinator(self) -> GroupCoordinator:
        """Another broker's coordinator over the same log."""
        return GroupCoordinator(
            self.settings,
            writer=self.log,
            reader=self.log,
            cluster=self.cluster,
            topics=self.cluster,
            clock=self.clock,
            timers=self.timers,
            random_source=self.random_source,
        )

    def loaded_coordinator(self) -> GroupCoordinator:
        """Another broker's coordinator that has loaded the first partition from the log."""
        coordinator = self.coordinator()
        coordinator.elected(0, 0)
        self.timers.run_soon()
        return coordinator

    def lead_all(self, coordinator: GroupCoordinator) -> None:
        for partition in range(PARTITIONS):
            coordinator.elected(partition, 0)
        self.timers.run_soon()

    def restart(self) -> None:
        """The broker stops and another one takes over."""
        self.groups.close()
        self.groups = self.coordinator()
        self.lead_all(self.groups)

    def shard(self, group_id: str, coordinator: GroupCoordinator | None = None) -> GroupShard:
        runtime = (coordinator or self.groups)._runtime
        shard = dict(runtime.shards())[self.groups.partition_for(group_id)]
        assert shard is not None
        return shard

    def context(self, api_key: int = 0, version: int = 9, client_id: str = "client") -> RequestContext:
        session = Session("c-1", "PLAINTEXT", "127.0.0.1")
        return RequestContext(api_key, version, 1, client_id, session, self.clock.wall_ms(), self.authorizer)

    # What clients do. Answers that are not there yet come as Pending.

    def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"meta"),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
    ) -> JoinGroupResponse | Pending[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(*protocol) for protocol in protocols],
        )
        return self.groups.join(request, self.context(version=version))

    def new_id(self, group_id: str = "g", **options: Any) -> str:
        """The first of the two steps by which a dynamic member joins."""
        response = now(self.join(group_id, **options))
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return str(response.member_id)

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, *,
        group_id: str = "g", instance: str | None = None, protocol: str | None = None,
    ) -> SyncGroupResponse | Pending[SyncGroupResponse]:  # fmt: skip
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(*item) for item in (assignments or {}).items()
            ],
        )
        return self.groups.sync(request)

    def heartbeat(
        self, member_id: str, generation: int, *, group_id: str = "g", instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return ErrorCode(self.groups.heartbeat(request).error_code)

    def leave(self, *members: str | tuple[str, str], group_id: str = "g") -> LeaveGroupResponse:
        identities = [
            LeaveGroupRequest.MemberIdentity(*((member,) if isinstance(member, str) else member))
            for member in members
        ]
        response: LeaveGroupResponse = now(self.groups.leave(group_id, identities))
        return response

    def commit(
        self, offset: int, *, topic: str = "t", partition: int = 0, member_id: str = "", generation: int = -1,
        group_id: str = "g", version: int = 9, metadata: str | None = "", retention_ms: int = -1,
        instance: str | None = None,
    ) -> OffsetCommitResponse | Pending[OffsetCommitResponse]:  # fmt: skip
        entry = OffsetCommitRequest.OffsetCommitRequestPartition(partition, offset, 7, metadata)
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[entry])],
        )
        return run_through(self.groups.commit_offsets(request, version))

    def commit_error(self, offset: int, **options: Any) -> ErrorCode:
        return ErrorCode(now(self.commit(offset, **options)).topics[0].partitions[0].error_code)

    def committed(
        self, partition: int = 0, *, topic: str = "t", group_id: str = "g", stable: bool = False
    ) -> Any:
        """The fetched partition."""
        group = now(self.groups.fetch_offsets(group_id, [(topic, [partition])], require_stable=stable))
        assert group.error is ErrorCode.NONE
        return group.topics[0].partitions[0]

    def state(self, group_id: str = "g") -> str:
        return self.groups.describe(group_id, 5).group_state

    def stable_group(self, count: int = 2, group_id: str = "g", **options: Any) -> list[str]:
        """`count` dynamic members in generation 1, the first one leader, their ids as assignments."""
        members = [self.new_id(group_id, **options) for _ in range(count)]
        joins = [self.join(group_id, member, **options) for member in members]
        self.timers.advance(2 * self.settings.group_initial_rebalance_delay_ms)
        generations = {now(join).generation_id for join in joins}
        assert len(generations) == 1
        self.sync_all(members, generations.pop(), group_id)
        return members

    def sync_all(self, members: list[str], generation: int, group_id: str = "g") -> None:
        leader = self.shard(group_id).group_metadata.groups[group_id].leader_id
        assert leader is not None
        followers = [
            self.sync(member, generation, group_id=group_id) for member in members if member != leader
        ]
        shares = {member: member.encode() for member in members}
        leading = self.sync(leader, generation, shares, group_id=group_id)
        assert now(leading).error_code == 0
        assert all(now(follower).error_code == 0 for follower in followers)


def now(answer: Any) -> Any:
    """The response, which must be there."""
    if isinstance(answer, Pending):
        assert answer.response is not None, "the answer is not there yet"
        return answer.response
    return answer


def is_parked(answer: Any) -> bool:
    return isinstance(answer, Pending) and not answer.done
