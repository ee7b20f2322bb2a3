"""The role with which a replica starts, which follows from what is on its disk."""

from __future__ import annotations

from controller.raft.identity import NOBODY
from controller.raft.replica import Replica
from controller.raft.role_changes import new_follower
from controller.raft.roles import NEVER, Resigned, Unattached
from controller.raft.transitions import Role

__all__ = ["begin_life"]


def begin_life(replica: Replica) -> None:
    """Takes the first role after a start. The only voter need not wait for others and begins an election at
    once."""
    if replica.log.last_epoch > replica.epoch:
        replica.begin_epoch(replica.log.last_epoch)  # the quorum-state file was lost, or never written
    now_ms = replica.now_ms
    if replica.is_voter and replica.voters.is_only(replica.key):
        replica.begin(Role.UNATTACHED, Unattached(now_ms))
        return
    deadline_ms = replica.random_election_deadline_ms() if replica.may_stand else NEVER
    if replica.leader_id == replica.key.id:
        replica.follow(replica.key.id, replica.config.endpoints)
        others = [voter_id for voter_id in replica.voters.by_id if voter_id != replica.key.id]
        resigned = Resigned(replica.random_election_deadline_ms(), successors=[], unacknowledged=others)
        replica.begin(Role.RESIGNED, resigned)
        return
    endpoints = replica.voters.endpoints_of(replica.leader_id)
    if replica.leader_id != NOBODY and replica.config.listener in endpoints:
        replica.follow(replica.leader_id, endpoints)
        replica.begin(Role.FOLLOWER, new_follower(replica))
        return
    replica.begin(Role.UNATTACHED, Unattached(deadline_ms))
