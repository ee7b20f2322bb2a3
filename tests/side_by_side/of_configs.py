"""Configs of topics, brokers, the cluster, loggers, groups, client metrics: changed, shown, refused."""

from __future__ import annotations

from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from kafka.admin import ConfigResource as KafkaPythonResource

from tests.side_by_side.cases import QUICK, Case, confluent, java, kafka_python, tool

ALTER: Final = "kafka-configs --alter"
DESCRIBE: Final = "kafka-configs --describe"
TOPIC: Final = "--entity-type topics --entity-name"
BROKER: Final = "--entity-type brokers --entity-name 1"
CLUSTER: Final = "--entity-type brokers --entity-default"
LOGGERS: Final = "--entity-type broker-loggers --entity-name 1"


def resource(kind: str, name: str, **configs: str) -> ConfigResource:
    return ConfigResource(kind, name, {key.replace("_", "."): value for key, value in configs.items()})


def change(
    kind: str, name: str, operation: AlterConfigOpType, config: str, value: str | None
) -> ConfigResource:
    entry = ConfigEntry(config, value, incremental_operation=operation)
    return ConfigResource(kind, name, incremental_configs=[entry])


OF_TOPICS: Final[tuple[Case, ...]] = (
    tool(
        "alter a topic", f"{ALTER} {TOPIC} flights --add-config retention.ms=10000000000000,segment.ms=60000"
    ),
    tool("describe a topic", f"{DESCRIBE} {TOPIC} flights", until="segment.ms"),
    tool("describe a topic, all", f"{DESCRIBE} {TOPIC} flights --all"),
    tool("alter by --topic", f"{ALTER} --topic flights --add-config max.message.bytes=4096"),
    tool("describe by --topic", f"{DESCRIBE} --topic flights"),
    tool("delete a topic's config", f"{ALTER} {TOPIC} flights --delete-config segment.ms"),
    tool("delete a config that is not set", f"{ALTER} {TOPIC} flights --delete-config segment.bytes"),
    tool("a list in brackets", f"{ALTER} {TOPIC} good --add-config cleanup.policy=[compact,delete]"),
    tool("an unknown config", f"{ALTER} {TOPIC} flights --add-config colour=red"),
    tool("a value that is no number", f"{ALTER} {TOPIC} flights --add-config retention.ms=week"),
    tool("a value beyond its range", f"{ALTER} {TOPIC} flights --add-config min.insync.replicas=0"),
    tool("a value that is no choice", f"{ALTER} {TOPIC} flights --add-config compression.type=rar"),
    tool("more copies than replicas", f"{ALTER} {TOPIC} flights --add-config min.insync.replicas=3"),
    tool("configs of an unknown topic", f"{ALTER} {TOPIC} nowhere --add-config retention.ms=1"),
    tool("describe an unknown topic", f"{DESCRIBE} {TOPIC} nowhere"),
    tool("alter nothing", f"{ALTER} {TOPIC} flights"),
    tool("alter no entity", f"{ALTER} --add-config retention.ms=1"),
    tool(
        "add and delete one config",
        f"{ALTER} {TOPIC} flights --add-config retention.ms=5 --delete-config retention.ms",
    ),
    tool(
        "configs from a file",
        f"{ALTER} {TOPIC} flights --add-config-file {{properties}}",
        properties="retention.bytes=123456\n",
    ),
    tool("configs from no file", f"{ALTER} {TOPIC} flights --add-config-file /nowhere/at.all"),
    # kafka-configs deletes what the broker shows: it is asked until it does.
    tool(
        "describe all topics",
        f"{DESCRIBE} --entity-type topics",
        unordered=True,
        until="min.insync.replicas=3",
    ),
    tool("back to one copy", f"{ALTER} {TOPIC} flights --delete-config min.insync.replicas"),
    java(
        "append to a list",
        "incrementalAlterConfigs topic/rockets subtract:cleanup.policy=delete "
        "append:follower.replication.throttled.replicas=0:1",
    ),
    java("append what is there", "incrementalAlterConfigs topic/rockets append:cleanup.policy=compact"),
    java("append to what is no list", "incrementalAlterConfigs topic/rockets append:retention.ms=5"),
    java("subtract from what is no list", "incrementalAlterConfigs topic/rockets subtract:retention.ms=5"),
    java(
        "subtract what is not there",
        "incrementalAlterConfigs topic/rockets subtract:follower.replication.throttled.replicas=7:7",
    ),
    java("subtract all", "incrementalAlterConfigs topic/rockets subtract:cleanup.policy=compact"),
    java(
        "one config twice in a request",
        "incrementalAlterConfigs topic/rockets set:retention.ms=5 set:retention.ms=6",
    ),
    java("a null value", "incrementalAlterConfigs topic/rockets set:retention.ms"),
    java(
        "two configs, one bad", "incrementalAlterConfigs topic/rockets set:retention.ms=7 set:segment.bytes=7"
    ),
    java("validate only", "incrementalAlterConfigs topic/rockets set:retention.ms=7 --validate-only"),
    java("validate only, bad", "incrementalAlterConfigs topic/rockets set:retention.ms=-7 --validate-only"),
    java("a topic's configs after all that", "describeConfigs topic/rockets --changed"),
    java("a topic of a bad name", "incrementalAlterConfigs topic/b@d set:retention.ms=7"),
    java("a topic without a name", "incrementalAlterConfigs topic/ set:retention.ms=7"),
    java("describe topics, good and bad", "describeConfigs topic/flights topic/nowhere topic/b@d --changed"),
    java("a topic's configs with documentation", "describeConfigs topic/flights --documentation"),
    java("describe an internal topic", "describeConfigs topic/__consumer_offsets --changed"),
    confluent(
        "describe a topic's configs (librdkafka)",
        lambda admin: admin.describe_configs([resource("topic", "flights")]),
    ),
    confluent(
        "replace all configs (librdkafka, AlterConfigs)",
        lambda admin: admin.alter_configs(
            [resource("topic", "rockets", retention_ms="77777", compression_type="zstd")]
        ),
    ),
    confluent(
        "replace with a bad one (librdkafka, AlterConfigs)",
        lambda admin: admin.alter_configs([resource("topic", "rockets", retention_ms="x")]),
    ),
    confluent(
        "replace, of what is not there (librdkafka, AlterConfigs)",
        lambda admin: admin.alter_configs([resource("topic", "nowhere", retention_ms="1")]),
    ),
    confluent(
        "replace, validate only (librdkafka, AlterConfigs)",
        lambda admin: admin.alter_configs(
            [resource("topic", "rockets", segment_ms="9000")], validate_only=True
        ),
    ),
    confluent(
        "change one (librdkafka)",
        lambda admin: admin.incremental_alter_configs(
            [change("topic", "rockets", AlterConfigOpType.SET, "segment.ms", "99999")]
        ),
    ),
    kafka_python(
        "a topic's configs (kafka-python)",
        lambda admin: admin.describe_configs(
            [KafkaPythonResource("TOPIC", "rockets")], include_synonyms=True
        ),
    ),
    kafka_python(
        "alter (kafka-python)",
        lambda admin: admin.alter_configs(
            [KafkaPythonResource("TOPIC", "rockets", {"retention.ms": "88888"})]
        ),
    ),
    kafka_python(
        "alter the old way (kafka-python)",
        lambda admin: admin.alter_configs(
            [KafkaPythonResource("TOPIC", "rockets", {"retention.ms": "99999"})], incremental=False
        ),
    ),
    kafka_python(
        "reset (kafka-python)",
        lambda admin: admin.reset_configs([KafkaPythonResource("TOPIC", "rockets", {"retention.ms": None})]),
    ),
)

