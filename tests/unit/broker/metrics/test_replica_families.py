"""The metrics of topics, partitions, logs and waiting requests: Kafka's names, values that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller_channel.lifecycle import BrokerState
from broker.handlers import delete_records, fetch
from broker.metrics.exposition import PORTION_SAMPLES, portions
from broker.metrics.families import Family
from broker.metrics.log_families import _logs, log_collector
from broker.metrics.purgatory_families import purgatory_collector
from broker.metrics.replica_families import _partitions, _topics, replica_collector
from broker.replication.topic_settings import TopicCounters
from config.limits import LABELS_PER_METRIC
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.fetch import FetchRequest
from storage.directories import FailedDirectory
from tests.support.genuine.jmx_exporter_names import jmx_exporter_names
from tests.support.rigs.handler_rig import topic_id
from tests.support.rigs.leader_rig import LeaderRig

TOPICS = "kafka_server_brokertopicmetrics_"
REPLICAS = "kafka_server_replicamanager_"
PARTITION = "kafka_cluster_partition_"
PURGATORY = "kafka_server_delayedoperationpurgatory_"
SESSIONS = "kafka_server_fetchsessioncache_"
DIRECTORIES = SimpleNamespace(
    directories=[
        SimpleNamespace(absolute_path="/disks/1", is_cordoned=False),
        SimpleNamespace(absolute_path="/disks/3", is_cordoned=True),
    ],
    failed_directories=[FailedDirectory("/disks/2", None, "it was pulled out")],
)


@pytest.fixture
def rig() -> LeaderRig:
    made = LeaderRig()
    made.lead((1, 2, 3), (1, 2, 3), min_insync_replicas="2")
    return made


def families(rig: LeaderRig) -> Iterator[Family]:
    directories: Any = DIRECTORIES
    lifecycle: Any = SimpleNamespace(state=BrokerState.RUNNING)
    yield from replica_collector(rig.replicas, rig.isr, lifecycle, rig.fetches.replication)()
    yield from log_collector(rig.replicas, directories)()
    yield from purgatory_collector(rig.replicas, rig.fetches)()


def scraped(rig: LeaderRig) -> dict[str, float]:
    """By name, with the labels' values behind it."""
    return {
        "/".join([family.name, *labels.values()]): value
        for family in families(rig)
        for labels, value in family.samples
    }


def changed(before: dict[str, float], after: dict[str, float], prefix: str) -> dict[str, tuple[float, float]]:
    """What has another value now, of the names with this prefix, which is left out."""
    return {
        name.removeprefix(prefix): (before[name], after[name])
        for name in before
        if name.startswith(prefix) and before[name] != after[name]
    }


def test_names_are_those_of_the_jmx_exporter(rig: LeaderRig) -> None:
    theirs = jmx_exporter_names()
    ours = {}
    for family in families(rig):
        labels = set().union(*(labels for labels, _ in family.samples))
        ours[family.name] = (family.kind, labels - {"topic"} if family.name.startswith(TOPICS) else labels)
    assert ours.pop("kafka_server_leaderreplication_byte_rate") == ("gauge", set())  # needs a throttle there
    # The list is that of Kafka 4.0; these two came with 4.3.
    assert ours.pop("kafka_log_logmanager_cordonedlogdirectorycount") == ("gauge", set())
    assert ours.pop("kafka_log_logmanager_logdirectorycordoned") == ("gauge", {"logDirectory"})
    assert len(ours) > 35
    assert {name: shape for name, shape in ours.items() if theirs.get(name) != shape} == {}


def test_a_topic_is_counted_alone_and_with_the_others(rig: LeaderRig) -> None:
    rig.topic("u", number=2)
    rig.write("u", count=3)
    rig.produce(2, acks=1)
    rig.produce(1, acks=1)
    values = scraped(rig)
    assert [values[f"{TOPICS}messagesin_total{topic}"] for topic in ("/t", "/u", "")] == [3, 3, 6]
    assert [values[f"{TOPICS}totalproducerequests_total{topic}"] for topic in ("/t", "/u", "")] == [2, 1, 3]
    rig.change(isr=[1])
    rig.produce(1)
    rig.fetch(0, replica=2, max_bytes=-1)
    more = scraped(rig)
    assert changed(values, more, TOPICS) == {
        f"{name}_total{topic}": counted
        for topic, failed, produced in (("/t", (0, 1), (2, 3)), ("", (0, 1), (3, 4)))
        for name, counted in (
            ("failedproducerequests", failed),
            ("failedfetchrequests", failed),
            ("totalproducerequests", produced),
            ("totalfetchrequests", failed),
        )
    }


