"""What an operator does to partitions while a cluster runs: they move, get other leaders, become more, go.

    reassignment   to other replicas, in another order, with one more or one fewer; taken back while it runs
    elections      of preferred leaders, of one partition or of all; unclean ones where the plan allows it
    topics         of the administrator's own: made, filled with some records, emptied, deleted, made anew by
                   the same name while brokers and clients may still know the former one
    partitions     are added, to topics of clients too

Replicas of a partition do not become fewer than those with which the plan's topics begin, unless it allows
that committed records may be lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from broker.simulation.clients.admin_client import AdminClient
from broker.simulation.clients.answer_errors import codes_in
from broker.simulation.clients.client_batches import BatchMaker
from broker.simulation.clients.client_metadata import PartitionLeader
from broker.simulation.cluster.cluster_changes import EXTRA_PREFIX, any_topic, is_internal, newest_image
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.seeded_random import SeededRandom
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import PartitionRegistration, TopicImage
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["PARTITION_VERBS", "moved_replicas", "some_of", "usable_brokers"]

T = TypeVar("T")

USUAL_REPLICAS: Final = 3
MOST_PARTITIONS: Final = 6
EXTRA_TOPICS: Final = 3
MOST_EXTRA_PARTITIONS: Final = 2
MOST_BATCHES: Final = 20
LONGEST_UNTIL_CANCEL_MS: Final = 3_000
LONGEST_MOVE_MS: Final = 20
"""Most moves of the small logs here are done after so long."""
LONGEST_BETWEEN_BATCHES_MS: Final = 1_000
FILL_LIMIT_MS: Final = 10_000
MOST_DELETED: Final = 200
"""Of the records before an offset that is named; others are deleted up to the high watermark."""


def some_of(random: SeededRandom, things: Sequence[T], count: int) -> list[T]:
    """So many of them, in a random order."""
    left = list(things)
    return [left.pop(random.below(len(left))) for _ in range(min(count, len(left)))]


def usable_brokers(run: ClusterRun, image: ClusterImage) -> list[int]:
    """Those that may get replicas: registered, and not about to leave the cluster."""
    return [
        broker_id
        for broker_id in sorted(image.brokers.by_id)
        if broker_id in run.world.nodes and broker_id not in run.admin.leaving
    ]


def _least_replicas(run: ClusterRun) -> int:
    if run.plan.allows_unclean:
        return 1
    return min((topic.replication_factor for topic in run.plan.topics), default=USUAL_REPLICAS)


def _any_partition(
    image: ClusterImage | None, random: SeededRandom
) -> tuple[TopicImage, int, PartitionRegistration] | None:
    topic = None if image is None else any_topic(image, random)
    if topic is None:
        return None
    index = random.below(len(topic.partitions))
    return topic, index, topic.partitions[index]


# Reassignments


def _reassign(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    chosen = _any_partition(image, random)
    if image is None or chosen is None:
        return None
    topic, index, partition = chosen
    present = [replica for replica in partition.replicas if replica not in partition.removing]
    wanted = moved_replicas(random, present, usable_brokers(run, image), _least_replicas(run))
    if wanted is None:
        return None
    until_cancel_ms = random.between(1, LONGEST_UNTIL_CANCEL_MS) if random.happens(0.3) else None
    run.admin.carry_out(_reassigned(run.admin, topic.name, index, wanted, until_cancel_ms))
    back = "" if until_cancel_ms is None else f", taken back after {until_cancel_ms} ms"
    return f"{topic.name}-{index} shall move from {present} to {wanted}{back}"


def moved_replicas(
    random: SeededRandom, present: Sequence[int], brokers: Sequence[int], least: int
) -> list[int] | None:
    """Where a partition shall be instead; None if there is nothing to change in the way that was drawn."""
    others = [broker for broker in brokers if broker not in present]
    kind = random.weighted((4, 2, 2, 2))
    if kind == 0:
        wanted = some_of(random, brokers, len(present))
    elif kind == 1:
        wanted = some_of(random, present, len(present))
    elif kind == 2:
        wanted = [*present, *some_of(random, others, 1)]
    else:
        wanted = some_of(random, present, max(len(present) - 1, least))
    if len(wanted) < min(least, len(present)) or wanted == list(present):
        return None
    return wanted


async def _reassigned(
    admin: AdminClient, topic: str, index: int, wanted: Sequence[int], until_cancel_ms: int | None
) -> None:
    await admin.reassign(topic, index, wanted)
    if until_cancel_ms is not None:
        await admin.sleep_ms(until_cancel_ms)
        await _taken_back(admin, topic, index)


async def _taken_back(admin: AdminClient, topic: str, index: int) -> None:
    answer = await admin.reassign(topic, index, None)
    codes = () if answer is None else codes_in(answer)
    is_late = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS in codes
    has_come = codes == (ErrorCode.NONE,)
    told = "while it ran" if has_come else "too late" if is_late else "without success"
    admin.world.coverage.count(f"a move was taken back {told}")


def _cancel_reassignment(run: ClusterRun, step: ClusterStep) -> str | None:
    """Of any partition that moves. Most moves take no longer than a fetch or two, so where none is under way
    one is begun, and taken back as soon as it is known to have begun."""
    random, image = step.random(), newest_image(run.world)
    if image is None:
        return None
    moving = [
        (name, index)
        for name in sorted(image.topics.by_name)
        for index, partition in image.topics.by_name[name].partitions.items()
        if partition.adding or partition.removing
    ]
    if moving:
        topic, index = random.one_of(moving)
        run.admin.carry_out(_taken_back(run.admin, topic, index))
        return f"the move of {topic}-{index} shall be taken back"
    chosen = _any_partition(image, random)
    if chosen is None:
        return None
    found, index, partition = chosen
    others = [each for each in usable_brokers(run, image) if each not in partition.replicas]
    if not others:
        return None
    stay = some_of(random, partition.replicas, len(partition.replicas) - 1)
    wanted = [*stay, *some_of(random, others, 1)]
    until_cancel_ms = random.below(LONGEST_MOVE_MS)
    run.admin.carry_out(_reassigned(run.admin, found.name, index, wanted, until_cancel_ms))
    return f"{found.name}-{index} shall move to {wanted}, and back after {until_cancel_ms} ms"


# Elections


def _elect_preferred(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    chosen = _any_partition(newest_image(run.world), random)
    if chosen is None:
        return None
    if random.happens(0.5):
        run.admin.carry_out(run.admin.elect(None))
        return "all partitions shall be led by their preferred leaders"
    topic, index, partition = chosen
    run.admin.carry_out(run.admin.elect({topic.name: [index]}))
    return f"{topic.name}-{index} shall be led by its preferred leader {partition.preferred_leader}"


def _elect_unclean(run: ClusterRun, step: ClusterStep) -> str | None:
    """Of all partitions without a leader: for others there is no such election."""
    if not run.plan.allows_unclean:
        return None
    run.admin.carry_out(run.admin.elect(None, is_unclean=True))
    return "partitions without a leader shall get an unclean one"


# Topics and partitions


def _add_partitions(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    topic = None if image is None else any_topic(image, random)
    if topic is None or is_internal(topic.name):
        return None
    count = len(topic.partitions) + random.between(1, 2)
    if count > MOST_PARTITIONS:
        return None
    run.admin.carry_out(run.admin.create_partitions(topic.name, count))
    return f"{topic.name} shall have {count} partitions"


def _create_topic(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    name = f"{EXTRA_PREFIX}{1 + step.whom % EXTRA_TOPICS}"
    if image is None or name in image.topics.by_name:
        return None
    run.admin.carry_out(_created(run, random, name, len(usable_brokers(run, image))))
    return f"topic {name} shall be made"


async def _created(run: ClusterRun, random: SeededRandom, name: str, brokers: int) -> None:
    """It gets some records, as long as it is there."""
    partitions = random.between(1, MOST_EXTRA_PARTITIONS)
    replicas = max(min(USUAL_REPLICAS, brokers), 1)
    configs = {"min.insync.replicas": str(min(run.plan.min_insync_replicas, replicas))}
    if random.happens(0.5):
        configs["internal.segment.bytes"] = "4000"
    await run.admin.create_topic(
        name, partitions, replicas, configs, _placed_by_hand(run, random, partitions, replicas)
    )
    maker = BatchMaker(random)
    for _ in range(random.between(0, MOST_BATCHES)):
        if run.admin.is_finishing:
            return
        index = random.below(partitions)
        batch = maker.make([run.admin.new_value() for _ in range(random.between(1, 5))], run.admin.wall_ms())
        await run.admin.ask_leader(name, index, partial(_produce, name, index, batch), limit_ms=FILL_LIMIT_MS)
        await run.admin.sleep_ms(random.between(1, LONGEST_BETWEEN_BATCHES_MS))


def _placed_by_hand(run: ClusterRun, random: SeededRandom, partitions: int, replicas: int) -> list[list[int]]:
    """Where the operator wants each partition; mostly nowhere in particular."""
    image = newest_image(run.world)
    usable = [] if image is None else usable_brokers(run, image)
    if len(usable) < replicas or not random.happens(0.3):
        return []
    run.world.coverage.count("topics with replicas by hand")
    return [some_of(random, usable, replicas) for _ in range(partitions)]


def _produce(topic: str, index: int, batch: bytes, leader: PartitionLeader) -> ProduceRequest:
    part = ProduceRequest.PartitionProduceData(index, batch)
    data = ProduceRequest.TopicProduceData(topic, leader.topic_id, [part])
    return ProduceRequest(acks=-1, timeout_ms=FILL_LIMIT_MS, topic_data=[data])


def _extra_topic(image: ClusterImage | None, random: SeededRandom) -> TopicImage | None:
    names = [] if image is None else [name for name in sorted(image.topics.by_name) if _is_extra(name)]
    return image.topics.by_name[random.one_of(names)] if image is not None and names else None


def _is_extra(topic: str) -> bool:
    return topic.startswith(EXTRA_PREFIX)


def _delete_topic(run: ClusterRun, step: ClusterStep) -> str | None:
    topic = _extra_topic(newest_image(run.world), step.random())
    if topic is None:
        return None
    run.admin.carry_out(run.admin.delete_topic(topic.name))
    return f"topic {topic.name} shall be deleted"


def _remake_topic(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    topic = _extra_topic(image, random)
    if image is None or topic is None:
        return None
    run.admin.carry_out(_remade(run, random, topic.name, len(usable_brokers(run, image))))
    return f"topic {topic.name} shall be deleted and made anew"


async def _remade(run: ClusterRun, random: SeededRandom, name: str, brokers: int) -> None:
    await run.admin.delete_topic(name)
    await _created(run, random, name, brokers)


def _delete_records(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    topic = None if image is None else any_topic(image, random)
    if not run.plan.allows_unclean:
        topic = _extra_topic(image, random)
    if topic is None or is_internal(topic.name) or not topic.partitions:
        return None
    index = random.below(len(topic.partitions))
    before = random.below(MOST_DELETED) if random.happens(0.5) else -1
    if not _is_extra(topic.name):
        run.deletes_records = True
    run.admin.carry_out(run.admin.delete_records(topic.name, index, before))
    return f"records of {topic.name}-{index} before {'the high watermark' if before < 0 else before} shall go"


PARTITION_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "reassign a partition": Verb(_reassign, 8),
        "cancel a reassignment": Verb(_cancel_reassignment, 2),
        "elect preferred leaders": Verb(_elect_preferred, 4),
        "elect unclean leaders": Verb(_elect_unclean, 2),
        "add partitions": Verb(_add_partitions, 1),
        "create a topic": Verb(_create_topic, 3),
        "delete a topic": Verb(_delete_topic, 1),
        "make a topic anew": Verb(_remake_topic, 2),
        "delete records": Verb(_delete_records, 2),
    }
)
