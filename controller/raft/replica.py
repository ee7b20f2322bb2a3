"""The state of one replica, and the few things that can be done to it: what all rules of the quorum work on.

The rules are functions in the modules beside this one; each takes the replica, looks, and changes it
through the methods here, which turn every change into an effect of the next `Ready`. Nothing is sent,
written or waited for.

Invariants, held by the methods:
    epoch never falls; in one epoch a vote is given once, and a leader once known stays
    high_watermark never falls; high_watermark <= log.end_offset
    a voter's role is in the table of transitions, and so is each change of it
"""

from __future__ import annotations

from types import MappingProxyType

from config.ports import RandomSource
from controller.raft.config import RaftConfig
from controller.raft.connections import Connections, Sent
from controller.raft.effects import Answer, HardState, Outgoing, Ready, Request
from controller.raft.identity import (
    EARLY_EPOCHS,
    LARGEST_LEAP,
    NOBODY,
    Address,
    LeaderAndEpoch,
    Peer,
    ReplicaKey,
)
from controller.raft.log_port import RaftLog
from controller.raft.log_view import BOOTSTRAP_SNAPSHOT, LogView
from controller.raft.roles import NEVER, Follower, Leader, RoleState, Unattached
from controller.raft.transitions import STARTING_ROLES, TRANSITIONS, Role, RoleCause
from controller.raft.voters import CONFIGURED, Endpoints, Voter, VoterHistory, VoterSet
from protocol.codec.message import Message
from protocol.errors import invariant
from protocol.records.header import headers

__all__ = ["NO_ENDPOINTS", "Replica"]

NO_ENDPOINTS: Endpoints = MappingProxyType({})
FIRST_BOOTSTRAP_ID = -2
SCAN_BYTES = 1 << 20


