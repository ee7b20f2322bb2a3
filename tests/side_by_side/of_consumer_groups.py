"""Groups of both protocols: members at work, held up in a rebalance, mixed, away, gone; offsets of the empty.

The members tell one story. `newer` gets a static member and a dynamic one, then one by an expression whom
nobody makes room for, then a classic one in its place; it ends as a classic group. `older` is classic from
the beginning, `resting` is a group of the newer protocol that all have left.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupType, KafkaException, Producer, TopicPartition

from tests.side_by_side.cases import Case, confluent, java, kafka_python, step, tool
from tests.side_by_side.sides import Side

GROUPS: Final = "kafka-consumer-groups"
CONFIGS: Final = "kafka-configs --entity-type groups --entity-name newer"
TOPIC: Final = "shuttles"
PARTITIONS: Final = 6
FIRST_MS: Final = 1_600_000_000_000
WAIT_SECONDS: Final = 60
NEWER: Final = {"group.protocol": "consumer"}
AS_LONG_AS_IT_TAKES_MS: Final = 900_000
"""A member that is away, or that nobody polls, is not given up before all calls were made."""
OLDER: Final = {"session.timeout.ms": AS_LONG_AS_IT_TAKES_MS, "partition.assignment.strategy": "range"}


def fill(side: Side) -> None:
    """Ten records in each partition, a second apart; with keys, which the brokers' defaults want by now."""
    # Idempotent, as the topic is new: who does not lead yet may refuse one batch and take the next.
    producer = Producer({"bootstrap.servers": side.address, "enable.idempotence": True})
    for number in range(10):
        for partition in range(PARTITIONS):
            at_ms = FIRST_MS + 1_000 * number
            producer.produce(TOPIC, str(number), str(number), partition=partition, timestamp=at_ms)
    assert producer.flush(WAIT_SECONDS) == 0


def join(side: Side, name: str, group: str, *topics: str, **options: Any) -> None:
    """A member that takes no partitions before somebody polls it."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.address,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "max.poll.interval.ms": AS_LONG_AS_IT_TAKES_MS,
            **options,
        }
    )
    side.resources.callback(consumer.close)
    side.kept[name] = consumer
    consumer.subscribe(list(topics))


def settled(side: Side, **shares: int) -> dict[str, list[str]]:
    """What each member has when it has so many partitions. Members that are not named are not polled."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        have = {}
        for name in shares:
            side.kept[name].poll(0.1)
            places = side.kept[name].assignment()
            have[name] = sorted(f"{each.topic}-{each.partition}" for each in places)
        if {name: len(places) for name, places in have.items()} == shares:
            return have
        if time.monotonic() > deadline:
            raise TimeoutError(f"{shares} partitions did not come about: {have}")


