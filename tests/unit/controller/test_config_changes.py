"""Decisions on configs: which records are written, and what is refused without one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from config.limits import METADATA_RECORDS_PER_REQUEST
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, replay
from controller.metadata.policies import ConfigQuestion, PolicyQuestion, PolicyRefusal, Verdict
from controller.metadata.resource_changes import (
    Change,
    ConfigChangeResult,
    ConfigOperation,
    ResourceChange,
    replaced_by,
)
from controller.subjects.config_changes import alter_configs
from controller.subjects.configs import ConfigRules
from controller.subjects.result import Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.metadata_log.cluster import ConfigRecord, FeatureLevelRecord
from protocol.metadata_log.topics import PartitionRecord, TopicRecord
from tests.support.rigs.controllers import one_node_config

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND = ConfigOperation.SET, ConfigOperation.DELETE, ConfigOperation.APPEND

RULES = ConfigRules(one_node_config())


def image(*records: Message) -> ClusterImage:
    made, _ = replay(EMPTY_IMAGE, [TopicRecord("t", bytes(15) + b"\1"), *records], offset=9, epoch=1)
    return made


def stored(kind: int, name: str, key: str, value: str) -> ConfigRecord:
    return ConfigRecord(kind, name, key, value)


def nothing_against(question: PolicyQuestion) -> Verdict:
    return None


def decide(
    of: ClusterImage, *resources: ResourceChange, validate_only: bool = False
) -> Decision[list[ConfigChangeResult]]:
    return alter_configs(of, resources, RULES, nothing_against, validate_only=validate_only)


def change(kind: int, name: str, *changes: tuple[str, int, str | None]) -> ResourceChange:
    return ResourceChange(kind, name, [Change(*each) for each in changes])


def written(decision: Decision[list[ConfigChangeResult]]) -> dict[tuple[int, str, str], str | None]:
    found = {}
    for record in decision.records:
        assert isinstance(record, ConfigRecord)
        found[record.resource_type, record.resource_name, record.name] = record.value
    return found


@pytest.mark.parametrize("value", ["/a", "", None])
def test_directories_are_cordoned_from_the_metadata_version_on_that_has_a_place_for_it(
    value: str | None,
) -> None:
    key = "cordoned.log.dirs"
    operation = DELETE if value is None else SET
    wanted = change(BROKER, "", (key, operation, value))
    refused = decide(image(FeatureLevelRecord("metadata.version", 29)), wanted)
    assert refused.records == []
    assert [(outcome.error, outcome.message) for outcome in refused.response] == [
        (
            ErrorCode.INVALID_CONFIG,
            f"The {key} configuration value cannot be set because it requires metadata.version >= 4.3-IV0",
        )
    ]
    allowed = decide(image(FeatureLevelRecord("metadata.version", 30)), wanted)
    assert written(allowed) == {(BROKER, "", key): value}


def test_a_value_that_stays_writes_nothing_but_for_brokers() -> None:
    before = image(stored(TOPIC, "t", "retention.ms", "5"), stored(BROKER, "", "log.retention.ms", "6"))
    decision = decide(
        before,
        change(TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", DELETE, None)),
        change(BROKER, "", ("log.retention.ms", SET, "6")),
    )
    assert written(decision) == {(BROKER, "", "log.retention.ms"): "6"}
    assert [outcome.error for outcome in decision.response] == [0, 0]


def test_a_resource_that_is_refused_writes_nothing_and_stops_nobody() -> None:
    decision = decide(
        image(),
        change(TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "never")),
        change(GROUP, "g", ("share.isolation.level", SET, "read_committed")),
    )
    assert written(decision) == {(GROUP, "g", "share.isolation.level"): "read_committed"}
    refused, done = decision.response
    assert (refused.error, refused.name) == (ErrorCode.INVALID_CONFIG, "t")
    assert (done.error, done.message) == (ErrorCode.NONE, None)


def test_a_replacement_takes_away_what_it_does_not_name() -> None:
    before = image(stored(TOPIC, "t", "retention.ms", "5"), stored(TOPIC, "t", "segment.ms", "6"))
    new: Mapping[str, str | None] = {"retention.ms": "7", "flush.ms": None}
    assert written(decide(before, replaced_by(TOPIC, "t", new))) == {
        (TOPIC, "t", "retention.ms"): "7",
        (TOPIC, "t", "segment.ms"): None,
    }


@pytest.mark.parametrize(
    ("kind", "name", "unknown", "known", "value"),
    [
        (TOPIC, "t", "message.format.version", "retention.ms", "7"),
        (TOPIC, "t", "message.timestamp.difference.max.ms", "retention.ms", "7"),
        (GROUP, "g", "a.config.of.tomorrow", "share.isolation.level", "read_committed"),
        (CLIENT_METRICS, "m", "a.config.of.tomorrow", "interval.ms", "1000"),
    ],
)
def test_what_another_release_has_stored_stays_and_forbids_no_change(
    kind: int, name: str, unknown: str, known: str, value: str
) -> None:
    before = image(stored(kind, name, unknown, "3.0"))
    for asked in (change(kind, name, (known, SET, value)), replaced_by(kind, name, {known: value})):
        assert written(decide(before, asked)) == {(kind, name, known): value}
    assert written(decide(before, change(kind, name, (unknown, DELETE, None)))) == {}
    (refused,) = decide(before, change(kind, name, (unknown, SET, "3.1"))).response
    assert refused.error in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)


def test_only_to_see_decides_the_same_and_writes_nothing() -> None:
    asked = (change(TOPIC, "t", ("retention.ms", SET, "5")), change(TOPIC, "t", ("retention.ms", SET, "x")))
    decision = decide(image(), *asked, validate_only=True)
    assert list(decision.records) == []
    assert decision.response == decide(image(), *asked).response


@pytest.mark.parametrize("name", [" 1", "1\n", "0_1", "4294967297"])
def test_a_broker_whose_name_java_cannot_read_gets_no_configs(name: str) -> None:
    """Apache Kafka's controllers end where they replay such a name."""
    decision = decide(image(), change(BROKER, name, ("log.retention.ms", SET, "6")))
    sentence = "Unable to parse broker name as a base 10 number."
    assert decision.response == [ConfigChangeResult(BROKER, name, ErrorCode.INVALID_REQUEST, sentence)]
    assert written(decision) == {}


