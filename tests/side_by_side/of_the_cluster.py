"""The cluster, its brokers, quorum and features; asked first, while nothing else has happened."""

from __future__ import annotations

from typing import Final

from tests.side_by_side.cases import Case, confluent, java, kafka_python, tool

CASES: Final[tuple[Case, ...]] = (
    tool("cluster id", "kafka-cluster cluster-id"),
    tool("cluster id by the controller", "kafka-cluster cluster-id --bootstrap-controller {controller}"),
    tool("list endpoints", "kafka-cluster list-endpoints"),
    tool("list endpoints with fenced ones", "kafka-cluster list-endpoints --include-fenced-brokers"),
    tool("list endpoints of controllers", "kafka-cluster list-endpoints --bootstrap-controller {controller}"),
    tool("unregister a broker nobody knows", "kafka-cluster unregister --id 77"),
    java("unregister a broker by id -1", "unregisterBroker -1"),
    java("unregister a broker by a huge id", "unregisterBroker 2147483647"),
    java("describe the cluster", "describeCluster"),
    java("describe the cluster, operations", "describeCluster --operations"),
    java("describe the cluster, fenced ones too", "describeCluster --fenced"),
    java("describe the cluster by its controller", "describeCluster --bootstrap-controller {controller}"),
    confluent(
        "describe the cluster (librdkafka)",
        lambda admin: admin.describe_cluster(include_authorized_operations=True),
    ),
    kafka_python("describe the cluster (kafka-python)", lambda admin: admin.describe_cluster()),
    tool("quorum status", "kafka-metadata-quorum --bootstrap-controller {controller} describe --status"),
    java("describe the quorum", "describeMetadataQuorum"),
    java("add a voter of a strange cluster", "addRaftVoter 7 AAAAAAAAAAAAAAAAAAAAAQ"),
    java("remove a voter nobody knows", "removeRaftVoter 7 AAAAAAAAAAAAAAAAAAAAAQ"),
    kafka_python(
        "describe the quorum (kafka-python)",
        lambda admin: admin.describe_metadata_quorum()["topics"][0]["partitions"][0]["leader_id"],
    ),
    tool("broker api versions", "kafka-broker-api-versions"),
    tool("features", "kafka-features --bootstrap-server {broker} describe", unordered=True),
    java("describe features", "describeFeatures"),
    tool(
        "upgrade metadata to what is there",
        "kafka-features --bootstrap-server {broker} upgrade --metadata 4.3-IV0",
    ),
    tool(
        "downgrade metadata, dry run",
        "kafka-features --bootstrap-server {broker} downgrade --metadata 4.2-IV1 --dry-run",
    ),
    tool("upgrade to no release", "kafka-features --bootstrap-server {broker} upgrade --metadata 9.9"),
    tool(
        "upgrade a feature nobody knows",
        "kafka-features --bootstrap-server {broker} upgrade --feature sorcery.version=1",
    ),
    tool(
        "upgrade a feature without a level",
        "kafka-features --bootstrap-server {broker} upgrade --feature sorcery.version",
    ),
    tool(
        "disable a feature nobody knows",
        "kafka-features --bootstrap-server {broker} disable --feature sorcery.version",
    ),
    tool(
        "disable metadata.version",
        "kafka-features --bootstrap-server {broker} disable --feature metadata.version",
    ),
    java("metadata.version too high", "updateFeatures metadata.version=99:upgrade"),
    java("metadata.version too low", "updateFeatures metadata.version=3:safe_downgrade"),
    java(
        "metadata.version down, called an upgrade",
        "updateFeatures metadata.version=29:upgrade --validate-only",
    ),
    java(
        "metadata.version down, safely", "updateFeatures metadata.version=29:safe_downgrade --validate-only"
    ),
    java(
        "metadata.version down, unsafely",
        "updateFeatures metadata.version=7:unsafe_downgrade --validate-only",
    ),
    java("metadata.version as it is", "updateFeatures metadata.version=30:upgrade"),
    java("kraft.version down", "updateFeatures kraft.version=0:safe_downgrade"),
    java("kraft.version as it is", "updateFeatures kraft.version=1:upgrade"),
    java("a feature nobody knows", "updateFeatures sorcery.version=1:upgrade"),
    java("a good and a bad feature", "updateFeatures kraft.version=1:upgrade sorcery.version=1:upgrade"),
)
