"""Metric families, and the collectors that parts of the broker register to show their metrics.

A collector is a function without arguments that yields families; it is called only when somebody
scrapes. Names are those that Kafka's JMX exporter gives (`kafka_server_replicamanager_partitioncount`), so
that existing dashboards and alerts work. A counter's name ends with `_total` or `_count`.

    def collect() -> Iterator[Family]:
        yield gauge("kafka_server_replicamanager_partitioncount", "Partitions on this broker", replicas.count)
        yield Family("kafka_log_log_size", "gauge", "Bytes of a partition's log",
                     (({"topic": t, "partition": str(p)}, size) for t, p, size in sizes()))

Samples may be a generator: a family of ten thousand partitions is written in portions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

_log = logging.getLogger("barnabas.metrics")

Sample: TypeAlias = tuple[Mapping[str, str], float]
"""The labels of a sample, and its value."""


class Family(NamedTuple):
    """One metric with all its samples. kind: "counter", "gauge" or "untyped"."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


Collector: TypeAlias = Callable[[], Iterable[Family]]


def gauge(name: str, description: str, value: float, **labels: str) -> Family:
    """A gauge that has a single sample."""
    return Family(name, "gauge", description, ((labels, value),))


def counter(name: str, description: str, value: float, **labels: str) -> Family:
    """A counter that has a single sample."""
    return Family(name, "counter", description, ((labels, value),))


class Collectors:
    """The collectors of one node, in the order in which they were registered.

    A family comes from one collector alone, because Prometheus wants all samples of a name together: a
    family with samples of several listeners is collected by one collector that knows them all.
    """

    def __init__(self) -> None:
        self._collectors: list[Collector] = []
        self.failures = 0

    def register(self, collector: Collector) -> None:
        self._collectors.append(collector)

    def __iter__(self) -> Iterator[Family]:
        for collector in self._collectors:
            try:
                yield from collector()
            except Exception:
                self.failures += 1
                _log.exception("A collector of metrics failed; the others go on")
        yield counter("barnabas_collector_failures_total", "Collectors of metrics that failed", self.failures)