def test_a_brokers_name_may_be_written_as_java_reads_it() -> None:
    decision = decide(image(), change(BROKER, "+\u0662", ("log.retention.ms", SET, "6")))
    sentence = "No node with id 2 found."
    assert decision.response == [
        ConfigChangeResult(BROKER, "+\u0662", ErrorCode.BROKER_ID_NOT_REGISTERED, sentence)
    ]


@pytest.mark.parametrize("expression", ["(" * 30_000, "a{99999999999999999999}", "(?a)(?u)a"])
def test_an_expression_that_is_none_refuses_its_subscription_and_no_other(expression: str) -> None:
    decision = decide(
        image(),
        change(CLIENT_METRICS, "bad", ("match", SET, f"client_id={expression}")),
        change(CLIENT_METRICS, "good", ("match", SET, "client_id=a.*")),
    )
    assert [outcome.error for outcome in decision.response] == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert written(decision) == {(CLIENT_METRICS, "good", "match"): "client_id=a.*"}


def test_what_a_topic_inherits_counts_in_its_relations() -> None:
    before = image(stored(BROKER, "", "log.cleaner.max.compaction.lag.ms", "100"))
    (outcome,) = decide(before, change(TOPIC, "t", ("min.compaction.lag.ms", SET, "200"))).response
    assert outcome.message == (
        "conflict topic config setting min.compaction.lag.ms (200) > max.compaction.lag.ms (100)"
    )


def elr(*records: Message) -> ClusterImage:
    return image(FeatureLevelRecord("eligible.leader.replicas.version", 1), *records)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            change(BROKER, "1", ("min.insync.replicas", SET, "2")),
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            change(BROKER, "1", ("min.insync.replicas", DELETE, None)),
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            change(BROKER, "", ("min.insync.replicas", DELETE, None)),
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (
            replaced_by(BROKER, "", {"log.retention.ms": "9"}),
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
    ],
)
def test_with_eligible_leader_replicas_the_least_in_sync_is_the_cluster_s(
    asked: ResourceChange, sentence: str
) -> None:
    before = elr(stored(BROKER, "", "min.insync.replicas", "1"))
    decision = decide(before, asked)
    assert decision.response == [ConfigChangeResult(BROKER, asked.name, ErrorCode.INVALID_CONFIG, sentence)]
    assert list(decision.records) == []