def test_the_sums_over_all_topics_never_fall(rig: LeaderRig) -> None:
    made = rig.topic("u", number=2)
    rig.write("u", count=3)
    before = scraped(rig)
    rig.remove_topic(made)
    after = scraped(rig)
    assert f"{TOPICS}messagesin_total/u" not in after
    names = [name for name in before if name.startswith(TOPICS) and "/" not in name]
    assert len(names) == 9
    assert {name: after[name] for name in names} == {name: before[name] for name in names}


def test_gauges_follow_the_isr_and_a_reassignment(rig: LeaderRig) -> None:
    quiet = scraped(rig)
    rig.change(isr=[1, 2])
    assert changed(quiet, scraped(rig), REPLICAS) == {
        "underreplicatedpartitions": (0, 1),
        "atminisrpartitioncount": (0, 1),
    }
    rig.change(isr=[1])
    less = scraped(rig)
    assert changed(quiet, less, REPLICAS) == {
        "underreplicatedpartitions": (0, 1),
        "underminisrpartitioncount": (0, 1),
    }
    assert changed(quiet, less, PARTITION) == {
        "insyncreplicascount/t/0": (3, 1),
        "underreplicated/t/0": (0, 1),
        "underminisr/t/0": (0, 1),
    }
    rig.change(isr=[1, 2, 3])
    assert changed(quiet, scraped(rig), REPLICAS) == {}
    rig.register(4)
    rig.change(replicas=[1, 2, 3, 4], adding_replicas=[4], removing_replicas=[3])
    assert changed(quiet, scraped(rig), REPLICAS) == {"reassigningpartitions": (0, 1)}
    rig.change(replicas=[1, 2, 4], isr=[1, 2, 4], adding_replicas=[], removing_replicas=[])
    assert changed(quiet, scraped(rig), REPLICAS) == {}
    rig.change(leader=2)
    assert changed(quiet, scraped(rig), REPLICAS) == {"leadercount": (1, 0)}


def test_what_followers_take_is_told_apart(rig: LeaderRig) -> None:
    rig.produce(2)
    rig.register(4)
    rig.change(replicas=[1, 2, 3, 4], adding_replicas=[4])
    rig.fetches.replication.quota.throttle("t", frozenset({0}))
    before = scraped(rig)
    size = rig.log("t").size_bytes
    rig.follow(2, 0)
    rig.follow(4, 0)
    after = scraped(rig)
    assert changed(before, after, TOPICS + "re") == {
        "plicationbytesout_total": (0, 2 * size),
        "assignmentbytesout_total": (0, size),
    }
    assert after["kafka_server_leaderreplication_byte_rate"] == 2 * size
    assert after[TOPICS + "bytesout_total"] == 0


def test_logs_and_directories(rig: LeaderRig) -> None:
    before = scraped(rig)
    assert before["kafka_log_log_numlogsegments/t/0"] == 1
    assert before["kafka_log_logmanager_logdirectoryoffline//disks/1"] == 0
    assert before["kafka_log_logmanager_logdirectoryoffline//disks/2"] == 1
    assert before["kafka_log_logmanager_offlinelogdirectorycount"] == 1
    assert before["kafka_log_logmanager_logdirectorycordoned//disks/1"] == 0
    assert before["kafka_log_logmanager_logdirectorycordoned//disks/3"] == 1
    assert before["kafka_log_logmanager_cordonedlogdirectorycount"] == 1
    rig.produce(2, acks=1)
    rig.log("t").roll(rig.clock.wall_ms())
    after = scraped(rig)
    assert after["kafka_log_log_numlogsegments/t/0"] == 2
    assert after["kafka_log_log_logendoffset/t/0"] == 2
    rig.replicas.log_went_offline("t", 0)
    gone = scraped(rig)
    assert changed(after, gone | {name: 0 for name in after if name not in gone}, REPLICAS) == {
        "leadercount": (1, 0),
        "offlinereplicacount": (0, 1),
    }


