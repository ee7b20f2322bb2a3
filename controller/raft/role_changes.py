"""The changes of a replica from one role to another: what begins, what ends, what is kept.

Each function makes one change of the table in `transitions`, from one role or from several.
"""

from __future__ import annotations

from controller.raft import membership, serving
from controller.raft.identity import NOBODY, ReplicaKey
from controller.raft.replica import Replica
from controller.raft.roles import (
    NEVER,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    RoleState,
    Tally,
    Unattached,
)
from controller.raft.transitions import Role, RoleCause
from controller.raft.voters import Endpoints

__all__ = [
    "become_candidate",
    "become_follower",
    "become_prospective",
    "become_resigned",
    "become_unattached",
    "forget_pre_vote",
    "give_vote",
    "new_follower",
]


def become_unattached(replica: Replica, epoch: int, cause: RoleCause = RoleCause.HIGHER_EPOCH) -> None:
    """Begins a later epoch whose leader is not known. A replica that waits for an election does not wait
    longer because of that."""
    deadline_ms = _remaining_election_deadline_ms(replica)
    replica.begin_epoch(epoch)
    _change_role(replica, Role.UNATTACHED, Unattached(deadline_ms), cause)


def _remaining_election_deadline_ms(replica: Replica) -> int:
    state = replica.state
    if not replica.may_stand:
        return NEVER
    if isinstance(state, Leader | Follower) or (isinstance(state, Prospective) and state.tally.is_lost):
        return replica.random_election_deadline_ms()
    if state.election_deadline_ms == NEVER:  # it was an observer until now
        return replica.random_election_deadline_ms()
    return state.election_deadline_ms


def give_vote(replica: Replica, candidate: ReplicaKey) -> None:
    """Gives the vote of this epoch, as an unattached or prospective replica. Waits for an election timeout,
    because the candidate has at least as good a chance as this replica."""
    state = replica.state
    replica.vote(candidate)
    deadline_ms = replica.random_election_deadline_ms()
    if isinstance(state, Prospective):
        tally = Tally.begun(state.tally.voters, replica.key)
        _change_role(
            replica, Role.PROSPECTIVE, Prospective(tally, deadline_ms, state.rounds), RoleCause.VOTED
        )
        replica.connections.forget_all()  # answers for the election before do not count in this one
    else:
        _change_role(replica, Role.UNATTACHED, Unattached(deadline_ms), RoleCause.VOTED)


def become_prospective(replica: Replica, cause: RoleCause) -> None:
    """Begins to ask whether an election would be won. Epoch, vote and leader stay as they are."""
    state = replica.state
    rounds = state.rounds + 1 if isinstance(state, Candidate) else 1
    tally = Tally.begun(replica.voters, replica.key)
    deadline_ms = replica.random_election_deadline_ms()
    _change_role(replica, Role.PROSPECTIVE, Prospective(tally, deadline_ms, rounds), cause)


def forget_pre_vote(replica: Replica) -> None:
    """Ends the pre-vote, because no majority would vote for this replica. It follows the leader again if one
    is known, and waits otherwise."""
    deadline_ms = _remaining_election_deadline_ms(replica)
    if replica.leader_id != NOBODY and replica.leader_peer is not None:
        _change_role(replica, Role.FOLLOWER, new_follower(replica), RoleCause.PRE_VOTES_REFUSED)
    else:
        _change_role(replica, Role.UNATTACHED, Unattached(deadline_ms), RoleCause.PRE_VOTES_REFUSED)


def become_candidate(replica: Replica) -> None:
    """Begins the next epoch, and votes for itself in it."""
    state = replica.state
    rounds = state.rounds if isinstance(state, Prospective) else 1
    replica.begin_epoch(replica.epoch + 1)
    replica.vote(replica.key)
    tally = Tally.begun(replica.voters, replica.key)
    deadline_ms = replica.random_election_deadline_ms()
    _change_role(replica, Role.CANDIDATE, Candidate(tally, deadline_ms, rounds), RoleCause.PRE_VOTES_GRANTED)


def become_follower(replica: Replica, epoch: int, leader_id: int, endpoints: Endpoints) -> None:
    """Follows the leader of this epoch or a later one."""
    if epoch > replica.epoch:
        replica.begin_epoch(epoch)
    replica.follow(leader_id, endpoints)
    _change_role(replica, Role.FOLLOWER, new_follower(replica), RoleCause.LEADER_KNOWN)


def new_follower(replica: Replica) -> Follower:
    """A follower waits up to a tenth longer than the config says. So not all followers miss a dead leader in
    the same moment."""
    timeout_ms = replica.config.fetch_timeout_ms
    timeout_ms += replica.random_source.below(timeout_ms // 10 + 1)
    deadline_ms = replica.now_ms + timeout_ms
    return Follower(timeout_ms, fetch_deadline_ms=deadline_ms, voter_update_deadline_ms=deadline_ms)


def become_resigned(replica: Replica) -> None:
    """Stops leading, and begins to tell the other voters, the one with the longest log first."""
    state = replica.leading()
    others = [progress for progress in state.voters.values() if progress.key.id != replica.key.id]
    others.sort(key=lambda progress: (-progress.end_offset, progress.key))
    resigned = Resigned(
        election_deadline_ms=replica.random_election_deadline_ms(),
        successors=[progress.key for progress in others],
        unacknowledged=[progress.key.id for progress in others],
    )
    _change_role(replica, Role.RESIGNED, resigned, RoleCause.RESIGNED)


def _change_role(replica: Replica, role: Role, state: RoleState, cause: RoleCause) -> None:
    before = replica.state
    replica.enter(role, state, cause)
    if isinstance(before, Leader):
        serving.refuse_waiting(replica, before)
        membership.give_up(replica, before)
