"""Groups: offsets committed, moved, deleted; members at work; lists and descriptions."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    TopicPartition,
)
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import OffsetSpec
from kafka.structs import OffsetAndMetadata

from tests.side_by_side.cases import PATIENCE_SECONDS, Case, confluent, java, kafka_python, step, tool
from tests.side_by_side.sides import Side
from tests.support.clients.librdkafka import commit

GROUPS: Final = "kafka-consumer-groups"
RESET: Final = f"{GROUPS} --reset-offsets --group crew"


def join(side: Side) -> list[str]:
    """A member at work; its client's id is in the member's."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.address,
            "group.id": "working",
            "client.id": "worker",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 45000,
            "max.poll.interval.ms": 900_000,  # nobody polls it while it is looked at
            "enable.auto.commit": False,
        }
    )
    side.resources.callback(consumer.close)
    side.kept["worker"] = consumer
    consumer.subscribe(["flights"])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (message := consumer.poll(0.2)) is None or message.error():
        if time.monotonic() > deadline:
            raise TimeoutError("nothing to read in flights")
    consumer.commit(offsets=[TopicPartition("flights", 0, 7)], asynchronous=False)
    return sorted(f"{each.topic}-{each.partition}" for each in consumer.assignment())


def leave(side: Side) -> None:
    side.kept.pop("worker").close()


def simple_commit(side: Side) -> object:
    """Offsets without a group protocol, as a simple consumer commits them."""
    committed = commit(
        side.address,
        "simple",
        TopicPartition("flights", 0, 8, metadata="by hand"),
        TopicPartition("rockets", 0, 0),
    )
    return [(each.topic, each.partition, each.offset, str(each.error)) for each in committed]


def consume(group: str, count: int, topic: str = "flights") -> str:
    return (
        f"kafka-console-consumer --topic {topic} --group {group} --from-beginning --max-messages {count} "
        "--timeout-ms 50000 --command-property auto.commit.interval.ms=900000"
    )


AT_REST: Final[tuple[Case, ...]] = (
    tool("no groups yet", f"{GROUPS} --list"),
    tool("describe no group", f"{GROUPS} --describe --group nobody"),
    tool("describe all of none", f"{GROUPS} --describe --all-groups"),
    java("describe no group (Java)", "describeConsumerGroups nobody"),
    java("describe no classic group (Java)", "describeClassicGroups nobody"),
    java("offsets of no group (Java)", "listConsumerGroupOffsets nobody"),
    java("delete no group (Java)", "deleteConsumerGroups nobody"),
    tool("a group reads", consume("crew", 6), unordered=True),
    step("a simple consumer commits", simple_commit),
    tool("list", f"{GROUPS} --list", unordered=True),
    tool("list with states", f"{GROUPS} --list --state", unordered=True),
    tool("list by state", f"{GROUPS} --list --state empty", unordered=True),
    tool("list with types", f"{GROUPS} --list --type", unordered=True),
    tool("list by type", f"{GROUPS} --list --type classic", unordered=True),
    tool("list by type consumer", f"{GROUPS} --list --type consumer"),
    tool("list by an unknown type", f"{GROUPS} --list --type odd"),
    tool("groups", "kafka-groups --list", unordered=True),
    tool("groups of a protocol", "kafka-groups --list --protocol consumer", unordered=True),
    tool("groups of a type", "kafka-groups --list --group-type share"),
    tool("groups for consumers", "kafka-groups --list --consumer", unordered=True),
    tool("describe", f"{GROUPS} --describe --group crew", unordered=True),
    tool("describe the state", f"{GROUPS} --describe --group crew --state"),
    tool("describe the members", f"{GROUPS} --describe --group crew --members"),
    tool("describe members, verbose", f"{GROUPS} --describe --group crew --members --verbose"),
    tool("describe a simple consumer", f"{GROUPS} --describe --group simple", unordered=True),
    tool("describe a simple consumer's state", f"{GROUPS} --describe --group simple --state"),
    tool("describe two groups", f"{GROUPS} --describe --group crew --group simple --state", unordered=True),
    java("list (Java)", "listGroups"),
    java("list by state (Java)", "listGroups states=Empty,Stable"),
    java("list by type (Java)", "listGroups types=Classic"),
    java("list by protocol (Java)", "listGroups protocols=consumer"),
    java("describe (Java)", "describeConsumerGroups crew simple nobody --operations"),
    java("describe classic (Java)", "describeClassicGroups crew simple"),
    java("offsets (Java)", "listConsumerGroupOffsets crew simple nobody"),
    confluent(
        "list (librdkafka)",
        lambda admin: sorted(each.group_id for each in admin.list_consumer_groups().result().valid),
    ),
    confluent(
        "list by state and type (librdkafka)",
        lambda admin: sorted(
            (each.group_id, each.state.name, each.type.name, each.is_simple_consumer_group)
            for each in admin.list_consumer_groups(
                states={ConsumerGroupState.EMPTY}, types={ConsumerGroupType.CLASSIC}
            )
            .result()
            .valid
        ),
    ),
    confluent(
        "describe (librdkafka)",
        lambda admin: admin.describe_consumer_groups(["crew", "nobody"], include_authorized_operations=True),
    ),
    confluent(
        "offsets (librdkafka)",
        lambda admin: admin.list_consumer_group_offsets(
            [
                ConsumerGroupTopicPartitions(
                    "simple", [TopicPartition("flights", 0), TopicPartition("flights", 3)]
                )
            ]
        ),
    ),
    kafka_python(
        "list (kafka-python)",
        lambda admin: sorted(admin.list_groups(), key=lambda each: str(each["group_id"])),
    ),
    kafka_python("describe (kafka-python)", lambda admin: admin.describe_groups(["crew", "nobody"])),
    kafka_python("offsets (kafka-python)", lambda admin: admin.list_group_offsets({"simple": None})),
)

