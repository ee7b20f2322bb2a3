"""One raft node with its log in memory, driven by hand: every Ready is executed at once.

`RaftRig` is for the rules of one node: it is given messages and says what it wants sent. `RaftQuorum` joins
several by wires without delay, for what only a whole quorum shows. Neither loses or reorders anything: that
is the simulator's work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from config.ports import RandomSource
from controller.raft.config import RaftConfig
from controller.raft.effects import (
    AdvanceLogStart,
    Answer,
    Append,
    DropPart,
    HardState,
    InstallSnapshot,
    Ready,
    Request,
    SnapshotChunk,
    Truncate,
)
from controller.raft.identity import Address, LeaderAndEpoch, ReplicaKey, SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.node import RaftNode
from controller.raft.transitions import Role
from controller.raft.voters import Voter, VoterSet
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.quorum import VotersRecord
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import headers
from tests.support.rigs.storage_world import NoRandomSource

LISTENER = "CONTROLLER"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
M = TypeVar("M", bound=Message)


def directory(node_id: int, life: int = 0) -> bytes:
    return bytes([max(node_id, 0), life]) + bytes(14)


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, directory(node_id))


def address(node_id: int) -> Address:
    return Address(f"host{node_id}", 9000 + node_id)


def voter(node_id: int) -> Voter:
    return Voter(key(node_id), MappingProxyType({LISTENER: address(node_id)}))


def voters_record(*node_ids: int) -> VotersRecord:
    return VoterSet.of(voter(node_id) for node_id in node_ids).to_record()


def data_batch(*values: bytes, base_offset: int = 0, epoch: int = 0) -> bytearray:
    records = [SimpleRecord(value=value, timestamp=0) for value in values or (b"x",)]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch)


class MemoryLog:
    """`RaftLog` in memory. batches: (base offset, end offset, epoch, bytes), in order."""

    def __init__(self, snapshots: dict[SnapshotId, SnapshotControl] | None = None) -> None:
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.start_offset = 0
        self.end_offset = 0
        self.controls = dict(snapshots or {})
        self.contents: dict[SnapshotId, bytes] = {}
        self.part = bytearray()

    def epochs(self) -> Sequence[tuple[int, int]]:
        entries: list[tuple[int, int]] = []
        for base_offset, _, epoch, _ in self.batches:
            if not entries or entries[-1][0] < epoch:
                entries.append((epoch, base_offset))
        return entries

    def read(self, offset: int, max_bytes: int) -> bytes:
        return self.read_bytes(offset, max_bytes)

    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        content = b""
        for _, end_offset, _, batch in self.batches:
            if end_offset > offset:
                if content and len(content) + len(batch) > max_bytes:
                    break
                content += batch
        return content

    def snapshots(self) -> Sequence[SnapshotId]:
        return sorted(self.controls)

    def snapshot_control(self, snapshot: SnapshotId) -> SnapshotControl:
        return self.controls[snapshot]

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        return self.contents[snapshot][position : position + max_bytes]

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        return len(self.contents[snapshot]) if snapshot in self.contents else None

    # The driver's side

    def append(self, records: bytes) -> None:
        for position, header in headers(records):
            assert header.base_offset == self.end_offset
            batch = records[position : position + header.size_bytes]
            self.batches.append((self.end_offset, header.next_offset, header.partition_leader_epoch, batch))
            self.end_offset = header.next_offset

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch[1] <= offset]
        self.end_offset = self.batches[-1][1] if self.batches else self.start_offset
        assert self.end_offset == offset, "a log is cut between batches"

    def advance_start(self, offset: int) -> None:
        self.start_offset = offset
        self.batches = [batch for batch in self.batches if batch[1] > offset]

    def install(self, snapshot: SnapshotId, control: SnapshotControl) -> None:
        self.controls[snapshot] = control
        self.contents[snapshot] = bytes(self.part)
        self.batches.clear()
        self.start_offset = self.end_offset = snapshot.end_offset


class RaftRig:
    """A node and what it has done. `sent` and `answers` grow until they are taken."""

    def __init__(
        self,
        node_id: int = 1,
        voters: Sequence[int] = (1, 2, 3),
        *,
        static: bool = False,
        log: MemoryLog | None = None,
        hard_state: HardState | None = None,
        now_ms: int = 1_000,
        auto_sync: bool = True,
        install: Callable[[bytes], SnapshotControl | None] | None = None,
        random_source: RandomSource | None = None,
        **settings: Any,
    ) -> None:
        if log is None:
            control = SnapshotControl(1, voters_record(*voters))
            log = MemoryLog() if static or not voters else MemoryLog({SnapshotId(0, 0): control})
        self.log = log
        self.now_ms = now_ms
        self.auto_sync = auto_sync
        self.hard_state = hard_state
        self.sent: list[Request] = []
        self.answers: dict[object, Message] = {}
        self.announced: list[LeaderAndEpoch] = []
        self.unsynced = 0
        self.wake_at_ms = 0
        self._install = install
        addresses = {each: address(each) for each in voters} if static else {}
        self.config = RaftConfig(
            node=key(node_id),
            cluster_id=CLUSTER_ID,
            listener=LISTENER,
            endpoints=MappingProxyType({LISTENER: address(node_id)}),
            static_voters=MappingProxyType(addresses),
        )
        if settings:
            self.config = msgspec.structs.replace(self.config, **settings)
        self.node = RaftNode(self.config, log, hard_state, random_source or NoRandomSource())
        self.execute(self.node.start(now_ms))

    def execute(self, ready: Ready) -> None:
        if ready.hard_state is not None:
            self.hard_state = ready.hard_state
        installing = None
        for operation in ready.log:
            match operation:
                case Append():
                    assert operation.base_offset == self.log.end_offset
                    self.log.append(operation.records)
                    assert operation.end_offset == self.log.end_offset
                case Truncate():
                    self.log.truncate(operation.offset)
                case SnapshotChunk():
                    if operation.position == 0:
                        self.log.part.clear()
                    assert len(self.log.part) == operation.position
                    self.log.part += operation.content
                case DropPart():
                    assert self.log.part, "what was received is given up"
                    self.log.part.clear()
                case InstallSnapshot():
                    installing = operation.snapshot
                case AdvanceLogStart():
                    self.log.advance_start(operation.snapshot.end_offset)
        for message in ready.messages:
            if isinstance(message, Request):
                self.sent.append(message)
            else:
                assert isinstance(message, Answer)
                assert message.token not in self.answers, "one answer for each request"
                self.answers[message.token] = message.message
        if ready.leader is not None:
            self.announced.append(ready.leader)
        self.wake_at_ms = ready.wake_at_ms
        if installing is not None:
            control = self._install(bytes(self.log.part)) if self._install else SnapshotControl()
            if control is not None:
                self.log.install(installing, control)
            self.execute(self.node.snapshot_installed(installing, control, self.now_ms))
        if ready.sync:
            self.unsynced = ready.sync
            if self.auto_sync:
                self.sync()

    def sync(self) -> None:
        sync, self.unsynced = self.unsynced, 0
        if sync:
            self.execute(self.node.log_synced(sync, self.now_ms))

    # What happens to it

    def tick(self, milliseconds: int = 0) -> None:
        self.now_ms += milliseconds
        self.execute(self.node.tick(self.now_ms))

    def wake(self) -> None:
        """To the moment that it asked for."""
        self.now_ms = max(self.now_ms, self.wake_at_ms)
        self.execute(self.node.tick(self.now_ms))

    def ask(self, message: Message, **how: Any) -> Message | None:
        """A request comes in; its answer, or None while it waits (then `answers` has it later, by 0, 1,
        …)."""
        token = object()
        self.execute(self.node.receive_request(token, message, self.now_ms, **how))
        self.last_token = token
        return self.answers.pop(token, None)

    def take(self, kind: type[M]) -> list[tuple[Request, M]]:
        """The requests of this kind that were sent, oldest first; they are taken out."""
        taken = [(each, each.message) for each in self.sent if isinstance(each.message, kind)]
        self.sent = [each for each in self.sent if not isinstance(each.message, kind)]
        return taken

    def take_one(self, kind: type[M]) -> tuple[Request, M]:
        """The newest of this kind; older ones were for an earlier role."""
        taken = self.take(kind)
        assert taken, f"no {kind.__name__} was sent"
        return taken[-1]

    def respond(self, request: Request, message: Message) -> None:
        self.execute(self.node.receive_response(request.request_id, message, self.now_ms))

    def fail(self, request: Request, error: ErrorCode = ErrorCode.NETWORK_EXCEPTION) -> None:
        self.execute(self.node.request_failed(request.request_id, error, self.now_ms))

    def append(self, *values: bytes) -> None:
        batch = data_batch(*values)
        self.execute(self.node.append(self.node.epoch, batch, self.now_ms))


class Stubborn:
    """Chance that says the same again and again, and something else to each node."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def random_bytes(self, count: int) -> bytes:
        return bytes([self._node_id]) * count

    def below(self, bound: int) -> int:
        return self._node_id * bound // 10

    def fraction(self) -> float:
        return self._node_id / 10


