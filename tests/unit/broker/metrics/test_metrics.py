"""Histograms, families of requests and of the network, the loop's health, slow turns."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from bisect import bisect_left
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from broker.metrics.exposition import portions
from broker.metrics.families import Collectors
from broker.metrics.histogram import BOUNDS_NS, WINDOW_MS, WINDOWS, new_buckets, quantiles_ms
from broker.metrics.loop_health import CollectorPauses, LoopHealth
from broker.metrics.network_families import network_collector
from broker.metrics.request_families import request_collector
from broker.metrics.requests import RequestMetrics
from broker.metrics.watchdog import Watchdog, _looks_in_one
from broker.ports.clock import SystemClock
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session
from tests.support.genuine.jmx_exporter_names import jmx_exporter_names
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.network_rig import NetworkRig
from tests.support.rigs.sans_io import other


def record(buckets: list[int], milliseconds: float, times: int = 1) -> None:
    buckets[bisect_left(BOUNDS_NS, int(milliseconds * 1e6))] += times


def test_quantiles_are_right_to_a_fifth() -> None:
    buckets = new_buckets()
    for sample in range(1, 1001):
        record(buckets, sample / 10)
    for fraction, value in zip((0.5, 0.95, 0.99), quantiles_ms(buckets, (0.5, 0.95, 0.99)), strict=True):
        assert value == pytest.approx(fraction * 100, rel=0.2)


def test_quantiles_at_the_edges() -> None:
    assert quantiles_ms(new_buckets(), (0.5, 0.999)) == [0, 0]
    buckets = new_buckets()
    record(buckets, 1_000_000)
    assert quantiles_ms(buckets, (0.5,)) == [BOUNDS_NS[-1] / 1e6]
    few = new_buckets()
    record(few, 10)
    assert quantiles_ms(few, (0.5, 0.999), zeros=99) == [0, pytest.approx(10, rel=0.2)]


def test_quantiles_are_of_the_last_minutes_and_counts_of_the_whole_life() -> None:
    metrics = RequestMetrics()
    times = metrics.counts("Produce", 12).times
    collect = request_collector([metrics], lambda: 0)

    def shown(name: str) -> dict[str, float]:
        """The samples of a family, by quantile."""
        prefix = "kafka_network_requestmetrics_"
        (family,) = (each for each in collect() if each.name == prefix + name)
        return {labels.get("quantile", ""): value for labels, value in family.samples}

    def serve(count: int, milliseconds: float) -> None:
        record(times.total, milliseconds, count)
        record(times.local, 1, count)
        if milliseconds > 1:
            record(times.remote, milliseconds - 1, count)

    serve(1_000_000, 1)
    for _ in range(WINDOWS - 1):
        metrics.end_window()
        assert 0 < shown("totaltimems")["0.99"] < 2
    metrics.end_window()
    assert set(shown("totaltimems").values()) == {0}, "there were none in the last minutes"
    serve(10, 800)
    assert shown("totaltimems")["0.50"] == pytest.approx(800, rel=0.2)
    assert shown("remotetimems")["0.50"] == pytest.approx(799, rel=0.2)
    serve(90, 1)
    assert shown("totaltimems")["0.75"] < 2
    assert shown("totaltimems")["0.95"] == pytest.approx(800, rel=0.2)
    assert shown("remotetimems")["0.75"] == 0, "the zeros are those of the last minutes, too"
    assert shown("remotetimems")["0.95"] == pytest.approx(799, rel=0.2)
    for name in ("totaltimems_count", "localtimems_count", "remotetimems_count"):
        assert shown(name) == {"": 1_000_100}


def test_requests_of_two_dispatchers_are_shown_together() -> None:
    broker, controller = RequestMetrics(), RequestMetrics()
    for metrics, requests in ((broker, 10), (controller, 5)):
        counts = metrics.counts("ApiVersions", 4)
        counts.requests += requests
        counts.errors[35] = 1
        record(counts.times.total, 2, requests)
        record(counts.times.local, 2, requests)
    broker.counts("ApiVersions", 3).requests += 1
    broker.waiting = 2
    broker.malformed = 3
    text = b"".join(portions(request_collector([broker, controller], lambda: 5)())).decode()
    lines = set(text.splitlines())
    prefix = "kafka_network_requestmetrics_"
    assert f'{prefix}requests_total{{request="ApiVersions",version="4"}} 15' in lines
    assert f'{prefix}requests_total{{request="ApiVersions",version="3"}} 1' in lines
    assert f'{prefix}errors_total{{request="ApiVersions",error="UNSUPPORTED_VERSION"}} 2' in lines
    assert f'{prefix}totaltimems_count{{request="ApiVersions"}} 15' in lines
    assert f'{prefix}remotetimems_count{{request="ApiVersions"}} 15' in lines
    assert f'{prefix}remotetimems{{request="ApiVersions",quantile="0.99"}} 0.0' in lines
    assert "kafka_network_requestchannel_requestqueuesize 5" in lines
    assert "barnabas_awaited_answers 2" in lines
    assert "barnabas_malformed_requests_total 3" in lines


def test_fetches_are_told_of_by_consumers_by_followers_and_together() -> None:
    broker, controller = RequestMetrics(), RequestMetrics()
    for metrics, name, requests, milliseconds in (
        (broker, "Fetch", 10, 2),
        (broker, "FetchFollower", 5, 500),
        (controller, "FetchFollower", 1, 500),
    ):
        counts = metrics.counts(name, 17)
        counts.requests = requests
        counts.errors[3] = 1
        record(counts.times.total, milliseconds, requests)
        record(counts.times.remote, milliseconds, requests)
    text = b"".join(portions(request_collector([broker, controller], lambda: 0)())).decode()
    lines = set(text.splitlines())
    prefix = "kafka_network_requestmetrics_"
    for request, requests in (("Fetch", 16), ("FetchConsumer", 10), ("FetchFollower", 6)):
        assert f'{prefix}requests_total{{request="{request}",version="17"}} {requests}' in lines
        for part in ("totaltimems", "remotetimems", "requestqueuetimems"):
            assert f'{prefix}{part}_count{{request="{request}"}} {requests}' in lines
    assert [line for line in lines if "_errors_total{" in line] == [
        f'{prefix}errors_total{{request="Fetch",error="UNKNOWN_TOPIC_OR_PARTITION"}} 3'
    ]
    quantiles = {
        request: float(line.rpartition(" ")[2])
        for line in lines
        for request in ("Fetch", "FetchConsumer", "FetchFollower")
        if line.startswith(f'{prefix}totaltimems{{request="{request}",quantile="0.50"}}')
    }
    assert quantiles["FetchConsumer"] == pytest.approx(2, rel=0.2)
    assert quantiles["FetchFollower"] == pytest.approx(500, rel=0.2)
    assert quantiles["Fetch"] == pytest.approx(2, rel=0.3)


def test_names_are_those_of_the_jmx_exporter() -> None:
    theirs = jmx_exporter_names()
    rig = NetworkRig()
    seen: dict[str, tuple[str, set[str]]] = {}

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.ask("hello", 6)
        metrics = RequestMetrics()
        metrics.counts("Fetch", 17).errors[3] = 1
        health = LoopHealth(rig.clock, rig.timers, lambda: 0)
        collectors = Collectors()
        for collector in (
            request_collector([metrics], lambda: 0),
            network_collector(rig.server),
            health.collect,
        ):
            collectors.register(collector)
        for family in collectors:
            samples = list(family.samples)
            seen[family.name] = (family.kind, set(samples[0][0]) if samples else set())

    rig.run(scenario)
    ours = {name: shape for name, shape in seen.items() if not name.startswith("barnabas_")}
    assert len(ours) > 25
    assert {name: shape for name, shape in ours.items() if theirs.get(name) != shape} == {}


def test_the_network_is_counted_by_listener() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.ask("hello", 6)
        text = b"".join(portions(network_collector(rig.server)())).decode()
        labels = '{listener="PLAINTEXT",networkProcessor="0"}'
        for line in (
            f"kafka_server_socket_server_metrics_connection_count{labels} 1",
            f"kafka_server_socket_server_metrics_incoming_byte_total{labels} {len(other('hello'))}",
            f"kafka_server_socket_server_metrics_outgoing_byte_total{labels} 6",
        ):
            assert line in text
        assert 'clientSoftwareName="unknown"' in text

    rig.run(scenario)


def test_listeners_come_and_go_while_a_page_is_written() -> None:
    traffic = SimpleNamespace(accepted=5, closed=2)
    acceptors = {name: SimpleNamespace(traffic=traffic) for name in ("PLAINTEXT", "INTERNAL")}
    server: Any = SimpleNamespace(acceptors=acceptors)
    samples = iter(next(iter(network_collector(server)())).samples)
    assert next(samples)[1] == 3
    del acceptors["PLAINTEXT"]
    acceptors |= {f"NEW{number}": acceptors["INTERNAL"] for number in range(2)}
    assert [labels["listener"] for labels, _ in samples] == ["INTERNAL"]


def test_lag_is_how_late_the_loop_comes() -> None:
    clock = HandClock()
    timers = HandTimers(clock)
    health = LoopHealth(clock, timers, lambda: 0)
    health.start()
    timers.advance(1000)
    assert health.worst_lag_ms == 0
    clock.move(1300)
    timers.advance(0)
    assert health.worst_lag_ms == 300
    assert 'quantile="0.99"' in b"".join(portions(health.collect())).decode()
    health.stop()
    before = list(health.lag)
    timers.advance(5000)
    assert health.lag == before


def test_lag_is_forgotten_after_some_minutes_but_for_the_worst() -> None:
    clock = HandClock()
    timers = HandTimers(clock)
    health = LoopHealth(clock, timers, lambda: 0)
    windows: list[int] = []
    health.at_window_end(lambda: windows.append(clock.monotonic_ms()))
    health.start()
    began_ms = clock.monotonic_ms()

    def longest() -> float:
        (family,) = (each for each in health.collect() if each.name == "barnabas_loop_lag_ms")
        return max(value for _, value in family.samples)

    clock.move(1300)
    timers.advance(0)
    assert longest() > 200
    timers.advance((WINDOWS + 1) * WINDOW_MS)
    assert longest() < 1
    assert health.worst_lag_ms >= 300
    assert WINDOWS <= len(windows) <= WINDOWS + 1
    assert WINDOW_MS <= windows[0] - began_ms < WINDOW_MS + 2000
    assert {later - earlier for earlier, later in pairwise(windows)} == {WINDOW_MS}


def test_pauses_of_the_collector_are_counted_by_generation() -> None:
    pauses = CollectorPauses(SystemClock())
    gc.disable()  # so that none comes by itself
    try:
        pauses.install()
        gc.collect(0)
        gc.collect(2)
        pauses.remove()
        gc.collect(2)
    finally:
        gc.enable()
    assert (pauses.pauses[0], pauses.pauses[2]) == (1, 1)
    assert pauses.worst_ns >= max(pauses.total_ns) > 0


def test_a_slow_turn_is_caught_with_its_stack_and_request(caplog: pytest.LogCaptureFixture) -> None:
    context = RequestContext(1, 17, 5, "slow-client", Session("c-1", "PLAINTEXT", "127.0.0.1"), 0, None)  # type: ignore[arg-type]

    async def scenario() -> None:
        watchdog = Watchdog(
            asyncio.get_running_loop(), SystemClock(), lambda: context, limit_ms=30, ask_every_ms=5
        )
        watchdog.start()
        await asyncio.sleep(0.05)
        deadline = time.monotonic() + 60
        while caplog.records:  # on a busy machine a turn may be slow by itself, but not each of them
            assert time.monotonic() < deadline, "it complains of turns that are quick"
            caplog.clear()
            await asyncio.sleep(0.05)
        the_slow_function(lambda: "the_slow_function" in caplog.text)
        seen = watchdog.slow_turns
        while watchdog.slow_turns == seen:
            await asyncio.sleep(0.001)
        watchdog.stop()

    with caplog.at_level(logging.WARNING, "barnabas.watchdog"):
        uvloop.run(scenario())
    assert "Fetch version 17 from client 'slow-client' (c-1)" in caplog.text
    assert "the_slow_function" in caplog.text
    assert "That turn of the loop is over" in caplog.text


def test_a_loop_that_rests_is_looked_at_less_often() -> None:
    assert [_looks_in_one(rests) for rests in (0, 1, 2, 9, 10, 9_999)] == [1, 1, 3, 3, 10, 10]


def the_slow_function(seen) -> None:  # type: ignore[no-untyped-def]
    """Blocks the loop until the watchdog has barked; the test's own timeout is the limit."""
    while not seen():
        time.sleep(0.001)
