"""The quotas of clients as Kafka's JMX exporter names them: who uses how much, and is throttled for how long.

A sample belongs to those who share a limit; a label is empty where the limit is one for all of them. The
user's name is written as in Kafka, with percent encoding of all but letters, digits, `.`, `-` and `_`. Who
has no limit has no sample, and as many as are remembered have one (`broker.quotas.rate_quota`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote_from_bytes

from broker.metrics.families import Collector, Family
from broker.quotas.client_quotas import ClientQuotas
from config.ports import Clock

__all__ = ["mutation_collector", "quota_collector", "sanitized"]


def quota_collector(quotas: ClientQuotas, clock: Clock) -> Collector:
    """Shows what the quotas remember anyway; it is read when somebody scrapes."""

    def collect() -> Iterator[Family]:
        for kind, quota, measure, description in (
            ("produce", quotas.produce, "byte_rate", "Bytes a second of Produce requests"),
            ("fetch", quotas.fetch, "byte_rate", "Bytes a second of answers to Fetch"),
            ("request", quotas.request, "request_time", "Percent of a thread's time for requests"),
        ):
            usages = [
                ({"user": sanitized(usage.user), "client_id": usage.client_id}, usage)
                for usage in quota.usages(clock.monotonic_ms())
            ]
            name = f"kafka_server_{kind}"
            samples = [(labels, usage.per_second) for labels, usage in usages]
            yield Family(f"{name}_{measure}", "gauge", description, samples)
            throttles = [(labels, usage.throttle_ms) for labels, usage in usages]
            yield Family(f"{name}_throttle_time", "gauge", "Mean milliseconds of throttles", throttles)

    return collect


def mutation_collector(tokens: Callable[[], Iterable[tuple[str, str, float]]]) -> Collector:
    """Shows what clients may have created and deleted at once. tokens: the user, the client id, and how many
    partitions; less than 0 while all is refused."""

    def collect() -> Iterator[Family]:
        samples = [
            ({"user": sanitized(user), "client_id": client_id}, left) for user, client_id, left in tokens()
        ]
        name = "kafka_server_controllermutation_tokens"
        yield Family(name, "gauge", "Partitions that may be created or deleted at once", samples)

    return collect


def sanitized(name: str) -> str:
    """A user's name as Kafka's `Sanitizer` writes it."""
    return quote_from_bytes(name.encode("utf-8", "replace"), safe="").replace("~", "%7E")
