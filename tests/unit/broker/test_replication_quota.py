"""The rate at which throttled replicas are copied, and who is held back by it."""

from __future__ import annotations

import tracemalloc

import pytest

from broker.quotas.replication_quota import NO_LIMIT, ReplicationQuota, throttled_partitions
from tests.support.rigs.fetcher_rig import FetcherRig, records
from tests.support.rigs.log_rig import leader_batch


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [("", []), ("0:2,1:2,2:3", [0, 1]), ("0:1", []), ("4:2,", [4]), (" 4 : 2 ", [4]), ("\x004:2\x1f", [4])],
)
def test_the_list_names_partitions_by_broker(replicas: str, expected: list[int]) -> None:
    assert sorted(throttled_partitions(replicas, 2)) == expected


@pytest.mark.parametrize(
    "replicas", ["4:2,,5:2", f"4:2,1:{'9' * 4301},{'9' * 4301}:2,5:2,6:2147483648", "4:2,*,5:2"]
)
def test_what_names_no_replica_is_passed_over(replicas: str) -> None:
    assert throttled_partitions(replicas, 2) == {4, 5}


@pytest.mark.parametrize("replicas", ["*", "*,", ",*", "*,,"])
def test_empty_items_beside_a_star_do_not_count(replicas: str) -> None:
    quota = ReplicationQuota()
    quota.throttle("t", throttled_partitions(replicas, 2))
    assert quota.is_throttled("t", 7)


def test_a_star_throttles_all_partitions() -> None:
    quota = ReplicationQuota()
    quota.throttle("t", throttled_partitions("\x1b*\0", 2))
    assert quota.is_throttled("t", 7)
    assert not quota.is_throttled("u", 7)
    quota.throttle("t", throttled_partitions("", 2))
    assert not quota.is_throttled("t", 7)


def test_the_rate_is_over_the_windows_that_are_remembered() -> None:
    quota = ReplicationQuota(window_ms=1_000, windows=3)
    assert quota.rate(10_000) == 0
    quota.record(600, 10_100)
    quota.record(400, 10_900)
    assert quota.rate(10_900) == 1_000, "at least one window"
    assert quota.rate(12_000) == 500
    quota.record(300, 12_500)
    assert quota.rate(12_500) == 520
    assert quota.rate(13_000) == 300, "the first window is forgotten"
    assert quota.rate(30_000) == 0


def test_windows_are_forgotten_though_nobody_asks_for_the_rate() -> None:
    quota = ReplicationQuota(window_ms=1_000, windows=3)
    tracemalloc.start()
    try:
        for now_ms in range(0, 2_000_000, 1_000):
            quota.record(100, now_ms)
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()
    assert quota.rate(1_999_000) == 150


def test_without_a_limit_nothing_is_exceeded() -> None:
    quota = ReplicationQuota()
    quota.record(NO_LIMIT, 1_000)
    assert not quota.is_exceeded(1_000)
    quota.limit(0)
    assert quota.is_exceeded(1_000)


def test_a_throttled_follower_waits_and_the_others_do_not() -> None:
    rig = FetcherRig()
    for index in range(2):
        rig.host(index)
        rig.follow(index)
    rig.quota.throttle("orders", frozenset({0}))
    rig.quota.limit(20)
    rig.answer()
    rig.answer()
    batch = leader_batch(0, b"v" * 100, epoch=1)
    rig.answer(records(batch, high_watermark=9), records(batch, index=1, high_watermark=9))
    assert set(rig.asked()) == {1}
    rig.clock.move(100)
    rig.answer()
    assert rig.asked() == {}, "the rate is still too high"
    rig.clock.move(11_000)
    rig.answer()
    assert set(rig.asked()) == {0}


def test_a_throttled_follower_that_has_caught_up_is_not_held_back() -> None:
    rig = FetcherRig()
    rig.host()
    rig.follow()
    rig.quota.throttle("orders", frozenset({0}))
    rig.quota.limit(1)
    rig.answer(records(leader_batch(0, b"v", epoch=1), high_watermark=1))
    assert set(rig.asked()) == {0}
