"""Rules of replication, of the controller and of the coordinators, each broken on purpose: some rule of the
simulator strikes, in the cluster that the mutant names, and none strikes there without the mutant."""

from __future__ import annotations

import pytest

from broker.simulation.clients.transactional_producers import REFUSED
from broker.simulation.cluster import cluster_run
from broker.simulation.cluster.cluster_running import play
from broker.simulation.rules.group_rules import GROUPS_SETTLE
from broker.simulation.rules.rule_table import RULES
from broker.simulation.verdict import Failure
from tests.simulation.cluster_fates import FATES
from tests.simulation.cluster_mutant import ClusterMutant
from tests.simulation.controller_mutants import CONTROLLER_MUTANTS
from tests.simulation.coordinator_mutants import COORDINATOR_MUTANTS
from tests.simulation.mutant_arenas import ARENAS, recipe_in
from tests.simulation.replication_mutants import REPLICATION_MUTANTS
from tests.simulation.storage_mutants import STORAGE_MUTANTS

ALL = (*REPLICATION_MUTANTS, *CONTROLLER_MUTANTS, *COORDINATOR_MUTANTS, *STORAGE_MUTANTS)

PLACES = sorted({(mutant.arena, mutant.seed) for mutant in ALL})
"""Where any mutant is caught."""

AT_THE_END = (
    cluster_run.BECOMES_WELL,
    cluster_run.CLIENTS_FINISH,
    cluster_run.PROMISES,
    GROUPS_SETTLE,
    REFUSED,
)
"""Rules that are in no table, as they are looked at once, or by a client."""


SHORT_LIMIT_MS = 45_000
"""So long a mutant has to become well: it never does."""


def met(arena: str, seed: int) -> Failure | None:
    """What goes wrong in an arena or with a fate."""
    if arena in ARENAS:
        return play(recipe_in(arena, seed)).failure
    try:
        FATES[arena](seed)
    except Exception as error:
        return Failure.of(error, 0)
    return None


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_rule_is_noticed(mutant: ClusterMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_run, "FINISH_LIMIT_MS", SHORT_LIMIT_MS)
    mutant.apply(monkeypatch)
    failure = met(mutant.arena, mutant.seed)
    assert failure is not None
    assert failure.rule == mutant.breaks, failure.text


@pytest.mark.parametrize(("arena", "seed"), PLACES)
def test_nothing_is_wrong_without_a_mutant(arena: str, seed: int) -> None:
    failure = met(arena, seed)
    assert failure is None, failure.text


def test_every_rule_has_a_mutant() -> None:
    """What no mutant breaks might as well not be checked."""
    broken = {mutant.breaks for mutant in ALL}
    assert [rule for rule in (*RULES, *AT_THE_END) if rule not in broken] == []


def test_there_are_enough_mutants() -> None:
    names = [mutant.name for mutant in ALL]
    assert len(names) == len(set(names)) >= 40