def test_producer_ids_are_counted(rig: LeaderRig) -> None:
    rig.write("t", producer_id=7, producer_epoch=0, base_sequence=0)
    rig.write("t", producer_id=8, producer_epoch=0, base_sequence=0)
    assert scraped(rig)[REPLICAS + "produceridcount"] == 2


def test_who_waits_is_counted_by_what_for(rig: LeaderRig) -> None:
    def waiting() -> list[tuple[float, float]]:
        values = scraped(rig)
        return [
            (values[f"{PURGATORY}purgatorysize/{name}"], values[f"{PURGATORY}numdelayedoperations/{name}"])
            for name in ("Fetch", "Produce", "DeleteRecords")
        ]

    assert waiting() == [(0, 0), (0, 0), (0, 0)]
    rig.topic("u", number=2)
    partition = FetchRequest.FetchPartition(0, -1, 0, -1, 0, 1 << 20)
    wanted = [FetchRequest.FetchTopic(topic_id=topic_id(number), partitions=[partition]) for number in (1, 2)]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=wanted, session_epoch=-1)
    fetch.handle(rig.services, rig.context(1, 17), request)
    rig.produce(1)
    rig.produce(1)
    assert waiting() == [(2, 1), (2, 2), (0, 0)]
    rig.timers.advance(500)
    for replica in (2, 3):
        rig.follow(replica, 2)
    assert waiting() == [(0, 0), (0, 0), (0, 0)]
    asked = DeleteRecordsRequest.DeleteRecordsPartition(0, 1)
    deletion = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic("t", [asked])], 1000)
    delete_records.handle(rig.services, rig.context(21, 2), deletion)
    assert waiting() == [(0, 0), (0, 0), (1, 1)]
    rig.timers.advance(1000)
    assert waiting() == [(0, 0), (0, 0), (0, 0)]


def test_fetch_sessions_are_counted() -> None:
    rig = LeaderRig(slots=1)
    rig.lead((1, 2), (1, 2))
    rig.fetch(0, session_epoch=0)
    values = scraped(rig)
    assert values[SESSIONS + "numincrementalfetchsessions"] == 1
    assert values[SESSIONS + "numincrementalfetchpartitionscached"] == 1
    assert values[SESSIONS + "incrementalfetchsessionevictions_total"] == 0
    rig.fetch(0, session_epoch=0, replica=2)
    values = scraped(rig)
    assert values[SESSIONS + "numincrementalfetchsessions"] == 1
    assert values[SESSIONS + "incrementalfetchsessionevictions_total"] == 1


def test_no_topic_and_no_partition_is_left_out(rig: LeaderRig) -> None:
    (partition,) = rig.replicas.by_name.values()
    many: Any = SimpleNamespace(
        by_name=dict.fromkeys(range(LABELS_PER_METRIC + 1), partition),
        counters=dict.fromkeys(range(LABELS_PER_METRIC + 1), partition.counters),
        deleted_topics=TopicCounters("gone"),
    )
    assert len(list(_partitions(many, lambda each: each.index))) == LABELS_PER_METRIC + 1
    assert len(list(_logs(many, lambda log: log.size_bytes))) == LABELS_PER_METRIC + 1
    assert len(list(_topics(many, "bytes_out"))) == 1 + LABELS_PER_METRIC + 1


def test_topics_come_and_go_while_a_page_is_written(rig: LeaderRig) -> None:
    for number in range(2, 2 + 2 * PORTION_SAMPLES):
        rig.topic(f"t{number}", number=number)
    page = []
    for number, portion in enumerate(portions(families(rig))):
        page.append(portion)
        rig.topic(f"new{number}", number=10_000 + number)
        rig.remove_topic(topic_id(2 + number))
    assert len(page) > 20
    assert page[-1].endswith(b"\n")
