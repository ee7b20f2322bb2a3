"""The follower's side of Fetch: whom to ask, and what to do with the answer. KIP-595, KIP-630, KIP-853.

One request is under way at a time. It goes to the leader; to any bootstrap server or voter while no leader is
known, or when the leader has just failed, for there may be another one already.

    answer            │ what is done
    ──────────────────┼───────────────────────────────────────────────────────────────────────
    records           │ those that are whole and intact are appended; the high watermark rises
    a diverging epoch │ the log is cut back to where the two may still be equal
    a snapshot id     │ the snapshot is fetched piece by piece, and put in the place of the log
    an error          │ mostly: the leader is another one

A fetch tells the leader that everything below its offset is durable. So a replica that is a voter, or may
become one, asks only when its log is synced.
"""

from __future__ import annotations

from typing import Final

from controller.raft.config import MAX_FETCH_WAIT_MS
from controller.raft.discovery import learn_from_answer
from controller.raft.elections import stand
from controller.raft.identity import NOBODY, Peer, SnapshotId
from controller.raft.joining import poll_membership
from controller.raft.log_port import SnapshotControl
from controller.raft.replica import Replica
from controller.raft.role_changes import become_follower
from controller.raft.roles import NEVER, Download, Follower, Unattached
from controller.raft.transitions import RoleCause
from controller.raft.voters import Endpoints
from controller.raft.wire import METADATA_TOPIC, fetch_request, fetch_snapshot_request, told_endpoints
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotResponse
from protocol.primitives import Records
from protocol.records.errors import RecordsError
from protocol.records.header import headers, is_intact

__all__ = [
    "fetch_failed",
    "handle_fetch_answer",
    "handle_fetch_snapshot_answer",
    "install",
    "poll_follower",
    "poll_unattached",
]

LOST_CONNECTION_MS: Final = 200
"""The time after a lost connection in which several attempts to connect again can be made."""


# Asking


def poll_unattached(replica: Replica) -> int:
    """Waits for an election, and asks other replicas for the leader."""
    state = replica.state
    if not isinstance(state, Unattached):
        return replica.now_ms
    deadline_ms = NEVER
    if replica.may_stand and not replica.is_shutting_down:
        deadline_ms = state.election_deadline_ms
        if replica.now_ms >= deadline_ms:
            stand(replica, RoleCause.ELECTION_TIMEOUT)
            return replica.now_ms
    return min(deadline_ms, _ask_anybody(replica))


def poll_follower(replica: Replica) -> int:
    state = replica.state
    if not isinstance(state, Follower):
        return replica.now_ms
    now_ms = replica.now_ms
    has_timed_out = now_ms >= state.fetch_deadline_ms
    if replica.may_stand:
        if replica.is_shutting_down:
            return NEVER
        if has_timed_out:
            stand(replica, RoleCause.FETCH_TIMEOUT)
            return now_ms
    elif has_timed_out:
        # An observer keeps its leader until it hears of another one, but no longer vouches for it: the voters
        # may count this replica as a voter already, while the record of that is not in its own log yet.
        state.has_fetched = False
        return _ask_anybody(replica)
    leader = replica.leader_peer
    if leader is None or replica.connections.is_paused(leader.id, now_ms):
        wake_ms = _ask_anybody(replica)
    else:
        poll_membership(replica, state, leader)
        if replica.connections.is_idle and not (state.download is not None and state.download.is_whole):
            _ask_leader(replica, state, leader)
        wake_ms = replica.connections.next_wake_ms((leader.id,), now_ms)
    update_ms = state.voter_update_deadline_ms  # if it is over, the fetch under way is waited for
    return min(wake_ms, state.fetch_deadline_ms, update_ms if update_ms > now_ms else NEVER)


def _may_ask(replica: Replica) -> bool:
    """Whether a fetch may be sent now: it promises that everything below its offset is durable."""
    log = replica.log
    return log.synced_offset == log.end_offset or not replica.config.can_be_voter


def _ask_leader(replica: Replica, state: Follower, leader: Peer) -> None:
    download = state.download
    if download is not None:
        request = fetch_snapshot_request(replica, download.snapshot, download.position)
        replica.ask(leader, request, download.position)
    elif _may_ask(replica):
        max_wait_ms = (
            MAX_FETCH_WAIT_MS if state.has_fetched else 0
        )  # first see whether it is the leader and answers
        replica.ask(leader, fetch_request(replica, max_wait_ms), replica.log.end_offset)


def _ask_anybody(replica: Replica) -> int:
    """Sends a fetch to a replica that may know the leader. Returns when to look again."""
    connections = replica.connections
    peers = replica.bootstrap_peers()
    if connections.is_idle and _may_ask(replica):
        peer = connections.any_free(peers, replica.now_ms, replica.random_source)
        if peer is not None:
            replica.ask(peer, fetch_request(replica, 0), replica.log.end_offset)
    return connections.next_wake_ms([peer.id for peer in peers], replica.now_ms)