class Replica:
    """The state of one replica. The rules read the attributes freely. They are changed by the methods here,
    and those of `state` by the rules of the role."""

    def __init__(
        self, config: RaftConfig, log: RaftLog, hard_state: HardState | None, random_source: RandomSource
    ) -> None:
        self.config = config
        self.random_source = random_source
        self.now_ms = 0
        self.wall_offset_ms = 0
        self.log = LogView(log)
        self.history = VoterHistory(VoterSet.static(config.static_voters, config.listener))
        self._read_control_records()
        self._persisted = HardState() if hard_state is None else hard_state
        self.epoch = self._persisted.epoch
        self.leader_id = self._persisted.leader_id
        self.leader_endpoints: Endpoints = NO_ENDPOINTS
        self.voted = self._persisted.voted
        self.role = Role.UNATTACHED
        self.state: RoleState = Unattached(NEVER)
        self.turns = 0
        """How often the role has changed or has begun anew."""
        newest = self.log.latest_snapshot
        self.high_watermark = 0 if newest is None else newest.end_offset
        self.knows_high_watermark = False
        """Whether a leader has told the high watermark since the start, or this replica is the leader and
        knows it."""
        self.shut_down_deadline_ms: int | None = None
        self.connections = Connections(config.retry_backoff_ms)
        self._bootstrap_peers = tuple(
            Peer(FIRST_BOOTSTRAP_ID - number, *address)
            for number, address in enumerate(config.bootstrap_servers)
            if address not in config.endpoints.values()  # it need not ask itself
        )
        self._messages: list[Outgoing] = []
        self._announced = LeaderAndEpoch(NOBODY, -1)
        self._told_high_watermark = self.high_watermark

    def _read_control_records(self) -> None:
        """Reads the voters from the newest snapshot and from the log behind it."""
        log = self.log
        offset = log.start_offset
        if log.snapshots:
            newest = log.snapshots[-1]
            control = log.port.snapshot_control(newest)
            at = CONFIGURED if newest == BOOTSTRAP_SNAPSHOT else newest.end_offset - 1
            self.history.begin(at, control.kraft_version, control.voters)
            offset = max(offset, newest.end_offset)
        while offset < log.end_offset:
            content = log.port.read_bytes(offset, SCAN_BYTES)
            was = offset
            for position, header in headers(content):
                if header.is_control and header.base_offset >= offset:
                    self.history.read(content, position, header.base_offset)
                offset = max(offset, header.next_offset)
            invariant(offset > was, "a read gives a whole batch", offset=offset)

    # Identity and peers

    @property
    def key(self) -> ReplicaKey:
        return self.config.node

    @property
    def voters(self) -> VoterSet:
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        return self.config.can_be_voter and self.history.voters.has(self.config.node)

    @property
    def may_stand(self) -> bool:
        """Whether this replica may begin an election: it is a voter, or its removal is not known to be
        committed. In the second case no other replica may be able to win, because the removal is not in every
        log (Ongaro's dissertation, section 4.2.2)."""
        if self.is_voter:
            return True
        offset = self.history.voters_offset
        if not self.config.can_be_voter or offset is None or offset < self.high_watermark:
            return False
        return any(voters.has(self.config.node) for voters in self.history.undecided(self.high_watermark))

    def is_of_cluster(self, cluster_id: str | None) -> bool:
        """Whether a request names this cluster, or none."""
        return cluster_id is None or cluster_id == self.config.cluster_id

    def as_voter(self) -> Voter:
        """This replica as an entry in the set of voters."""
        config = self.config
        return Voter(config.node, config.endpoints, config.min_kraft_version, config.max_kraft_version)

    def peer(self, voter_id: int) -> Peer | None:
        """A voter at the listener that controllers use. None if it has no address there."""
        address = self.voters.endpoints_of(voter_id).get(self.config.listener)
        return None if address is None else Peer(voter_id, *address)

    @property
    def leader_peer(self) -> Peer | None:
        address = self.leader_endpoints.get(self.config.listener)
        return None if address is None or self.leader_id == NOBODY else Peer(self.leader_id, *address)

    def leader_address(self, listener: str) -> Address | None:
        """The leader's address for answers to requests that came by this listener."""
        return self.leader_endpoints.get(listener or self.config.listener)

    def bootstrap_peers(self) -> tuple[Peer, ...]:
        """The peers that are asked who leads: the bootstrap servers, and the voters at addresses that are not
        among them. Voters may have moved since the bootstrap servers were configured."""
        others = [voter_id for voter_id in self.voters.by_id if voter_id != self.key.id]
        voters = [peer for peer in map(self.peer, others) if peer is not None]
        known = self.config.bootstrap_servers
        return *self._bootstrap_peers, *[peer for peer in voters if (peer.host, peer.port) not in known]

    # Time and chance

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.wall_offset_ms

    def random_election_deadline_ms(self) -> int:
        timeout_ms = self.config.election_timeout_ms
        return self.now_ms + timeout_ms + (self.random_source.below(timeout_ms) if timeout_ms else 0)

    @property
    def is_shutting_down(self) -> bool:
        return self.shut_down_deadline_ms is not None

    # Epoch, vote, leader, role

    def enter(self, role: Role, state: RoleState, cause: RoleCause) -> None:
        """Changes the role. This is the only way to do so. Requests that are under way for the old role are
        forgotten."""
        if cause not in TRANSITIONS.get((self.role, role), ()):
            invariant(
                False, "a change of role is in the table",
                node=self.key.id, epoch=self.epoch, old=self.role.name, new=role.name, cause=cause.name,
            )  # fmt: skip
        self.give_up_download()
        self.role = role
        self.state = state
        self.turns += 1
        if cause is not RoleCause.VOTED:
            self.connections.forget_all()

    def begin(self, role: Role, state: RoleState) -> None:
        """Sets the role with which a replica starts. This is not a transition."""
        invariant(role in STARTING_ROLES and not self.turns, "a life begins once", role=role.name)
        self.role = role
        self.state = state
        self.turns = 1

    def believes(self, epoch: int) -> bool:
        """Whether the quorum can have reached that epoch by its elections."""
        return epoch < EARLY_EPOCHS or epoch - self.epoch <= LARGEST_LEAP

    def begin_epoch(self, epoch: int) -> None:
        """Begins a later epoch: no leader is known in it, and no vote has been given."""
        invariant(epoch > self.epoch, "epochs grow", epoch=epoch, was=self.epoch)
        self.epoch = epoch
        self.leader_id = NOBODY
        self.leader_endpoints = NO_ENDPOINTS
        self.voted = None

    def vote(self, key: ReplicaKey) -> None:
        if self.voted is not None or self.leader_id != NOBODY:
            invariant(False, "one vote in an epoch", epoch=self.epoch, voted=self.voted, key=key)
        self.voted = key

    def follow(self, leader_id: int, endpoints: Endpoints) -> None:
        """Notes the leader of this epoch. Further addresses of it may become known later."""
        if self.leader_id not in (NOBODY, leader_id):
            invariant(
                False, "one leader in an epoch", epoch=self.epoch, leader=self.leader_id, other=leader_id
            )
        self.leader_id = leader_id
        self.leader_endpoints = endpoints

    def leading(self) -> Leader:
        state = self.state
        if not isinstance(state, Leader):
            invariant(False, "only a leader does that", role=self.role.name)
            raise AssertionError  # not reached: the line above has raised
        return state

    # Log

    def raise_high_watermark(self, offset: int) -> bool:
        """Everything below `offset` that is in this log is committed."""
        self.knows_high_watermark = True
        offset = min(offset, self.log.end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def truncate(self, offset: int) -> None:
        if offset < self.high_watermark:
            invariant(
                False, "what is committed is never cut off",
                offset=offset, high_watermark=self.high_watermark, epoch=self.epoch,
            )  # fmt: skip
        self.log.truncate(offset)
        self.history.truncate_from_end(offset)

    def give_up_download(self) -> None:
        """Forgets the snapshot that is being fetched, if there is one, and what has been received of it."""
        state = self.state
        if not isinstance(state, Follower) or state.download is None or state.download.is_whole:
            return
        if state.download.position:
            self.log.drop_part(state.download.snapshot)
        state.download = None

    # Messages

    def answer(self, token: object, message: Message) -> None:
        self._messages.append(Answer(token, message))

    def ask(self, peer: Peer, message: Message, offset: int = -1) -> None:
        """Sends a request. `Sent.kind` says which module gets its answer."""
        timeout_ms = self.config.request_timeout_ms
        sent = Sent(peer, type(message), self.now_ms + timeout_ms, offset)
        self._messages.append(Request(peer, self.connections.add(sent), message, timeout_ms))

    # The end of an input

    def _hard_state(self) -> HardState | None:
        """The state to persist; None if nothing has changed since it was persisted last."""
        known = self._persisted
        if self.epoch == known.epoch and self.leader_id == known.leader_id and self.voted == known.voted:
            return None
        self._persisted = HardState(self.epoch, self.leader_id, self.voted)
        return self._persisted

    def _leader_to_announce(self) -> LeaderAndEpoch | None:
        """The leader to announce, if it has changed. A leader announces itself when everything before its
        epoch is committed, and takes that back when it resigns. Other leaders are announced when they become
        known."""
        leader_id = self.leader_id
        if leader_id == self.key.id and not (isinstance(self.state, Leader) and self.state.is_established):
            leader_id = NOBODY
        if leader_id == self._announced.leader_id and self.epoch == self._announced.epoch:
            return None
        self._announced = LeaderAndEpoch(leader_id, self.epoch)
        return self._announced

    def take_ready(self, wake_at_ms: int) -> Ready:
        """Returns all effects that were collected since the last call."""
        operations, sync = self.log.take()
        messages = self._messages
        self._messages = []
        high_watermark = None
        if self.high_watermark != self._told_high_watermark:
            high_watermark = self._told_high_watermark = self.high_watermark
        leader = self._leader_to_announce()
        return Ready(self._hard_state(), operations, sync, messages, high_watermark, leader, wake_at_ms)