MOVING: Final[tuple[Case, ...]] = (
    tool("reset to earliest, dry run", f"{RESET} --topic flights --to-earliest --dry-run", unordered=True),
    tool("reset to earliest", f"{RESET} --topic flights --to-earliest --execute", unordered=True),
    tool("reset to latest", f"{RESET} --topic flights --to-latest --execute", unordered=True),
    tool("reset to an offset", f"{RESET} --topic flights:0 --to-offset 7 --execute"),
    tool("reset to an offset beyond the end", f"{RESET} --topic flights:0 --to-offset 700 --execute"),
    tool("reset to an offset before the start", f"{RESET} --topic flights:0 --to-offset 1 --execute"),
    tool("reset by one back", f"{RESET} --topic flights:0 --shift-by -1 --execute"),
    tool("reset by many on", f"{RESET} --topic flights:0 --shift-by 1000 --execute"),
    tool("reset to a time", f"{RESET} --topic flights:0 --to-datetime 2020-09-13T12:26:48.000 --execute"),
    tool(
        "reset to a time after all",
        f"{RESET} --topic flights:0 --to-datetime 2099-01-01T00:00:00.000 --execute",
    ),
    tool("reset to a bad time", f"{RESET} --topic flights:0 --to-datetime noon --execute"),
    tool("reset by a duration", f"{RESET} --topic flights:0 --by-duration PT1H --execute"),
    tool("reset by a bad duration", f"{RESET} --topic flights:0 --by-duration hour --execute"),
    tool("reset to current", f"{RESET} --topic flights:0 --to-current --execute"),
    tool("reset all topics", f"{RESET} --all-topics --to-earliest --execute", unordered=True),
    tool("reset of nothing", f"{RESET} --to-earliest --execute"),
    tool("reset a topic that is not there", f"{RESET} --topic nowhere --to-earliest --execute"),
    tool("reset a partition that is not there", f"{RESET} --topic flights:77 --to-earliest --execute"),
    tool("reset twice at once", f"{RESET} --topic flights --to-earliest --to-latest --execute"),
    tool("export", f"{RESET} --topic flights --to-earliest --dry-run --export", unordered=True),
    tool(
        "reset from a file",
        f"{RESET} --from-file {{plan}} --execute",
        plan='"flights",0,8\n"flights",1,3\n',
        unordered=True,
    ),
    tool(
        "reset a group that is not there",
        f"{GROUPS} --reset-offsets --group newcomer --topic flights --to-earliest --execute",
        unordered=True,
    ),
    tool(
        "reset all groups",
        f"{GROUPS} --reset-offsets --all-groups --topic flights:0 --to-latest --execute",
        unordered=True,
    ),
    java(
        "alter offsets",
        "alterConsumerGroupOffsets crew flights-0=7 flights-1=3:0:noted flights-77=1 nowhere-0=1",
    ),
    java("alter offsets to less than nothing", "alterConsumerGroupOffsets crew flights-0=9:-5:x"),
    java("alter offsets with long metadata", f"alterConsumerGroupOffsets crew flights-0=7:0:{'m' * 5000}"),
    java("offsets after it", "listConsumerGroupOffsets crew"),
    confluent(
        "alter offsets (librdkafka)",
        lambda admin: admin.alter_consumer_group_offsets(
            [
                ConsumerGroupTopicPartitions(
                    "crew", [TopicPartition("flights", 2, 1), TopicPartition("flights", 77, 1)]
                )
            ]
        ),
    ),
    kafka_python(
        "alter offsets (kafka-python)",
        lambda admin: {
            place: error.__name__
            for place, error in admin.alter_group_offsets(
                "crew", {KafkaPythonPartition("flights", 0): OffsetAndMetadata(6, "", -1)}
            ).items()
        },
    ),
    kafka_python(
        "reset offsets (kafka-python)",
        lambda admin: admin.reset_group_offsets(
            "crew", {KafkaPythonPartition("flights", 0): OffsetSpec.LATEST}
        ),
    ),
)