def told(side: Side, group: str, **shares: int) -> None:
    """The coordinator has told each member that it has so many partitions."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = side.confluent.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
        have = {each.client_id: len(each.assignment.topic_partitions) for each in found.members}
        if have == shares:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{shares} partitions were not told: {have}")
        time.sleep(0.1)


def commit(side: Side, name: str, **offsets: int) -> None:
    """Offsets of partitions (`p0=3`), committed by a member that has them."""
    places = [TopicPartition(TOPIC, int(each[1:]), offset) for each, offset in offsets.items()]
    side.kept[name].commit(offsets=places, asynchronous=False)


def leave(side: Side, *names: str) -> None:
    for name in names:
        side.kept.pop(name).close()


def one_rests(side: Side) -> None:
    join(side, "visitor", "resting", TOPIC, **NEWER)
    settled(side, visitor=6)
    commit(side, "visitor", p0=3, p1=4, p5=10)
    leave(side, "visitor")


def first_joins(side: Side) -> dict[str, list[str]]:
    join(side, "first", "newer", TOPIC, **NEWER, **{"group.instance.id": "seat-one"})
    return settled(side, first=6)


def second_joins(side: Side) -> dict[str, list[str]]:
    join(side, "second", "newer", TOPIC, **NEWER)
    have = settled(side, first=3, second=3)
    commit(side, "first", p0=3, p1=4)
    commit(side, "second", p5=10)
    return have


def third_joins(side: Side) -> None:
    """By an expression. The others do not poll, so that nothing is given up."""
    join(side, "third", "newer", "^shutt.*", **NEWER, **{"group.instance.id": "seat-three"})
    told(side, "newer", first=3, second=3, third=0)


def third_gets_a_share(side: Side) -> dict[str, list[str]]:
    return settled(side, first=2, second=2, third=2)


def classic_joins(side: Side) -> dict[str, list[str]]:
    """In the seat of the third, so that what it gets is not a matter of who sends a heartbeat in between."""
    leave(side, "third")
    join(side, "sixth", "newer", TOPIC, **OLDER, **{"group.instance.id": "seat-three"})
    return settled(side, first=2, second=2, sixth=2)


def some_leave(side: Side) -> None:
    """The static member does so for a while only."""
    leave(side, "second", "first")


def older_members_join(side: Side) -> dict[str, list[str]]:
    join(side, "fourth", "older", TOPIC, **OLDER, **{"group.instance.id": "seat-four"})
    settled(side, fourth=6)
    join(side, "fifth", "older", TOPIC, **OLDER)
    have = settled(side, fourth=3, fifth=3)
    commit(side, "fourth", p0=5)
    return have


def older_members_leave(side: Side) -> None:
    leave(side, "fourth", "fifth")


def bad_expression(side: Side) -> str:
    """What the broker answers to an expression that RE2 refuses."""
    join(side, "wrong", "wrong", "^a{1001}", **NEWER)
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            message = side.kept["wrong"].poll(0.1)
        except KafkaException as refusal:
            return str(refusal.args[0].name())
        error = None if message is None else message.error()
        if error is not None:
            return str(error.name())
    return "nothing"


def shown_by_librdkafka(admin: Any, group: str) -> object:
    """By client, for a consumer group lists its members in the order of a hash table."""

    def places(assignment: Any) -> list[str] | None:
        if assignment is None:
            return None
        return [f"{each.topic}-{each.partition}" for each in assignment.topic_partitions]

    found = admin.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
    members = [
        (
            each.client_id,
            each.member_id,
            each.group_instance_id,
            each.host,
            places(each.assignment),
            places(each.target_assignment),
        )
        for each in found.members
    ]
    simple = found.is_simple_consumer_group
    return found.state, found.type, found.partition_assignor, simple, sorted(members)


def shown_by_kafka_python(admin: Any, group: str) -> object:
    """By client, as above."""
    found = admin.describe_groups([group])[group]
    return found | {"members": sorted(found["members"], key=lambda each: str(each["client_id"]))}


def described(moment: str, group: str, until: str = "") -> tuple[Case, ...]:
    """The group at this moment, in each of the ways in which tools and clients show it."""
    line = f"{GROUPS} --describe --group {group}"
    cases = (
        tool("state", f"{line} --state", until=until),
        tool("state, verbose", f"{line} --state --verbose"),
        tool("offsets", line, unordered=True),
        tool("offsets, verbose", f"{line} --offsets --verbose", unordered=True),
        tool("members", f"{line} --members", unordered=True),
        tool("members, verbose", f"{line} --members --verbose", unordered=True),
        java("described (Java)", f"describeConsumerGroups {group} --operations"),
        java("described as a classic one (Java)", f"describeClassicGroups {group}"),
        confluent("described (librdkafka)", lambda admin: shown_by_librdkafka(admin, group)),
        kafka_python("described (kafka-python)", lambda admin: shown_by_kafka_python(admin, group)),
        tool("types", f"{GROUPS} --list --type", unordered=True),
        tool("states", f"{GROUPS} --list --state", unordered=True),
        tool("groups", "kafka-groups --list", unordered=True),
    )
    return tuple(replace(case, name=f"{moment}: {case.name}") for case in cases)


def refused(group: str) -> tuple[Case, ...]:
    """What nobody may do to a group with members, and what one may."""
    return (
        tool(
            f"reset {group} at work", f"{GROUPS} --reset-offsets --group {group} --topic {TOPIC} --to-latest"
        ),
        tool(
            f"reset {group} at work, execute",
            f"{GROUPS} --reset-offsets --group {group} --topic {TOPIC} --to-latest --execute",
        ),
        tool(f"delete {group} at work", f"{GROUPS} --delete --group {group}"),
        tool(f"delete all, {group} at work", f"{GROUPS} --delete --group {group} --group nobody"),
        tool(f"delete offsets of {group}", f"{GROUPS} --delete-offsets --group {group} --topic {TOPIC}:0"),
        tool(f"delete others of {group}", f"{GROUPS} --delete-offsets --group {group} --topic rockets"),
        java(f"alter offsets of {group}", f"alterConsumerGroupOffsets {group} {TOPIC}-0=1"),
        java(f"remove a member of {group} nobody knows", f"removeMembersFromConsumerGroup {group} nobody"),
    )


RESETS: Final = (
    "--to-earliest", "--to-latest", "--to-current", "--to-offset 4", "--to-offset 70", "--to-offset -1",
    "--shift-by 2", "--shift-by -100", "--to-datetime 2020-09-13T12:26:45.000", "--by-duration PT1H",
    "--to-latest --dry-run", "--to-earliest --export",
)  # fmt: skip


def moved(group: str) -> tuple[Case, ...]:
    """Every kind of reset of an empty group."""
    reset = f"{GROUPS} --reset-offsets --group {group}"
    plan = "".join(f'"{TOPIC}",{partition},{partition + 1}\n' for partition in range(3))
    return (
        *(
            tool(f"reset {group} {words}", f"{reset} --topic {TOPIC}:0,1,5 {words}{execute}", unordered=True)
            for words in RESETS
            for execute in ([""] if words.endswith(("--dry-run", "--export")) else [" --execute"])
        ),
        tool(f"reset {group}, all topics", f"{reset} --all-topics --shift-by 1 --execute", unordered=True),
        tool(
            f"reset {group} from a file", f"{reset} --from-file {{plan}} --execute", plan=plan, unordered=True
        ),
        java(f"offsets of {group}", f"listConsumerGroupOffsets {group}"),
        tool(f"delete an offset of {group}", f"{GROUPS} --delete-offsets --group {group} --topic {TOPIC}:0"),
        tool(f"offsets of {group} after it", f"{GROUPS} --describe --group {group}", unordered=True),
    )


GROUP_CONFIGS: Final = {
    "consumer.assignment.interval.ms": ("2000", "-1", "15001"),
    "consumer.heartbeat.interval.ms": ("6000", "1", "15001"),
    "consumer.session.timeout.ms": ("46000", "1", "900001"),
    "share.assignment.interval.ms": ("2000", "-1", "15001"),
    "share.auto.offset.reset": ("earliest", "odd", "by_duration:PT1H"),
    "share.delivery.count.limit": ("4", "1", "11"),
    "share.heartbeat.interval.ms": ("6000", "1", "15001"),
    "share.isolation.level": ("read_committed", "odd", ""),
    "share.partition.max.record.locks": ("1500", "1", "10001"),
    "share.record.lock.duration.ms": ("20000", "1", "60001"),
    "share.renew.acknowledge.enable": ("false", "odd", ""),
    "share.session.timeout.ms": ("46000", "1", "60001"),
    "streams.assignment.interval.ms": ("2000", "-1", "15001"),
    "streams.heartbeat.interval.ms": ("6000", "1", "15001"),
    "streams.initial.rebalance.delay.ms": ("100", "-1", "15001"),
    "streams.num.standby.replicas": ("1", "-1", "3"),
    "streams.session.timeout.ms": ("46000", "1", "60001"),
}
"""Every config of a group, with values within the broker's bounds and beyond them."""


