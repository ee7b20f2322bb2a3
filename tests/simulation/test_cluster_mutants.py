"""Rules of replication, of the controller and of the coordinators, each broken on purpose: some rule of the
simulator strikes, in the cluster that the mutant names, and none strikes there without the mutant."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from typing import Any

import pytest

from broker.replication.fetcher.replica_fetcher import ReplicaFetcher
from broker.simulation import clients, cluster, rules
from broker.simulation.cluster.cluster_running import play
from broker.simulation.cluster.event_loop import EventLoop
from broker.simulation.rules.fault_rules import CONTAINED
from broker.simulation.rules.rule_table import RULES
from broker.simulation.verdict import THE_NODE_FAILS, Failure
from tests.simulation import cluster_fates
from tests.simulation.cluster_mutant import ClusterMutant, wrapped
from tests.simulation.controller_mutants import CONTROLLER_MUTANTS
from tests.simulation.coordinator_mutants import COORDINATOR_MUTANTS
from tests.simulation.mutant_arenas import ARENAS, recipe_in
from tests.simulation.replication_mutants import REPLICATION_MUTANTS
from tests.simulation.storage_mutants import STORAGE_MUTANTS

ALL = (*REPLICATION_MUTANTS, *CONTROLLER_MUTANTS, *COORDINATOR_MUTANTS, *STORAGE_MUTANTS)

PLACES = sorted({(mutant.arena, mutant.seed) for mutant in ALL})
"""Where any mutant is caught."""

RAISED = re.compile(r"Violation\(\s*([A-Z][A-Z_]+)")
"""The name of a rule, where it is said to be broken."""


def met(arena: str, seed: int) -> Failure | None:
    """What goes wrong in an arena or with a fate. Raises what a fate itself raises whose conditions do not
    come about: that is no failure of a node."""
    if arena in ARENAS:
        return play(recipe_in(arena, seed)).failure
    try:
        cluster_fates.FATES[arena](seed)
    except (AssertionError, TimeoutError):
        raise
    except Exception as error:
        return Failure.of(error, 0)
    return None


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_rule_is_noticed(mutant: ClusterMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.apply(monkeypatch)
    failure = met(mutant.arena, mutant.seed)
    assert failure is not None
    assert failure.rule == mutant.breaks, failure.text
    assert mutant.says in failure.text


@pytest.mark.parametrize(("arena", "seed"), PLACES)
def test_nothing_is_wrong_without_a_mutant(arena: str, seed: int) -> None:
    failure = met(arena, seed)
    assert failure is None, failure.text


def test_every_rule_has_a_mutant() -> None:
    """What no mutant breaks might as well not be checked."""
    broken = {mutant.breaks for mutant in ALL}
    assert [rule for rule in RULES if rule not in broken] == []


def test_every_rule_that_can_strike_is_in_the_table() -> None:
    """Wherever it is looked at: after a turn, by a client, by a verb, or in the end."""
    named: list[str] = []
    for package in (clients, cluster, rules):
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            named += [vars(module)[name] for name in RAISED.findall(inspect.getsource(module))]
    assert len(set(named)) > 40
    assert set(named) - RULES.keys() == set()


def test_an_exception_alone_is_no_proof() -> None:
    """Any fault of the mutant itself ends a node, too."""
    assert [each.name for each in ALL if each.breaks == THE_NODE_FAILS and not each.says] == []


def test_a_fate_that_does_not_come_about_is_no_failure_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(seed: int) -> None:
        EventLoop().run_until(lambda: False, limit_ms=seed)

    monkeypatch.setattr(cluster_fates, "FATES", {"never": never})
    with pytest.raises(TimeoutError):
        met("never", 1)


def test_what_a_node_contains_is_noticed_in_a_fate(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a run: clients get over it, so no other rule would see it."""
    struck: list[str] = []

    def append(genuine: Any, self: ReplicaFetcher, *arguments: Any) -> None:
        if not struck:
            struck.append(self.name)
            raise KeyError("a fault of ours")
        genuine(self, *arguments)

    wrapped(monkeypatch, ReplicaFetcher, "_append", append)
    failure = met("leader fails", 1)
    assert struck
    assert failure is not None
    assert failure.rule == CONTAINED
    assert "a fault of ours" in failure.text


def test_there_are_enough_mutants() -> None:
    names = [mutant.name for mutant in ALL]
    assert len(names) == len(set(names)) >= 40
