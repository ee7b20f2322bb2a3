"""Where replicas go: rules that hold for every cluster, and how even the spread is."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.subjects.placement import UsableBroker, place_replicas
from controller.subjects.result import ControllerError
from protocol.errors import ErrorCode
from tests.support.rigs.controllers import SeededRandomSource


@st.composite
def clusters(draw: st.DrawFn) -> list[UsableBroker]:
    size = draw(st.integers(1, 12))
    racks = draw(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=size, max_size=size))
    fenced = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    fenced[0] = False
    return [UsableBroker(i, racks[i], fenced[i]) for i in range(size)]


@given(clusters(), st.integers(1, 20), st.integers(1, 5), st.integers(0, 1 << 30))
def test_every_partition_obeys_the_rules(
    brokers: list[UsableBroker], partitions: int, factor: int, seed: int
) -> None:
    factor = min(factor, len(brokers))
    by_id = {broker.id: broker for broker in brokers}
    unfenced = [broker for broker in brokers if not broker.fenced]
    placed = place_replicas(brokers, partitions, factor, SeededRandomSource(seed))
    assert len(placed) == partitions
    for number, replicas in enumerate(placed):
        assert len(set(replicas)) == len(replicas) == factor
        assert not by_id[replicas[0]].fenced, "the preferred leader may lead"
        if number >= len(unfenced):
            continue  # The rounds begin again, and what a rack gave in the first one counts.
        for rack in {broker.rack for broker in brokers}:
            held = [replica for replica in replicas if by_id[replica].rack == rack]
            alive = sum(broker.rack == rack for broker in unfenced)
            fenced_count = sum(by_id[replica].fenced for replica in held)
            assert fenced_count == max(0, len(held) - alive), "fenced brokers are the last resort of a rack"
        racks = {by_id[replica].rack for replica in replicas}
        assert len(racks) == min(factor, len({broker.rack for broker in brokers}))


@given(st.integers(1, 10), st.integers(1, 5), st.integers(0, 1 << 30))
def test_leaders_are_even_in_one_rack(size: int, factor: int, seed: int) -> None:
    brokers = [UsableBroker(i, None, False) for i in range(size)]
    placed = place_replicas(brokers, size * 3, min(factor, size), SeededRandomSource(seed))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {3}


def test_followers_are_even_too() -> None:
    brokers = [UsableBroker(i, None, False) for i in range(6)]
    placed = place_replicas(brokers, 60, 3, SeededRandomSource(3))
    held = Counter(replica for replicas in placed for replica in replicas)
    assert max(held.values()) - min(held.values()) <= 4


def test_the_same_chance_gives_the_same_placement() -> None:
    brokers = [UsableBroker(i, "ab"[i % 2], False) for i in range(5)]
    assert place_replicas(brokers, 9, 3, SeededRandomSource(7)) == place_replicas(
        brokers, 9, 3, SeededRandomSource(7)
    )


def test_a_cluster_of_fenced_brokers_takes_nothing() -> None:
    with pytest.raises(ControllerError) as caught:
        place_replicas([UsableBroker(1, None, True)], 1, 1, SeededRandomSource())
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert caught.value.message == (
        "All brokers are currently fenced, or have all their log directories cordoned."
    )
