"""What a leader does besides answering: it appends, commits, tells the voters that it leads, and resigns.

It resigns when it is asked to, when it shuts down, when it has removed itself from the voters and that is
committed, and when no majority has fetched from it for one and a half fetch timeouts (check quorum). In that
last case the others may have elected another leader long ago, and its own clients would wait for ever.
"""

from __future__ import annotations

from controller.raft.epochs import tell_voters
from controller.raft.membership import finish_operation
from controller.raft.progress import commit_what_a_majority_has
from controller.raft.replica import Replica
from controller.raft.role_changes import become_resigned
from controller.raft.roles import NEVER, Leader
from controller.raft.serving import answer_waiting
from protocol.records.header import headers, patch_offset_and_epoch

__all__ = ["append", "note_synced", "poll_leader"]


def append(replica: Replica, batches: bytearray, *, is_news: bool) -> None:
    """Appends batches of the controller, one after the other, to the log."""
    start_offset = end_offset = replica.log.end_offset
    for position, header in headers(batches):
        patch_offset_and_epoch(batches, position, end_offset, replica.epoch)
        end_offset += header.last_offset_delta + 1
    replica.log.append(bytes(batches), end_offset, replica.epoch)
    if not is_news:
        state = replica.leading()
        begun, ended = state.idle
        state.idle = (begun if ended == start_offset else start_offset, end_offset)


def note_synced(replica: Replica) -> None:
    """More of the leader's own log is durable, so a majority may have it now."""
    commit_what_a_majority_has(replica)


def poll_leader(replica: Replica) -> int:
    state = replica.state
    if not isinstance(state, Leader):
        return replica.now_ms
    if state.counted is not replica.voters:
        commit_what_a_majority_has(replica)  # with other voters, more may be committed
    finish_operation(replica, state)
    if state.is_established and not replica.may_stand:
        state.wants_to_resign = True  # it leads until the voters without it are committed
    now_ms = replica.now_ms
    has_lost_quorum = _needs_others(replica, state) and now_ms >= state.check_quorum_deadline_ms
    if replica.is_shutting_down or state.wants_to_resign or has_lost_quorum:
        become_resigned(replica)
        return now_ms
    end_offset, told_high_watermark, was_established = state.told
    has_news = (
        end_offset != replica.log.end_offset
        or was_established != state.is_established
        or state.has_news(told_high_watermark, replica.high_watermark)
    )
    if has_news:
        state.told = (replica.log.end_offset, replica.high_watermark, state.is_established)
    answer_waiting(replica, has_news=has_news)
    tell_voters(replica, state)
    return _wake_ms(replica, state)


def _needs_others(replica: Replica, state: Leader) -> bool:
    """Whether the leader needs other voters for a majority. The only voter does not; nor does a leader that
    has written its own removal while one voter is left, which is itself."""
    return len(state.voters) > 1 or not replica.is_voter


def _wake_ms(replica: Replica, state: Leader) -> int:
    wake_ms = NEVER
    if _needs_others(replica, state):
        wake_ms = min(state.begin_epoch_deadline_ms, state.check_quorum_deadline_ms)
    for waiting in state.waiting:
        if waiting.deadline_ms < wake_ms:
            wake_ms = waiting.deadline_ms
    if state.operation is not None and state.operation.deadline_ms < wake_ms:
        wake_ms = state.operation.deadline_ms
    return min(wake_ms, replica.connections.next_wake_ms((), replica.now_ms))
