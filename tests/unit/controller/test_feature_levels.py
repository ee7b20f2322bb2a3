"""Feature levels: what is finalized decides what is written; raised and lowered in Kafka's words."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from config.broker_config import BrokerConfig
from config.listeners import parse_voters
from controller.appends import appends
from controller.format import Formatter
from controller.metadata.image.cluster_image import EMPTY_IMAGE, replay
from controller.metadata.image.replayer import MetadataBatch
from controller.metadata.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    LATEST_METADATA_VERSION,
    LOWEST_METADATA_VERSION,
    METADATA_VERSION_NAMES,
    at_level,
    loses_metadata,
    record_version,
)
from controller.metadata.records import read_metadata_batches
from controller.raft.identity import Address, ReplicaKey
from controller.raft.voters import Voter, VoterSet
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.broker_registration import BrokerRegistrationRequest
from protocol.messages.controller_registration import ControllerRegistrationRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from protocol.metadata_log.cluster import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from protocol.metadata_log.registrations import RegisterBrokerRecord
from protocol.metadata_log.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from protocol.registry import ApiKey
from storage.memory_files import MemoryFiles
from tests.support.genuine.kafka_jars import kafka_jars
from tests.support.genuine.tool_server import compile_java
from tests.support.rigs.controllers import CLUSTER_ID, ControllerFixture, SeededRandomSource, one_node_config
from tests.support.rigs.hand_clock import HandClock

UPGRADE, SAFE, UNSAFE = 1, 2, 3
PREFIX = "The update failed for all features since the following feature had an error: "


def at(level: int) -> ControllerFixture:
    """A controller of a cluster that was formatted at a level."""
    files = MemoryFiles()
    Formatter(
        cluster_id=CLUSTER_ID,
        config=one_node_config(),
        files=files,
        clock=HandClock(),
        random_source=SeededRandomSource(3),
        metadata_version=level,
    ).run(io.StringIO())
    return ControllerFixture(files)


def with_static_voters() -> ControllerFixture:
    """A controller whose voters are those of its config, and not yet in the log."""
    files = MemoryFiles()
    config = one_node_config(controller__quorum__voters="1@127.0.0.1:9093")
    Formatter(
        cluster_id=CLUSTER_ID,
        config=config,
        files=files,
        clock=HandClock(),
        random_source=SeededRandomSource(3),
        standalone=False,
    ).run(io.StringIO())
    return ControllerFixture(files, config=config)


def offers(lowest: int, highest: int) -> list[BrokerRegistrationRequest.Feature]:
    feature = BrokerRegistrationRequest.Feature
    return [
        feature(name="metadata.version", min_supported_version=lowest, max_supported_version=highest),
        feature(name="kraft.version", min_supported_version=0, max_supported_version=1),
        feature(name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1),
        feature(name="group.version", min_supported_version=0, max_supported_version=1),
        feature(name="transaction.version", min_supported_version=0, max_supported_version=2),
    ]


def update(
    fixture: ControllerFixture, *wishes: tuple[str, int, int], version: int = 2, validate: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(validate_only=validate)
    for name, level, kind in wishes:
        key = UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level)
        if version:
            key.upgrade_type = kind
        else:
            key.allow_downgrade = kind != UPGRADE
        request.feature_updates.append(key)
    response: UpdateFeaturesResponse = fixture.call(ApiKey.UPDATE_FEATURES, request, version)
    return response


def refusal(fixture: ControllerFixture, name: str, level: int, kind: int = UPGRADE, version: int = 2) -> str:
    response = update(fixture, (name, level, kind), version=version)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.error_message is not None
    assert response.error_message.startswith(PREFIX)
    assert response.results == []
    return response.error_message.removeprefix(PREFIX)


def level_of(fixture: ControllerFixture) -> int:
    return fixture.controller.image.features.metadata_version


def written(fixture: ControllerFixture, kind: type[Message]) -> list[int]:
    """The versions in which records of a type lie in the log."""
    versions = []
    offset = 0
    while offset < fixture.log.high_watermark:
        content = fixture.log.read(offset, 1, 1 << 20).records
        data = content if isinstance(content, bytes) else content.read()  # type: ignore[union-attr]
        for batch in read_metadata_batches(data):
            versions += [record_version(each) for each in batch.records if isinstance(each, kind)]
            offset = batch.last_offset + 1
    return versions


DOWN = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"


@pytest.mark.parametrize(
    ("name", "level", "kind", "sentence"),
    [
        (
            "",
            1,
            1,
            "Invalid update version 1 for feature . Local controller 1 does not support this feature.",
        ),
        (
            "metadata.version",
            29,
            1,
            f"Invalid update version 29 for feature metadata.version. {DOWN} downgrade.",
        ),
        (
            "metadata.version",
            29,
            2,
            (
                "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform "
                "the requested downgrade "
                "because it might delete metadata information."
            ),
        ),
        (
            "metadata.version",
            7,
            3,
            (
                "Unsupported metadata.version downgrade from 30 to 7. Unsafe metadata "
                "downgrade is not supported in "
                "this version."
            ),
        ),
        (
            "metadata.version",
            31,
            1,
            (
                "Invalid update version 31 for feature metadata.version. Local controller "
                "1 only supports versions "
                "7-30"
            ),
        ),
        (
            "metadata.version",
            0,
            3,
            (
                "Invalid update version 0 for feature metadata.version. Local controller 1 "
                "only supports versions "
                "7-30"
            ),
        ),
        (
            "metadata.version",
            -1,
            3,
            (
                "Invalid update version -1 for feature metadata.version. A feature version "
                "cannot be less than 0."
            ),
        ),
        (
            "metadata.version",
            30,
            9,
            (
                "Invalid update version 30 for feature metadata.version. The controller "
                "does not support the given "
                "upgrade type."
            ),
        ),
        (
            "foo.version",
            0,
            2,
            "Invalid update version 0 for feature foo.version. Feature foo.version not found.",
        ),
        (
            "kraft.version",
            0,
            2,
            (
                "Invalid update version 0 for feature kraft.version. Can't downgrade the "
                "version of this feature."
            ),
        ),
        (
            "kraft.version",
            2,
            1,
            (
                "Invalid update version 2 for feature kraft.version. Local controller 1 only "
                "supports versions 0-1"
            ),
        ),
    ],
)
def test_a_refusal_says_what_apache_kafka_says(name: str, level: int, kind: int, sentence: str) -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1, features=offers(7, 30))
    assert refusal(fixture, name, level, kind) == sentence
    assert level_of(fixture) == 30


def test_nothing_is_changed_by_what_is_there_already_and_each_version_says_so_in_its_way() -> None:
    fixture = ControllerFixture()
    for version, results in (
        (0, [("metadata.version", "NONE")]),
        (1, [("metadata.version", "NONE")]),
        (2, []),
    ):
        response = update(fixture, ("metadata.version", 30, UPGRADE), version=version)
        assert (response.error_code, response.error_message) == (0, None)
        assert [(each.feature, each.error_message) for each in response.results] == results
    assert update(fixture).error_code == 0
    assert refusal(fixture, "metadata.version", 29, SAFE, version=0).endswith(f"{DOWN} downgrade.")
    assert update(fixture, ("group.version", 0, SAFE)).error_code == 0
    assert fixture.controller.image.features.levels == {"metadata.version": 30}


def test_a_level_is_raised_for_good_and_lowered_where_nothing_is_lost() -> None:
    fixture = at(29)
    fixture.bring_up(1, features=offers(7, 30))
    assert update(fixture, ("metadata.version", 23, SAFE), validate=True).error_code == 0
    assert level_of(fixture) == 29, "that was a dry run"
    assert update(fixture, ("metadata.version", 23, SAFE)).error_code == 0
    assert level_of(fixture) == 23
    assert refusal(fixture, "metadata.version", 22, SAFE).startswith("Unsupported metadata.version downgrade")
    assert refusal(fixture, "metadata.version", 25, SAFE).endswith("Can't downgrade to a newer version.")
    assert update(fixture, ("metadata.version", 30, UPGRADE)).error_code == 0
    fixture.files.kill_process()
    assert level_of(fixture.restart()) == 30


def test_one_fault_refuses_all_of_a_request() -> None:
    fixture = at(28)
    response = update(fixture, ("metadata.version", 30, UPGRADE), ("foo.version", 1, UPGRADE))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert level_of(fixture) == 28


def test_every_node_must_be_able_to_run_it() -> None:
    fixture = at(28)
    fixture.bring_up(4, features=offers(7, 29))
    assert refusal(fixture, "metadata.version", 30).endswith("Broker 4 only supports versions 7-29")
    assert update(fixture, ("metadata.version", 29, UPGRADE)).error_code == 0


def test_a_voter_that_has_never_registered_may_not_be_able_to_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture, older = at(28), at(14)
    voters = parse_voters(("1@127.0.0.1:9093", "2@127.0.0.1:9094"))
    monkeypatch.setattr(BrokerConfig, "quorum_voters", property(lambda _: voters))
    sentence = "controller 2 has not registered, and may not support this feature"
    assert refusal(fixture, "metadata.version", 29).endswith(f"metadata.version. {sentence}")
    feature = ControllerRegistrationRequest.Feature(
        name="metadata.version", min_supported_version=7, max_supported_version=29
    )
    request = ControllerRegistrationRequest(controller_id=2, features=[feature])
    assert fixture.call(ApiKey.CONTROLLER_REGISTRATION, request).error_code == 0
    assert refusal(fixture, "metadata.version", 30).endswith("Controller 2 only supports versions 7-29")
    assert update(fixture, ("metadata.version", 29, UPGRADE)).error_code == 0
    assert update(older, ("metadata.version", 15, UPGRADE)).error_code == 0, "nobody could register"


@pytest.mark.parametrize("level", [7, 14, 15])
def test_controllers_register_where_the_log_can_say_so(level: int) -> None:
    fixture = at(level)
    response = fixture.call(ApiKey.CONTROLLER_REGISTRATION, ControllerRegistrationRequest(controller_id=2))
    if level < CONTROLLER_REGISTRATION_LEVEL:
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert response.error_message == (
            "The current MetadataVersion is too old to support controller registrations."
        )
    else:
        assert (response.error_code, response.error_message) == (0, None)
    assert (2 in fixture.controller.image.controllers.by_id) is (level >= CONTROLLER_REGISTRATION_LEVEL)


@pytest.mark.parametrize("level", [7, 14, 15])
def test_controllers_are_told_where_the_log_has_their_addresses(level: int) -> None:
    fixture = at(level)
    assert fixture.controller.image.is_empty
    response = fixture.call(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=2))
    assert response == fixture.call(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=2))
    if level < CONTROLLER_REGISTRATION_LEVEL:
        assert (response.error_code, response.error_message) == (
            ErrorCode.UNSUPPORTED_VERSION,
            "Direct-to-controller communication is not supported with the current MetadataVersion.",
        )
    else:
        assert (response.error_code, response.controller_id) == (0, 1)


def test_the_level_of_transactions_goes_up_and_down_when_it_is_called_so() -> None:
    """As Apache Kafka 4.3.1 does, asked by kafka-features; nothing in the log depends on the level."""
    name = "transaction.version"
    fixture = at(30)
    fixture.bring_up(1, features=offers(7, 30))

    def level() -> int:
        return fixture.controller.image.features.level(name)

    assert level() == 2
    assert refusal(fixture, name, 3).endswith("Local controller 1 only supports versions 0-2")
    assert refusal(fixture, name, 1).endswith(f"{DOWN} downgrade.")
    assert update(fixture, (name, 1, SAFE), validate=True).error_code == 0
    assert level() == 2
    assert update(fixture, (name, 1, SAFE)).error_code == 0
    assert level() == 1
    assert refusal(fixture, name, 2, SAFE).endswith("Can't downgrade to a newer version.")
    assert update(fixture, (name, 0, UNSAFE)).error_code == 0
    assert level() == 0
    assert update(fixture, (name, 2, UPGRADE)).error_code == 0
    fixture.files.kill_process()
    assert fixture.restart().controller.image.features.level(name) == 2


def test_the_level_of_transactions_depends_on_no_metadata_version() -> None:
    fixture = at(23)
    fixture.bring_up(1, features=offers(7, 30))
    assert fixture.controller.image.features.levels == {"metadata.version": 23, "group.version": 1}
    assert update(fixture, ("transaction.version", 2, UPGRADE)).error_code == 0
    assert fixture.controller.image.features.level("transaction.version") == 2


def create(fixture: ControllerFixture, name: str) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    response = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == 0, response.topics[0].error_message


@pytest.mark.parametrize("level", [7, 12, 13, 15, 17, 22, 23, 29, 30])
def test_a_cluster_lives_at_every_level_and_can_be_raised_from_it(level: int) -> None:
    fixture = at(level)
    fixture.bring_up(1, features=offers(7, 30))
    create(fixture, "before")
    assert level_of(fixture) == level
    assert bool(fixture.controller.image.controllers.by_id) is (level >= 15)
    assert bool(fixture.controller.image.brokers.by_id[1].log_dirs) is (level >= 17)
    fixture.files.kill_process()
    again = fixture.restart()
    assert again.controller.image.topics == fixture.controller.image.topics
    assert again.controller.image.brokers.by_id == fixture.controller.image.brokers.by_id
    assert update(again, ("metadata.version", 30, UPGRADE)).error_code == 0
    again.settle()
    assert list(again.controller.image.controllers.by_id) == [1], "it registers when there are registrations"
    again.log.write_snapshot(again.controller.image)
    again.settle()
    again.files.kill_process()
    assert level_of(again.restart()) == 30


@pytest.mark.parametrize("level", range(LOWEST_METADATA_VERSION, LATEST_METADATA_VERSION + 1))
def test_a_snapshot_at_every_level_holds_what_the_log_holds(level: int) -> None:
    fixture = at(level)
    fixture.bring_up(1, features=offers(7, 30))
    create(fixture, "kept")
    snapshot = fixture.log.write_snapshot(fixture.controller.image)
    fixture.settle()
    fixture.files.kill_process()
    again = fixture.restart()
    assert again.log.latest_snapshot() == snapshot
    assert again.controller.image.topics == fixture.controller.image.topics
    assert again.controller.image.brokers.by_id == fixture.controller.image.brokers.by_id


def test_records_lose_what_a_level_does_not_know() -> None:
    image, _ = replay(
        EMPTY_IMAGE,
        [
            FeatureLevelRecord(name="metadata.version", feature_level=11),
            TopicRecord(name="t", topic_id=b"t" * 16),
            PartitionRecord(
                partition_id=0, topic_id=b"t" * 16, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=4
            ),
        ],
        offset=3,
        epoch=1,
    )
    broker = RegisterBrokerRecord(broker_id=1, log_dirs=[b"d" * 16], cordoned_log_dirs=[])
    partition = PartitionRecord(
        partition_id=1, topic_id=b"t" * 16, directories=[b"d" * 16], eligible_leader_replicas=[1]
    )
    shrunk = PartitionChangeRecord(partition_id=0, topic_id=b"t" * 16, isr=[1])
    fitted = list(at_level(image, [broker, partition, shrunk]))
    assert fitted == [
        RegisterBrokerRecord(broker_id=1),
        PartitionRecord(partition_id=1, topic_id=b"t" * 16),
        PartitionChangeRecord(partition_id=0, topic_id=b"t" * 16, isr=[1], leader=1),
    ]
    assert [record_version(each, 11) for each in fitted] == [2, 0, 0]
    assert partition.directories == [b"d" * 16], "the decision's own record stays as it was"


@pytest.mark.java
def test_the_table_of_levels_is_apache_kafka_s(tmp_path: Path) -> None:
    classpath = compile_java("MetadataVersions", tmp_path)
    done = subprocess.run(
        ["java", "-cp", classpath, "MetadataVersions"],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert kafka_jars()
    known = [row for row in rows if int(row[0]) <= LATEST_METADATA_VERSION]
    assert [int(row[0]) for row in known] == list(range(LOWEST_METADATA_VERSION, LATEST_METADATA_VERSION + 1))
    for level, name, changed, broker, partition, change in known:
        number = int(level)
        assert METADATA_VERSION_NAMES[number] == name
        assert loses_metadata(number, number - 1) is (changed == "true"), name
        assert record_version(RegisterBrokerRecord(), number) == int(broker), name
        assert record_version(PartitionRecord(), number) == int(partition), name
        assert record_version(PartitionChangeRecord(), number) == int(change), name


def test_a_large_decision_is_a_transaction() -> None:
    records: list[Message] = [NoOpRecord() for _ in range(25)]
    parts = appends(records, 30, max_bytes=1 << 20, max_records=12)
    assert [len(part) for part in parts] == [11, 10, 6]
    assert isinstance(parts[0][0], BeginTransactionRecord)
    assert isinstance(parts[-1][-1], EndTransactionRecord)
    assert sum(isinstance(each, NoOpRecord) for part in parts for each in part) == 25
    assert [len(part) for part in appends(records, 12, max_bytes=1 << 20, max_records=12)] == [10, 10, 5]
    assert appends(records[:10], 30, max_bytes=1 << 20, max_records=12) == [records[:10]]
    assert appends([], 30, max_bytes=1 << 20) == []
    long = [ConfigRecord(name="x", value="v" * 30_000) for _ in range(10)]
    assert len(appends(long, 30, max_bytes=200_000)) == 5


def test_a_transaction_without_an_end_is_aborted_by_the_next_leader() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    create(fixture, "kept")
    epoch = fixture.log.leader.epoch
    fixture.log.append(
        epoch, [BeginTransactionRecord(name="x"), TopicRecord(name="half", topic_id=b"h" * 16)]
    )
    fixture.settle()
    fixture.files.kill_process()
    again = fixture.restart()
    again.settle()
    assert list(again.controller.image.topics.by_name) == ["kept"]
    create(again, "half")
    again.files.kill_process()
    assert sorted(again.restart().controller.image.topics.by_name) == ["half", "kept"]


def test_silence_is_marked_in_the_log_but_shown_to_nobody() -> None:
    fixture = ControllerFixture(config=one_node_config(metadata__max__idle__interval__ms="500"))
    fixture.bring_up(1)
    heard: list[MetadataBatch | None] = []
    fixture.controller.on_image(lambda image, delta: heard.append(None))
    before = fixture.log.end_offset
    for _ in range(8):
        fixture.timers.advance(250)
        fixture.settle()
    assert fixture.log.end_offset - before == 4
    assert fixture.controller.image.offset == fixture.log.end_offset - 1
    assert heard == []
    create(fixture, "t")
    after = fixture.log.end_offset
    fixture.timers.advance(450)
    fixture.settle()
    assert fixture.log.end_offset == after, "something was said meanwhile"


def test_a_broker_is_forgotten_and_may_come_again() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1, 2)
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1)
    topic.assignments = [CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[2, 1])]
    assert fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic])).topics[0].error_code == 0
    response = fixture.call(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=2))
    assert (response.error_code, response.error_message) == (0, "")
    assert list(fixture.controller.image.brokers.by_id) == [1]
    partition = fixture.controller.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.replicas) == (1, (1,), (2, 1))
    response = fixture.call(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=2))
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert response.error_message == "Broker ID 2 is not currently registered"
    assert fixture.register(2, incarnation=b"i" * 16).error_code == 0, "there is no session in the way"


def test_a_broker_that_cannot_run_the_quorum_s_own_version_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    without = [feature for feature in offers(7, 30) if feature.name != "kraft.version"]
    assert with_static_voters().register(2, features=without).error_code == ErrorCode.NONE
    fixture = ControllerFixture()
    assert fixture.log.kraft_version == 1
    assert fixture.register(2, features=without).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (
        "the broker does not support finalized version 1 of kraft.version. The broker wants a version "
        "between 0 and 0, inclusive." in caplog.text
    )
    assert 2 not in fixture.controller.image.brokers.by_id


def test_the_quorum_s_own_version_is_raised_in_the_log() -> None:
    fixture = with_static_voters()
    fixture.bring_up(1, features=offers(7, 30))
    assert fixture.log.kraft_version == 0
    assert update(fixture, ("kraft.version", 1, UPGRADE), validate=True).error_code == 0
    assert fixture.log.kraft_version == 0
    assert update(fixture, ("kraft.version", 1, UPGRADE)).error_code == 0
    fixture.settle()
    assert fixture.log.kraft_version == 1
    create(fixture, "after")
    fixture.files.kill_process()
    again = fixture.restart()
    assert again.log.kraft_version == 1
    assert list(again.controller.image.topics.by_name) == ["after"]


@pytest.mark.parametrize("validate", [True, False])
def test_a_voter_that_has_not_told_its_directory_keeps_the_quorum_s_version_back(validate: bool) -> None:
    fixture = with_static_voters()
    fixture.bring_up(1, features=offers(7, 30))
    unknown = Voter(ReplicaKey(1), {"CONTROLLER": Address("127.0.0.1", 9093)})
    fixture.log.raft._replica.leading().static_voters = VoterSet({1: unknown})
    response = update(fixture, ("kraft.version", 1, UPGRADE), validate=validate)
    assert (response.error_code, response.error_message) == (
        ErrorCode.INVALID_UPDATE_VERSION,
        f"{PREFIX}Invalid upgrade of kraft.version to 1 because not all of the voters support it",
    )
    assert fixture.log.kraft_version == 0
