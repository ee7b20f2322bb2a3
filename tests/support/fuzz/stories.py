"""Requests that mean something in a row only: the lives of group members, topics that come and go,
transactions.

A story is a list of steps, each a request to the broker's listener: its API, the fields that matter, and the
first version that has them. All other fields, and the version from there on, are for the writer to choose.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from protocol.registry import ApiKey
from tests.support.fuzz import words
from tests.support.fuzz.knowledge import (
    INSTANCES,
    LASTING_TOPICS,
    MADE_TOPICS,
    TRANSACTIONAL_IDS,
    Knowledge,
)

STATIC_MEMBERS_SINCE: Final = 5
LEAVING_TOGETHER_SINCE: Final = 3
LONGEST_STORY: Final = 8
"""Steps at most."""


class Step(NamedTuple):
    key: ApiKey
    given: dict[str, Any]
    first_version: int = 0


Steps = list[Step]
Story = Callable[[random.Random, Knowledge], Steps]


def _join(
    random_source: random.Random, group: str, instance: str | None, member_id: str = ""
) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member_id,
        "group_instance_id": instance,
        "session_timeout_ms": random_source.choice((6_000, 10_000, 30_000)),
        "rebalance_timeout_ms": random_source.choice((0, 0, 0, 0, 0, 0, 1, 100, 1_000, -1, 2**31 - 1)),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": words.subscription(random_source)}],
    }


def static_members(random_source: random.Random, world: Knowledge) -> Steps:
    """Two static members come, come again without any time to rebalance, and one leaves."""
    group = random_source.choice(("static-0", "static-1"))
    first, second = random_source.sample(INSTANCES, 2)
    joins = [
        Step(ApiKey.JOIN_GROUP, _join(random_source, group, who), STATIC_MEMBERS_SINCE)
        for who in (first, second, first, second)
    ]
    leave = {
        "group_id": group,
        "member_id": "",
        "members": [{"member_id": "", "group_instance_id": random_source.choice((first, second))}],
    }
    return [*joins, Step(ApiKey.LEAVE_GROUP, leave, LEAVING_TOGETHER_SINCE), *joins[:2]]


def a_member_s_life(random_source: random.Random, world: Knowledge) -> Steps:
    """Somebody who joined before joins again, syncs, beats, commits, and perhaps leaves."""
    member = world.member(random_source)
    known = {"group_id": member.group, "member_id": member.member_id, "group_instance_id": member.instance}
    with_generation = known | {"generation_id": member.generation}
    given = [{"member_id": member.member_id, "assignment": words.assignment(random_source)}]
    sync = with_generation | {"assignments": given, "protocol_type": "consumer", "protocol_name": "range"}
    commit = known | {"generation_id_or_member_epoch": member.generation}
    steps: Steps = [
        Step(ApiKey.JOIN_GROUP, _join(random_source, member.group, member.instance, member.member_id)),
        Step(ApiKey.SYNC_GROUP, sync),
        Step(ApiKey.HEARTBEAT, with_generation),
        Step(ApiKey.OFFSET_COMMIT, commit),
        Step(ApiKey.OFFSET_FETCH, {"group_id": member.group}),
    ]
    if random_source.random() < 0.4:
        leaving = {"member_id": member.member_id, "group_instance_id": member.instance}
        steps.append(Step(ApiKey.LEAVE_GROUP, known | {"members": [leaving]}))
    random_source.shuffle(steps)
    return steps


def a_crowd_joins(random_source: random.Random, world: Knowledge) -> Steps:
    """Members that nobody hears of again, and a group that is deleted under them."""
    group = world.group(random_source)
    steps = [
        Step(ApiKey.JOIN_GROUP, _join(random_source, group, None))
        for _ in range(random_source.randint(2, LONGEST_STORY - 2))
    ]
    return [*steps, Step(ApiKey.DELETE_GROUPS, {"groups_names": [group]}), steps[0]]


def joins_with_long_words(random_source: random.Random, world: Knowledge) -> Steps:
    """Every string of a join as long as the wire allows, with an instance id and little time."""
    join = _join(random_source, world.group(random_source), random_source.choice(INSTANCES))
    for field in ("protocol_type", "group_id", "group_instance_id", "member_id", "reason"):
        if random_source.random() < 0.3:
            join[field] = words.string(random_source)
    join["rebalance_timeout_ms"] = random_source.choice((0, 1, 500))
    step = Step(ApiKey.JOIN_GROUP, join, STATIC_MEMBERS_SINCE)
    beat = {"group_id": join["group_id"], "member_id": "nobody"}
    return [
        step,
        step,
        Step(ApiKey.HEARTBEAT, beat),
        Step(ApiKey.DESCRIBE_GROUPS, {"groups": [join["group_id"]]}),
    ]


def topics_come_and_go(random_source: random.Random, world: Knowledge) -> Steps:
    """The same few names created, grown, altered and deleted in any order."""
    name = random_source.choice(MADE_TOPICS)
    create: dict[str, Any] = {
        "topics": [{"name": name, "num_partitions": random_source.choice((1, 3, 20)), "replication_factor": 1,
                    "assignments": [], "configs": []}],
        "timeout_ms": random_source.choice((0, 1, 30_000)), "validate_only": False,
    }  # fmt: skip
    delete = {"topics": [{"name": name, "topic_id": bytes(16)}], "topic_names": [name]}
    grow = {"topics": [{"name": name, "count": random_source.choice((2, 21, 40)), "assignments": None}]}
    steps: Steps = [
        Step(ApiKey.CREATE_TOPICS, create),
        Step(ApiKey.METADATA, {"topics": [{"topic_id": bytes(16), "name": name}]}),
        Step(ApiKey.CREATE_PARTITIONS, grow),
        Step(ApiKey.INCREMENTAL_ALTER_CONFIGS, {}),
        Step(ApiKey.PRODUCE, {"acks": random_source.choice((-1, 1))}),
        Step(ApiKey.DELETE_TOPICS, delete),
        Step(ApiKey.CREATE_TOPICS, create),
        Step(ApiKey.DELETE_TOPICS, delete),
    ]
    return steps if random_source.random() < 0.5 else random_source.sample(steps, len(steps))


def writing_and_reading(random_source: random.Random, world: Knowledge) -> Steps:
    """Batches good and bad, then every way to ask for what was written."""
    name = random_source.choice(LASTING_TOPICS)
    data = [{"index": 0, "records": words.records(random_source)[1]}]
    named = {"name": name, "topic_id": world.topic_ids.get(name, bytes(16)), "partition_data": data}
    wanted = [
        {"partition_index": 0, "timestamp": random_source.choice((-1, -3, 0, 1_700_000_000_000, 2**63 - 1))}
    ]
    return [
        Step(
            ApiKey.PRODUCE, {"transactional_id": None, "acks": -1, "timeout_ms": 1_000, "topic_data": [named]}
        ),
        Step(ApiKey.LIST_OFFSETS, {"topics": [{"name": name, "partitions": wanted}]}),
        Step(ApiKey.FETCH, {"session_epoch": 0}),
        Step(ApiKey.FETCH, {"session_id": random_source.choice(world.sessions), "session_epoch": 1}),
        Step(ApiKey.DELETE_RECORDS, {}),
        Step(ApiKey.OFFSET_FOR_LEADER_EPOCH, {}),
    ]


def _of_a_producer(transactional_id: str, producer: tuple[int, int]) -> dict[str, Any]:
    """Who asks, in the words of every API that producers of transactions use."""
    producer_id, epoch = producer
    return {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}


def _partitions_added(who: dict[str, Any], topics: list[str]) -> dict[str, Any]:
    """As producers ask it, and as brokers do."""
    named = [{"name": topic, "partitions": (0, 1)} for topic in topics]
    return {
        **{f"v3_and_below_{name}": value for name, value in who.items()},
        "v3_and_below_topics": named,
        "transactions": [who | {"verify_only": False, "topics": named}],
    }


def _written(random_source: random.Random, world: Knowledge, who: dict[str, Any], topic: str) -> Step:
    """A batch of the transaction, mostly with a sequence that may be right."""
    batch = words.transactional(who["producer_id"], who["producer_epoch"], random_source.choice((0, 0, 0, 3)))
    named = {
        "name": topic,
        "topic_id": world.topic_ids.get(topic, bytes(16)),
        "partition_data": [{"index": random_source.choice((0, 0, 1)), "records": batch}],
    }
    given = {"transactional_id": who["transactional_id"], "acks": -1, "timeout_ms": 1_000}
    return Step(ApiKey.PRODUCE, given | {"topic_data": [named]})


def a_transaction(random_source: random.Random, world: Knowledge) -> Steps:
    """All that a transaction needs in a row, of a producer that came before; the next one has a new epoch."""
    name = random_source.choice(TRANSACTIONAL_IDS)
    who = _of_a_producer(name, world.transactions.get(name, (-1, -1)))
    topic, group = random_source.choice(LASTING_TOPICS), world.group(random_source)
    steps: Steps = [
        Step(ApiKey.ADD_PARTITIONS_TO_TXN, _partitions_added(who, [topic])),
        _written(random_source, world, who, topic),
        Step(ApiKey.ADD_OFFSETS_TO_TXN, who | {"group_id": group}),
        Step(ApiKey.TXN_OFFSET_COMMIT, who | {"group_id": group, "generation_id": -1, "member_id": ""}),
        Step(ApiKey.END_TXN, who | {"committed": random_source.random() < 0.6}),
        Step(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": [name]}),
        Step(ApiKey.FETCH, {"session_epoch": -1, "isolation_level": 1}),
    ]
    if random_source.random() < 0.3:
        random_source.shuffle(steps)
    begin = {"transactional_id": name, "transaction_timeout_ms": random_source.choice((1, 1_000, 60_000))}
    return [*steps, Step(ApiKey.INIT_PRODUCER_ID, begin | {"producer_id": -1, "producer_epoch": -1})]


def a_transaction_goes_wrong(random_source: random.Random, world: Knowledge) -> Steps:
    """Two producers of one name, epochs of others, partitions that come and go, ends both ways, markers that
    no coordinator has sent."""
    name = random_source.choice(TRANSACTIONAL_IDS)
    producer_id, epoch = world.producer(random_source)
    who = _of_a_producer(name, (producer_id, epoch + random_source.choice((-1, 0, 0, 1))))
    topic = random_source.choice((*MADE_TOPICS, *LASTING_TOPICS, "__consumer_offsets", "__transaction_state"))
    marker = {
        "producer_id": who["producer_id"],
        "producer_epoch": who["producer_epoch"],
        "transaction_result": random_source.random() < 0.5,
        "topics": [{"name": topic, "partition_indexes": (0, 0, 1, 99)}],
    }
    steps: Steps = [
        Step(ApiKey.INIT_PRODUCER_ID, {"transactional_id": name, "transaction_timeout_ms": 60_000}),
        Step(ApiKey.ADD_PARTITIONS_TO_TXN, _partitions_added(who, [topic, topic, "nowhere"])),
        _written(random_source, world, who, topic),
        Step(ApiKey.DELETE_TOPICS, {"topics": [{"name": random_source.choice(MADE_TOPICS)}]}),
        Step(ApiKey.END_TXN, who | {"committed": True}),
        Step(ApiKey.END_TXN, who | {"committed": False}),
        Step(ApiKey.WRITE_TXN_MARKERS, {"markers": [marker, marker]}),
        Step(ApiKey.LIST_TRANSACTIONS, {}),
    ]
    random_source.shuffle(steps)
    return steps


def looking_around(_: random.Random, __: Knowledge) -> Steps:
    """What feeds the pools of real names."""
    return [
        Step(ApiKey.METADATA, {"topics": None, "allow_auto_topic_creation": False}),
        Step(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}),
        Step(ApiKey.DESCRIBE_CLUSTER, {"endpoint_type": 1}),
        Step(ApiKey.DESCRIBE_QUORUM, {
            "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}),
        Step(ApiKey.INIT_PRODUCER_ID, {"transactional_id": None}),
    ]  # fmt: skip


STORIES: Final[tuple[Story, ...]] = (
    static_members,
    a_member_s_life,
    a_member_s_life,
    a_crowd_joins,
    joins_with_long_words,
    topics_come_and_go,
    topics_come_and_go,
    writing_and_reading,
    a_transaction,
    a_transaction,
    a_transaction_goes_wrong,
    looking_around,
)
