"""Where replicas are: elections, reassignments, log directories; all that one node can mean by them."""

from __future__ import annotations

from typing import Final

from confluent_kafka import ElectionType, TopicPartition
from kafka import TopicPartition as KafkaPythonPartition
from kafka.structs import TopicPartitionReplica

from tests.side_by_side.cases import Case, confluent, java, kafka_python, tool

ELECT: Final = "kafka-leader-election"
REASSIGN: Final = "kafka-reassign-partitions"
LOG_DIRS: Final = "kafka-log-dirs --describe"
FLIGHT: Final = '{"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [%s]}]}'

CASES: Final[tuple[Case, ...]] = (
    tool("elect all", f"{ELECT} --election-type preferred --all-topic-partitions"),
    tool("elect one that leads", f"{ELECT} --election-type preferred --topic flights --partition 0"),
    tool("elect uncleanly", f"{ELECT} --election-type unclean --topic flights --partition 0"),
    tool("elect for nothing", f"{ELECT} --election-type preferred --topic nowhere --partition 0"),
    tool(
        "elect for a partition that is not there",
        f"{ELECT} --election-type preferred --topic flights --partition 99",
    ),
    tool("elect without a type", f"{ELECT} --topic flights --partition 0"),
    tool("elect oddly", f"{ELECT} --election-type odd --topic flights --partition 0"),
    tool("elect without a partition", f"{ELECT} --election-type preferred --topic flights"),
    tool(
        "elect by a file",
        f"{ELECT} --election-type preferred --path-to-json-file {{which}}",
        which='{"partitions": [{"topic": "flights", "partition": 1}, {"topic": "nowhere", "partition": 1}]}',
    ),
    tool(
        "elect by a bad file", f"{ELECT} --election-type preferred --path-to-json-file {{which}}", which="{"
    ),
    java("elect some (Java)", "electLeaders preferred flights-0 flights-99 nowhere-0 b@d-0"),
    java("elect all (Java)", "electLeaders preferred --all"),
    java("elect all uncleanly (Java)", "electLeaders unclean --all"),
    confluent(
        "elect (librdkafka)",
        lambda admin: admin.elect_leaders(
            ElectionType.PREFERRED, [TopicPartition("flights", 0), TopicPartition("nowhere", 0)]
        ),
    ),
    kafka_python(
        "elect (kafka-python)", lambda admin: admin.elect_leaders(0, {"flights": [0]}, raise_errors=False)
    ),
    tool("reassignments, none", f"{REASSIGN} --list"),
    tool(
        "reassign to where it is",
        f"{REASSIGN} --execute --reassignment-json-file {{plan}}",
        plan=FLIGHT % "1",
    ),
    tool("verify it", f"{REASSIGN} --verify --reassignment-json-file {{plan}}", plan=FLIGHT % "1"),
    tool(
        "reassign to an unknown broker",
        f"{REASSIGN} --execute --reassignment-json-file {{plan}}",
        plan=FLIGHT % "2",
    ),
    tool(
        "reassign to one broker twice",
        f"{REASSIGN} --execute --reassignment-json-file {{plan}}",
        plan=FLIGHT % "1, 1",
    ),
    tool("reassign to nobody", f"{REASSIGN} --execute --reassignment-json-file {{plan}}", plan=FLIGHT % ""),
    tool(
        "reassign nothing",
        f"{REASSIGN} --execute --reassignment-json-file {{plan}}",
        plan='{"version": 1, "partitions": []}',
    ),
    tool(
        "reassign what is not there",
        f"{REASSIGN} --execute --reassignment-json-file {{plan}}",
        plan=(FLIGHT % "1").replace("flights", "nowhere"),
    ),
    tool(
        "reassign with a throttle",
        f"{REASSIGN} --execute --throttle 1000000 --reassignment-json-file {{plan}}",
        plan=FLIGHT % "1",
    ),
    tool(
        "and the throttle is taken away",
        f"{REASSIGN} --verify --reassignment-json-file {{plan}}",
        plan=FLIGHT % "1",
    ),
    tool(
        "cancel what is not going on",
        f"{REASSIGN} --cancel --reassignment-json-file {{plan}}",
        plan=FLIGHT % "1",
    ),
    tool(
        "a plan",
        f"{REASSIGN} --generate --broker-list 1 --topics-to-move-json-file {{topics}}",
        topics='{"version": 1, "topics": [{"topic": "flights"}]}',
    ),
    tool(
        "a plan for unknown brokers",
        f"{REASSIGN} --generate --broker-list 1,2 --topics-to-move-json-file {{topics}}",
        topics='{"version": 1, "topics": [{"topic": "flights"}]}',
    ),
    java(
        "reassign (Java)",
        "alterPartitionReassignments flights-0=1 flights-1=1,1 flights-3=9 flights-99=1 nowhere-0=1",
    ),
    java("reassign to -1 (Java)", "alterPartitionReassignments flights-0=-1"),
    java("reassign to more replicas (Java)", "alterPartitionReassignments flights-0=1,2"),
    java("cancel (Java)", "alterPartitionReassignments flights-0=cancel flights-99=cancel nowhere-0=cancel"),
    java("reassignments (Java)", "listPartitionReassignments"),
    java("reassignments of some (Java)", "listPartitionReassignments flights-0 flights-99 nowhere-0"),
    kafka_python(
        "reassign (kafka-python)",
        lambda admin: admin.alter_partition_reassignments(
            {KafkaPythonPartition("flights", 0): [1], KafkaPythonPartition("nowhere", 0): [1]}
        ),
    ),
    kafka_python("reassignments (kafka-python)", lambda admin: admin.list_partition_reassignments()),
    tool("log dirs", LOG_DIRS, unordered=True),
    tool("log dirs of a topic", f"{LOG_DIRS} --topic-list flights", unordered=True),
    tool("log dirs of an unknown topic", f"{LOG_DIRS} --topic-list nowhere"),
    tool("log dirs of a broker", f"{LOG_DIRS} --broker-list 1 --topic-list rockets"),
    tool("log dirs of an unknown broker", f"{LOG_DIRS} --broker-list 9"),
    tool("log dirs, not described", "kafka-log-dirs"),
    java("log dirs (Java)", "describeLogDirs 1"),
    java("replicas' log dirs (Java)", "describeReplicaLogDirs flights-0@1 nowhere-0@1 flights-99@1"),
    java("move replicas to where they are", "alterReplicaLogDirs flights-0@1={data}"),
    java(
        "move replicas to another folder",
        "alterReplicaLogDirs flights-0@1=/nowhere nowhere-0@1={data} flights-1@1=relative",
    ),
    kafka_python(
        "move replicas (kafka-python)",
        lambda admin: {
            f"{place.topic}-{place.partition}": error.__name__
            for place, error in admin.alter_replica_log_dirs(
                {
                    TopicPartitionReplica("flights", 0, 1): "/nowhere",
                    TopicPartitionReplica("nowhere", 0, 1): "/nowhere",
                }
            ).items()
        },
    ),
    kafka_python(
        "log dirs (kafka-python)",
        lambda admin: [
            (
                topic["name"],
                [(each["partition_index"], each["partition_size"]) for each in topic["partitions"]],
            )
            for broker in admin.describe_log_dirs({"rockets": [0]})
            for folder in broker["log_dirs"]
            for topic in folder["topics"]
        ],
    ),
)
