"""One replica of the metadata quorum: every input is a method, every method returns a `Ready`.

Requests and responses are the wire's own messages (Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch,
FetchSnapshot, ApiVersions, AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter); records are batches as they lie
in the log. `now_ms` is monotonic and never falls; `wall_offset_ms`, which the driver may set at any time,
makes wall time of it for what leaves the node as a timestamp.

An input is handled in two steps: what it is about, by the module that knows it; then whatever is due in the
role that the replica has now (`poll_…`), until nothing is due at this moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from config.ports import RandomSource
from controller.raft import elections, epochs, following, joining, leading, membership, serving
from controller.raft.config import RaftConfig
from controller.raft.effects import HardState, Ready
from controller.raft.identity import NOBODY, LeaderAndEpoch, Peer, ReplicaKey, SnapshotId
from controller.raft.log_port import RaftLog, SnapshotControl
from controller.raft.log_view import Fit
from controller.raft.membership import VersionChangeRefused
from controller.raft.progress import forget_silent_observers
from controller.raft.replica import Replica
from controller.raft.role_changes import become_resigned
from controller.raft.roles import NEVER, Follower, Leader, Progress
from controller.raft.starting import begin_life
from controller.raft.transitions import Role
from controller.raft.voters import VoterSet
from controller.raft.wire import Caller
from protocol.codec.message import Message
from protocol.errors import ErrorCode, invariant
from protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from protocol.messages.vote import VoteRequest, VoteResponse

__all__ = ["NotLeading", "RaftNode", "VersionChangeRefused"]

NEWEST_VERSION: Final = 32767
MOST_TURNS: Final = 8
"""The number of role changes that one input can cause at most: unattached, prospective, candidate, leader,
resigned, and some more."""


class NotLeading(Exception):
    """This node does not lead that epoch, or not any more. Nothing has been appended."""


_REQUESTS: Final[Mapping[type[Message], Callable[[Replica, Caller, Any], None]]] = MappingProxyType(
    {
        VoteRequest: elections.handle_vote,
        BeginQuorumEpochRequest: epochs.handle_begin,
        EndQuorumEpochRequest: epochs.handle_end,
        FetchRequest: serving.handle_fetch,
        FetchSnapshotRequest: serving.handle_fetch_snapshot,
        AddRaftVoterRequest: membership.handle_add,
        RemoveRaftVoterRequest: membership.handle_remove,
        UpdateRaftVoterRequest: membership.handle_update,
    }
)

_POLLS: Final[Mapping[Role, Callable[[Replica], int]]] = MappingProxyType(
    {
        Role.UNATTACHED: following.poll_unattached,
        Role.PROSPECTIVE: elections.poll_prospective,
        Role.CANDIDATE: elections.poll_candidate,
        Role.LEADER: leading.poll_leader,
        Role.FOLLOWER: following.poll_follower,
        Role.RESIGNED: epochs.poll_resigned,
    }
)


class RaftNode:
    """The state of one replica. After a crash a new one is made from what is on the disk.

    The properties may be read at any time; the simulator's checkers do so after every event.
    """

    __slots__ = ("_replica", "is_shut_down")

    def __init__(
        self, config: RaftConfig, log: RaftLog, hard_state: HardState | None, random_source: RandomSource
    ) -> None:
        """hard_state: the content of quorum-state, None if there is no such file. Reads the control records
        of the log. Everything that the log holds now must be durable."""
        self._replica = Replica(config, log, hard_state, random_source)
        self.is_shut_down = False
        """True when the node has shut down. No input has an effect any more."""

    # The state

    @property
    def key(self) -> ReplicaKey:
        """The id and the directory id of this replica."""
        return self._replica.key

    @property
    def role(self) -> Role:
        return self._replica.role

    @property
    def is_observer(self) -> bool:
        """Whether this replica is not among the voters, as far as its own log or its config tells."""
        return not self._replica.is_voter

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader of the epoch that this replica knows. A leader names itself from its election on,
        whether a record of its epoch is committed or not."""
        return LeaderAndEpoch(self._replica.leader_id, self._replica.epoch)

    @property
    def leader_peer(self) -> Peer | None:
        """The leader at the listener that controllers use. None while it is not known, or if it is this
        replica."""
        return None if self._replica.leader_id == self._replica.key.id else self._replica.leader_peer

    @property
    def voted(self) -> ReplicaKey | None:
        return self._replica.voted

    @property
    def log_start_offset(self) -> int:
        return self._replica.log.start_offset

    @property
    def end_offset(self) -> int:
        return self._replica.log.end_offset

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record in the log."""
        return self._replica.log.last_epoch

    @property
    def synced_offset(self) -> int:
        """Everything below it is durable: it was so when the node was made, or log_synced has told so."""
        return self._replica.log.synced_offset

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed, as far as this replica knows. At the start it is the end of the
        newest snapshot."""
        return self._replica.high_watermark

    @property
    def knows_high_watermark(self) -> bool:
        """Whether the high watermark was told since the start. Before that, `high_watermark` may be far below
        what is committed here."""
        return self._replica.knows_high_watermark

    @property
    def is_caught_up(self) -> bool:
        """Whether this log has everything that is committed, as far as the leader has told. A leader has it
        once it has announced itself."""
        state = self._replica.state
        if isinstance(state, Leader):
            return state.is_established
        return isinstance(state, Follower) and state.is_caught_up

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self._replica.log.latest_snapshot

    def snapshot_at(self, end_offset: int) -> SnapshotId | None:
        """The snapshot that ends at this offset, if the node was told of it."""
        return next((each for each in self._replica.log.snapshots if each.end_offset == end_offset), None)

    @property
    def voters(self) -> VoterSet:
        """The newest set of voters in the log, whether it is committed or not."""
        return self._replica.voters

    @property
    def kraft_version(self) -> int:
        return self._replica.history.version

    @property
    def wall_offset_ms(self) -> int:
        """How far the wall clock is ahead of the monotonic clock, in milliseconds."""
        return self._replica.wall_offset_ms

    @wall_offset_ms.setter
    def wall_offset_ms(self, offset_ms: int) -> None:
        self._replica.wall_offset_ms = offset_ms

    def progress(self, now_ms: int = 0) -> tuple[list[Progress], list[Progress]]:
        """The voters and the observers as the leader knows them, for DescribeQuorum. Both are empty on other
        replicas. Observers that have been silent for long before now_ms are forgotten."""
        state = self._replica.state
        if not isinstance(state, Leader):
            return [], []
        self._replica.now_ms = max(self._replica.now_ms, now_ms)
        forget_silent_observers(self._replica, state)
        return list(state.voters.values()), list(state.observers.values())

    def fit(self, offset: int, epoch: int) -> Fit:
        """Whether a log that ends at `offset` with a record of `epoch` is the beginning of this one."""
        return self._replica.log.fit(offset, epoch)

    def control_at(self, end_offset: int) -> SnapshotControl:
        """What a snapshot that ends at this offset must say of the kraft.version and the voters."""
        version, voters = self._replica.history.at(end_offset)
        return SnapshotControl(version, None if voters is None else voters.to_record())

    # Inputs of the driver

    def start(self, now_ms: int) -> Ready:
        """Begins the work of this replica. It is called once, before any other input."""
        self._replica.now_ms = now_ms
        begin_life(self._replica)
        return self._settle(now_ms)

    def tick(self, now_ms: int) -> Ready:
        """Time has passed. What was due at Ready.wake_at_ms is done, if its time has come."""
        return self._settle(now_ms)

    def receive_request(
        self,
        token: object,
        message: Message,
        now_ms: int,
        *,
        version: int = NEWEST_VERSION,
        listener: str = "",
    ) -> Ready:
        """A peer, an observer or an admin client sends a request. The answer comes with `token` in this Ready
        or in a later one, exactly once, or never if the node ends.

        version: the version of the API. listener: the name of the listener by which the request came, "" for
        that of the quorum.
        """
        handle = _REQUESTS.get(type(message))
        if handle is None:
            invariant(False, "a request that the quorum answers", kind=type(message).__name__)
        elif not self.is_shut_down:
            self._replica.now_ms = now_ms
            handle(self._replica, Caller(token, version, listener), message)
        return self._settle(now_ms)

    def receive_response(self, request_id: int, message: Message, now_ms: int) -> Ready:
        """The answer to a request that was sent since the start. An answer for which nobody waits any more is
        ignored."""
        replica = self._replica
        replica.now_ms = now_ms
        sent = replica.connections.end(request_id)
        if sent is not None and not self._handle_answer(sent.peer.id, sent.kind, sent.offset, message):
            replica.connections.pause(sent.peer.id, now_ms)
        return self._settle(now_ms)

    def _handle_answer(self, peer_id: int, kind: type[Message], offset: int, message: Message) -> bool:
        """Returns whether the answer is of use. If not, no requests are sent to the peer for a while."""
        replica = self._replica
        if isinstance(message, FetchResponse):
            return following.handle_fetch_answer(replica, offset, message)
        if isinstance(message, VoteResponse):
            return elections.handle_vote_answer(replica, peer_id, message)
        if isinstance(message, BeginQuorumEpochResponse):
            return epochs.handle_begin_answer(replica, message)
        if isinstance(message, EndQuorumEpochResponse):
            return epochs.handle_end_answer(replica, peer_id, message)
        if isinstance(message, FetchSnapshotResponse):
            return following.handle_fetch_snapshot_answer(replica, offset, message)
        if isinstance(message, ApiVersionsResponse):
            if replica.role is Role.LEADER:
                membership.handle_api_versions(replica, peer_id, message)
            return True
        if isinstance(message, UpdateRaftVoterResponse):
            return joining.handle_update_answer(replica, message)
        if isinstance(message, AddRaftVoterResponse | RemoveRaftVoterResponse):
            return True  # whether it is a voter now, the log will say
        invariant(False, "an answer to what was asked", asked=kind.__name__, got=type(message).__name__)
        return False

    def request_failed(self, request_id: int, error: ErrorCode, now_ms: int) -> Ready:
        """There will be no answer to a request. error: BROKER_NOT_AVAILABLE, NETWORK_EXCEPTION,
        REQUEST_TIMED_OUT, or UNSUPPORTED_VERSION if the peer cannot read the message."""
        self._replica.now_ms = now_ms
        self._fail(request_id, error)
        return self._settle(now_ms)

    def _fail(self, request_id: int, error: ErrorCode) -> None:
        replica = self._replica
        sent = replica.connections.end(request_id)
        if sent is None:
            return
        replica.connections.pause(sent.peer.id, replica.now_ms)
        if sent.kind is VoteRequest:
            elections.handle_vote_answer(replica, sent.peer.id, VoteResponse(error_code=error))
        elif sent.kind is FetchRequest:
            following.fetch_failed(replica, sent.peer.id, error)
        elif sent.kind is ApiVersionsRequest and replica.role is Role.LEADER:
            membership.add_refused(replica, error)

    def log_synced(self, sync: int, now_ms: int) -> Ready:
        """Everything is durable for which a Ready with this number of a sync has asked."""
        self._replica.log.synced(sync)
        if self._replica.role is Role.LEADER:
            leading.note_synced(self._replica)
        return self._settle(now_ms)

    def snapshot_installed(self, snapshot: SnapshotId, control: SnapshotControl | None, now_ms: int) -> Ready:
        """The outcome of an InstallSnapshot. control is None if the snapshot was broken."""
        self._replica.now_ms = now_ms
        following.install(self._replica, snapshot, control)
        return self._settle(now_ms)

    # Inputs of the controller

    def append(self, epoch: int, batches: bytearray, now_ms: int, *, is_news: bool = True) -> Ready:
        """Appends a batch of the controller, or several in a row. Their base offsets and leader epochs are
        patched in here; the first offset is `end_offset` before the call. Raises NotLeading.

        is_news: False for records that change nothing (KIP-835). That they are committed is then told with
        the next answer, and not by an answer of its own.
        """
        self.refuse_unless_leading(epoch)
        leading.append(self._replica, batches, is_news=is_news)
        return self._settle(now_ms)

    def refuse_unless_leading(self, epoch: int) -> None:
        """Raises NotLeading unless this replica leads that epoch and means to go on."""
        replica = self._replica
        if replica.role is not Role.LEADER or epoch != replica.epoch or replica.is_shutting_down:
            raise NotLeading(f"epoch {epoch} is not led here, {self.leader} is known")

    def snapshot_taken(self, snapshot: SnapshotId, now_ms: int) -> Ready:
        """The controller's snapshot is durable under its name. It holds only what is committed, and ends
        where a batch of snapshot.epoch does."""
        log = self._replica.log
        newest = log.snapshots[-1] if log.snapshots else SnapshotId(-1, -1)
        invariant(
            newest < snapshot and snapshot.end_offset <= self._replica.high_watermark,
            "a snapshot holds what is committed, and more than the one before",
            snapshot=snapshot, newest=newest, high_watermark=self._replica.high_watermark,
        )  # fmt: skip
        log.snapshot_taken(snapshot)
        return self._settle(now_ms)

    def advance_log_start(self, snapshot: SnapshotId, now_ms: int) -> Ready:
        """The log before this snapshot is not kept any longer, as the driver's retention has decided. The
        Ready holds an AdvanceLogStart."""
        replica = self._replica
        invariant(snapshot in replica.log.snapshots, "the log begins at a snapshot", snapshot=snapshot)
        if snapshot.end_offset > replica.log.start_offset:
            replica.log.advance_start(snapshot)
            replica.history.truncate_from_start(snapshot.end_offset)
        return self._settle(now_ms)

    def upgrade_kraft_version(self, epoch: int, version: int, *, validate_only: bool, now_ms: int) -> Ready:
        """Raises the kraft.version for an UpdateFeatures request at the leader: from 0 to 1 the voters are
        written into the log. Raises VersionChangeRefused and NotLeading."""
        self.check_kraft_version(epoch, version)
        self._replica.now_ms = now_ms
        if not validate_only:
            membership.upgrade_kraft_version(self._replica, version)
        return self._settle(now_ms)

    def check_kraft_version(self, epoch: int, version: int) -> None:
        """Raises what `upgrade_kraft_version` would raise now, and changes nothing."""
        self.refuse_unless_leading(epoch)
        membership.check_kraft_version(self._replica, version)

    def resign(self, epoch: int, now_ms: int) -> Ready:
        """Resigns because the controller cannot lead. Does nothing if the epoch is over."""
        replica = self._replica
        replica.now_ms = now_ms
        if replica.role is Role.LEADER and epoch == replica.epoch:
            become_resigned(replica)
        return self._settle(now_ms)

    def shut_down(self, timeout_ms: int, now_ms: int) -> Ready:
        """Shuts down in order: a leader tells the others which successors it prefers, and stays until another
        one leads or the time is over. Then `is_shut_down` is True, and there are no more effects."""
        if self._replica.shut_down_deadline_ms is None:
            self._replica.shut_down_deadline_ms = now_ms + timeout_ms
        return self._settle(now_ms)

    # What is due

    def _settle(self, now_ms: int) -> Ready:
        """Does what is due now, and returns the collected effects."""
        replica = self._replica
        replica.now_ms = now_ms
        if self.is_shut_down:
            return replica.take_ready(NEVER)
        for request_id in replica.connections.overdue(now_ms):
            self._fail(request_id, ErrorCode.REQUEST_TIMED_OUT)
        for _ in range(MOST_TURNS):
            turns = replica.turns
            wake_at_ms = _POLLS[replica.role](replica)
            if replica.turns == turns:
                break
        else:
            invariant(False, "a replica comes to rest", role=replica.role.name, epoch=replica.epoch)
        if replica.shut_down_deadline_ms is not None:
            self._end_if_nobody_needs_us(replica.shut_down_deadline_ms)
            wake_at_ms = min(wake_at_ms, replica.shut_down_deadline_ms)
        return replica.take_ready(wake_at_ms)

    def _end_if_nobody_needs_us(self, deadline_ms: int) -> None:
        replica = self._replica
        has_successor = replica.leader_id not in (NOBODY, replica.key.id)
        is_alone = not replica.is_voter or replica.voters.is_only(replica.key)
        self.is_shut_down = has_successor or is_alone or replica.now_ms >= deadline_ms