def configured() -> tuple[Case, ...]:
    """Each config alone, then what there is of them."""
    line = "kafka-configs --entity-type groups --entity-name settings"
    each = [
        tool(f"{name}={value}", f"{line} --alter --add-config {name}={value}")
        for name, values in GROUP_CONFIGS.items()
        for value in values
    ]
    everything = ",".join(GROUP_CONFIGS)
    return (
        *each,
        tool("the configs", f"{line} --describe", unordered=True),
        tool("the configs, all", f"{line} --describe --all", unordered=True),
        java("the configs (Java)", "describeConfigs group/settings", unordered=True),
        tool("without them", f"{line} --alter --delete-config {everything}"),
        tool("no configs", f"{line} --describe --all", unordered=True),
    )


FORMING: Final[tuple[Case, ...]] = (
    tool("a topic", f"kafka-topics --create --topic {TOPIC} --partitions {PARTITIONS}"),
    step("records", fill),
    tool("an expression", f"{GROUPS} --validate-regex ^shutt.*"),
    tool("a bad expression", f"{GROUPS} --validate-regex ^[a"),
    step("a bad expression, to the broker", bad_expression),
    tool(
        "heartbeats",
        f"{CONFIGS} --alter --add-config consumer.heartbeat.interval.ms=500,"
        f"consumer.session.timeout.ms={AS_LONG_AS_IT_TAKES_MS}",
    ),
    step("one comes and goes", one_rests),
    step("the first joins", first_joins),
    step("the second joins", second_joins),
    *described("two at work", "newer", until="Stable"),
    *refused("newer"),
    tool("consumer groups", f"{GROUPS} --list --type consumer", unordered=True),
    tool("stable consumer groups", f"{GROUPS} --list --type consumer --state stable"),
    tool("groups for consumers", "kafka-groups --list --consumer", unordered=True),
    tool("groups of the type", "kafka-groups --list --group-type consumer", unordered=True),
    tool("groups of a protocol", "kafka-groups --list --protocol consumer", unordered=True),
    java("groups of the type (Java)", "listGroups types=Consumer"),
    confluent(
        "groups of the type (librdkafka)",
        lambda admin: sorted(
            (each.group_id, each.state.name, each.type.name, each.is_simple_consumer_group)
            for each in admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result().valid
        ),
    ),
)