OF_BROKERS: Final[tuple[Case, ...]] = (
    tool("describe a broker", f"{DESCRIBE} {BROKER}"),
    tool("describe a broker, all", f"{DESCRIBE} {BROKER} --all"),
    tool("describe the cluster's defaults", f"{DESCRIBE} {CLUSTER}"),
    tool("describe all brokers", f"{DESCRIBE} --entity-type brokers"),
    tool(
        "describe an unknown broker",
        f"{DESCRIBE} --entity-type brokers --entity-name 9 --command-config {{quick}}",
        quick=QUICK,
    ),
    tool("describe a broker whose name is no number", f"{DESCRIBE} --entity-type brokers --entity-name one"),
    tool("alter a broker", f"{ALTER} {BROKER} --add-config log.retention.ms=600000,background.threads=11"),
    tool(
        "alter the cluster's defaults",
        f"{ALTER} {CLUSTER} --add-config log.retention.ms=700000,log.segment.bytes=2000000",
    ),
    tool("a broker after it", f"{DESCRIBE} {BROKER}", until="log.retention.ms"),
    tool("the cluster's defaults after it", f"{DESCRIBE} {CLUSTER}", until="log.retention.ms"),
    java("a topic inherits", "describeConfigs topic/flights", until="DYNAMIC_BROKER_CONFIG"),
    java("a broker's sources", "describeConfigs broker/1 --changed"),
    tool("a broker's read-only config", f"{ALTER} {BROKER} --add-config node.id=7"),
    tool("another read-only config", f"{ALTER} {BROKER} --add-config num.partitions=7"),
    tool("a read-only config for all", f"{ALTER} {CLUSTER} --add-config num.partitions=7"),
    tool("a per-broker config for all", f"{ALTER} {CLUSTER} --add-config ssl.keystore.type=PEM"),
    tool(
        "a listener's config for all",
        f"{ALTER} {CLUSTER} --add-config listener.name.plaintext.ssl.keystore.type=PEM",
    ),
    tool("a bad value", f"{ALTER} {BROKER} --add-config num.io.threads=none"),
    tool("threads more than doubled", f"{ALTER} {BROKER} --add-config num.io.threads=100"),
    tool("threads fewer than half", f"{ALTER} {BROKER} --add-config num.io.threads=2"),
    tool("threads a little more", f"{ALTER} {BROKER} --add-config num.io.threads=12"),
    tool("a value out of range", f"{ALTER} {BROKER} --add-config log.cleaner.threads=-1"),
    tool("connections", f"{ALTER} {BROKER} --add-config max.connections=200,max.connections.per.ip=150"),
    tool(
        "a listener's connections",
        f"{ALTER} {BROKER} --add-config listener.name.plaintext.max.connections=100",
    ),
    tool("an unknown config of a broker", f"{ALTER} {BROKER} --add-config colour=red"),
    tool(
        "a broker whose name is no number",
        f"{ALTER} --entity-type brokers --entity-name one --add-config num.io.threads=9",
    ),
    tool("a topic's word for a broker", f"{ALTER} {BROKER} --add-config retention.ms=9"),
    tool("a list of a broker", f"{ALTER} {CLUSTER} --add-config log.cleanup.policy=[compact,delete]"),
    tool("an unclean list of a broker", f"{ALTER} {CLUSTER} --add-config log.cleanup.policy=[compact,burn]"),
    tool("a password", f"{ALTER} {BROKER} --add-config listener.name.internal.ssl.key.password=secret"),
    java("a broker's secrets", "describeConfigs broker/1 --changed", until="listener.name.internal"),
    tool(
        "delete a broker's configs",
        f"{ALTER} {BROKER} --delete-config log.retention.ms,background.threads,num.io.threads",
    ),
    tool(
        "delete the cluster's defaults",
        f"{ALTER} {CLUSTER} --delete-config log.retention.ms,log.segment.bytes,log.cleanup.policy",
    ),
    tool("delete what a broker has not", f"{ALTER} {BROKER} --delete-config num.network.threads"),
    java(
        "a broker, validate only", "incrementalAlterConfigs broker/1 set:background.threads=9 --validate-only"
    ),
    java(
        "a broker, bad, validate only",
        "incrementalAlterConfigs broker/1 set:background.threads=0 --validate-only",
    ),
    java("a broker's list, appended", "incrementalAlterConfigs broker/ append:log.cleanup.policy=compact"),
    java("min.insync.replicas of the cluster", "incrementalAlterConfigs broker/ set:min.insync.replicas=2"),
    java("a topic inherits it", "describeConfigs topic/flights --changed", until="min.insync.replicas = 2"),
    java("and back", "incrementalAlterConfigs broker/ delete:min.insync.replicas delete:log.cleanup.policy"),
    confluent(
        "a broker's configs (librdkafka, AlterConfigs)",
        lambda admin: admin.alter_configs([resource("broker", "1", log_cleaner_threads="2")]),
    ),
    confluent(
        "a broker's configs, validate only (librdkafka)",  # which has no name for the cluster's
        lambda admin: admin.incremental_alter_configs(
            [change("broker", "1", AlterConfigOpType.SET, "message.max.bytes", "2000000")],
            validate_only=True,
        ),
    ),
    kafka_python(
        "a broker's configs (kafka-python)",
        lambda admin: admin.describe_configs([KafkaPythonResource("BROKER", "1")], config_filter="dynamic"),
    ),
    tool("defaults after all that", f"{DESCRIBE} {CLUSTER}"),
    tool("a broker after all that", f"{DESCRIBE} {BROKER}"),
)

