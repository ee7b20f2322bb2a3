"""Clusters that begin with the feature levels of an earlier release, and are raised while they run.

    the beginning     formatted with an older `metadata.version`: its records have no eligible replicas, below
                      17 no log directories, below 13 no transactions. Below 17 a broker has one log
                      directory, below 21 the quorum's voters cannot change, as in Kafka
    raise metadata.version
                      to the next level, or beyond some, whoever is away or comes back just then. It is
                      never lowered
    raise kraft.version
                      from 0 to 1, in every other static quorum: its voters are written into the log, while
                      the properties of the nodes go on to name them (KIP-853)

`transaction.version` begins at any level, and its clients follow it (KIP-890). `group.version` is 1 from the
beginning, as groups of the newer protocol must settle. Each such seed has streams of its own, so the plans
of the others stay what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from broker.simulation.cluster.cluster_changes import newest_image
from broker.simulation.cluster.cluster_plan import ClientPlan, ClusterPlan
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.simulated_node import DATA
from broker.simulation.seeded_random import SeededRandom
from controller.metadata.image.features import (
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
)
from controller.metadata.metadata_version import (
    DIRECTORIES_LEVEL,
    LATEST_METADATA_VERSION,
    LOWEST_METADATA_VERSION,
    METADATA_VERSION_NAMES,
)

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["RAISE_KRAFT_VERSION", "RAISE_METADATA_VERSION", "UPGRADE_VERBS", "with_older_levels"]

RAISE_METADATA_VERSION: Final = "raise metadata.version"
RAISE_KRAFT_VERSION: Final = "raise kraft.version"
FIRST_LEVELS: Final = (7, 11, 12, 14, 16, 17, 21, 22, 23, 24, 26, 29)
DYNAMIC_QUORUM_LEVEL: Final = 21
RAISE_WEIGHT: Final = 16
RAISE_KRAFT_WEIGHT: Final = 16


def with_older_levels(seed: int, plan: ClusterPlan) -> ClusterPlan:
    """The plan of a seed, begun with older levels if the seed is one of those."""
    older = _with_older_metadata(seed, plan)
    if older.is_dynamic or SeededRandom(seed, "kraft.version").below(2):
        return older
    return replace(older, weights={**older.weights, RAISE_KRAFT_VERSION: RAISE_KRAFT_WEIGHT})


def _with_older_metadata(seed: int, plan: ClusterPlan) -> ClusterPlan:
    random = SeededRandom(seed, "older levels")
    if random.below(6):
        return plan
    level = random.one_of(FIRST_LEVELS)
    features = {METADATA_VERSION: level, GROUP_VERSION: 1, TRANSACTION_VERSION: random.below(3)}
    older = replace(
        plan,
        features=features,
        clients=tuple(_following(each) for each in plan.clients),
        weights={**plan.weights, RAISE_METADATA_VERSION: RAISE_WEIGHT},
        is_dynamic=plan.is_dynamic and level >= DYNAMIC_QUORUM_LEVEL,
    )
    return older if level >= DIRECTORIES_LEVEL else older.with_properties({"log.dirs": DATA})


def _following(client: ClientPlan) -> ClientPlan:
    """One of transactions takes the protocol that the cluster wants."""
    if client.kind not in ("transactional", "transformer") or client.options.get("protocol") == "1":
        return client
    return replace(client, options={**client.options, "follows": "true"})


def _raise(run: ClusterRun, step: ClusterStep) -> str | None:
    image = newest_image(run.world)
    level = 0 if image is None else image.features.metadata_version
    if not LOWEST_METADATA_VERSION <= level < LATEST_METADATA_VERSION:
        return None  # the newest, or nobody has read the log yet
    random = step.random()
    wanted = random.between(level + 1, min(level + random.one_of((1, 4, 30)), LATEST_METADATA_VERSION))
    run.admin.carry_out(run.admin.update_feature(METADATA_VERSION, wanted, is_downgrade=False))
    names = METADATA_VERSION_NAMES
    return f"{METADATA_VERSION} shall be {names[wanted]} instead of {names[level]}"


def _raise_kraft_version(run: ClusterRun, step: ClusterStep) -> str | None:
    levels = [node.kraft_version for node in run.world.nodes.values()]
    if any(levels) or all(level is None for level in levels):
        return None  # somebody has read of it, or nobody is up
    run.admin.carry_out(run.admin.update_feature(KRAFT_VERSION, 1, is_downgrade=False))
    return f"{KRAFT_VERSION} shall be 1 instead of 0"


UPGRADE_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {RAISE_METADATA_VERSION: Verb(_raise, 0), RAISE_KRAFT_VERSION: Verb(_raise_kraft_version, 0)}
)
"""Without weights of their own: seeds that begin with older levels give them some."""
