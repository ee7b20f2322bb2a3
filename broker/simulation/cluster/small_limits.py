"""Clusters whose limits are small: what takes a gigabyte or a week at the defaults happens within a minute.

    metadata       snapshots every few seconds, small segments, and little kept before the latest snapshot: a
                   node that was away fetches a snapshot
    logs           small segments and indexes of the topics that clients write
    compaction     these topics are compacted all the time, so that copies of one log differ; their records
                   have keys, few or each its own
    sessions       few places for fetch sessions, so that followers and readers lose theirs
    expiry         ids of transactions and offsets of groups that nobody uses are forgotten

Each kind is absent from most seeds and has a stream of its own, so the rest of a plan stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.seeded_random import SeededRandom

__all__ = ["SMALL_LIMITS", "with_small_limits"]

Change = Callable[[SeededRandom, ClusterPlan], ClusterPlan]


def with_small_limits(seed: int, plan: ClusterPlan) -> ClusterPlan:
    """The plan of a seed with those that the seed draws."""
    for name, (is_one_of, change) in SMALL_LIMITS.items():
        random = SeededRandom(seed, f"small limits: {name}")
        if random.below(is_one_of) == 0:
            plan = change(random, plan)
    return plan


def _metadata(random: SeededRandom, plan: ClusterPlan) -> ClusterPlan:
    return plan.with_properties(
        {
            "metadata.log.max.snapshot.interval.ms": random.one_of(("2000", "5000", "20000")),
            "metadata.log.max.record.bytes.between.snapshots": random.one_of(("1000", "10000", "20971520")),
            "internal.metadata.log.segment.bytes": random.one_of(("2000", "20000")),
            "metadata.max.retention.bytes": random.one_of(("1", "10000")),
            "internal.metadata.delete.delay.millis": random.one_of(("0", "3000")),
        },
    )


def _logs(random: SeededRandom, plan: ClusterPlan) -> ClusterPlan:
    configs = {
        "internal.segment.bytes": random.one_of(("4000", "10000", "50000")),
        "segment.index.bytes": random.one_of(("24", "1000", "10485760")),
        "index.interval.bytes": random.one_of(("0", "500", "4096")),
        "file.delete.delay.ms": "1000",
    }
    topics = tuple(replace(topic, configs={**topic.configs, **configs}) for topic in plan.topics)
    return replace(plan, topics=topics)


def _compaction(random: SeededRandom, plan: ClusterPlan) -> ClusterPlan:
    configs = {
        "cleanup.policy": random.one_of(("compact", "compact,delete")),
        "internal.segment.bytes": random.one_of(("4000", "20000")),
        "min.cleanable.dirty.ratio": random.one_of(("0", "0.5")),
        "delete.retention.ms": random.one_of(("0", "5000", "86400000")),
        "file.delete.delay.ms": "1000",
    }
    keys = random.one_of(("0", "5", "40"))
    topics = tuple(replace(topic, configs={**topic.configs, **configs}) for topic in plan.topics)
    clients = tuple(replace(client, options={**client.options, "keys": keys}) for client in plan.clients)
    return replace(plan, topics=topics, clients=clients).with_properties(
        {"log.cleaner.backoff.ms": random.one_of(("1000", "5000"))}
    )


def _sessions(random: SeededRandom, plan: ClusterPlan) -> ClusterPlan:
    slots = random.one_of(("0", "1", "2", "4"))
    return plan.with_properties({"max.incremental.fetch.session.cache.slots": slots})


def _expiry(random: SeededRandom, plan: ClusterPlan) -> ClusterPlan:
    """Nobody takes in records within transactions: the offsets of a group that has no members may expire
    between two of them, and what was taken in is taken in again."""
    clients = tuple(
        replace(
            client,
            kind="transactional",
            group="",
            options={key: value for key, value in client.options.items() if key != "source"},
        )
        if client.kind in ("transactional", "transformer")
        else client
        for client in plan.clients
    )
    return replace(plan, clients=clients).with_properties(
        {
            "offsets.retention.minutes": "1",
            "offsets.retention.check.interval.ms": "5000",
            "transactional.id.expiration.ms": random.one_of(("15000", "60000")),
            "transaction.remove.expired.transaction.cleanup.interval.ms": "5000",
        },
    )


SMALL_LIMITS: Final[Mapping[str, tuple[int, Change]]] = MappingProxyType(
    {
        "metadata": (2, _metadata),
        "logs": (3, _logs),
        "sessions": (3, _sessions),
        "expiry": (4, _expiry),
        "compaction": (4, _compaction),
    }
)
"""By name: one of so many seeds has them, and what they make of a plan."""
