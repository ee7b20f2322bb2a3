"""Worlds in which little happens: half of the seeds of long runs.

Where clients write several times a second and steps come every other second, a simulated minute is dear, and
nothing that takes long is ever left in peace. In a slow world clients pause for seconds, steps are rare, and
idle nodes ask each other less often. A minute of it costs a fraction, so what takes long gets its turn:
transactions and sessions that run out of time, fetches that wait to their end, retention, leaders that go
back to where they belong. An event is as dear as in any other world, and there are fewer of them: who counts
simulated hours must say how many of them were slow.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from broker.simulation.cluster.cluster_plan import ClientPlan, ClusterPlan
from broker.simulation.seeded_random import SeededRandom

__all__ = ["SLOW_FROM_MS", "slowed"]

SLOW_FROM_MS: Final = 300_000
"""Shorter runs are never slow: too little would happen in them."""
PAUSES_MS: Final = (5_000, 15_000)
"""Of a client between two writes or readings, on average."""
FETCH_WAIT_MS: Final = 2_500
"""Of consumers of a group, where nothing is there to be read."""
GAPS_MS: Final = (8_000, 30_000)

_IDLE: Final = MappingProxyType(
    {"metadata.max.idle.interval.ms": "2000", "replica.fetch.wait.max.ms": "1500"}
)


def slowed(seed: int, plan: ClusterPlan) -> ClusterPlan:
    """The plan of a seed, made slow if the seed is one of those and the run is long. It draws from a stream
    of its own, so the plans of the others stay what they were."""
    random = SeededRandom(seed, "pace")
    if plan.duration_ms < SLOW_FROM_MS or random.below(2):
        return plan
    pause_ms, gap_ms = random.one_of(PAUSES_MS), random.one_of(GAPS_MS)
    clients = tuple(_slow_client(each, pause_ms) for each in plan.clients)
    slow = replace(plan, clients=clients, gap_ms=max(plan.gap_ms, gap_ms), is_slow=True)
    return slow.with_properties(_IDLE)


def _slow_client(plan: ClientPlan, pause_ms: int) -> ClientPlan:
    options = {**plan.options, "pause_ms": str(pause_ms), "wait_ms": str(FETCH_WAIT_MS)}
    return replace(plan, options=options)