def test_the_cluster_s_least_in_sync_can_be_set_with_them() -> None:
    decision = decide(
        elr(stored(BROKER, "", "min.insync.replicas", "1")),
        change(BROKER, "", ("min.insync.replicas", SET, "2")),
        change(TOPIC, "t", ("min.insync.replicas", SET, "2")),
    )
    assert [outcome.error for outcome in decision.response] == [0, 0]


@pytest.mark.parametrize("of", [(TOPIC, "t"), (BROKER, "")], ids=["one topic", "all topics"])
def test_who_may_lead_a_partition_without_an_isr_is_not_forgotten(of: tuple[int, str]) -> None:
    """Partition 0 has a leader, 1 waits for an eligible replica, 2 for its last known leader."""
    topic_id = bytes(15) + b"\1"
    before = elr(
        stored(BROKER, "", "min.insync.replicas", "1"),
        *(
            PartitionRecord(
                index, topic_id, replicas=[1, 2, 3], isr=isr, leader=isr[0] if isr else -1, leader_epoch=7,
                eligible_leader_replicas=eligible, last_known_elr=last_known,
            )
            for index, isr, eligible, last_known in (
                (0, [1], [2], []), (1, [], [2, 3], [1]), (2, [], [], [1]), (3, [], [], []),
            )
        ),
    )  # fmt: skip
    decision = decide(before, change(*of, ("min.insync.replicas", SET, "2")))
    after, _ = replay(before, decision.records, offset=20, epoch=1)
    partitions = after.topics.by_name["t"].partitions
    assert [(each.elr, each.last_known_elr) for each in partitions.values()] == [
        ((), ()),
        ((2, 3), (1,)),
        ((), (1,)),
        ((), ()),
    ]
    assert [each.leader_epoch for each in partitions.values()] == [7, 7, 7, 7]


def test_the_policy_is_asked_last_and_of_what_is_changed_by_name() -> None:
    asked: list[PolicyQuestion] = []

    def judge(question: PolicyQuestion) -> Verdict:
        asked.append(question)
        return PolicyRefusal(ErrorCode.POLICY_VIOLATION, "" if len(asked) == 1 else "Not on Sundays.")

    before = image(stored(TOPIC, "t", "retention.ms", "5"), stored(TOPIC, "t", "cleanup.policy", "delete"))
    resources = [
        change(TOPIC, "t", ("cleanup.policy", APPEND, "compact"), ("retention.ms", DELETE, None)),
        replaced_by(TOPIC, "t", {"segment.ms": "77"}),
        change(TOPIC, "nowhere", ("segment.ms", SET, "77")),
        change(TOPIC, "t", ("segment.ms", SET, "x")),
    ]
    decision = alter_configs(before, resources, RULES, judge)
    assert asked == [
        ConfigQuestion("TOPIC", "t", (("cleanup.policy", "delete,compact"), ("retention.ms", None))),
        ConfigQuestion("TOPIC", "t", (("segment.ms", "77"),)),
    ]
    assert [(outcome.error, outcome.message) for outcome in decision.response[:2]] == [
        (ErrorCode.POLICY_VIOLATION, None),
        (ErrorCode.POLICY_VIOLATION, "Not on Sundays."),
    ]
    assert list(decision.records) == []


def test_a_request_for_too_many_records_is_refused_whole() -> None:
    values = [(f"plugin.{number}", SET, "x") for number in range(METADATA_RECORDS_PER_REQUEST + 1)]
    decision = decide(image(), change(BROKER, "", *values), change(TOPIC, "t", ("retention.ms", SET, "5")))
    assert list(decision.records) == []
    assert {outcome.error for outcome in decision.response} == {ErrorCode.POLICY_VIOLATION}


def test_the_config_in_force_is_made_when_configs_change() -> None:
    rules = ConfigRules(one_node_config())
    none, some = image(), image(stored(BROKER, "", "message.max.bytes", "6"))
    before = rules.in_force(none.configs).integer("message.max.bytes")
    in_force = rules.in_force(some.configs)
    assert in_force.integer("message.max.bytes") == 6 != before
    assert rules.in_force(some.configs) is in_force
    assert rules.in_force(none.configs).integer("message.max.bytes") == before
