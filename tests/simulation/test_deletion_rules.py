"""The beginnings of logs: a rule strikes where records go that nobody has had deleted, and the last readers
of a run notice it by themselves."""

from __future__ import annotations

import pytest

from broker.simulation.cluster import cluster_run
from broker.simulation.cluster.cluster_changes import EXTRA_PREFIX
from broker.simulation.cluster.cluster_running import play
from broker.simulation.histories.history import Event
from broker.simulation.rules.deletion_rules import UNASKED
from tests.simulation.cluster_by_hand import TOPIC, ClusterByHand
from tests.simulation.mutant_arenas import recipe_in
from tests.simulation.traffic import Traffic, on_leader, strikes


def test_a_log_start_that_moves_unasked(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    hosted.log.increase_log_start(1)
    strikes(UNASKED, lambda: traffic.turn(node))


def test_a_log_start_that_moves_as_far_as_was_asked(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    asked = {f"{traffic.seen}": 2}
    traffic.world.note(Event(time_ms=0, process="admin", type="ok", operation="deleted", positions=asked))
    hosted.log.increase_log_start(2)
    traffic.turn(node)
    hosted.log.increase_log_start(3)
    strikes(UNASKED, lambda: traffic.turn(node))


def test_records_are_deleted_under_all_who_read_them() -> None:
    result = play(recipe_in("deletions", 1))
    assert result.failure is None
    for kind in ("step: delete records of clients", "reader: the log begins later"):
        assert result.coverage.get(kind), kind
    assert result.coverage["group consumers: offset out of range"] > 0


def test_the_log_start_of_the_administrator_s_topics_may_move(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    traffic.seen.topic = f"{EXTRA_PREFIX}1"
    hosted.log.increase_log_start(1)
    traffic.turn(node)
    assert traffic.world.coverage.counts["looked at: log that does not begin at 0"] == 1


def test_a_first_file_that_is_missing(traffic: Traffic) -> None:
    """The log start stays where it was."""
    node, hosted = on_leader(traffic)
    hosted.log.roll(0)
    hosted.log.segments.remove_first(1)
    hosted.partition_epoch += 1
    strikes(UNASKED, lambda: traffic.turn(node))


def test_a_last_reader_that_does_not_find_the_first_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with the first one that is there, and all that it passes then is visible: the checker misses
    nothing."""
    monkeypatch.setattr(cluster_run, "all_rules", lambda *_: [])
    cluster = ClusterByHand()
    cluster.wait_ms(2_000)
    log, admin = cluster.hosted(cluster.leader).log, cluster.run.admin
    with cluster.quiet():
        admin.carry_out(admin.delete_records(TOPIC, 0, -1))
    cluster.wait_until(lambda: log.log_start_offset > 0)
    strikes(cluster_run.PROMISES, cluster.end)