AT_WORK: Final[tuple[Case, ...]] = (
    step("a member joins", join),
    tool("list with states, one at work", f"{GROUPS} --list --state", unordered=True),
    tool("describe one at work", f"{GROUPS} --describe --group working", unordered=True),
    tool("describe its members", f"{GROUPS} --describe --group working --members --verbose"),
    tool("describe its state", f"{GROUPS} --describe --group working --state"),
    tool(
        "reset one at work",
        f"{GROUPS} --reset-offsets --group working --topic flights --to-earliest --execute",
    ),
    tool("delete one at work", f"{GROUPS} --delete --group working"),
    tool("delete offsets of one at work", f"{GROUPS} --delete-offsets --group working --topic flights"),
    tool(
        "delete offsets it is not subscribed to", f"{GROUPS} --delete-offsets --group working --topic rockets"
    ),
    java("describe (Java), one at work", "describeConsumerGroups working"),
    java("alter its offsets", "alterConsumerGroupOffsets working flights-0=1"),
    java("delete it and another", "deleteConsumerGroups working newcomer nobody"),
    java("delete its offsets", "deleteConsumerGroupOffsets working flights-0 rockets-0 nowhere-0"),
    java("remove a static member nobody knows", "removeMembersFromConsumerGroup working nobody"),
    confluent(
        "describe (librdkafka), one at work", lambda admin: admin.describe_consumer_groups(["working"])
    ),
    confluent(
        "alter its offsets (librdkafka)",
        lambda admin: admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions("working", [TopicPartition("flights", 0, 1)])]
        ),
    ),
    confluent("delete it (librdkafka)", lambda admin: admin.delete_consumer_groups(["working"])),
    kafka_python("describe (kafka-python), one at work", lambda admin: admin.describe_groups(["working"])),
    kafka_python("delete it (kafka-python)", lambda admin: admin.delete_groups(["working"])),
    java("remove all members", "removeMembersFromConsumerGroup working"),
    step("the member leaves", leave),
    tool("describe what it left", f"{GROUPS} --describe --group working --state", until="Empty"),
)

GOING: Final[tuple[Case, ...]] = (
    tool("delete offsets", f"{GROUPS} --delete-offsets --group crew --topic flights:0"),
    tool("delete offsets that are not there", f"{GROUPS} --delete-offsets --group crew --topic rockets"),
    tool(
        "delete offsets of a topic that is not there",
        f"{GROUPS} --delete-offsets --group crew --topic nowhere",
    ),
    tool("delete offsets of no group", f"{GROUPS} --delete-offsets --group nobody --topic flights"),
    java("delete offsets (Java)", "deleteConsumerGroupOffsets crew flights-1 flights-77 nowhere-0"),
    java("delete offsets of no group (Java)", "deleteConsumerGroupOffsets nobody flights-1"),
    kafka_python(
        "delete offsets (kafka-python)",
        lambda admin: {
            place: error.__name__
            for place, error in admin.delete_group_offsets(
                "crew", [KafkaPythonPartition("flights", 2)]
            ).items()
        },
    ),
    java("offsets that are left", "listConsumerGroupOffsets crew simple"),
    tool("delete", f"{GROUPS} --delete --group crew"),
    tool("delete what is gone", f"{GROUPS} --delete --group crew"),
    tool("delete two, one gone", f"{GROUPS} --delete --group simple --group crew"),
    confluent("delete (librdkafka)", lambda admin: admin.delete_consumer_groups(["working", "nobody"])),
    tool("delete all", f"{GROUPS} --delete --all-groups"),
    tool("no groups any more", f"{GROUPS} --list"),
)
