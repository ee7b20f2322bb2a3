"""The quorum's metrics: names of Kafka's exporter, and values that follow what happens."""

from __future__ import annotations

import math
from itertools import chain

import pytest

from broker.metrics.families import Collector
from broker.metrics.quorum_families import (
    PartitionCounts,
    broker_metadata_collector,
    controller_collector,
    replica_of_quorum_collector,
)
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import PartitionRegistration, TopicImage, TopicsImage
from controller.raft.quorum_metrics import Durations
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.registry import ApiKey
from tests.support.genuine.jmx_exporter_names import jmx_exporter_names
from tests.support.rigs.controllers import ControllerFixture
from tests.support.rigs.replica_rig import ReplicaWorld

RAFT = "kafka_server_raftmetrics_"
BROKER = "kafka_server_brokermetadatametrics_"
CONTROLLER = "kafka_controller_kafkacontroller_"


class Loaded:
    """A broker that has published all that the controller has."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.offset = image.offset


def collector_of(fixture: ControllerFixture) -> Collector:
    """All that a node with both roles tells of its quorum."""
    log, controller, clock = fixture.log, fixture.controller, fixture.clock
    collectors = (
        replica_of_quorum_collector(log, controller, clock, lambda: 0.75),
        controller_collector(log, controller, clock, ignores_static_voters=True),
        broker_metadata_collector(log, Loaded(controller.image), clock, ignores_static_voters=True),
    )
    return lambda: chain.from_iterable(collect() for collect in collectors)


def scraped(collect: Collector) -> dict[str, float]:
    """By name, with the labels' values behind it."""
    found = {}
    for family in collect():
        for labels, value in family.samples:
            found["/".join([family.name, *labels.values()])] = value
    return found


def test_no_broker_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = ControllerFixture()
    silences = dict.fromkeys(range(10_001), 5)
    monkeypatch.setattr(fixture.controller, "broker_silences_ms", lambda: silences)
    name = CONTROLLER + "timesincelastheartbeatreceivedms/"
    assert sum(each.startswith(name) for each in scraped(collector_of(fixture))) == 10_001


def test_names_and_labels_are_those_of_the_jmx_exporter() -> None:
    theirs = {name: labels for name, (_, labels) in jmx_exporter_names().items()}
    fixture = ControllerFixture()
    fixture.bring_up(1)
    ours = {}
    for family in collector_of(fixture)():
        samples = list(family.samples)
        assert samples, family.name
        ours[family.name] = set(samples[0][0])
    newer = {
        CONTROLLER + "controlledshutdownbrokercount": set(),
        CONTROLLER + "timesincelastheartbeatreceivedms": {"broker"},
        "kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total": set(),
    }
    as_text = {RAFT + "current_vote_directory_id": {"current_vote_directory_id"}}  # a value that is no number
    different = {name: labels for name, labels in ours.items() if theirs.get(name) != labels}
    assert different == newer | as_text
    assert {name for name in theirs if name.startswith(RAFT)} <= set(ours)


