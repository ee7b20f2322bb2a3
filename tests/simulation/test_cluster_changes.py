"""What an operator changes in a calm cluster is changed: a live broker's image says so in the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.cluster.cluster_run import ClusterRun
from broker.simulation.cluster.cluster_running import play
from broker.simulation.cluster.partition_changes import moved_replicas
from broker.simulation.cluster.simulated_node import NodePlace
from broker.simulation.histories.history import Event, Record
from broker.simulation.seeded_random import SeededRandom
from broker.simulation.verdict import Violation
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.features import ELIGIBLE_LEADER_REPLICAS, GROUP_VERSION
from tests.simulation.changing_cluster import TOPIC, ChangingCluster
from tests.simulation.mutant_arenas import recipe_of_plan, versions

SET = re.compile(r"(\S+) of (.+) shall be (.+)")
MOVED = re.compile(r"(\S+)-(\d+) shall move from (\[.*?\]) to \[(.*?)\](.*)")


def config(image: ClusterImage, told: str) -> tuple[str | None, str | None]:
    """What it is, and what it shall be."""
    match = SET.fullmatch(told)
    assert match is not None, told
    name, whose, value = match.groups()
    resource = (4, "") if whose == "all brokers" else (2, whose)
    return image.configs.of(*resource).get(name), None if value == "the default" else value


@pytest.mark.parametrize(
    "verb", ["change min.insync.replicas", "change a topic's config", "change the brokers' config"]
)
def test_configs_are_changed(verb: str) -> None:
    cluster = ChangingCluster()
    for bits in (0, 2_000, 4_000):
        told = cluster.play(verb, bits)
        cluster.pass_by(1_000)
        now, wanted = config(cluster.image, told)
        assert now == wanted, told


def test_what_may_lose_records_is_changed_only_where_the_plan_allows_it() -> None:
    cluster = ChangingCluster(unclean=True)
    for verb in ("change unclean.leader.election.enable", "let records expire"):
        told = cluster.play(verb)
        cluster.pass_by(1_000)
        now, wanted = config(cluster.image, told)
        assert now == wanted, told
    cluster.play("elect unclean leaders")
    cluster.play("delete records")
    cluster.pass_by(2_000)
    assert cluster.run.deletes_records
    assert any(name.startswith("DeleteRecords: ") for name in cluster.run.world.coverage.counts)
    clean = ChangingCluster()
    for verb in ("change unclean.leader.election.enable", "let records expire", "elect unclean leaders"):
        with pytest.raises(AssertionError, match="nothing to do"):
            clean.play(verb)
    assert not clean.run.deletes_records


def test_a_history_is_judged_unless_records_may_be_missing() -> None:
    """Where the plan allows losses, too, as long as there were none."""

    def judged(losses: Sequence[tuple[str, int]], *, deletes: bool = False) -> bool:
        plan = ClusterPlan((NodePlace(1, True, True),), (), (), {}, 0, allows_unclean=True)
        run = ClusterRun(1, plan, ())
        run.world.losses.update(dict.fromkeys(losses))
        run.deletes_records = deletes
        seen: Any = {"process": "reader", "type": "ok"}
        run.world.note(Event(time_ms=1, operation="assign", positions={"a-0": 0}, **seen))
        run.world.note(Event(time_ms=2, operation="poll", reads=(Record("a-0", "of nobody", 0),), **seen))
        with suppress(Violation):
            run.judge()
        counts = run.world.coverage.counts
        is_left_out = any(name.startswith("histories that are not judged") for name in counts)
        assert is_left_out == ("history: records seen" not in counts)
        return not is_left_out

    assert judged([])
    assert judged([("extra-1", 0)])
    assert not judged([("a", 0)])
    assert not judged([("__transaction_state", 0)])
    assert not judged([], deletes=True)


def test_throttles_end() -> None:
    cluster = ChangingCluster()
    cluster.play("throttle replication")
    cluster.until(lambda image: any("throttled.rate" in name for name in image.configs.of(4, "")))
    cluster.heal("throttle replication")
    cluster.pass_by(1_000)
    assert not cluster.image.configs.of(4, "").keys() - {"min.insync.replicas"}


def test_eligible_leader_replicas_are_switched_off_and_on() -> None:
    cluster = ChangingCluster()
    assert cluster.play("switch eligible leader replicas").endswith("off")
    cluster.until(lambda image: image.features.level(ELIGIBLE_LEADER_REPLICAS) == 0)
    assert cluster.play("switch eligible leader replicas").endswith("on")
    cluster.until(lambda image: image.features.level(ELIGIBLE_LEADER_REPLICAS) == 1)


def test_protocols_change_while_clients_speak_them() -> None:
    """Up and down, and nothing that a client was told is broken."""
    result = play(recipe_of_plan(versions(), 1))
    assert result.failure is None, result.failure
    counts = result.coverage
    assert counts["transactions: on to protocol 1"] > 0
    assert counts["transactions: on to protocol 2"] > 0
    assert counts["ConsumerGroupHeartbeat: UNSUPPORTED_VERSION"] > 0
    assert counts["history: transactions ok"] > 20


def test_group_version_is_back_when_the_trouble_is_over() -> None:
    cluster = ChangingCluster()
    assert cluster.play("change group.version").startswith("group.version shall be 0")
    cluster.until(lambda image: image.features.level(GROUP_VERSION) == 0)
    cluster.heal("change group.version")
    cluster.until(lambda image: image.features.level(GROUP_VERSION) == 1, 5_000)


def test_partitions_move_and_moves_are_taken_back() -> None:
    cluster = ChangingCluster(nodes=5)
    cancelled = 0
    for bits in range(0, 16_000, 2_000):
        match = MOVED.fullmatch(cluster.play("reassign a partition", bits))
        assert match is not None, cluster.told
        topic, index, before, after, cancel = match.groups()
        cluster.pass_by(5_000)
        partition = cluster.partition(int(index), topic)
        wanted = tuple(int(replica) for replica in after.split(","))
        assert not partition.adding
        assert not partition.removing
        if cancel:
            cancelled += 1
        else:
            assert partition.replicas == wanted, cluster.told[-1]
            assert sorted(partition.isr) == sorted(wanted)
        assert len(partition.replicas) >= 3, before
    assert cancelled


def test_a_move_is_taken_back_while_it_runs() -> None:
    """The replicas are those that they were."""
    cluster = ChangingCluster(nodes=5)
    counts = cluster.run.world.coverage.counts
    for number in range(20):
        before = [sorted(cluster.partition(index).replicas) for index in (0, 1)]
        cluster.play("cancel a reassignment", 2_000 * number)
        cluster.pass_by(2_000)
        if counts.get("a move was taken back while it ran"):
            break
        assert counts.pop("a move was taken back too late") == 1
    after = [cluster.partition(index) for index in (0, 1)]
    assert [sorted(each.replicas) for each in after] == before
    assert not any(each.adding or each.removing for each in after)


def test_where_a_partition_moves() -> None:
    for bits in range(200):
        moved = moved_replicas(SeededRandom(bits, "move"), [1, 2, 3], [1, 2, 3, 4], 3)
        assert moved is None or (len(moved) >= 3 and moved != [1, 2, 3] and len(set(moved)) == len(moved))
        fewer = moved_replicas(SeededRandom(bits, "move"), [1, 2], [1, 2], 1)
        assert fewer in (None, [2, 1], [1], [2])
    assert moved_replicas(SeededRandom(1, "move"), [1], [1], 1) is None


def test_preferred_leaders_are_elected() -> None:
    cluster = ChangingCluster()
    replicas = cluster.partition().replicas
    other = [*replicas[1:], replicas[0]]
    cluster.run.admin.carry_out(cluster.run.admin.reassign(TOPIC, 0, other))
    cluster.until(lambda _: list(cluster.partition().replicas) == other)
    assert cluster.partition().leader == replicas[0]
    while "all" not in cluster.play("elect preferred leaders", len(cluster.told)):
        pass
    cluster.until(lambda _: cluster.partition().leader == other[0])


def test_topics_are_made_emptied_deleted_and_made_anew() -> None:
    cluster = ChangingCluster()
    cluster.play("create a topic", whom=1)
    cluster.until(lambda image: "extra-2" in image.topics.by_name)
    first = cluster.image.topics.by_name["extra-2"].id
    cluster.pass_by(2_000)
    assert cluster.run.world.coverage.counts["Produce: NONE"] > 0
    cluster.play("delete records")
    cluster.play("make a topic anew")
    cluster.until(lambda image: (made := image.topics.by_name.get("extra-2")) and made.id != first)
    cluster.play("delete a topic")
    cluster.until(lambda image: "extra-2" not in image.topics.by_name)
    cluster.play("add partitions")
    cluster.until(lambda image: len(image.topics.by_name[TOPIC].partitions) > 2)


def test_the_same_seed_is_the_same_run() -> None:
    def changed() -> tuple[str, list[str]]:
        cluster = ChangingCluster()
        for verb in ("create a topic", "reassign a partition", "throttle replication", "make a topic anew"):
            cluster.pass_by(3_000)
            cluster.play(verb)
        cluster.pass_by(10_000)
        cluster.run.admin.finish()
        cluster.until(lambda _: cluster.run.admin.is_over)
        return cluster.digest, cluster.told

    assert changed() == changed()
