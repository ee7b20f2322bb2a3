"""Topics and partitions: made, described, grown, refused, deleted."""

from __future__ import annotations

from typing import Final

from confluent_kafka import TopicCollection
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]
from kafka.admin import NewTopic as KafkaPythonTopic

from tests.side_by_side.cases import Case, confluent, java, kafka_python, tool

CREATE: Final = "kafka-topics --create --topic"

CREATING: Final[tuple[Case, ...]] = (
    tool("no topics yet", "kafka-topics --list"),
    tool("create", f"{CREATE} flights --partitions 3"),
    tool("create again", f"{CREATE} flights"),
    tool("create again, if not there", f"{CREATE} flights --if-not-exists"),
    tool(
        "create with configs",
        f"{CREATE} rockets --config retention.ms=60000 --config cleanup.policy=compact,delete",
    ),
    tool("create with an assignment", f"{CREATE} crews --replica-assignment 1,1"),
    tool("create with an unknown replica", f"{CREATE} bad --replica-assignment 7"),
    tool("create with a replica twice", f"{CREATE} bad --replica-assignment 1:1"),
    tool("create with assignments of two sizes", f"{CREATE} bad --replica-assignment 1,1:2"),
    tool("create with assignment and count", f"{CREATE} bad --replica-assignment 1 --partitions 2"),
    tool("create with no partitions", f"{CREATE} bad --partitions 0"),
    tool("create with a huge count", f"{CREATE} bad --partitions 2147483647"),
    tool("create with two replicas", f"{CREATE} bad --replication-factor 2"),
    tool("create with no replicas", f"{CREATE} bad --replication-factor 0"),
    tool("create with an odd name", f"{CREATE} 'a b'"),
    tool("create with a long name", f"{CREATE} {'x' * 250}"),
    tool("create the name ..", f"{CREATE} .."),
    tool("create names that collide, first", f"{CREATE} one.two"),
    tool("create names that collide, second", f"{CREATE} one_two"),
    tool("create with an unknown config", f"{CREATE} bad --config colour=red"),
    tool("create with a bad config", f"{CREATE} bad --config segment.bytes=1"),
    tool("create with a config that is no number", f"{CREATE} bad --config retention.ms=long"),
    tool("create without a topic", "kafka-topics --create"),
    java("create, validate only", "createTopics ghost:2:1 --validate-only --show"),
    java("what is validated is not made", "describeTopics ghost"),
    java("create with defaults, and see", "createTopics plain::: --show"),
    java(
        "create with a config and see",
        "createTopics tuned:2:1:retention.ms=1000,min.insync.replicas=1 --show",
    ),
    java("create several, good and bad", "createTopics good:1:1 bad:0:1 bad.two:1:0 flights:1:1 b@d:1:1"),
    java("create with a null config", "createTopics bad:1:1:retention.ms=null"),
    java("create with an empty assignment", "createTopics bad="),
    java("create with a replica of id -1", "createTopics bad=-1"),
    java("create an internal topic's name", "createTopics __cluster_metadata:1:1"),
    java("a bad assignment, validate only", "createTopics bad=1,9 --validate-only"),
    java("a ratio over one", "createTopics bad:1:1:min.cleanable.dirty.ratio=2"),
    java(
        "min compaction lag over its maximum",
        "createTopics bad:1:1:min.compaction.lag.ms=10,max.compaction.lag.ms=5",
    ),
    java("remote storage on a cluster without", "createTopics bad:1:1:remote.storage.enable=true"),
    java("local retention over retention", "createTopics bad:1:1:retention.ms=1000,local.retention.ms=2000"),
    confluent(
        "create (librdkafka)",
        lambda admin: admin.create_topics(
            [NewTopic("by-librdkafka", 2, 1, config={"retention.ms": "86400000"}), NewTopic("bad", 1, 5)]
        ),
    ),
    confluent(
        "create one name twice in a request (librdkafka)",
        lambda admin: admin.create_topics([NewTopic("double", 1, 1), NewTopic("double", 2, 1)]),
    ),
    confluent(
        "create, validate only (librdkafka)",
        lambda admin: admin.create_topics(
            [NewTopic("ghost", 2, 1), NewTopic("flights", 1, 1)], validate_only=True
        ),
    ),
    kafka_python(
        "create (kafka-python)",
        lambda admin: admin.create_topics(
            [KafkaPythonTopic("by-kafka-python", 2, 1, topic_configs={"max.message.bytes": "2000"})]
        ),
    ),
    kafka_python(
        "create again (kafka-python)", lambda admin: admin.create_topics([KafkaPythonTopic("flights", 2, 1)])
    ),
    kafka_python(
        "create good and bad (kafka-python)",
        lambda admin: admin.create_topics(
            [KafkaPythonTopic("good", 2, 1), KafkaPythonTopic("bad", 2, 5)], raise_errors=False
        ),
    ),
)

