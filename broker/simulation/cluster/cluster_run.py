"""One run of a cluster: it starts, is in trouble for a while, calms down, and must then be well again.

    plan, steps ──▶ nodes start, topics are made, clients begin
                    trouble: each step at its time
                    calm: whatever was broken is mended, whoever is down is started
                    the end: clients finish what they do, and all that was told to them is judged

What verbs need to befall the cluster is here: the world, the plan, the administrator that asks the cluster
for changes, and the budget of disks that may still be lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from broker.simulation.clients.admin_client import AdminClient
from broker.simulation.cluster.cluster_plan import ClientPlan, ClusterPlan
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.cluster_world import ClusterWorld

__all__ = ["VERBS", "ClusterRun"]

VERBS: Final[Mapping[str, Verb]] = MappingProxyType({})
"""All that can befall a cluster, by name, in the order in which it heals: what was broken below comes before
what stands upon it."""

START_LIMIT_MS: Final = 60_000


class ClusterRun:
    """calm: whether the trouble is over."""

    def __init__(self, seed: int, plan: ClusterPlan, steps: Sequence[ClusterStep]) -> None:
        self.seed = seed
        self.plan = plan
        self.steps = steps
        self.world = ClusterWorld(seed, plan.places, is_dynamic=plan.is_dynamic, features=plan.features)
        self.admin = AdminClient(
            self.world,
            ClientPlan("admin", "admin", ()),
            [each.host for each in plan.places if each.is_broker],
        )
        self.is_calm = False
        self.began_ns = 0
        """When the trouble began."""

    def run(self) -> None:
        """From the start to the verdict. Raises what a rule or a node raises."""
        self.start()
        self.make_trouble()
        self.calm()

    def start(self) -> None:
        """All nodes, until they are ready."""
        self.world.start_all(limit_ms=START_LIMIT_MS)
        self.admin.start()

    def make_trouble(self) -> None:
        """Every step at its time, and what the cluster makes of it."""
        loop = self.world.loop
        self.began_ns = loop.now_ns
        for step in self.steps:
            loop.call_later(step.at_ms * 1_000_000, partial(self._play, step))
        loop.run_for(self.plan.duration_ms)

    def _play(self, step: ClusterStep) -> None:
        told = VERBS[step.verb].play(self, step)
        if told is None:
            self.world.coverage.count(f"nothing to do: {step.verb}")
            return
        self.world.coverage.count(f"step: {step.verb}")
        self.world.tell(told)

    def calm(self) -> None:
        """Ends all trouble at once."""
        self.is_calm = True
        for verb in VERBS.values():
            if verb.heal is not None:
                verb.heal(self)
