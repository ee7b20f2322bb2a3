"""What goes wrong in the coordinators, for alerts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from broker.metrics.families import Family, counter


class Coordinator(Protocol):
    @property
    def failures(self) -> int: ...


def coordinator_families(groups: Coordinator) -> Iterator[Family]:
    yield counter(
        "barnabas_coordinator_failures_total",
        "Partitions of the group coordinator that were read back from their log by our fault",
        groups.failures,
    )
