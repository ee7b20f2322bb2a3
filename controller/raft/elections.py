"""How a leader is found: votes, and before them the question whether there would be votes. KIP-595, KIP-996.

A voter that has waited in vain asks the others with `pre_vote`: nothing changes, nowhere; only with a
majority does it begin the next epoch, vote for itself and ask in earnest. So a replica that cannot reach
the others, or that they do not need, disturbs nobody with ever higher epochs.

A vote is given once in an epoch, to a candidate whose log is at least as long as ours (a later last epoch, or
the same and not fewer records), and is on the disk before the answer leaves.

Answers besides NONE: INCONSISTENT_CLUSTER_ID and INVALID_REQUEST for the whole, FENCED_LEADER_EPOCH,
INVALID_REQUEST (impossible offsets or epochs) and INVALID_VOTER_KEY (meant for another replica) in it.
"""

from __future__ import annotations

from typing import Final

from controller.raft.discovery import learn_from_partition
from controller.raft.epochs import open_leadership
from controller.raft.identity import NOBODY, ReplicaKey
from controller.raft.replica import Replica
from controller.raft.role_changes import (
    become_candidate,
    become_prospective,
    become_unattached,
    forget_pre_vote,
    give_vote,
)
from controller.raft.roles import NEVER, Candidate, Follower, Prospective
from controller.raft.transitions import Role, RoleCause
from controller.raft.wire import Caller, the_partition, vote_answer, vote_request
from protocol.errors import ErrorCode
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.values import ZERO_UUID

__all__ = ["handle_vote", "handle_vote_answer", "poll_candidate", "poll_prospective", "stand"]

BACKOFF_BASE_MS: Final = 100
LARGEST_EXPONENT: Final = 20


# As a voter


