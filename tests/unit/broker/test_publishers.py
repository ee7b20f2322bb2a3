"""Publishers: which differences reach which port, and in which order."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.metadata.publishers import (
    FOLLOWERS,
    LEADERS,
    BrokerConfigPublisher,
    ClientQuotasPublisher,
    MetadataCachePublisher,
    ReplicasPublisher,
    ThrottlesPublisher,
)
from broker.quotas.address_rates import AddressRates
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication_quota import ReplicationQuota
from config.broker_config import BrokerConfig
from config.catalogue import TOPIC
from config.errors import InvalidValue
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, ImageDelta, replay
from controller.metadata.image.reload import reload
from protocol.codec.message import Message
from protocol.metadata_log.cluster import ClientQuotaRecord, ConfigRecord, FeatureLevelRecord
from protocol.metadata_log.topics import TopicRecord
from tests.support.rigs.controllers import one_node_config
from tests.support.rigs.hand_clock import HandClock


def setting(resource: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name=resource, name=name, value=value)


def step(image: ClusterImage, *records: Message) -> tuple[ClusterImage, ImageDelta]:
    return replay(image, records, offset=image.offset + len(records), epoch=1)


def test_dynamic_configs_lie_over_the_file_and_go_again() -> None:
    publisher = BrokerConfigPublisher(one_node_config(log__segment__bytes="2000000"), node_id=1)
    told: list[int] = []
    publisher.on_config(lambda _image, config: told.append(config.integer("log.segment.bytes")))
    image = EMPTY_IMAGE
    for records in (
        [setting("", "log.segment.bytes", "3000000")],
        [setting("1", "log.segment.bytes", "4000000")],
        [setting("2", "log.segment.bytes", "5000000")],
        [setting("1", "log.segment.bytes", None)],
        [TopicRecord(name="t", topic_id=b"t" * 16)],
        [setting("", "log.segment.bytes", None)],
    ):
        image, delta = step(image, *records)
        publisher.publish(delta, image)
    assert told == [3_000_000, 4_000_000, 3_000_000, 2_000_000]
    assert isinstance(publisher.config, BrokerConfig)


def test_quotas_come_in_force_and_go_again() -> None:
    quotas = ClientQuotas(HandClock(), window_ms=1000, windows=11)
    addresses = AddressRates(window_ms=1000, windows=11)
    told: list[tuple[bool, bool]] = []
    publisher = ClientQuotasPublisher(quotas, addresses, lambda: told.append((bool(quotas), bool(addresses))))
    image = EMPTY_IMAGE
    user = [ClientQuotaRecord.EntityData("user", "u")]
    address = [ClientQuotaRecord.EntityData("ip", None)]
    for record in (
        TopicRecord(name="t", topic_id=b"t" * 16),
        ClientQuotaRecord(user, "controller_mutation_rate", 1.0),
        ClientQuotaRecord(address, "connection_creation_rate", 1.0),
        ClientQuotaRecord(user, "controller_mutation_rate", remove=True),
        ClientQuotaRecord(address, "connection_creation_rate", remove=True),
    ):
        image, delta = step(image, record)
        publisher.publish(delta, image)
    assert told == [(True, False), (True, True), (False, True), (False, False)]


def test_partitions_go_before_the_cache_forgets_them_and_come_after_it_knows_them() -> None:
    heard: list[str] = []

    class Cache:
        def apply(self, image: ClusterImage, delta: ImageDelta | None = None) -> None:
            heard.append(f"cache {image.offset}")

    class Replicas:
        def retire_in_steps(self, delta: ImageDelta, changes: list[str]) -> Iterator[None]:
            heard.append("retire")
            changes.append("gone-0")
            yield
            heard.append("retire")
            changes.append("gone-1")

        def apply_in_steps(
            self, image: ClusterImage, delta: ImageDelta | None, changes: list[str]
        ) -> Iterator[None]:
            for partition in ("orders-0", "orders-1"):
                heard.append(f"replicas {image.offset}")
                changes.append(partition)
                yield

    replicas: ReplicasPublisher[str] = ReplicasPublisher(Replicas())
    replicas.on_leader_change(heard.append)
    image, delta = step(EMPTY_IMAGE, TopicRecord(name="orders", topic_id=b"t" * 16))
    for publisher in (replicas.retirement, MetadataCachePublisher(Cache()), replicas):
        publisher.publish(delta, image)
    assert heard[:4] == ["retire", "gone-0", "retire", "gone-1"]
    assert heard[4:] == ["cache 0", "replicas 0", "orders-0", "replicas 0", "orders-1"]


def test_a_reload_says_what_came_and_what_went() -> None:
    old, _ = step(
        EMPTY_IMAGE,
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="gone.feature", feature_level=1),
        TopicRecord(name="gone", topic_id=b"g" * 16),
        TopicRecord(name="kept", topic_id=b"k" * 16),
        setting("", "gone", "1"),
        setting("", "kept", "1"),
    )
    snapshot = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        TopicRecord(name="kept", topic_id=b"k" * 16),
        TopicRecord(name="new", topic_id=b"n" * 16),
        setting("", "kept", "2"),
    ]
    image, delta = reload(old, snapshot, offset=50, epoch=3, timestamp_ms=9)
    assert image == replay(EMPTY_IMAGE, snapshot, offset=50, epoch=3, timestamp_ms=9)[0]
    assert delta.topics is not None
    assert [topic.name for topic in delta.topics.deleted.values()] == ["gone"]
    assert delta.configs is not None
    assert delta.configs.changed == {(4, ""): {"gone": None, "kept": "2"}}


def test_what_does_not_go_together_changes_nothing() -> None:
    """The controller's own listener lets such settings in: nobody there knows this broker's file."""
    publisher = BrokerConfigPublisher(one_node_config(log__segment__bytes="2000000"), node_id=1)
    told: list[BrokerConfig] = []
    publisher.on_config(lambda _image, config: told.append(config))
    image = EMPTY_IMAGE
    for name, value in (
        ("log.roll.ms", "0"),
        ("listeners", "NOWHERE://127.0.0.1:1"),
        ("max.connections.per.ip.overrides", "x"),
        ("listener.security.protocol.map", "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"),
    ):
        image, delta = replay(image, [setting("1", name, value)], offset=1, epoch=1)
        publisher.publish(delta, image)
        assert told == []
        image, delta = replay(image, [setting("1", name, None)], offset=2, epoch=1)
        publisher.publish(delta, image)
        assert told.pop().roll_ms == 604_800_000


def throttles(*settings: tuple[str, str]) -> tuple[ReplicationQuota, ReplicationQuota]:
    """What the quotas of broker 1 are told when these settings of a topic are stored one after the other."""
    leader, follower = ReplicationQuota(), ReplicationQuota()
    publisher = ThrottlesPublisher(1, leader=leader, follower=follower)
    image = EMPTY_IMAGE
    for name, value in settings:
        image, delta = step(image, ConfigRecord(resource_type=2, resource_name="t", name=name, value=value))
        publisher.publish(delta, image)
    return leader, follower


@given(
    st.lists(
        st.sampled_from(["", "*", " ", "1:1", "7 : 1", "x"]) | st.from_regex(r"[0-9]{1,12}:[0-9]{1,12}"),
        max_size=4,
    ),
    st.sampled_from([0, 1, 4301]),
)
def test_whatever_a_topic_may_say_of_throttles_is_survived(items: list[str], long: int) -> None:
    """What a publisher raises ends the process, at each start again."""
    text = ",".join([*items, "1:" + "1" * long] if long else items)
    try:
        TOPIC[LEADERS].parse(text)
    except InvalidValue:
        return
    leader, _ = throttles((LEADERS, text))
    assert leader.is_throttled("t", 1) == ("*" in items or "1:1" in text.split(","))


def test_a_throttle_that_cannot_be_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        leader, follower = throttles(
            (LEADERS, "0:99999999999,2:1"), (FOLLOWERS, "3:1"), ("retention.ms", "5")
        )
    assert [leader.is_throttled("t", 2), follower.is_throttled("t", 3)] == [True, True]
    assert [record.message for record in caplog.records] == [
        "Throttled replicas that cannot exist are passed over: 0:99999999999"
    ]