OF_OTHERS: Final[tuple[Case, ...]] = (
    tool("a logger's level", f"{ALTER} {LOGGERS} --add-config kafka.server.KafkaApis=DEBUG"),
    tool("a logger's bad level", f"{ALTER} {LOGGERS} --add-config kafka.server.KafkaApis=LOUD"),
    tool("a logger nobody knows", f"{ALTER} {LOGGERS} --add-config colour=DEBUG"),
    tool("a logger's level taken back", f"{ALTER} {LOGGERS} --delete-config kafka.server.KafkaApis"),
    tool("the root logger's level", f"{ALTER} {LOGGERS} --add-config root=WARN"),
    tool("the root logger's level taken back", f"{ALTER} {LOGGERS} --delete-config root"),
    tool(
        "loggers of an unknown broker",
        f"{ALTER} --entity-type broker-loggers --entity-name 9 --add-config root=INFO --command-config {{q}}",
        q=QUICK,
    ),
    tool("loggers of nobody", f"{DESCRIBE} --entity-type broker-loggers"),
    tool("loggers of the cluster", f"{DESCRIBE} --entity-type broker-loggers --entity-default"),
    java("append to a level", "incrementalAlterConfigs broker_logger/1 append:root=DEBUG"),
    java("a level, validate only", "incrementalAlterConfigs broker_logger/1 set:root=TRACE --validate-only"),
    java("loggers of a nameless broker", "describeConfigs broker_logger/one"),
    tool(
        "a group's config",
        f"{ALTER} --entity-type groups --entity-name crew --add-config consumer.session.timeout.ms=50000",
    ),
    tool(
        "describe a group's configs",
        f"{DESCRIBE} --entity-type groups --entity-name crew",
        until="consumer.session.timeout.ms",
    ),
    tool("describe a group's configs, all", f"{DESCRIBE} --entity-type groups --entity-name crew --all"),
    tool("describe all groups' configs", f"{DESCRIBE} --entity-type groups"),
    tool(
        "a group's bad value",
        f"{ALTER} --entity-type groups --entity-name crew --add-config consumer.session.timeout.ms=1",
    ),
    tool(
        "a group's unknown config", f"{ALTER} --entity-type groups --entity-name crew --add-config colour=red"
    ),
    tool(
        "heartbeats slower than the session",
        f"{ALTER} --entity-type groups --entity-name crew --add-config consumer.heartbeat.interval.ms=60000",
    ),
    tool(
        "a group's config deleted",
        f"{ALTER} --entity-type groups --entity-name crew --delete-config consumer.session.timeout.ms",
    ),
    tool("describe a group that has none", f"{DESCRIBE} --entity-type groups --entity-name crew"),
    tool(
        "a subscription to metrics",
        f"{ALTER} --entity-type client-metrics --entity-name all --add-config interval.ms=60000,metrics=*",
    ),
    tool(
        "describe it",
        f"{DESCRIBE} --entity-type client-metrics --entity-name all",
        until="interval.ms",
    ),
    tool(
        "a subscription's bad interval",
        f"{ALTER} --entity-type client-metrics --entity-name all --add-config interval.ms=1",
    ),
    tool(
        "a subscription's bad match",
        f"{ALTER} --entity-type client-metrics --entity-name all --add-config match=colour=red",
    ),
    tool(
        "a subscription's unknown config",
        f"{ALTER} --entity-type client-metrics --entity-name all --add-config colour=red",
    ),
    tool("client metrics, listed", "kafka-client-metrics --list"),
    tool("client metrics, described", "kafka-client-metrics --describe --name all"),
    tool("client metrics, deleted", "kafka-client-metrics --delete --name all"),
    java("list config resources", "listConfigResources topic broker broker_logger client_metrics group"),
    java("list all config resources", "listConfigResources"),
    java("list config resources of an unknown kind", "listConfigResources unknown"),
    java("configs of an unknown kind", "incrementalAlterConfigs unknown/x set:a=b"),
    java("describe configs of an unknown kind", "describeConfigs unknown/x"),
    kafka_python(
        "list config resources (kafka-python)", lambda admin: admin.list_config_resources(["BROKER", "GROUP"])
    ),
)