def fetch_failed(replica: Replica, peer_id: int, error: ErrorCode) -> None:
    """The connection to a leader that has answered before is broken. If the leader is alive, the next fetch,
    which does not wait, reaches it at once. If its process has died, all followers notice it in the same
    moment and stop vouching for it, so that nobody waits for a whole fetch timeout."""
    state = replica.state
    is_broken = error in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE)
    if not is_broken or peer_id != replica.leader_id or not isinstance(state, Follower):
        return
    if state.has_fetched and replica.may_stand:
        state.has_fetched = False
        patience_ms = min(LOST_CONNECTION_MS, replica.config.fetch_timeout_ms // 2)
        patience_ms += replica.random_source.below(patience_ms + 1)
        state.fetch_deadline_ms = min(state.fetch_deadline_ms, replica.now_ms + patience_ms)


# Fetch


def handle_fetch_answer(replica: Replica, offset: int, answer: FetchResponse) -> bool:
    """Takes in the answer to a fetch. offset: the offset from which the fetch read. Returns whether the peer
    answered as it should; if not, no requests are sent to it for a moment."""
    told = _fetched_partition(answer)
    if told is None:
        return False
    leader = told.current_leader or FetchResponse.LeaderIdAndEpoch()
    turns = replica.turns
    endpoints = told_endpoints(replica, leader.leader_id, answer.node_endpoints)
    handled = learn_from_answer(replica, told.error_code, leader.leader_id, leader.leader_epoch, endpoints)
    if handled is not None:
        if told.error_code and replica.turns == turns:
            _try_again(replica, leader, endpoints)
            return False  # the answer says nothing new
        return handled
    state = replica.state
    if told.error_code or not isinstance(state, Follower) or offset != replica.log.end_offset:
        return False
    if told.diverging_epoch is not None and told.diverging_epoch.epoch >= 0:
        replica.give_up_download()
        _truncate_to_common_epoch(replica, told.diverging_epoch.epoch, told.diverging_epoch.end_offset)
    elif told.snapshot_id is not None and told.snapshot_id.end_offset >= 0:
        state.is_caught_up = False
        if not _begin_download(replica, state, SnapshotId(*_pair(told.snapshot_id))):
            return False
    else:
        replica.give_up_download()  # the leader goes on from this log, and so must not be cut short by it
        if told.records is not None and not _append(replica, told.records):
            return False
        if told.high_watermark >= 0:  # a leader that has committed nothing yet does not know it either
            state.is_caught_up = told.high_watermark <= replica.log.end_offset
            replica.raise_high_watermark(told.high_watermark)
    _reached_leader(replica, state)
    return True


def _try_again(replica: Replica, told: FetchResponse.LeaderIdAndEpoch, endpoints: Endpoints) -> None:
    """Asks anew where the leader is: this observer has lost it, but another replica still follows it and may
    know its address."""
    state = replica.state
    if not isinstance(state, Follower) or replica.may_stand:
        return
    if (told.leader_id, told.leader_epoch) != (replica.leader_id, replica.epoch):
        return
    listener = replica.config.listener
    known = replica.leader_endpoints.get(listener)
    if not state.has_fetched and endpoints.get(listener) not in (None, known):
        become_follower(replica, told.leader_epoch, told.leader_id, endpoints)
    elif replica.now_ms >= state.fetch_deadline_ms:
        state.fetch_deadline_ms = replica.now_ms + state.fetch_timeout_ms


def _fetched_partition(answer: FetchResponse) -> FetchResponse.PartitionData | None:
    if answer.error_code or len(answer.responses) != 1 or len(answer.responses[0].partitions) != 1:
        return None
    return answer.responses[0].partitions[0]


def _pair(snapshot: FetchResponse.SnapshotId) -> tuple[int, int]:
    return snapshot.end_offset, snapshot.epoch


def _reached_leader(replica: Replica, state: Follower) -> None:
    state.has_fetched = True
    state.fetch_deadline_ms = replica.now_ms + state.fetch_timeout_ms


def _truncate_to_common_epoch(replica: Replica, epoch: int, end_offset: int) -> None:
    """Truncates the log because the leader has no records of an epoch that this log has, and asks again. The
    log is cut to the end that the common epoch has in one of the two logs. Both are ends of batches, so the
    smaller one is the end of a batch in both logs."""
    log = replica.log
    if epoch > 0:
        known, local_end_offset = log.end_offset_for(epoch)
        end_offset = min(local_end_offset, end_offset) if known == epoch else local_end_offset
    end_offset = max(end_offset, log.start_offset)
    if end_offset < log.end_offset:
        replica.truncate(end_offset)


def _append(replica: Replica, records: Records) -> bool:
    """Appends the batches that follow this log's end, are intact, and are not of a later epoch than the
    leader's. An incomplete last batch is left for the next fetch. Returns False if there was anything
    else."""
    if not isinstance(records, bytes | bytearray | memoryview):
        return False
    log = replica.log
    size_bytes = len(records)
    if not size_bytes:
        return True
    piece_start = 0
    piece_epoch = -1
    next_offset = log.end_offset
    position = 0
    controls: list[tuple[int, int]] = []
    is_fine = True
    pieces: list[tuple[int, int, int, int]] = []
    try:
        for position, header in headers(records):
            epoch = header.partition_leader_epoch
            if (
                header.base_offset != next_offset
                or not max(piece_epoch, log.last_epoch) <= epoch <= replica.epoch
                or header.last_offset_delta < 0
                or not is_intact(records, position, header)
            ):
                is_fine = False
                break
            if epoch != piece_epoch:
                if piece_epoch >= 0:
                    pieces.append((piece_start, position, next_offset, piece_epoch))
                piece_start, piece_epoch = position, epoch
            if header.is_control:
                controls.append((position, next_offset))
            next_offset = header.next_offset
            position += header.size_bytes
    except RecordsError:
        is_fine = False
    if piece_epoch >= 0:
        pieces.append((piece_start, position, next_offset, piece_epoch))
    for start, end, end_offset, epoch in pieces:
        piece = records if start == 0 and end == size_bytes else records[start:end]
        log.append(bytes(piece), end_offset, epoch)
    for position, base_offset in controls:
        replica.history.read(records, position, base_offset)
    return is_fine


# FetchSnapshot


def _begin_download(replica: Replica, state: Follower, snapshot: SnapshotId) -> bool:
    """Begins to fetch a snapshot, if it holds more than this log. Any other snapshot would lose something.

    All that a snapshot holds is committed. If its last epoch is newer than the last one of this log, nothing
    in this log at or behind its end is committed; if this log ends no later than the snapshot, all that is
    committed here is in it. So a log that ends in an epoch of which nothing was committed gives way to an
    older snapshot.
    """
    if state.download is not None and state.download.snapshot == snapshot:
        return True  # one of the requests for it was lost; what has come of it is not fetched again
    log = replica.log
    holds_all_of_ours = snapshot.end_offset > log.end_offset or (
        snapshot.end_offset == log.end_offset and snapshot.epoch != log.last_epoch
    )
    if snapshot.epoch < 0 or not (snapshot.epoch > log.last_epoch or holds_all_of_ours):
        return False
    replica.give_up_download()
    state.download = Download(snapshot)
    return True


def handle_fetch_snapshot_answer(replica: Replica, position: int, answer: FetchSnapshotResponse) -> bool:
    """Takes in a part of a snapshot. position: the position that was asked for. Returns whether the peer
    answered as it should."""
    if answer.error_code or len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        return False
    told = answer.topics[0].partitions[0]
    if answer.topics[0].name != METADATA_TOPIC or told.index != 0:
        return False
    leader = told.current_leader or FetchSnapshotResponse.LeaderIdAndEpoch(NOBODY, replica.epoch)
    endpoints = told_endpoints(replica, leader.leader_id, answer.node_endpoints)
    handled = learn_from_answer(replica, told.error_code, leader.leader_id, leader.leader_epoch, endpoints)
    if handled is not None:
        return handled
    state = replica.state
    if not isinstance(state, Follower) or state.download is None:
        return False
    download = state.download
    snapshot = SnapshotId(told.snapshot_id.end_offset, told.snapshot_id.epoch)
    if told.error_code:
        replica.give_up_download()  # the leader has deleted it: the next fetch says what there is instead
        _reached_leader(replica, state)
        return told.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    content = told.unaligned_records
    if (
        snapshot != download.snapshot
        or told.position != download.position
        or download.position != position
        or not isinstance(content, bytes | bytearray | memoryview)
        or not 0 < len(content) <= told.size - position
    ):
        replica.give_up_download()
        return False
    replica.log.add_chunk(snapshot, position, bytes(content))
    download.position += len(content)
    if download.position == told.size:
        download.is_whole = True
        replica.log.ask_install(snapshot)
    _reached_leader(replica, state)
    return True


def install(replica: Replica, snapshot: SnapshotId, control: SnapshotControl | None) -> None:
    """The driver has put a whole snapshot in the place of the log. If the snapshot was broken, it is fetched
    again."""
    state = replica.state
    if isinstance(state, Follower):
        state.download = None
    if control is None:
        return
    replica.log.installed(snapshot)
    replica.history.begin(snapshot.end_offset - 1, control.kraft_version, control.voters)
    replica.raise_high_watermark(snapshot.end_offset)
