"""Records that an operator deletes under the clients that read them, in runs that lose nothing else.

    a line `deleted` of the history     before anybody is asked: what lies below may be missing from here on
    DeleteRecords                       to the leader, as often as it takes

So the rules and the checker know which records nobody needs to find any more, and hold the cluster to all
others. Where a run may lose committed records, "delete records" does it without telling anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.replication.partition import Partition
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.cluster_world import ClusterWorld

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["RECORD_DELETION_VERBS"]

COMPACTED: Final = "compact"


def _delete(run: ClusterRun, step: ClusterStep) -> str | None:
    """Of a client's partition, up to its high watermark or less. Of a topic that is compacted and nothing
    else no records are deleted."""
    random, topics = step.random(), [each for each in run.plan.topics if _may_be_deleted(each.configs)]
    if run.plan.allows_unclean or not topics:
        return None
    topic = random.one_of(topics).name
    leaders = _leaders(run.world, topic)
    if not leaders:
        return None
    index = random.one_of(tuple(leaders))
    log = leaders[index].log
    if log.high_watermark <= log.log_start_offset:
        return None
    before = random.between(log.log_start_offset + 1, log.high_watermark)
    if random.happens(0.5):
        before = log.high_watermark
    run.admin.carry_out(_deleted(run, topic, index, before))
    return f"records of {topic}-{index} before {before} shall go"


def _may_be_deleted(configs: Mapping[str, str]) -> bool:
    return configs.get("cleanup.policy") != COMPACTED


def _leaders(world: ClusterWorld, topic: str) -> dict[int, Partition]:
    """Of each partition whoever leads in the newest epoch of all that are up."""
    found: dict[int, Partition] = {}
    for node in world.brokers:
        for hosted in node.partitions:
            if hosted.topic != topic or not hosted.is_leader:
                continue
            known = found.get(hosted.index)
            if known is None or known.leader_epoch < hosted.leader_epoch:
                found[hosted.index] = hosted
    return dict(sorted(found.items()))


async def _deleted(run: ClusterRun, topic: str, index: int, before: int) -> None:
    run.admin.history.deletes(f"{topic}-{index}", before)
    await run.admin.delete_records(topic, index, before)


RECORD_DELETION_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {"delete records of clients": Verb(_delete, 3)}
)
