"""What operators do with groups and transactions beside those who use them.

    look at groups            descriptions and lists of groups, transactions and producers, as any broker
                              or coordinator answers
    use a group by hand       offsets of a group without members are committed, one of them or the whole group
                              is deleted, and each time the offsets are looked up: they are what was answered

The group is the operator's own. Whether what it was told holds is a rule of its own here, since nobody else
commits there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.clients.answer_errors import codes_in
from broker.simulation.clients.cluster_client import GROUP, TRANSACTION
from broker.simulation.cluster.cluster_changes import newest_image
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.seeded_random import SeededRandom
from broker.simulation.verdict import Violation
from protocol.codec.message import Message
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.peer_channel import PeerError

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["BY_HAND", "OPERATOR_VERBS"]

OPERATORS_GROUP: Final = "operators-own"
BY_HAND: Final = "a group that is used by hand holds what was answered"

LARGEST_OFFSET: Final = 1_000_000
NO_OFFSET: Final = -1
LIMIT_MS: Final = 10_000


def _look(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    groups = sorted({client.plan.group for client in run.clients if client.plan.group} | {OPERATORS_GROUP})
    ids = sorted(
        {
            client.option("transactional_id", client.plan.name)
            for client in run.clients
            if client.plan.kind in ("transactional", "transformer")
        }
    )
    topics = [topic.name for topic in run.plan.topics]
    run.admin.carry_out(_looked(run, random, groups, ids, topics))
    return "somebody looks at groups and transactions"


async def _looked(
    run: ClusterRun, random: SeededRandom, groups: Sequence[str], ids: Sequence[str], topics: Sequence[str]
) -> None:
    admin, group = run.admin, random.one_of(groups)
    await admin.ask_a_broker(random.one_of((ListGroupsRequest(), ListTransactionsRequest())))
    describe = random.one_of((DescribeGroupsRequest([group]), ConsumerGroupDescribeRequest([group])))
    await admin.ask_coordinator(group, GROUP, describe, limit_ms=LIMIT_MS)
    if ids:
        transactional_id = random.one_of(ids)
        asked = DescribeTransactionsRequest([transactional_id])
        await admin.ask_coordinator(transactional_id, TRANSACTION, asked, limit_ms=LIMIT_MS)
    topic = random.one_of(topics)
    producers = DescribeProducersRequest([DescribeProducersRequest.TopicRequest(topic, [0])])
    await admin.ask_leader(topic, 0, lambda _: producers, limit_ms=LIMIT_MS)


def _use(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    if image is None or OPERATORS_GROUP in run.admin.under_way:
        return None
    topic = random.one_of([topic.name for topic in run.plan.topics])
    known = image.topics.by_name.get(topic)
    if known is None:
        return None
    run.admin.under_way[OPERATORS_GROUP] = None
    run.admin.carry_out(_used(run, random, topic, known.id))
    return f"the operator commits an offset of {topic}-0, and deletes it or not"


async def _used(run: ClusterRun, random: SeededRandom, topic: str, topic_id: bytes) -> None:
    offset = random.below(LARGEST_OFFSET)
    part = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset)
    committed = OffsetCommitRequest.OffsetCommitRequestTopic(topic, topic_id, [part])
    if await _is_done(run, OffsetCommitRequest(OPERATORS_GROUP, topics=[committed])):
        await _require_offset(run, topic, topic_id, offset, "committed")
        way = random.below(3)
        if way == 0:
            deleted = OffsetDeleteRequest.OffsetDeleteRequestTopic(
                topic, [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)]
            )
            if await _is_done(run, OffsetDeleteRequest(OPERATORS_GROUP, [deleted])):
                await _require_offset(run, topic, topic_id, NO_OFFSET, "deleted")
        elif way == 1 and await _is_done(run, DeleteGroupsRequest([OPERATORS_GROUP])):
            await _require_offset(run, topic, topic_id, NO_OFFSET, "deleted with its group")
    del run.admin.under_way[OPERATORS_GROUP]


async def _is_done(run: ClusterRun, request: Message) -> bool:
    """Whether it was answered without an error. A request without an answer is not sent again: it may be
    carried out later."""
    answer = await run.admin.ask_coordinator(
        OPERATORS_GROUP, GROUP, request, limit_ms=LIMIT_MS, repeats_unanswered=False
    )
    if isinstance(answer, PeerError):
        await run.admin.sleep_ms(LIMIT_MS)
        return False
    return not any(codes_in(answer))


async def _require_offset(run: ClusterRun, topic: str, topic_id: bytes, wanted: int, how: str) -> None:
    asked = OffsetFetchRequest.OffsetFetchRequestTopics(topic, topic_id, [0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(OPERATORS_GROUP, topics=[asked])
    answer = await run.admin.ask_coordinator(
        OPERATORS_GROUP, GROUP, OffsetFetchRequest(groups=[group]), limit_ms=LIMIT_MS
    )
    if not isinstance(answer, OffsetFetchResponse) or any(codes_in(answer)):
        return
    (part,) = answer.groups[0].topics[0].partitions
    run.world.coverage.count(f"operator: an offset was {how}")
    if part.committed_offset != wanted and not _may_be_forgotten(run, wanted):
        raise Violation(
            BY_HAND,
            f"offset {wanted} of {topic}-0 was {how} in {OPERATORS_GROUP}, it has {part.committed_offset}",
        )


def _may_be_forgotten(run: ClusterRun, wanted: int) -> bool:
    """Where offsets expire within a minute a clock that jumps may have had it happen at once."""
    return bool(run.world.losses) or (run.plan.offsets_expire and wanted != NO_OFFSET)


OPERATOR_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {"look at groups": Verb(_look, 3), "use a group by hand": Verb(_use, 3)}
)
