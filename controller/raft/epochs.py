"""The beginning and the end of a leader's epoch, as it tells the voters. KIP-595, KIP-853.

BeginQuorumEpoch goes to every voter when a leader is elected, and again to each that does not fetch:
followers pull, so they must know from whom. EndQuorumEpoch comes from a leader that resigns: it names its
successors, the one with the longest log first; each waits the longer before it stands the further behind it
is in the list.

Answers besides NONE: INCONSISTENT_CLUSTER_ID and INVALID_REQUEST for the whole, FENCED_LEADER_EPOCH and
INVALID_VOTER_KEY (BeginQuorumEpoch meant for another replica) in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controller.raft.control_batches import open_epoch
from controller.raft.discovery import learn_from_partition, learn_of_leader
from controller.raft.identity import ReplicaKey
from controller.raft.progress import commit_what_a_majority_has
from controller.raft.replica import Replica
from controller.raft.role_changes import become_unattached
from controller.raft.roles import Candidate, Follower, Leader, Progress, Resigned
from controller.raft.transitions import Role, RoleCause
from controller.raft.voters import Endpoints
from controller.raft.wire import (
    Caller,
    begin_epoch_request,
    end_epoch_request,
    endpoints_of,
    epoch_answer,
    the_partition,
)
from protocol.errors import ErrorCode, invariant
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from protocol.values import ZERO_UUID

__all__ = [
    "handle_begin",
    "handle_begin_answer",
    "handle_end",
    "handle_end_answer",
    "open_leadership",
    "poll_resigned",
    "tell_voters",
]


# The leader's side


def open_leadership(replica: Replica) -> None:
    """Makes a candidate that has a majority the leader, and writes the first batch of its epoch."""
    candidate = replica.state
    if not isinstance(candidate, Candidate) or not candidate.tally.is_won:
        invariant(False, "a leader was elected", role=replica.role.name, epoch=replica.epoch)
        return
    now_ms = replica.now_ms
    granting = sorted(candidate.tally.granted)
    voters = replica.voters
    state = Leader(
        epoch_start_offset=replica.log.end_offset,
        counted=voters,
        voters={voter.key.id: Progress(voter.key) for voter in voters.by_id.values()},
        observers={},
        check_quorum_deadline_ms=now_ms + replica.config.check_quorum_timeout_ms,
        begin_epoch_deadline_ms=now_ms,
        fetched=set(),
        waiting=[],
    )
    if replica.history.version == 0:
        own = replica.as_voter()
        state.static_voters = voters.with_voter(own)
    replica.follow(replica.key.id, replica.config.endpoints)
    replica.enter(Role.LEADER, state, RoleCause.VOTES_GRANTED)
    open_epoch(replica, granting)
    commit_what_a_majority_has(replica)


def tell_voters(replica: Replica, state: Leader) -> None:
    """Sends BeginQuorumEpoch to each voter that has not fetched for half a fetch timeout.

    A leader that has other things to do looks a little earlier than it must, so that an idle one is not woken
    for this alone.
    """
    interval_ms = replica.config.fetch_timeout_ms // 2
    now_ms = replica.now_ms
    if now_ms < state.begin_epoch_deadline_ms - interval_ms // 8:
        return
    state.begin_epoch_deadline_ms = now_ms + interval_ms
    for voter_id, progress in state.voters.items():
        if voter_id == replica.key.id:
            continue
        if progress.last_fetch_ms >= 0 and now_ms - progress.last_fetch_ms < interval_ms:
            continue
        peer = replica.peer(voter_id)
        if peer is not None and replica.connections.is_free(voter_id, now_ms):
            replica.ask(peer, begin_epoch_request(replica, replica.voters.by_id[voter_id].key))


def poll_resigned(replica: Replica) -> int:
    """Tells those voters of the resignation that have not acknowledged it. After an election timeout this
    replica may begin an election."""
    state = replica.state
    if not isinstance(state, Resigned):
        return replica.now_ms
    now_ms = replica.now_ms
    if not replica.is_shutting_down and now_ms >= state.election_deadline_ms:
        become_unattached(replica, replica.epoch + 1, RoleCause.RESIGNATION_OVER)
        return now_ms
    for voter_id in state.unacknowledged:
        if replica.connections.is_free(voter_id, now_ms):
            peer = replica.peer(voter_id)
            if peer is not None:
                replica.ask(peer, end_epoch_request(replica, state.successors))
    wake_ms = replica.connections.next_wake_ms(state.unacknowledged, now_ms)
    return wake_ms if replica.is_shutting_down else min(wake_ms, state.election_deadline_ms)


def handle_begin_answer(replica: Replica, answer: BeginQuorumEpochResponse) -> bool:
    """Returns whether the peer answered as it should. Whether it follows this leader is known by its
    fetches."""
    told = None if answer.error_code else the_partition(answer.topics)
    if told is None:
        return False
    handled = learn_from_partition(replica, told, answer.node_endpoints)
    return told.error_code == ErrorCode.NONE if handled is None else handled


def handle_end_answer(replica: Replica, peer_id: int, answer: EndQuorumEpochResponse) -> bool:
    told = None if answer.error_code else the_partition(answer.topics)
    if told is None:
        return False
    handled = learn_from_partition(replica, told, answer.node_endpoints)
    if handled is not None:
        return handled
    state = replica.state
    if told.error_code == ErrorCode.NONE and isinstance(state, Resigned):
        state.unacknowledged = [voter_id for voter_id in state.unacknowledged if voter_id != peer_id]
    return told.error_code == ErrorCode.NONE


# The voters' side


class _LeaderInRequest(Protocol):
    @property
    def leader_id(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


def handle_begin(replica: Replica, caller: Caller, request: BeginQuorumEpochRequest) -> None:
    told = the_partition(request.topics)
    refusal = _refusal(replica, request.cluster_id, told)
    if told is None or refusal is not ErrorCode.NONE:
        replica.answer(caller.token, BeginQuorumEpochResponse(error_code=refusal))
        return
    error = _heed(replica, told, endpoints_of(request.leader_endpoints))
    if error is ErrorCode.NONE and request.voter_id >= 0:
        meant = ReplicaKey(request.voter_id, told.voter_directory_id)
        if not meant.matches(replica.key):
            error = ErrorCode.INVALID_VOTER_KEY
    replica.answer(caller.token, epoch_answer(replica, caller, BeginQuorumEpochResponse, error))


def handle_end(replica: Replica, caller: Caller, request: EndQuorumEpochRequest) -> None:
    told = the_partition(request.topics)
    refusal = _refusal(replica, request.cluster_id, told)
    if told is None or refusal is not ErrorCode.NONE:
        replica.answer(caller.token, EndQuorumEpochResponse(error_code=refusal))
        return
    error = _heed(replica, told, endpoints_of(request.leader_endpoints))
    state = replica.state
    if error is ErrorCode.NONE and isinstance(state, Follower) and replica.leader_id == told.leader_id:
        candidates = [ReplicaKey(*_key_of(each)) for each in told.preferred_candidates]
        candidates = candidates or [ReplicaKey(each) for each in told.preferred_successors]
        state.has_fetched = False
        state.fetch_deadline_ms = replica.now_ms + _succession_delay_ms(replica, candidates)
    replica.answer(caller.token, epoch_answer(replica, caller, EndQuorumEpochResponse, error))


def _refusal(replica: Replica, cluster_id: str | None, told: _LeaderInRequest | None) -> ErrorCode:
    """The error for a whole request that is not for this cluster or partition."""
    if not replica.is_of_cluster(cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    return ErrorCode.INVALID_REQUEST if told is None else ErrorCode.NONE


def _fault(replica: Replica, leader_id: int, epoch: int) -> ErrorCode:
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.NONE if leader_id >= 0 else ErrorCode.INVALID_REQUEST


def _heed(replica: Replica, told: _LeaderInRequest, endpoints: Endpoints) -> ErrorCode:
    """Accepts the sender as the leader of its epoch, unless that cannot be true."""
    fault = _fault(replica, told.leader_id, told.leader_epoch)
    if fault is not ErrorCode.NONE:
        return fault
    known = endpoints or replica.voters.endpoints_of(told.leader_id)
    if not learn_of_leader(replica, told.leader_id, told.leader_epoch, known):
        return ErrorCode.INVALID_REQUEST
    address = endpoints.get(replica.config.listener)
    if replica.role is Role.FOLLOWER and address not in (None, replica.leader_address("")):
        # It has moved since the voters were written down. Where it listens it knows best itself.
        replica.follow(told.leader_id, endpoints)
    return ErrorCode.NONE


def _key_of(candidate: EndQuorumEpochRequest.ReplicaInfo) -> tuple[int, bytes]:
    return candidate.candidate_id, candidate.candidate_directory_id or ZERO_UUID


def _succession_delay_ms(replica: Replica, candidates: Sequence[ReplicaKey]) -> int:
    """The first successor begins an election at once. Each further one waits twice as long as the one before,
    up to the longest back-off."""
    longest_ms = replica.config.election_backoff_max_ms
    position = next(
        (number for number, key in enumerate(candidates) if key.matches(replica.key)), len(candidates)
    )
    if position == 0:
        return 0
    if position >= len(candidates):
        return longest_ms
    base_ms = longest_ms >> (len(candidates) - 1)
    return min(longest_ms, base_ms << (position - 1))
