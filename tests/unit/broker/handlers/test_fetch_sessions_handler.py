"""Fetch sessions as a client meets them: what opens, continues and closes one, and what each answer tells."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from broker.handlers import fetch
from broker.replication.fetch_sessions import EPOCH_MAX, EVICTION_MS, next_epoch
from controller.metadata.image.acls import DENY, LITERAL
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.metadata_log.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from storage.partition_log import PartitionLog
from tests.support.rigs.handler_rig import HandlerRig, now, topic_id
from tests.support.rigs.transactions import TransactionWriter

Row = tuple[int, int, int]
"""Partition, error code, bytes of records."""


class Consumer:
    """A client that keeps a session; each fetch names only what it is told to name."""

    def __init__(self, rig: HandlerRig, *, version: int = 17, topic: str = "t", number: int = 1) -> None:
        self.rig = rig
        self.version = version
        self.topic = topic
        self.made = topic_id(number)
        self.session_id = 0
        self.epoch = 0

    def request(self, wants: dict[int, int], forget: tuple[int, ...] = (), **options: Any) -> FetchRequest:
        entries = [FetchRequest.FetchPartition(i, -1, offset, -1, -1, 1 << 20) for i, offset in wants.items()]
        topics = [FetchRequest.FetchTopic(self.topic, self.made, entries)] if entries else []
        gone = [FetchRequest.ForgottenTopic(self.topic, self.made, list(forget))] if forget else []
        values = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
        }
        return FetchRequest(topics=topics, forgotten_topics_data=gone, **(values | options))

    def send(self, wants: dict[int, int] | None = None, forget: tuple[int, ...] = (), **options: Any) -> Any:
        asked = self.request(wants or {}, forget, **options)
        answer = fetch.handle(self.rig.services, self.rig.context(1, self.version), asked)
        if not isinstance(answer, Pending):
            self.note(answer)
        return answer

    def note(self, response: FetchResponse) -> None:
        if response.error_code == 0:
            self.session_id = response.session_id
            self.epoch = next_epoch(self.epoch) if self.session_id else 0

    def rows(
        self, wants: dict[int, int] | None = None, forget: tuple[int, ...] = (), **options: Any
    ) -> list[Row]:
        return rows(self.send(wants, forget, **options))


def rows(answer: Any) -> list[Row]:
    response = now(answer)
    assert response.error_code == 0, ErrorCode(response.error_code).name
    return [
        (data.partition_index, data.error_code, getattr(data.records, "size_bytes", 0))
        for topic in response.responses
        for data in topic.partitions
    ]


@pytest.fixture
def rig() -> HandlerRig:
    made = HandlerRig()
    made.topic("t", 4)
    return made


def test_an_answer_names_only_what_is_new(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    assert consumer.rows({0: 0, 1: 0, 2: 0}) == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    assert consumer.session_id != 0
    assert consumer.rows() == []
    rig.write("t", 1)
    size = rig.log("t", 1).active.size_bytes
    assert consumer.rows() == [(1, 0, size)]
    assert consumer.rows() == [(1, 0, size)], "what was not asked further is told again"
    assert consumer.rows({1: 1}) == []
    assert (consumer.epoch, len(rig.sessions)) == (5, 1)


def test_an_idle_partition_is_not_looked_at_until_it_changes(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0, 1: 0, 2: 0})
    session = rig.sessions.get(consumer.session_id)
    assert session is not None
    assert session.active == {}
    rig.write("t", 2)
    assert [key[1] for key in session.active] == [2]
    assert rig.replicas.by_name["t", 2].watchers == {}
    assert list(rig.replicas.by_name["t", 0].watchers) == [session]


def test_who_loses_the_right_to_read_is_told_so_of_idle_partitions(rig: HandlerRig) -> None:
    """And who gets it back may read on. Kafka asks for all partitions of a session with each fetch."""
    rig.topic("other", number=2)
    consumer, other = Consumer(rig), Consumer(rig, topic="other", number=2)
    consumer.send({0: 0, 1: 0})
    other.send({0: 0})
    session = rig.sessions.get(consumer.session_id)
    denied = AccessControlEntryRecord(
        bytes(16), ResourceType.TOPIC, "t", LITERAL, "User:ANONYMOUS", "*", Operation.READ, DENY
    )
    rig.apply(denied)
    refused = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert consumer.rows() == [(0, refused, 0), (1, refused, 0)]
    assert consumer.rows() == [(0, refused, 0), (1, refused, 0)]
    assert other.rows() == []
    rig.apply(RemoveAccessControlEntryRecord(bytes(16)))
    assert consumer.rows() == [(0, 0, 0), (1, 0, 0)]
    assert consumer.rows() == other.rows() == []
    assert session is not None
    assert session.active == {}


def test_a_new_high_watermark_is_told_without_records(rig: HandlerRig) -> None:
    rig.topic("r", number=2, replicas=(1, 2))
    rig.write("r", count=5)
    consumer = Consumer(rig, topic="r", number=2)
    consumer.send({0: 4})
    rig.replicas.by_name["r", 0].follower_fetched(2, 3, now_ms=0)
    (topic,) = now(consumer.send()).responses
    assert (topic.partitions[0].high_watermark, topic.partitions[0].records) == (3, b"")
    assert consumer.rows() == []


def test_a_new_log_start_is_told(rig: HandlerRig) -> None:
    rig.write("t", count=5)
    consumer = Consumer(rig)
    consumer.send({0: 5})
    rig.log("t").increase_log_start(2)
    (topic,) = now(consumer.send({0: 5})).responses
    assert topic.partitions[0].log_start_offset == 2


def test_partitions_come_and_go(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0, 1: 0})
    assert consumer.rows({2: 0}) == [(2, 0, 0)]
    assert consumer.rows(forget=(0, 1)) == []
    for index in range(3):
        rig.write("t", index)
    assert [row[0] for row in consumer.rows()] == [2]
    assert rig.replicas.by_name["t", 0].watchers == {}


def test_a_session_without_partitions_ends(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0})
    response = now(consumer.send(forget=(0,)))
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
    assert len(rig.sessions) == 0


def test_an_error_is_told_each_time_and_its_end_too(rig: HandlerRig) -> None:
    consumer = Consumer(rig, topic="late", number=2, version=12)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert consumer.rows({0: 0}) == [(0, unknown, 0)]
    assert consumer.rows() == [(0, unknown, 0)]
    rig.topic("late", number=2)
    assert consumer.rows() == [(0, 0, 0)]
    assert consumer.rows() == []


def test_a_session_waits_while_one_of_its_partitions_can_be_read(rig: HandlerRig) -> None:
    consumer = Consumer(rig, version=12)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert consumer.rows({0: 0, 9: 0}) == [(0, 0, 0), (9, unknown, 0)]
    pending = consumer.send(max_wait_ms=500)
    assert isinstance(pending, Pending)
    rig.timers.advance(500)
    assert rows(pending) == [(9, unknown, 0)]
    consumer.note(now(pending))
    assert consumer.rows(forget=(0,), max_wait_ms=500) == [(9, unknown, 0)], "nothing could end the wait"


def test_who_reads_uncommitted_records_from_now_on_is_told_them(rig: HandlerRig) -> None:
    """The partition was read to the last stable offset, and rested."""
    writer = TransactionWriter(rig.log("t"))
    writer.write(7)
    log = rig.log("t")
    log.update_high_watermark(log.log_end_offset)
    consumer = Consumer(rig)
    assert consumer.rows({0: 0, 1: 0}, isolation_level=1) == [(0, 0, 0), (1, 0, 0)]
    assert consumer.rows(isolation_level=1) == []
    assert consumer.rows(isolation_level=0) == [(0, 0, log.active.size_bytes)]
    assert consumer.rows(isolation_level=1) == []


def test_an_id_that_becomes_known_later(rig: HandlerRig) -> None:
    consumer = Consumer(rig, topic="", number=2, version=13)
    assert consumer.rows({0: 0}) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, 0)]
    rig.topic("late", number=2)
    rig.write("late")
    assert consumer.rows() == [(0, 0, rig.log("late").active.size_bytes)]


def test_a_right_that_was_taken_away_counts_with_the_next_record(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0})
    rig.deny(Operation.READ, ResourceType.TOPIC, "t")
    rig.write("t")
    assert consumer.rows() == [(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)]


def test_what_gave_records_goes_to_the_end(rig: HandlerRig) -> None:
    for index in range(3):
        rig.write("t", index, size_bytes=1000)
    consumer = Consumer(rig)
    consumer.send({0: 0, 1: 0, 2: 0}, max_bytes=1)
    seen = []
    for _ in range(4):
        seen += [row[0] for row in consumer.rows(max_bytes=1) if row[2]]
    assert seen == [1, 2, 0, 1]


def test_ids_and_epochs_that_do_not_fit(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0})

    def code(**options: Any) -> ErrorCode:
        response = now(consumer.send(**options))
        assert response.responses == []
        return ErrorCode(response.error_code)

    assert code(session_id=consumer.session_id + 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code(session_epoch=consumer.epoch + 1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert code(session_epoch=consumer.epoch - 1 or EPOCH_MAX) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    consumer.version = 12
    assert code() == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    consumer.version = 17
    assert consumer.rows() == []


def test_the_epoch_wraps_to_1() -> None:
    assert (next_epoch(0), next_epoch(7), next_epoch(EPOCH_MAX)) == (1, 8, 1)


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_closes_the_session_that_it_names(rig: HandlerRig, epoch: int) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0, 1: 0})
    old = consumer.session_id
    response = now(consumer.send({1: 0}, session_epoch=epoch))
    assert rig.sessions.get(old) is None
    assert (response.session_id == 0) == (epoch == -1)
    assert rig.replicas.by_name["t", 0].watchers == {}
    assert len(rig.sessions) == (0 if epoch == -1 else 1)


@pytest.mark.parametrize("version", [4, 6])
def test_before_version_7_there_are_no_sessions(rig: HandlerRig, version: int) -> None:
    consumer = Consumer(rig, version=version)
    assert consumer.rows({0: 0}, session_epoch=-1, session_id=0) == [(0, 0, 0)]
    assert len(rig.sessions) == 0


def test_a_session_waits_and_is_woken(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0, 1: 0})
    answer = consumer.send(max_wait_ms=500)
    assert isinstance(answer, Pending)
    rig.write("t", 1)
    rig.timers.run_soon()
    assert rows(answer) == [(1, 0, rig.log("t", 1).active.size_bytes)]
    consumer.note(now(answer))
    assert isinstance(consumer.send({1: 1}, max_wait_ms=500), Pending)


def test_a_full_fetch_that_waited_opens_its_session_with_the_answer(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    answer = consumer.send({0: 0}, max_wait_ms=500)
    assert len(rig.sessions) == 0
    rig.timers.advance(500)
    assert now(answer).session_id != 0
    consumer.note(now(answer))
    assert consumer.rows() == []


def test_a_client_that_goes_while_it_waits_keeps_its_session(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0})
    answer = consumer.send(max_wait_ms=500)
    answer.cancel()
    assert len(rig.sessions) == 1
    assert not rig.fetches.waiting
    consumer.epoch += 1
    rig.write("t")
    assert consumer.rows() == [(0, 0, rig.log("t").active.size_bytes)]


@pytest.mark.parametrize("is_woken", [True, False])
def test_a_session_that_is_closed_while_it_waits_answers_by_its_id(rig: HandlerRig, is_woken: bool) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0, 1: 0})
    answer = consumer.send(max_wait_ms=500)
    rig.sessions.close(consumer.session_id)
    if is_woken:
        rig.write("t", 1)
    rig.timers.advance(500)
    assert rows(answer) == ([(1, 0, rig.log("t", 1).active.size_bytes)] if is_woken else [])
    assert now(answer).session_id == consumer.session_id
    assert not any(partition.watchers for partition in rig.replicas.by_name.values())


def test_a_second_request_overtakes_the_one_that_waits(rig: HandlerRig) -> None:
    consumer = Consumer(rig)
    consumer.send({0: 0})
    first = consumer.send(max_wait_ms=500)
    consumer.epoch += 1
    second = consumer.send(max_wait_ms=500)
    assert now(first).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert second.response is None
    rig.write("t")
    rig.timers.run_soon()
    assert len(rows(second)) == 1


# Places in the cache.


def opened(rig: HandlerRig, partitions: int, *, follower: bool = False) -> int:
    consumer = Consumer(rig)
    options: dict[str, Any] = {"replica_state": FetchRequest.ReplicaState(2, 5)} if follower else {}
    consumer.send(dict.fromkeys(range(partitions), 0), **options)
    return consumer.session_id


def test_a_full_cache_serves_without_session() -> None:
    rig = HandlerRig(slots=2)
    rig.topic("t", 4)
    assert opened(rig, 1)
    assert opened(rig, 1)
    consumer = Consumer(rig)
    assert consumer.rows({0: 0}) == [(0, 0, 0)]
    assert (consumer.session_id, rig.sessions.evictions) == (0, 0)


def test_no_places_no_sessions() -> None:
    rig = HandlerRig(slots=0)
    rig.topic("t", 4)
    assert opened(rig, 1) == 0


def test_an_idle_session_gives_its_place() -> None:
    rig = HandlerRig(slots=2)
    rig.topic("t", 4)
    idle = opened(rig, 4)
    rig.clock.move(EVICTION_MS)
    busy = opened(rig, 1)
    assert opened(rig, 1) == 0
    rig.clock.move(1)
    assert opened(rig, 1)
    assert (rig.sessions.get(idle), rig.sessions.evictions) == (None, 1)
    assert rig.sessions.get(busy) is not None
    assert rig.replicas.by_name["t", 3].watchers == {}


def test_a_follower_takes_a_consumers_place() -> None:
    rig = HandlerRig(slots=2)
    rig.topic("t", 4)
    large, small = opened(rig, 3), opened(rig, 2)
    assert opened(rig, 1, follower=True)
    assert rig.sessions.get(small) is None
    assert rig.sessions.get(large) is not None


def test_a_larger_session_takes_the_place_of_a_smaller_one_that_is_old() -> None:
    rig = HandlerRig(slots=2)
    rig.topic("t", 4)
    consumers = [Consumer(rig), Consumer(rig)]
    consumers[0].send({0: 0, 1: 0})
    consumers[1].send({0: 0, 1: 0, 2: 0})
    assert opened(rig, 4) == 0, "both are younger than two minutes"
    rig.clock.move(EVICTION_MS)
    rig.clock.move(1)
    for consumer in consumers:
        consumer.send()
    assert opened(rig, 1) == 0
    assert opened(rig, 3)
    assert rig.sessions.get(consumers[0].session_id) is None
    assert rig.sessions.get(consumers[1].session_id) is not None


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("how", ["told in full", "has more to tell", "added later", "offline"])
def test_an_idle_session_keeps_no_partition_that_is_gone(how: str, version: int) -> None:
    """Nor does the account of whose batches are walked, or anything else."""
    rig = HandlerRig()
    made = rig.topic("t", 2)
    rig.write("t", 0)
    consumer = Consumer(rig, version=version)
    if how == "added later":
        consumer.send({1: 0})
        consumer.send({0: 1})
    else:
        consumer.send({0: 0 if how == "has more to tell" else 1, 1: 0})
    assert consumer.session_id
    partitions = [weakref.ref(each) for each in rig.replicas.by_name.values()]
    logs = {id(each.log) for each in rig.replicas.by_name.values()}
    if how == "offline":
        for index in range(2):
            rig.replicas.log_went_offline("t", index)
            del rig.logs.logs["t", index]
    else:
        rig.remove_topic(made)
    gc.collect()
    assert [each() for each in partitions] == [None, None]
    assert not [each for each in gc.get_objects() if isinstance(each, PartitionLog) and id(each) in logs]
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID
    error = ErrorCode.KAFKA_STORAGE_ERROR if how == "offline" else error
    assert {row[1] for row in consumer.rows({0: 0, 1: 0})} == {error}


def test_who_closes_a_session_or_forgets_a_partition_is_not_held(rig: HandlerRig) -> None:
    consumer, other = Consumer(rig), Consumer(rig)
    consumer.send({0: 0, 1: 0})
    other.send({0: 0, 1: 0})
    first, second = (rig.replicas.by_name["t", index] for index in range(2))
    assert (len(first.holders), len(second.holders)) == (2, 2)
    consumer.send(forget=(1,))
    assert (len(first.holders), len(second.holders)) == (2, 1)
    rig.sessions.close(consumer.session_id)
    rig.sessions.close(other.session_id)
    assert (first.holders, second.holders) == ({}, {})
