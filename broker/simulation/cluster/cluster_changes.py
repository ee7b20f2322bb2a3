"""What an operator changes while a cluster runs: configs of topics and brokers, throttles, feature levels.

A verb decides at once what shall be changed, by the newest image that a live broker has, and hands a command
to the administrator, who asks for it as often as it takes. The answer may be a refusal by then; the rules of
the cluster must hold in any case.

What would let fewer losses be borne than the plan promises is only done where the plan allows that committed
records may be lost: a smaller `min.insync.replicas`, unclean elections, records of clients that expire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.clients.admin_client import BROKER_CONFIG, TOPIC_CONFIG, AdminClient
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.seeded_random import SeededRandom
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.features import ELIGIBLE_LEADER_REPLICAS
from controller.metadata.image.topics import TopicImage

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["CHANGE_VERBS", "EXTRA_PREFIX", "any_topic", "is_internal", "newest_image"]

EXTRA_PREFIX: Final = "extra-"
"""The names of topics that only the administrator uses: it makes and deletes them, and empties them."""

MIN_ISR: Final = "min.insync.replicas"

Values = Sequence[str | None]
"""Of a config, one of which it gets; None takes the config away."""

BROKER_CONFIGS: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "compression.type": ("gzip", "lz4", "snappy", "zstd", "uncompressed", None),
        "log.cleaner.min.cleanable.ratio": ("0.01", "0.2", None),
        "log.cleaner.threads": ("1", "2", None),
        "log.flush.interval.messages": ("1", "50", None),
        "log.flush.interval.ms": ("100", "5000", None),
        "log.index.interval.bytes": ("64", "1000", None),
        "log.message.timestamp.type": ("LogAppendTime", "CreateTime", None),
        "log.roll.ms": ("2000", "20000", None),
        "log.segment.bytes": ("1048576", None),
        "log.segment.delete.delay.ms": ("0", "1000", None),
        "num.replica.fetchers": ("1", "2", "3", None),
    }
)
"""Cluster-wide dynamic configs."""

TOPIC_CONFIGS: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "file.delete.delay.ms": ("0", "1000", None),
        "flush.messages": ("1", "7", None),
        "flush.ms": ("50", "1000", None),
        "index.interval.bytes": ("64", "1000", None),
        "internal.segment.bytes": ("4000", "40000", None),
        "min.cleanable.dirty.ratio": ("0.01", "0.2", None),
        "segment.ms": ("1000", "10000", None),
    }
)

FLUSHING: Final = frozenset({"flush.messages", "log.flush.interval.messages"})
"""Configs that stay as they are where all is synced before it is answered."""

EXPIRY_CONFIGS: Final[Mapping[str, Values]] = MappingProxyType(
    {"retention.bytes": ("0", "5000", "50000", None), "retention.ms": ("1000", "20000", None)}
)

LEADERS_THROTTLED: Final = "leader.replication.throttled"
FOLLOWERS_THROTTLED: Final = "follower.replication.throttled"
LEAST_THROTTLE_BYTES: Final = 100
MOST_THROTTLE_BYTES: Final = 100_000
LONGEST_THROTTLE_MS: Final = 30_000


def newest_image(world: ClusterWorld) -> ClusterImage | None:
    """That of the live broker which knows most; None if no broker is up."""
    images = [node.image for node in world.nodes.values()]
    return max((image for image in images if image is not None), key=lambda image: image.offset, default=None)


def is_internal(topic: str) -> bool:
    return topic.startswith("__")


def any_topic(image: ClusterImage, random: SeededRandom) -> TopicImage | None:
    """One of those that have partitions."""
    names = sorted(image.topics.by_name)
    topic = image.topics.by_name[random.one_of(names)] if names else None
    return topic if topic is not None and topic.partitions else None


# Configs


def _min_insync_replicas(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    topic = None if image is None else any_topic(image, random)
    if topic is None:
        return None
    if not run.budget.may_change_elections or any(
        partition.elr and partition.isr for partition in topic.partitions.values()
    ):
        return None  # the change takes eligible replicas away (KIP-966), perhaps the last that has everything
    least = 1 if run.plan.allows_unclean else run.plan.min_insync_replicas
    most = min(len(partition.replicas) for partition in topic.partitions.values())
    if most < least:
        return None
    value = str(random.between(least, most))
    change = run.admin.alter_config(TOPIC_CONFIG, topic.name, MIN_ISR, value)
    run.admin.carry_out(run.budget.while_nothing_is_lost(change))
    return f"{MIN_ISR} of {topic.name} shall be {value}"


def _unclean_elections(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    topic = None if image is None else any_topic(image, random)
    if topic is None or not run.plan.allows_unclean:
        return None
    value = random.one_of(("true", "true", "false", None))
    return _set_of_topic(run, topic.name, "unclean.leader.election.enable", value)


def _topic_config(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    topic = None if image is None else any_topic(image, random)
    if topic is None:
        return None
    config = random.one_of(_changing(run, TOPIC_CONFIGS))
    return _set_of_topic(run, topic.name, config, random.one_of(TOPIC_CONFIGS[config]))


def _changing(run: ClusterRun, configs: Mapping[str, Values]) -> Sequence[str]:
    """Those that may be changed in this run."""
    return [each for each in configs if not (run.plan.is_flushed and each in FLUSHING)]


def _expiry(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    topic = None if image is None else any_topic(image, random)
    if topic is None or is_internal(topic.name):
        return None
    if not topic.name.startswith(EXTRA_PREFIX) and not run.plan.allows_unclean:
        return None
    config = random.one_of(tuple(EXPIRY_CONFIGS))
    value = random.one_of(EXPIRY_CONFIGS[config])
    if value is not None and not topic.name.startswith(EXTRA_PREFIX):
        run.deletes_records = True
    return _set_of_topic(run, topic.name, config, value)


def _set_of_topic(run: ClusterRun, topic: str, config: str, value: str | None) -> str:
    run.admin.carry_out(run.admin.alter_config(TOPIC_CONFIG, topic, config, value))
    return f"{config} of {topic} shall be {value or 'the default'}"


def _broker_config(run: ClusterRun, step: ClusterStep) -> str:
    random = step.random()
    config = random.one_of(_changing(run, BROKER_CONFIGS))
    value = random.one_of(BROKER_CONFIGS[config])
    run.admin.carry_out(run.admin.alter_config(BROKER_CONFIG, "", config, value))
    return f"{config} of all brokers shall be {value or 'the default'}"


# Throttles


def _throttle(run: ClusterRun, step: ClusterStep) -> str | None:
    """The replicas of a topic are copied slowly, as during a large reassignment."""
    random, image = step.random(), newest_image(run.world)
    topic = None if image is None else any_topic(image, random)
    if topic is None:
        return None
    side = random.one_of((LEADERS_THROTTLED, FOLLOWERS_THROTTLED))
    rate = random.between(LEAST_THROTTLE_BYTES, MOST_THROTTLE_BYTES)
    duration_ms = random.between(1_000, LONGEST_THROTTLE_MS)
    run.admin.carry_out(_throttled(run.admin, topic.name, side, rate, duration_ms))
    return f"{side}.rate of {topic.name} shall be {rate} for {duration_ms / 1e3:.3f} s"


async def _throttled(admin: AdminClient, topic: str, side: str, rate: int, duration_ms: int) -> None:
    await admin.alter_config(BROKER_CONFIG, "", f"{side}.rate", str(rate))
    await admin.alter_config(TOPIC_CONFIG, topic, f"{side}.replicas", "*")
    await admin.sleep_ms(duration_ms)
    await admin.alter_config(BROKER_CONFIG, "", f"{side}.rate", None)
    await admin.alter_config(TOPIC_CONFIG, topic, f"{side}.replicas", None)


def _end_throttles(run: ClusterRun) -> None:
    """Without a rate nobody is throttled, whatever the topics say."""
    for side in (LEADERS_THROTTLED, FOLLOWERS_THROTTLED):
        run.admin.carry_out(run.admin.alter_config(BROKER_CONFIG, "", f"{side}.rate", None))


# Features


def _eligible_leader_replicas(run: ClusterRun, step: ClusterStep) -> str | None:
    """Switched on and off; both are allowed at any time. While a node has not copied back what it lost, the
    others are known by this feature to be the ones that may lead, so it stays as it is. Nor is it switched
    while a broker is away: without the feature such a one stays the only replica in sync, and with it the
    one that comes back from a crash may not lead, so nobody would."""
    image = newest_image(run.world)
    if image is None or not run.budget.may_change_elections:
        return None
    if any(not node.is_ready for node in run.world.brokers) or any(
        broker.fenced for broker in image.brokers.by_id.values()
    ):
        return None
    is_on = image.features.level(ELIGIBLE_LEADER_REPLICAS) > 0
    command = run.admin.update_feature(ELIGIBLE_LEADER_REPLICAS, 0 if is_on else 1, is_downgrade=is_on)
    run.admin.carry_out(run.budget.while_nothing_is_lost(command))
    return f"{ELIGIBLE_LEADER_REPLICAS} shall be switched {'off' if is_on else 'on'}"


CHANGE_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "change min.insync.replicas": Verb(_min_insync_replicas, 3),
        "change unclean.leader.election.enable": Verb(_unclean_elections, 3),
        "change a topic's config": Verb(_topic_config, 3),
        "let records expire": Verb(_expiry, 2),
        "change the brokers' config": Verb(_broker_config, 3),
        "throttle replication": Verb(_throttle, 2, _end_throttles),
        "switch eligible leader replicas": Verb(_eligible_leader_replicas, 2),
    }
)
