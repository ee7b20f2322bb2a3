"""The metrics of a replica of the metadata log.

Nearly all of them are read from state that exists anyway. How long commits and elections took must be noticed
when it happens: it is noted once for each rise of the high watermark and each change of the leader.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from controller.raft.identity import ReplicaKey
from controller.raft.node import RaftNode
from controller.raft.transitions import Role

__all__ = ["Durations", "QuorumMetrics", "quorum_metrics_of"]

WINDOW_MS: Final = 30_000


class Durations:
    """The mean and the largest of some durations over the last 30 to 60 seconds; NaN if there were none."""

    __slots__ = ("_before", "_began_ms", "_now")

    def __init__(self) -> None:
        self._began_ms = 0
        self._before = (0, 0, 0)
        self._now = (0, 0, 0)

    def note(self, took_ms: int, now_ms: int) -> None:
        self._turn(now_ms)
        count, total, largest = self._now
        self._now = (count + 1, total + took_ms, max(largest, took_ms))

    def _turn(self, now_ms: int) -> None:
        if now_ms - self._began_ms >= WINDOW_MS:
            is_old = now_ms - self._began_ms >= 2 * WINDOW_MS
            self._before = (0, 0, 0) if is_old else self._now
            self._now = (0, 0, 0)
            self._began_ms = now_ms

    def mean_and_max_ms(self, now_ms: int) -> tuple[float, float]:
        self._turn(now_ms)
        count = self._before[0] + self._now[0]
        if not count:
            return float("nan"), float("nan")
        return (self._before[1] + self._now[1]) / count, max(self._before[2], self._now[2])


class QuorumMetrics(NamedTuple):
    """state: the value of Kafka's metric current-state. Latencies are pairs of mean and largest, in
    milliseconds."""

    state: str
    leader_id: int
    voted: ReplicaKey | None
    epoch: int
    high_watermark: int
    log_end_offset: int
    log_end_epoch: int
    voters: int
    observers: int
    voters_without_address: int
    has_uncommitted_voter_change: bool
    commit_latency_ms: tuple[float, float]
    election_latency_ms: tuple[float, float]
    elected_leaders: int
    """How many elections of a leader have been announced since the start."""


def quorum_metrics_of(
    node: RaftNode,
    elected_leaders: int,
    commit_latency_ms: tuple[float, float],
    election_latency_ms: tuple[float, float],
) -> QuorumMetrics:
    """The metrics of a replica. Only the leader knows the observers; other replicas report 0 of them, as
    Kafka's do."""
    _, observers = node.progress()
    voters = node.voters
    unknown = sum(1 for voter in voters.by_id.values() if not voter.endpoints and voter.key != node.key)
    return QuorumMetrics(
        state=_state(node),
        leader_id=node.leader.leader_id,
        voted=node.voted,
        epoch=node.epoch,
        high_watermark=node.high_watermark,
        log_end_offset=node.end_offset,
        log_end_epoch=node.last_epoch,
        voters=len(voters),
        observers=len(observers),
        voters_without_address=unknown,
        has_uncommitted_voter_change=_has_uncommitted_voters(node),
        commit_latency_ms=commit_latency_ms,
        election_latency_ms=election_latency_ms,
        elected_leaders=elected_leaders,
    )


def _state(node: RaftNode) -> str:
    """The name of the state in the metrics. A follower without a vote is an observer; for a replica that
    waits, the name says whether it has given its vote."""
    if node.role is Role.FOLLOWER:
        return "observer" if node.is_observer else "follower"
    if node.role in (Role.LEADER, Role.CANDIDATE):
        return node.role.name.lower()
    waiting = "prospective" if node.role is Role.PROSPECTIVE else "unattached"
    return waiting if node.voted is None else f"{waiting}-voted"


def _has_uncommitted_voters(node: RaftNode) -> bool:
    committed = node.control_at(node.high_watermark).voters
    newest = node.control_at(node.end_offset).voters
    return node.kraft_version > 0 and committed != newest
