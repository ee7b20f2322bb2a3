"""How fast connections may come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.network.creation_rate import BURST_SECONDS, LONGEST_REST_MS, CreationRate
from broker.network.limits import UNLIMITED, ConnectionLimits
from broker.server.connection_limits import change_limits
from tests.support.rigs.controllers import one_node_config


@given(st.integers(1, 50), st.lists(st.integers(0, 3_000), max_size=200))
def test_never_more_than_the_burst_and_the_rate(per_second: int, pauses: list[int]) -> None:
    rate = CreationRate(per_second)
    now_ms = came = 0
    for pause in pauses:
        now_ms += pause
        while rate.pause_ms(now_ms) == 0 and came < 10_000:
            rate.record(now_ms)
            came += 1
        assert came <= per_second * BURST_SECONDS + now_ms * per_second / 1000


@given(st.integers(1, 200))
def test_after_the_rest_one_may_come(per_second: int) -> None:
    rate = CreationRate(per_second)
    for _ in range(per_second * BURST_SECONDS):
        assert rate.pause_ms(0) == 0
        rate.record(0)
    now_ms = rate.pause_ms(0)
    assert 0 < now_ms <= LONGEST_REST_MS
    assert rate.pause_ms(now_ms + 1) == 0


def test_a_rate_of_0_lets_one_through_after_each_longest_rest() -> None:
    rate = CreationRate(0)
    for second in range(5):
        now_ms = second * LONGEST_REST_MS
        assert rate.pause_ms(now_ms) == 0
        rate.record(now_ms)
        assert rate.pause_ms(now_ms) == LONGEST_REST_MS
    assert rate.pause_ms(now_ms + LONGEST_REST_MS - 1) > 0


def change(limits: ConnectionLimits, rate: int, **per_listener: int) -> None:
    limits.change(
        maximum=9, maximum_per_ip=9, per_ip_overrides={}, per_listener={}, exempt_listener="INTERNAL",
        creation_rate=rate, creation_rate_per_listener=per_listener,
    )  # fmt: skip


def test_the_listener_between_brokers_waits_only_for_its_own_rate() -> None:
    limits = ConnectionLimits()
    change(limits, 1)
    for _ in range(BURST_SECONDS):
        limits.record("PLAINTEXT", 0)
    assert limits.pause_ms("PLAINTEXT", 0) > 0
    assert limits.pause_ms("INTERNAL", 0) == 0
    change(limits, 1, INTERNAL=1)
    assert limits.pause_ms("PLAINTEXT", 0) > 0, "a rate that stays goes on where it is"
    for _ in range(BURST_SECONDS):
        limits.record("INTERNAL", 0)
    assert limits.pause_ms("INTERNAL", 0) > 0
    change(limits, UNLIMITED)
    assert limits.pause_ms("PLAINTEXT", 0) == limits.pause_ms("INTERNAL", 0) == 0


def test_connections_between_brokers_take_nothing_of_the_clients_rate() -> None:
    limits = ConnectionLimits()
    config = one_node_config(max__connection__creation__rate="1")
    change_limits(limits, config, ["CLIENT", "INTERNAL"], {}, exempt_listener="INTERNAL")
    for _ in range(1_000):
        limits.record("INTERNAL", 0)
    assert limits.pause_ms("CLIENT", 0) == 0
    assert limits.pause_ms("INTERNAL", 0) > 0, "the broker's rate is that of the listener, too"