CHANGING: Final[tuple[Case, ...]] = (
    step("the third joins", third_joins),
    *described("one waits", "newer", until="Reconciling"),
    tool("groups in a rebalance", f"{GROUPS} --list --state reconciling"),
    step("the third has a share", third_gets_a_share),
    *described("three at work", "newer", until="Stable"),
    step("a classic one joins", classic_joins),
    *described("mixed", "newer", until="Stable"),
    step("two leave", some_leave),
    *described("one away", "newer"),
    java("remove the one away", "removeMembersFromConsumerGroup newer seat-one"),
    *described("classic again", "newer"),
)

OLDER_ONES: Final[tuple[Case, ...]] = (
    step("older members join", older_members_join),
    *described("older", "older", until="Stable"),
    *refused("older"),
    step("older members leave", older_members_leave),
    *described("older, one away", "older"),
    java("remove the older one away", "removeMembersFromConsumerGroup older seat-four"),
    *described("older, empty", "older", until="Empty"),
)

RESTING: Final[tuple[Case, ...]] = (
    *described("resting", "resting", until="Empty"),
    *moved("resting"),
    *moved("older"),
    tool("delete resting", f"{GROUPS} --delete --group resting"),
    tool("describe resting, deleted", f"{GROUPS} --describe --group resting"),
    step("the last one leaves", lambda side: leave(side, "sixth")),
    java("its seat is removed", "removeMembersFromConsumerGroup newer seat-three"),
    tool("newer is empty", f"{GROUPS} --describe --group newer --state", until="Empty"),
    tool("delete all", f"{GROUPS} --delete --all-groups", unordered=True),
    tool("no groups any more", f"{GROUPS} --list"),
    tool("delete the topic", f"kafka-topics --delete --topic {TOPIC}"),
)