def handle_vote(replica: Replica, caller: Caller, request: VoteRequest) -> None:
    if not replica.is_of_cluster(request.cluster_id):
        replica.answer(caller.token, VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    asked = the_partition(request.topics)
    if asked is None:
        replica.answer(caller.token, VoteResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    error = _fault(replica, asked)
    if error is ErrorCode.NONE:
        if asked.replica_epoch > replica.epoch:
            become_unattached(replica, asked.replica_epoch)
        if not is_meant(replica, request.voter_id, asked.voter_directory_id):
            error = ErrorCode.INVALID_VOTER_KEY
    if error is not ErrorCode.NONE:
        replica.answer(caller.token, vote_answer(replica, caller, error))
        return
    candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
    log = replica.log
    is_long_enough = (asked.last_offset_epoch, asked.last_offset) >= (log.last_epoch, log.end_offset)
    if asked.pre_vote:
        granted = is_long_enough and _would_vote(replica)
    else:
        granted = is_long_enough and _votes_for(replica, candidate)
        if granted and replica.voted is None:
            give_vote(replica, candidate)
    replica.answer(caller.token, vote_answer(replica, caller, ErrorCode.NONE, granted=granted))


def _fault(replica: Replica, asked: VoteRequest.PartitionData) -> ErrorCode:
    """What is wrong with a request for a vote. A candidate stands in a new epoch, so it has no record of that
    epoch; a prospective replica may be in an old epoch."""
    latest_epoch = asked.replica_epoch if asked.pre_vote else asked.replica_epoch - 1
    if asked.last_offset < 0 or not 0 <= asked.last_offset_epoch <= latest_epoch:
        return ErrorCode.INVALID_REQUEST
    if asked.replica_epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    is_believed = asked.replica_id >= 0 and replica.believes(asked.replica_epoch)
    return ErrorCode.NONE if is_believed else ErrorCode.INVALID_REQUEST


def is_meant(replica: Replica, voter_id: int, directory_id: bytes) -> bool:
    """Whether the request is for this replica, if it says for which one."""
    return voter_id < 0 or (
        voter_id == replica.key.id and directory_id in (ZERO_UUID, replica.key.directory_id)
    )


def _would_vote(replica: Replica) -> bool:
    """Whether this replica would vote at all: it knows of no leader that works. A follower knows of one as
    soon as its leader has answered."""
    state = replica.state
    if isinstance(state, Follower):
        return not state.has_fetched
    return replica.role is not Role.LEADER


def _votes_for(replica: Replica, candidate: ReplicaKey) -> bool:
    """Whether the vote of this epoch is not given yet, or was given to this same replica."""
    if replica.role not in (Role.UNATTACHED, Role.PROSPECTIVE):
        return False
    if replica.voted is not None:
        return replica.voted.id == candidate.id and replica.voted.matches(candidate)
    return replica.leader_id == NOBODY and candidate.id != replica.key.id


# As the one that asks


def stand(replica: Replica, cause: RoleCause) -> None:
    """Begins to ask for votes. A replica that is the only voter has won at once."""
    become_prospective(replica, cause)
    _go_on_if_won(replica)


def poll_prospective(replica: Replica) -> int:
    state = replica.state
    if not isinstance(state, Prospective):
        return NEVER
    if not replica.is_shutting_down and replica.now_ms >= state.election_deadline_ms:
        forget_pre_vote(replica)
        return replica.now_ms
    _ask_voters(replica, state, pre_vote=True)
    return _wake_ms(replica, state, state.election_deadline_ms)


def poll_candidate(replica: Replica) -> int:
    state = replica.state
    if not isinstance(state, Candidate):
        return NEVER
    if not replica.is_shutting_down:
        if state.backoff_deadline_ms == NEVER and replica.now_ms >= state.election_deadline_ms:
            _back_off(replica, state)
        if replica.now_ms >= state.backoff_deadline_ms:
            stand(replica, RoleCause.VOTES_REFUSED)
            return replica.now_ms
    if state.backoff_deadline_ms != NEVER:
        return _wake_ms(replica, state, state.backoff_deadline_ms)
    _ask_voters(replica, state, pre_vote=False)
    return _wake_ms(replica, state, state.election_deadline_ms)


def _wake_ms(replica: Replica, state: Prospective | Candidate, deadline_ms: int) -> int:
    if replica.is_shutting_down:
        deadline_ms = NEVER  # the election goes on until somebody wins or the time to shut down is over
    unrecorded = [key.id for key in state.tally.unrecorded()]
    return min(deadline_ms, replica.connections.next_wake_ms(unrecorded, replica.now_ms))


def _back_off(replica: Replica, state: Candidate) -> None:
    """Waits a random time before the next election after a lost one. It is twice as long on average each
    time, so that two candidates cannot hinder each other for ever."""
    slots = 2 << min(LARGEST_EXPONENT, state.rounds - 1)
    backoff_ms = min(
        BACKOFF_BASE_MS * replica.random_source.below(slots), replica.config.election_backoff_max_ms
    )
    state.backoff_deadline_ms = replica.now_ms + backoff_ms


def _ask_voters(replica: Replica, state: Prospective | Candidate, *, pre_vote: bool) -> None:
    if state.tally.is_lost:
        return
    for key in state.tally.unrecorded():
        if replica.connections.is_free(key.id, replica.now_ms):
            peer = replica.peer(key.id)
            if peer is not None:
                replica.ask(peer, vote_request(replica, key, pre_vote=pre_vote))


def handle_vote_answer(replica: Replica, peer_id: int, answer: VoteResponse) -> bool:
    """Counts a vote. Returns whether the peer answered as it should; if not, no requests are sent to it for a
    moment."""
    state = replica.state
    if answer.error_code:
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION and isinstance(state, Prospective):
            become_candidate(replica)  # the peer cannot be asked before: it knows no pre-vote
            _go_on_if_won(replica)
            return True
        return False
    told = the_partition(answer.topics)
    if told is None:
        return False
    handled = learn_from_partition(replica, told, answer.node_endpoints)
    if handled is not None:
        return handled
    if told.error_code:
        return False
    if isinstance(state, Prospective | Candidate) and replica.state is state:
        _count(replica, state, peer_id, granted=told.vote_granted)
    return True


def _count(replica: Replica, state: Prospective | Candidate, voter_id: int, *, granted: bool) -> None:
    tally = state.tally
    if voter_id not in tally.voters.by_id or voter_id in tally.granted or voter_id in tally.refused:
        return
    (tally.granted if granted else tally.refused).add(voter_id)
    if granted:
        _go_on_if_won(replica)
    elif tally.is_lost:
        if isinstance(state, Prospective):
            forget_pre_vote(replica)
        elif state.backoff_deadline_ms == NEVER:
            _back_off(replica, state)


def _go_on_if_won(replica: Replica) -> None:
    """Goes on from pre-votes to votes, and from votes to the leadership, with a majority. The only voter
    takes both steps at once."""
    if isinstance(replica.state, Prospective) and replica.state.tally.is_won:
        become_candidate(replica)
    if isinstance(replica.state, Candidate) and replica.state.tally.is_won:
        open_leadership(replica)