def test_an_active_controller_tells_of_the_quorum_and_the_cluster() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1, 2)
    fixture.register(3)
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=4, replication_factor=1)
    fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
    fixture.settle()
    collect = collector_of(fixture)
    fixture.clock.move(250)
    found = scraped(collect)
    epoch, end = fixture.log.leader.epoch, fixture.log.end_offset
    assert found[RAFT + "current_state/leader"] == 1
    for name, value in (
        ("current_leader", 1), ("current_vote", 1), ("current_epoch", epoch), ("high_watermark", end),
        ("log_end_offset", end), ("log_end_epoch", epoch), ("number_of_voters", 1),
        ("number_of_observers", 0), ("number_unknown_voter_connections", 0), ("uncommitted_voter_change", 0),
        ("poll_idle_ratio_avg", 0.75), ("append_records_rate", 0), ("fetch_records_rate", 0),
    ):  # fmt: skip
        assert found[RAFT + name] == value, name
    for name, value in (
        ("activecontrollercount", 1), ("activebrokercount", 2), ("fencedbrokercount", 1),
        ("controlledshutdownbrokercount", 0), ("globaltopiccount", 1), ("globalpartitioncount", 4),
        ("offlinepartitionscount", 0), ("preferredreplicaimbalancecount", 0),
        ("newactivecontrollerscount", 1), ("lastappliedrecordoffset", end - 1),
        ("lastcommittedrecordoffset", end - 1), ("lastappliedrecordlagms", 0),
        ("timedoutbrokerheartbeatcount", 0), ("ignoredstaticvoters", 1),
        ("timesincelastheartbeatreceivedms/1", 250),
    ):  # fmt: skip
        assert found[CONTROLLER + name] == value, name
    assert found["kafka_server_metadataloader_currentmetadataversion"] == 30
    assert found[BROKER + "last_applied_record_offset"] == fixture.controller.image.offset
    assert found[BROKER + "ignored_static_voters"] == 1
    fixture.timers.advance(60_000)
    fixture.settle()
    found = scraped(collect)
    assert found[CONTROLLER + "timedoutbrokerheartbeatcount"] == 2
    assert found[CONTROLLER + "activebrokercount"] == 0
    assert found[CONTROLLER + "offlinepartitionscount"] == 4
    assert found[RAFT + "append_records_rate"] == pytest.approx((fixture.log.end_offset - end) / 60, rel=0.01)


def test_latencies_of_commits_and_elections() -> None:
    world = ReplicaWorld(1, 2, 3)
    leader = world.leader()
    world.run(600)
    for rig in world.rigs.values():
        metrics = rig.log.quorum_metrics()
        mean, largest = metrics.election_latency_ms
        assert 0 <= mean <= largest < 5_000
        assert (metrics.voters, metrics.elected_leaders) == (3, 1)
        assert metrics.state == ("leader" if rig is leader else "follower")
        assert math.isnan(metrics.commit_latency_ms[0])
    leader.append(1)
    world.timers.run_soon()
    world.timers.advance(40)
    world.settle()
    assert leader.log.quorum_metrics().commit_latency_ms == (40, 40)
    leader.append(2)
    world.settle()
    assert leader.log.quorum_metrics().commit_latency_ms == (20, 40)
    world.run(61_000)
    assert math.isnan(leader.log.quorum_metrics().commit_latency_ms[1])


def test_durations_are_those_of_the_last_minute() -> None:
    durations = Durations()
    assert math.isnan(durations.mean_and_max_ms(0)[0])
    durations.note(10, 100_000)
    durations.note(30, 129_999)
    assert durations.mean_and_max_ms(129_999) == (20, 30)
    durations.note(2, 131_000)
    assert durations.mean_and_max_ms(159_999) == (14, 30)
    assert durations.mean_and_max_ms(162_000) == (2, 2)
    assert math.isnan(durations.mean_and_max_ms(200_000)[0])


def test_a_topic_is_counted_again_only_if_it_has_changed() -> None:
    def topic(number: int, *leaders: int) -> TopicImage:
        partitions = {
            index: PartitionRegistration((1, 2), (bytes(16),) * 2, (1, 2), leader=leader)
            for index, leader in enumerate(leaders)
        }
        return TopicImage(f"t{number}", bytes([number]) * 16, partitions)

    def image(*topics: TopicImage) -> TopicsImage:
        return TopicsImage({each.name: each for each in topics}, {each.id: each for each in topics})

    counts = PartitionCounts()
    same = topic(1, 1, 2, -1)
    first = image(same, topic(2, 1))
    assert counts.of(first) == (2, 4, 1, 2)
    assert counts.of(first) == (2, 4, 1, 2)
    known = dict(counts._known)
    assert counts.of(image(same, topic(2, 2, 2), topic(3, 1))) == (3, 6, 1, 4)
    assert counts._known[same.id] is known[same.id]
    assert counts.of(image()) == (0, 0, 0, 0)