LOOKING: Final[tuple[Case, ...]] = (
    tool("list", "kafka-topics --list"),
    tool("list without internal ones", "kafka-topics --list --exclude-internal"),
    tool("list one", "kafka-topics --list --topic fli.*"),
    tool("describe", "kafka-topics --describe --topic flights"),
    tool("describe all", "kafka-topics --describe"),
    tool("describe what is not there", "kafka-topics --describe --topic nowhere"),
    tool("describe what is not there, if there", "kafka-topics --describe --topic nowhere --if-exists"),
    tool("describe with an id nobody has", "kafka-topics --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ"),
    tool("describe those with configs", "kafka-topics --describe --topics-with-overrides"),
    tool("describe the under-replicated", "kafka-topics --describe --under-replicated-partitions"),
    tool("describe the unavailable", "kafka-topics --describe --unavailable-partitions"),
    tool(
        "describe those at their least replicas",
        "kafka-topics --describe --topic flights --at-min-isr-partitions",
    ),
    tool("describe in pages", "kafka-topics --describe --partition-size-limit-per-response 2"),
    java("list (Java)", "listTopics --internal"),
    java("describe (Java)", "describeTopics flights nowhere crews b@d"),
    java("describe with operations (Java)", "describeTopics flights --operations"),
    java("describe in pages (Java)", "describeTopics flights rockets crews tuned --small-pages"),
    java("describe by id (Java)", "describeTopicIds id:flights AAAAAAAAAAAAAAAAAAAAAQ", unordered=True),
    java("describe by id zero (Java)", "describeTopicIds AAAAAAAAAAAAAAAAAAAAAA"),
    confluent(
        "describe (librdkafka)",
        lambda admin: admin.describe_topics(
            TopicCollection(["flights", "nowhere"]), include_authorized_operations=True
        ),
    ),
    kafka_python("list (kafka-python)", lambda admin: sorted(admin.list_topics())),
    kafka_python("describe (kafka-python)", lambda admin: admin.describe_topics(["flights", "nowhere"])),
    kafka_python(
        "describe partitions (kafka-python)",
        lambda admin: admin.describe_topic_partitions(["crews", "flights"], 2),
    ),
)

GROWING: Final[tuple[Case, ...]] = (
    tool(
        "alter with an assignment",
        "kafka-topics --alter --topic crews --partitions 3 --replica-assignment 1,1,1",
    ),
    tool("alter to more partitions", "kafka-topics --alter --topic flights --partitions 5"),
    tool("alter to as many", "kafka-topics --alter --topic flights --partitions 5"),
    tool("alter to fewer", "kafka-topics --alter --topic flights --partitions 2"),
    tool("alter what is not there", "kafka-topics --alter --topic nowhere --partitions 2"),
    tool(
        "alter what is not there, if there", "kafka-topics --alter --topic nowhere --partitions 2 --if-exists"
    ),
    tool("describe what grew", "kafka-topics --describe --topic flights", until="Partition: 4"),
    # The tool tells new assignments from old ones by what the broker says of the topic: the case before has
    # shown that the broker knows how all have grown.
    tool(
        "alter with an unknown replica",
        "kafka-topics --alter --topic crews --partitions 4 --replica-assignment 1,1,1,9",
    ),
    java("grow, validate only", "createPartitions flights=9 --validate-only"),
    java("grow by too few assignments", "createPartitions flights=8:1"),
    java("grow by too many assignments", "createPartitions flights=6:1;1"),
    java("grow by an assignment of two replicas", "createPartitions flights=6:1,2"),
    java("grow by a replica twice", "createPartitions flights=6:1,1"),
    java("grow by an empty assignment", "createPartitions flights=6:"),
    java("grow by an unknown replica", "createPartitions flights=6:4"),
    java("grow several, good and bad", "createPartitions flights=6:1 crews=1 nowhere=3 b@d=2"),
    java("grow to nothing", "createPartitions flights=0"),
    java("grow to less than nothing", "createPartitions flights=-1"),
    java("grow beyond all measure", "createPartitions flights=2147483647"),
    confluent(
        "grow (librdkafka)",
        lambda admin: admin.create_partitions(
            [NewPartitions("by-librdkafka", 3), NewPartitions("nowhere", 2)]
        ),
    ),
    confluent(
        "grow one twice in a request (librdkafka)",
        lambda admin: admin.create_partitions([NewPartitions("good", 3), NewPartitions("good", 4)]),
    ),
    kafka_python("grow (kafka-python)", lambda admin: admin.create_partitions({"by-kafka-python": 3})),
)

DELETING: Final[tuple[Case, ...]] = (
    tool("delete", "kafka-topics --delete --topic one.two"),
    tool("it is gone", "kafka-topics --list"),
    tool("delete what is gone", "kafka-topics --delete --topic one.two"),
    tool("delete what is gone, if there", "kafka-topics --delete --topic one.two --if-exists"),
    tool("delete by a pattern", "kafka-topics --delete --topic by-.*"),
    java("delete good and bad", "deleteTopics good nowhere b@d"),
    java("delete by id", "deleteTopicIds id:plain AAAAAAAAAAAAAAAAAAAAAQ", unordered=True),
    java("delete by id zero", "deleteTopicIds AAAAAAAAAAAAAAAAAAAAAA"),
    confluent("delete (librdkafka)", lambda admin: admin.delete_topics(["tuned", "nowhere"])),
    kafka_python(
        "delete (kafka-python)",
        lambda admin: sorted(
            admin.delete_topics(["crews", "nowhere"], raise_errors=False)["topics"],
            key=lambda each: str(each["name"]),
        ),
    ),
    tool("list what is left", "kafka-topics --list"),
)
