"""Counts and times of requests as Kafka's JMX exporter names them (`kafka_network_requestmetrics_…`).

As in Kafka the fetches of consumers (`FetchConsumer`) and of followers (`FetchFollower`) are told of apart,
and together as `Fetch`; errors only together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from broker.metrics.families import Collector, Family, Sample, counter, gauge
from broker.metrics.histogram import RECENTLY, new_buckets, quantiles_ms
from broker.metrics.requests import FETCH, FETCH_FOLLOWER, ApiTimes, RequestMetrics
from protocol.errors import ErrorCode

QUANTILES: Final = (
    ("0.50", 0.5),
    ("0.75", 0.75),
    ("0.95", 0.95),
    ("0.98", 0.98),
    ("0.99", 0.99),
    ("0.999", 0.999),
)

_TIMES: Final = (
    ("requestqueuetimems", "queue", "Time in which a request waited for the loop"),
    ("localtimems", "local", "Time in which a request was worked on"),
    ("remotetimems", "remote", "Time in which a request waited for replicas, records or members"),
    ("throttletimems", "throttle", "Time for which a connection was muted after its request"),
    ("responsesendtimems", "send", "Time in which an answer was handed to the kernel"),
    ("totaltimems", "total", "Time from a request's bytes to its encoded answer"),
)


def request_collector(all_metrics: Sequence[RequestMetrics], queued: Callable[[], int]) -> Collector:
    """Collects the metrics of several dispatchers (those of broker and controller listeners) together.
    queued: the number of requests that have arrived and not begun."""

    def collect() -> Iterator[Family]:
        yield Family(
            "kafka_network_requestmetrics_requests_total",
            "counter",
            "Requests by API and version",
            _requests(all_metrics),
        )
        yield Family(
            "kafka_network_requestmetrics_errors_total",
            "counter",
            "Error codes in answers, those of partitions counted each",
            _errors(all_metrics),
        )
        for suffix, attribute, description in _TIMES:
            name = f"kafka_network_requestmetrics_{suffix}"
            yield Family(
                name, "gauge", f"{description} (milliseconds), {RECENTLY}", _quantiles(all_metrics, attribute)
            )
            yield Family(
                f"{name}_count", "counter", f"{description} (samples)", _sample_counts(all_metrics, attribute)
            )
        yield gauge(
            "kafka_network_requestchannel_requestqueuesize",
            "Requests that have arrived and not begun, one of each connection",
            queued(),
        )
        yield gauge(
            "barnabas_awaited_answers",
            "Requests whose answer waits for replicas, records or members now",
            sum(metrics.waiting for metrics in all_metrics),
        )
        yield counter(
            "barnabas_malformed_requests_total",
            "Connections that were closed for what they sent",
            sum(metrics.malformed for metrics in all_metrics),
        )
        yield counter(
            "barnabas_handler_failures_total",
            "Requests that failed by our fault",
            sum(metrics.failures for metrics in all_metrics),
        )

    return collect


def _series(name: str) -> tuple[str, ...]:
    """The values of the label `request` under which what is counted by this name is told."""
    if name == FETCH:
        return FETCH, "FetchConsumer"
    if name == FETCH_FOLLOWER:
        return FETCH, FETCH_FOLLOWER
    return (name,)


def _requests(all_metrics: Iterable[RequestMetrics]) -> Iterator[Sample]:
    totals: dict[tuple[str, int], int] = {}
    for metrics in all_metrics:
        for counts in metrics.all_counts():
            for name in _series(counts.name):
                key = (name, counts.version)
                totals[key] = totals.get(key, 0) + counts.requests
    for (name, version), requests in totals.items():
        yield {"request": name, "version": str(version)}, requests


def _errors(all_metrics: Iterable[RequestMetrics]) -> Iterator[Sample]:
    totals: dict[tuple[str, int], int] = {}
    for metrics in all_metrics:
        for counts in metrics.all_counts():
            name = FETCH if counts.name == FETCH_FOLLOWER else counts.name
            for code, times in counts.errors.items():
                totals[name, code] = totals.get((name, code), 0) + times
    for (name, code), times in totals.items():
        yield {"request": name, "error": _error_name(code)}, times


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _since_start(times: ApiTimes, attribute: str) -> list[int]:
    buckets: list[int] = getattr(times, attribute)
    return buckets


def _by_api(
    all_metrics: Iterable[RequestMetrics],
    attribute: str,
    buckets_of: Callable[[ApiTimes, str], list[int]],
) -> dict[str, tuple[list[int], int]]:
    """For each API the buckets, and the number of requests that had no time of this kind at all. buckets_of:
    gives those since the start, or of the last minutes."""
    merged: dict[str, tuple[list[int], int]] = {}
    for metrics in all_metrics:
        for times in metrics.all_times():
            buckets = buckets_of(times, attribute)
            zeros = 0
            if attribute in ("queue", "remote", "throttle"):
                # Only requests that waited, were throttled or were queued have such a time recorded.
                zeros = max(0, sum(buckets_of(times, "total")) - sum(buckets))
            for name in _series(times.name):
                others, other_zeros = merged.get(name, (new_buckets(), 0))
                added = [one + other for one, other in zip(buckets, others, strict=True)]
                merged[name] = (added, zeros + other_zeros)
    return merged


def _quantiles(all_metrics: Iterable[RequestMetrics], attribute: str) -> Iterator[Sample]:
    fractions = [fraction for _, fraction in QUANTILES]
    for name, (buckets, zeros) in _by_api(all_metrics, attribute, ApiTimes.recent).items():
        values = quantiles_ms(buckets, fractions, zeros)
        for (label, _), value in zip(QUANTILES, values, strict=True):
            yield {"request": name, "quantile": label}, round(value, 6)


def _sample_counts(all_metrics: Iterable[RequestMetrics], attribute: str) -> Iterator[Sample]:
    for name, (buckets, zeros) in _by_api(all_metrics, attribute, _since_start).items():
        yield {"request": name}, sum(buckets) + zeros
