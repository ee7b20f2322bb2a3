"""Expressions of consumer groups: how far a step of a search goes, and which expressions are too costly."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from broker.coordinator import expressions
from broker.coordinator.consumer.consumer_group_records import member_record, regex_record
from broker.coordinator.consumer.regexes import search_topics
from broker.coordinator.consumer.subscriptions import ResolvedRegex
from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.runtime.batches import coordinator_batch
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.rigs.consumer_group_by_hand import HandTopics
from tests.support.rigs.group_world import GroupWorld, now

NOTHING: frozenset[str] = frozenset()
KAFKAS = r"(?:[a-z0-9]{1,63}\.){1,20}events"
"""An expression that RE2/J takes and RE2 does not: more than 1,000 repetitions within each other."""


def search(regexes: list[str], names: list[str]) -> tuple[int, dict[str, frozenset[str]]]:
    """The number of steps that a search took, and what it found."""
    topics = HandTopics()
    for name in names:
        topics.put(name, 1)
    steps = search_topics(
        dict.fromkeys(regexes, NOTHING), topics, lambda name: not name.endswith("-secret"), 1
    )
    number = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return number + 1, {regex: resolved.topics for regex, resolved in end.value.items()}
        number += 1


def test_a_step_of_a_search_is_as_long_as_the_expressions_are_costly() -> None:
    names = [f"orders-{number:03}" for number in range(250)]
    steps, found = search(["orders-00.", "x"], [*names, "orders-00x-secret"])
    assert found == {"orders-00.": frozenset(names[:10]), "x": NOTHING}
    assert steps <= 5
    steps, found = search(["(.{0,30}){0,30}"], names)
    assert found["(.{0,30}){0,30}"] == frozenset(names)
    assert steps >= 20


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("a" * 16_385, "more than 16384 characters"),
        (r"\pL" * 101, "more than 100 classes of characters"),
        ("a{1000}" * 41, "repeats more than 40000 times"),
        ("a{1,1000}" * 41, "repeats more than 40000 times"),
        (".{1000}" * 20, "too large"),
    ],
)
def test_an_expression_that_would_take_long_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(expressions.WrongExpression, match=problem):
        expressions.compiled(expression)


def test_a_list_of_many_names_is_an_expression() -> None:
    names = [f"a-topic-of-some-department-{number:03}" for number in range(400)]
    assert expressions.matcher("|".join(names))(names[-1])


def test_an_expression_that_kafka_took_goes_on_matching_what_it_matched() -> None:
    """A group that Kafka coordinated may have an expression that cannot be compiled here."""
    world = GroupWorld()
    world.cluster.topics.update({"eu.shop.events": 1, "other": 1})

    def beat(member: str, epoch: int, **fields: Any) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, topic_partitions=[], **fields
        )
        answer = now(world.groups.consumer_heartbeat(request, world.context(68, 1)))
        assert answer.error_code == 0, answer
        return int(answer.member_epoch)

    epoch = beat("a", 0, rebalance_timeout_ms=60_000, subscribed_topic_regex="o.*")
    world.timers.run_soon()
    group = world.shard("g").group_metadata.consumers.groups["g"]
    kafkas = msgspec.structs.replace(group.members["a"], subscribed_topic_regex=KAFKAS)
    records = [
        member_record("g", kafkas),
        regex_record("g", "o.*", None),
        regex_record("g", KAFKAS, ResolvedRegex(frozenset({"eu.shop.events"}), 1, 1)),
    ]
    partition = world.groups.partition_for("g")
    world.log.append_internal(
        GROUP_TOPIC, partition, coordinator_batch(records, timestamp_ms=1), lambda *_: None
    )
    world.restart()
    beat("a", epoch)
    world.timers.run_soon()
    group = world.shard("g").group_metadata.consumers.groups["g"]
    assert group.resolved[KAFKAS].topics == {"eu.shop.events"}
    assert group.resolved[KAFKAS].timestamp_ms > 1, "it was looked at"
