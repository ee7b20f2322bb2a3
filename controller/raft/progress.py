"""How far the replicas have fetched, as their leader counts it: what is committed, and which voters still
follow.

A voter's fetch from an offset says that everything below is durable there and equal to the leader's log; the
leader counts itself for what its own disk has synced. What a majority has is committed, with Raft's one
condition: a leader counts only from a record of its own epoch on (section 5.4.2 of the paper), so an offset
at or below the start of its epoch commits nothing. Observers are tracked, but never counted.
"""

from __future__ import annotations

from typing import Final

from controller.raft.identity import ReplicaKey
from controller.raft.replica import Replica
from controller.raft.roles import Leader, Progress

__all__ = ["commit_what_a_majority_has", "forget_silent_observers", "note_following", "record_fetch"]

OBSERVER_SESSION_TIMEOUT_MS: Final = 300_000
LARGEST_NUMBER_OF_OBSERVERS: Final = 10_000


def follow_voters(replica: Replica, state: Leader) -> None:
    """Takes in a change of the voters: former voters become observers, and observers become voters."""
    if state.counted is replica.voters:
        return
    if len(state.counted) == 1:  # an only voter waits for nobody: its deadline is long past
        state.check_quorum_deadline_ms = replica.now_ms + replica.config.check_quorum_timeout_ms
    state.counted = replica.voters
    known = {progress.key: progress for progress in state.voters.values()} | state.observers
    state.voters = {}
    for voter in replica.voters.by_id.values():
        key = next((key for key in known if voter.is_replica(key)), voter.key)
        state.voters[voter.key.id] = known.pop(key) if key in known else Progress(voter.key)
    state.observers = {key: each for key, each in known.items() if key != replica.key}
    state.fetched.intersection_update(state.voters)


def commit_what_a_majority_has(replica: Replica) -> bool:
    """Raises the high watermark if a majority has more. Returns whether it rose, or became known to this
    leader."""
    state = replica.leading()
    follow_voters(replica, state)
    own = state.voters.get(replica.key.id)
    if own is not None:
        own.end_offset = replica.log.synced_offset
    offsets = sorted([progress.end_offset for progress in state.voters.values()], reverse=True)
    offset = offsets[len(offsets) // 2]
    if offset <= state.epoch_start_offset:
        return False
    was_established, state.is_established = state.is_established, True
    return replica.raise_high_watermark(offset) or not was_established


def record_fetch(replica: Replica, key: ReplicaKey, fetch_offset: int) -> bool:
    """A replica has fetched from an offset that fits this log. Returns whether more may be committed now."""
    state = replica.leading()
    follow_voters(replica, state)
    progress = state.voters.get(key.id)
    is_voter = progress is not None and replica.voters.has(key)
    if progress is None or not is_voter:
        progress = state.observers.get(key)
        if progress is None:
            if len(state.observers) >= LARGEST_NUMBER_OF_OBSERVERS:
                forget_silent_observers(replica, state)
                if len(state.observers) >= LARGEST_NUMBER_OF_OBSERVERS:
                    return False  # served, and not listed
            progress = state.observers[key] = Progress(key)
    elif progress.key != key:
        progress.key = key  # a voter of kraft.version 0 tells its directory
    now_ms = replica.now_ms
    end_offset = replica.log.end_offset
    if fetch_offset >= end_offset:
        progress.last_caught_up_ms = now_ms
    elif 0 < progress.leader_end_at_last_fetch <= fetch_offset:
        progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
    progress.leader_end_at_last_fetch = end_offset
    progress.last_fetch_ms = now_ms
    progress.end_offset = fetch_offset
    if not is_voter:
        return False
    note_following(replica, key)
    return True


def note_following(replica: Replica, key: ReplicaKey) -> None:
    """A voter has fetched, so it follows. As soon as a majority has, the time of the check of the quorum
    begins anew."""
    state = replica.leading()
    if not replica.voters.has(key):
        return
    state.fetched.add(key.id)
    needed = replica.voters.majority
    if replica.is_voter:
        needed -= 1
    if len(state.fetched) >= needed:
        state.fetched.clear()
        state.check_quorum_deadline_ms = replica.now_ms + replica.config.check_quorum_timeout_ms


def forget_silent_observers(replica: Replica, state: Leader) -> None:
    """Forgets the observers that have not fetched for five minutes."""
    oldest_ms = replica.now_ms - OBSERVER_SESSION_TIMEOUT_MS
    for key in [key for key, each in state.observers.items() if each.last_fetch_ms <= oldest_ms]:
        del state.observers[key]
