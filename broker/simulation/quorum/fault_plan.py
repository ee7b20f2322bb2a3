"""What kind of world a seed makes: how many replicas, and what may befall them.

Each seed draws its own fault plan, and most kinds of misfortune are absent from most seeds (swarm testing): a
quorum on which everything rains at once only ever meets the same few fates, and never gets far.
"""

from __future__ import annotations

from typing import Final

import msgspec

from broker.simulation.seeded_random import SeededRandom

__all__ = ["VERBS", "FaultPlan", "draw", "without_faults"]

VERBS: Final = (
    "append",
    "crash",
    "restart",
    "pause",
    "resume",
    "cut",
    "isolate",
    "heal",
    "snapshot",
    "trim",
    "add-voter",
    "remove-voter",
    "upgrade",
    "resign",
    "shut-down",
    "drift",
    "move",
    "wipe",
    "quiet",
)
"""What a step of a run can do; `broker.simulation.quorum.steps` tells how."""


class FaultPlan(msgspec.Struct, frozen=True):
    """Times in microseconds unless the name says otherwise; odds are per 65,536."""

    voters: int
    observers: int
    """Brokers: observers for ever."""
    spares: int
    """Controllers that are no voters yet."""
    dynamic: bool
    """The voters stand in the log (kraft.version 1), and may change."""
    auto_join: bool
    election_timeout_ms: int
    fetch_timeout_ms: int
    chunk_bytes: int
    """At most so many bytes of a snapshot in one answer."""
    fetch_bytes: int
    latency: int
    jitter: int
    drop: int
    repeat: int
    slow: int
    """How often a message takes twenty times as long."""
    corrupt: int
    """How often a chunk of a snapshot arrives with a wrong byte."""
    sync: int
    """How long an fsync takes, at most."""
    stall: int
    """How often a node stands still in the middle of a Ready (a slow disk)."""
    step_gap_ms: int
    """Mean time between the steps of the run."""
    weights: tuple[int, ...]
    """For each of VERBS."""


def without_faults(fault_plan: FaultPlan) -> FaultPlan:
    """The same quorum with quick messages and disks, and none that fails."""
    return msgspec.structs.replace(
        fault_plan,
        latency=min(fault_plan.latency, 2_000),
        jitter=min(fault_plan.jitter, 2_000),
        drop=0,
        repeat=0,
        slow=0,
        corrupt=0,
        stall=0,
        sync=min(fault_plan.sync, 2_000),
    )


_RARE: Final = (0, 0, 0, 1, 4)
_COMMON: Final = (0, 2, 4, 8)


def draw(random: SeededRandom, voters: int | None = None) -> FaultPlan:
    """The fault plan of a seed."""
    count = voters if voters is not None else (1, 3, 3, 3, 5, 5, 7)[random.below(7)]
    dynamic = random.below(3) > 0
    weights = {
        "append": (10, 20, 40, 80)[random.below(4)],
        "crash": random.one_of(_COMMON),
        "restart": 12,
        "pause": random.one_of(_RARE),
        "resume": 6,
        "cut": random.one_of(_COMMON),
        "isolate": random.one_of(_COMMON),
        "heal": 8,
        "snapshot": random.one_of(_COMMON),
        "trim": random.one_of(_COMMON),
        "add-voter": random.one_of(_COMMON) if dynamic else random.one_of(_RARE),
        "remove-voter": random.one_of(_COMMON) if dynamic else 0,
        "upgrade": 0 if dynamic else random.one_of((0, 2)),
        "resign": random.one_of(_RARE),
        "shut-down": random.one_of(_RARE),
        "drift": random.one_of(_RARE),
        "move": random.one_of(_RARE) if dynamic else 0,
        "wipe": random.one_of(_RARE) if dynamic else 0,
        "quiet": random.one_of((0, 1)),
    }
    patience = random.one_of((1, 1, 2))
    return FaultPlan(
        voters=count,
        observers=random.one_of((0, 0, 1, 2)),
        spares=random.one_of((0, 1, 2)),
        dynamic=dynamic,
        auto_join=dynamic and random.below(3) == 0,
        election_timeout_ms=500 * patience,
        fetch_timeout_ms=1_000 * patience,
        chunk_bytes=random.one_of((64, 200, 1 << 20)),
        fetch_bytes=random.one_of((100, 1_000, 1 << 20)),
        latency=random.one_of((100, 500, 5_000)),
        jitter=random.one_of((100, 1_000, 20_000, 200_000)),
        drop=random.one_of((0, 0, 1_000, 6_000)),
        repeat=random.one_of((0, 0, 2_000)),
        slow=random.one_of((0, 1_000, 4_000)),
        corrupt=random.one_of((0, 6_000)),
        sync=random.one_of((100, 2_000, 50_000)),
        stall=random.one_of((0, 0, 2_000)),
        step_gap_ms=random.one_of((20, 60, 150)),
        weights=tuple(weights[verb] for verb in VERBS),
    )