def quorum_of(*node_ids: int, **settings: Any) -> RaftQuorum:
    """The voters of a new quorum, none of them elected yet."""
    return RaftQuorum(
        [RaftRig(each, node_ids, random_source=Stubborn(each), **settings) for each in node_ids]
    )


class RaftQuorum:
    """Rigs joined by wires; `cut` has the pairs of ids between which nothing passes."""

    def __init__(self, rigs: Sequence[RaftRig]) -> None:
        self.rigs = {rig.config.node.id: rig for rig in rigs}
        self.cut: set[frozenset[int]] = set()
        self.log: list[tuple[int, int, Message]] = []
        """(from, to, message), requests and answers as they were carried."""
        self._waiting: dict[tuple[int, int], Request] = {}

    def rig(self, node_id: int) -> RaftRig:
        return self.rigs[node_id]

    def _owner(self, request: Request) -> int:
        return request.to.port - 9000

    def deliver(self) -> None:
        """Until nobody has anything to send."""
        for _ in range(10_000):
            moved = False
            for source, rig in list(self.rigs.items()):
                while rig.sent:
                    self._carry(source, rig, rig.sent.pop(0))
                    moved = True
            for target, rig in self.rigs.items():
                for token in [token for token in rig.answers if isinstance(token, tuple)]:
                    source, _ = token
                    answer = rig.answers.pop(token)
                    request = self._waiting.pop(token)
                    self.log.append((target, source, answer))
                    if source in self.rigs and frozenset((source, target)) not in self.cut:
                        self.rigs[source].respond(request, answer)
                    moved = True
            if not moved:
                return
        raise AssertionError("they never come to rest")

    def _carry(self, source: int, rig: RaftRig, request: Request) -> None:
        target = self._owner(request)
        self.log.append((source, target, request.message))
        if target not in self.rigs or frozenset((source, target)) in self.cut:
            rig.fail(request)
        elif isinstance(request.message, ApiVersionsRequest):
            feature = ApiVersionsResponse.SupportedFeatureKey("kraft.version", 0, 1)
            rig.respond(request, ApiVersionsResponse(supported_features=[feature]))
        else:
            other = self.rigs[target]
            token = (source, request.request_id)
            self._waiting[token] = request
            other.execute(other.node.receive_request(token, request.message, other.now_ms))

    def run(self, milliseconds: int) -> None:
        """Time passes for all, from wake-up to wake-up."""
        end_ms = max(rig.now_ms for rig in self.rigs.values()) + milliseconds
        self.deliver()
        for _ in range(100_000):
            now_ms = min(max(rig.wake_at_ms, rig.now_ms) for rig in self.rigs.values())
            if now_ms > end_ms:
                break
            for rig in self.rigs.values():
                rig.now_ms = max(rig.now_ms, now_ms)
                if rig.wake_at_ms <= rig.now_ms:
                    rig.tick()
            self.deliver()
        for rig in self.rigs.values():
            rig.now_ms = max(rig.now_ms, end_ms)
            rig.tick()
        self.deliver()

    def leader(self) -> RaftRig:
        leaders = [rig for rig in self.rigs.values() if rig.node.leader.leader_id == rig.config.node.id]
        leaders = [rig for rig in leaders if rig.node.role.name == "LEADER"]
        assert leaders, {node_id: rig.node.role for node_id, rig in self.rigs.items()}
        return max(leaders, key=lambda rig: rig.node.epoch)


def elected(node_id: int = 1, voters: Sequence[int] = (1, 2, 3), **settings: Any) -> RaftRig:
    """A node that has won its first election by all votes; its LeaderChange is not committed."""
    rig = RaftRig(node_id, voters, **settings)
    win_election(rig)
    return rig


def win_election(rig: RaftRig) -> None:
    """Lets time pass until it stands, and gives it all votes; it leads then."""
    for _ in range(20):
        rig.take(FetchRequest)
        votes = rig.take(VoteRequest)
        if not votes:
            rig.wake()
        for request, _ in votes:
            partition = VoteResponse.PartitionData(
                leader_id=-1, leader_epoch=rig.node.epoch, vote_granted=True
            )
            topic = VoteResponse.TopicData(topic_name="__cluster_metadata", partitions=[partition])
            rig.respond(request, VoteResponse(topics=[topic]))
        if rig.node.role is Role.LEADER:
            return
    raise AssertionError(f"it does not become the leader: {rig.node.role}")
