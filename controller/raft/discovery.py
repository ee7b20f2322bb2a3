"""What each message tells about the epoch and its leader, whatever else it is about.

A request or answer of a later epoch always counts. One of our epoch can name a leader that we did not know,
or more of its addresses. It cannot name another leader than the one we know: such a peer contradicts itself
or us, is not believed, and left alone for a moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from controller.raft.identity import NOBODY
from controller.raft.replica import Replica
from controller.raft.role_changes import become_follower, become_unattached
from controller.raft.transitions import Role
from controller.raft.voters import Endpoints
from controller.raft.wire import NodeAddress, told_endpoints
from protocol.errors import ErrorCode

__all__ = ["learn_from_answer", "learn_from_partition", "learn_of_leader"]


def learn_of_leader(replica: Replica, leader_id: int, epoch: int, endpoints: Endpoints) -> bool:
    """Takes in what a message of this or a later epoch says about the leader: its id, or -1. Returns False if
    it cannot be true."""
    if not replica.believes(epoch):
        return False
    if leader_id == replica.key.id:
        if epoch > replica.epoch:
            # The message says that this replica leads, but it does not know of that: its disk was lost. Then
            # nobody is believed to lead.
            become_unattached(replica, epoch)
            return False
        return replica.role is Role.LEADER or replica.role is Role.RESIGNED
    if epoch > replica.epoch:
        if leader_id == NOBODY or replica.config.listener not in endpoints:
            become_unattached(replica, epoch)
        else:
            become_follower(replica, epoch, leader_id, endpoints)
        return True
    if leader_id == NOBODY:
        return True
    if replica.leader_id not in (NOBODY, leader_id) or replica.role is Role.LEADER:
        return False
    is_news = replica.role is not Role.FOLLOWER or len(endpoints) > len(replica.leader_endpoints)
    if is_news and replica.config.listener in endpoints:
        become_follower(replica, epoch, leader_id, endpoints)
    return True


def learn_from_answer(
    replica: Replica, error_code: int, leader_id: int, epoch: int, endpoints: Endpoints
) -> bool | None:
    """Takes in what all answers have in common, the epoch and the leader.

    Returns None if the caller is to go on with the rest of the answer. Otherwise nothing is left to do, and
    the value says whether the answer was one that a peer may give.
    """
    if epoch < replica.epoch or error_code == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return True
    if (
        epoch > replica.epoch
        or error_code == ErrorCode.FENCED_LEADER_EPOCH
        or error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    ):
        return learn_of_leader(replica, leader_id, epoch, endpoints)
    is_news = leader_id != replica.leader_id or replica.role is Role.UNATTACHED
    if leader_id != NOBODY and is_news:
        if not learn_of_leader(replica, leader_id, epoch, endpoints):
            return False
        return None if error_code == ErrorCode.NONE and replica.role is Role.FOLLOWER else True
    if error_code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INVALID_VOTER_KEY):
        return False  # the peer would give the same answer at once
    return None


class _LeaderInAnswer(Protocol):
    @property
    def error_code(self) -> int: ...
    @property
    def leader_id(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


def learn_from_partition(
    replica: Replica, told: _LeaderInAnswer, node_endpoints: Iterable[NodeAddress]
) -> bool | None:
    """Does as `learn_from_answer`, for an answer that names the leader beside the error of its partition."""
    endpoints = told_endpoints(replica, told.leader_id, node_endpoints)
    return learn_from_answer(replica, told.error_code, told.leader_id, told.leader_epoch, endpoints)
