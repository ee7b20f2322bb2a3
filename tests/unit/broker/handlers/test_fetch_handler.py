"""Fetch: what is read, what is refused, and how long a fetch waits."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

import pytest

from broker.handlers import fetch
from protocol.codec.compiler import decode, encode
from protocol.errors import ErrorCode
from protocol.framing import encode_response_frame
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.records.header import headers
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Failed, Pending
from storage.faulty_files import Fault, FaultyFiles
from storage.memory_files import MemoryFiles
from tests.support.rigs.handler_rig import HandlerRig, now, topic_id
from tests.support.rigs.transactions import TransactionWriter

MIB = 1 << 20


def wants(
    index: int = 0, offset: int = 0, *, max_bytes: int = MIB, epoch: int = -1, last_epoch: int = -1
) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(index, epoch, offset, last_epoch, -1, max_bytes)


def request(
    *partitions: FetchRequest.FetchPartition,
    topic: str = "t",
    made: bytes = topic_id(1),
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    **options: Any,
) -> FetchRequest:
    topics = [FetchRequest.FetchTopic(topic, made, list(partitions))] if partitions else []
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics, **options)


def send(rig: HandlerRig, asked: FetchRequest, version: int = 17) -> Any:
    return fetch.handle(rig.services, rig.context(1, version), asked)


def data_of(answer: Any) -> list[FetchResponse.PartitionData]:
    response = now(answer)
    assert isinstance(response, FetchResponse)
    assert response.error_code == 0
    return [data for topic in response.responses for data in topic.partitions]


def only(answer: Any) -> FetchResponse.PartitionData:
    (data,) = data_of(answer)
    return data


def error(answer: Any) -> ErrorCode:
    return ErrorCode(only(answer).error_code)


def bytes_of(data: FetchResponse.PartitionData) -> bytes:
    records: Any = data.records
    return bytes(records.read() if hasattr(records, "read") else records)


def offsets(data: FetchResponse.PartitionData) -> list[int]:
    """First offsets of the whole batches."""
    return [header.base_offset for _, header in headers(bytes_of(data))]


def holds(rig: HandlerRig, name: str = "t", index: int = 0) -> int:
    return rig.log(name, index).active.log.holds


@pytest.fixture
def rig() -> HandlerRig:
    made = HandlerRig()
    made.topic("t", 3)
    return made


def test_all_batches_from_the_one_that_holds_the_offset(rig: HandlerRig) -> None:
    for _ in range(3):
        rig.write("t", count=2)
    data = only(send(rig, request(wants(offset=3))))
    assert offsets(data) == [2, 4]
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (6, 6, 0)
    assert data.aborted_transactions is None
    assert data.preferred_read_replica == -1
    assert rig.replicas.counters["t"].bytes_out == len(bytes_of(data))


def test_a_slice_travels_with_one_reference_to_its_file(rig: HandlerRig) -> None:
    rig.write("t")
    data = only(send(rig, request(wants())))
    assert holds(rig) == 1
    data.records.release()  # type: ignore[union-attr]
    assert holds(rig) == 0


def test_read_committed_gets_a_list_of_aborted_transactions(rig: HandlerRig) -> None:
    rig.write("t")
    data = only(send(rig, request(wants(), isolation_level=1)))
    assert (offsets(data), data.aborted_transactions) == ([0], [])


def test_read_committed_stops_at_an_open_transaction_and_hears_of_aborted_ones(rig: HandlerRig) -> None:
    log = rig.log("t")
    writer = TransactionWriter(log)
    rig.write("t")
    writer.write(7)
    writer.write(8)
    writer.end(7, commit=False)
    log.update_high_watermark(log.log_end_offset)
    asked = request(wants(), isolation_level=1)
    data = only(send(rig, asked))
    assert (offsets(data), data.high_watermark, data.last_stable_offset) == ([0, 1], 4, 2)
    assert data.aborted_transactions == [FetchResponse.AbortedTransaction(7, 1)]
    assert offsets(only(send(rig, request(wants())))) == [0, 1, 2, 3], "uncommitted sees all"
    writer.end(8, commit=True)
    log.update_high_watermark(log.log_end_offset)
    data = only(send(rig, asked))
    assert (offsets(data), data.last_stable_offset) == ([0, 1, 2, 3, 4], 5)
    assert data.aborted_transactions == [FetchResponse.AbortedTransaction(7, 1)]


def test_read_committed_waits_for_the_decision_and_not_for_the_records(rig: HandlerRig) -> None:
    log, partition = rig.log("t"), rig.replicas.by_name["t", 0]
    writer = TransactionWriter(log)
    writer.write(7)
    partition.appended(80)
    pending = send(rig, request(wants(), isolation_level=1, min_bytes=1000))
    for _ in range(20):
        writer.write(7, size_bytes=100)
        partition.appended(180)
        rig.timers.run_soon()
    assert isinstance(pending, Pending)
    assert not pending.done
    writer.end(7, commit=True)
    partition.appended(78)
    rig.timers.run_soon()
    assert pending.done
    assert len(offsets(only(pending))) == 22


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_carries_records_and_errors(rig: HandlerRig, version: int) -> None:
    rig.write("t", count=2)
    asked = request(wants(), wants(9), min_bytes=1)
    received = decode(FetchRequest, version, encode(asked, version))
    response = now(send(rig, received, version))
    for topic in response.responses:
        for data in topic.partitions:
            data.records = bytes_of(data)
    told = decode(FetchResponse, version, encode(response, version)).responses
    (topic,) = told
    assert topic.topic == ("t" if version < 13 else "")
    assert [(data.partition_index, data.error_code) for data in topic.partitions] == [
        (0, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    stored = rig.log("t").read(0, max_bytes=MIB, up_to_offset=2, at_least_one_batch=True)
    assert stored is not None
    assert bytes_of(topic.partitions[0]) == stored.read()


# Sizes.


def test_the_first_batch_is_whole_however_small_the_limits(rig: HandlerRig) -> None:
    rig.write("t", size_bytes=5000)
    rig.write("t", 1, size_bytes=5000)
    first, second = data_of(send(rig, request(wants(0, max_bytes=1), wants(1, max_bytes=1), max_bytes=1)))
    assert offsets(first) == [0]
    assert bytes_of(second) == b""
    assert second.high_watermark == 1


def test_the_request_as_a_whole_has_a_budget(rig: HandlerRig) -> None:
    for index in range(3):
        rig.write("t", index, size_bytes=1000)
    size = rig.log("t").active.size_bytes
    answers = data_of(send(rig, request(wants(0), wants(1), wants(2), max_bytes=2 * size)))
    assert [offsets(data) for data in answers] == [[0], [0], []]


def test_an_empty_partition_leaves_the_privilege_of_the_first_batch_to_the_next(rig: HandlerRig) -> None:
    rig.write("t", 1, size_bytes=5000)
    first, second = data_of(send(rig, request(wants(0), wants(1, max_bytes=1), max_bytes=1)))
    assert (bytes_of(first), offsets(second)) == (b"", [0])


def test_the_broker_caps_what_is_asked_for() -> None:
    rig = HandlerRig(fetch_max_bytes="2048")
    rig.topic("t")
    for _ in range(5):
        rig.write("t", size_bytes=1000)
    data = only(send(rig, request(wants(), max_bytes=1 << 30, min_bytes=1 << 30)))
    assert len(bytes_of(data)) == 2048


def test_a_later_batch_may_be_cut_off(rig: HandlerRig) -> None:
    rig.write("t", size_bytes=1000)
    rig.write("t", size_bytes=1000)
    data = only(send(rig, request(wants(max_bytes=1500))))
    assert (len(bytes_of(data)), offsets(data)) == (1500, [0])


# Errors.


def test_offsets_that_are_not_there(rig: HandlerRig) -> None:
    rig.write("t", count=5)
    data = only(send(rig, request(wants(offset=6))))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert (data.records, data.aborted_transactions) == (b"", None)
    rig.log("t").increase_log_start(3)
    assert error(send(rig, request(wants(offset=2)))) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert error(send(rig, request(wants(offset=3)))) == ErrorCode.NONE


def test_leader_epochs_are_checked_before_the_role() -> None:
    rig = HandlerRig()
    rig.apply(rig.broker_record(2))
    rig.topic("t", leader_epoch=5)
    assert error(send(rig, request(wants(epoch=4)))) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(send(rig, request(wants(epoch=6)))) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert isinstance(send(rig, request(wants(epoch=5))), Pending)
    rig.topic("f", number=2, replicas=(2, 1), leader=2, leader_epoch=5)

    def ask(epoch: int, version: int = 10) -> FetchResponse:
        asked = request(wants(epoch=epoch), topic="f", made=topic_id(2), max_wait_ms=0)
        return now(send(rig, asked, version))  # type: ignore[no-any-return]

    assert only(ask(4)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert only(ask(5)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert only(ask(5, 11)).error_code == ErrorCode.NONE, "since version 11 consumers may read from followers"
    moved = ask(4, 16)
    assert only(moved).current_leader == FetchResponse.LeaderIdAndEpoch(2, 5)
    assert moved.node_endpoints == [FetchResponse.NodeEndpoint(2, "host2", 9002, None)]
    assert only(ask(4, 15)).current_leader is None


def test_a_partition_of_another_broker() -> None:
    rig = HandlerRig()
    rig.apply(rig.broker_record(2))
    rig.topic("t", replicas=(2,), leader=2)
    answer = send(rig, request(wants(), max_wait_ms=10_000))
    assert error(answer) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert now(answer).node_endpoints[0].host == "host2"


def test_unknown_topics_and_ids(rig: HandlerRig) -> None:
    by_name = request(wants(), topic="nobody")
    assert error(send(rig, by_name, 12)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_id = request(wants(), topic="", made=topic_id(9))
    data = only(send(rig, by_id, 13))
    assert (data.error_code, data.aborted_transactions) == (ErrorCode.UNKNOWN_TOPIC_ID, [])


def test_the_right_to_read(rig: HandlerRig) -> None:
    rig.write("t")
    rig.deny(Operation.READ, ResourceType.TOPIC, "t")
    assert error(send(rig, request(wants()))) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_what_may_not_be_read_lets_the_others_wait(rig: HandlerRig) -> None:
    answer = send(rig, request(wants(0), wants(9)))
    assert isinstance(answer, Pending)
    rig.write("t")
    rig.timers.run_soon()
    first, second = data_of(answer)
    assert (offsets(first), second.error_code) == ([0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_disk_that_cannot_be_read() -> None:
    files = FaultyFiles(MemoryFiles())
    rig = HandlerRig(files=files)
    rig.topic("t")
    for _ in range(300):
        rig.write("t", size_bytes=100)
    files.faults.append(Fault("pread", count=1000, error=errno.EIO))
    assert error(send(rig, request(wants()))) == ErrorCode.KAFKA_STORAGE_ERROR
    assert error(send(rig, request(wants()), 5)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert files.faults[0].hits


def test_an_index_that_somebody_removed_stops_neither_who_reads_nor_who_waits() -> None:
    files = MemoryFiles()
    rig = HandlerRig(files=files)
    rig.topic("t", index_interval_bytes="0", segment_bytes="1048576")
    for _ in range(1200):
        rig.write("t", size_bytes=1500)
    waiting = send(rig, request(wants(offset=10), min_bytes=4 * MIB, max_bytes=8 * MIB))
    assert isinstance(waiting, Pending)
    send(rig, request(wants(offset=rig.log("t").segments[1].base_offset - 2)))  # another page of the index
    for segment in rig.log("t").segments:
        for suffix in (".index", ".timeindex"):
            if files.exists(segment.path(suffix)):
                files.unlink(segment.path(suffix))
    rig.timers.advance(500)
    assert offsets(only(waiting))[:1] == [10]
    assert offsets(only(send(rig, request(wants(offset=900, max_bytes=1)))))[:1] == [900]
    assert rig.write("t") == 1200


def test_a_diverging_epoch_is_no_error(rig: HandlerRig) -> None:
    rig.write("t", count=4)
    rig.apply(
        PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=1),
        PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=1),
    )
    rig.write("t", count=4)
    data = only(send(rig, request(wants(offset=6, last_epoch=1), max_wait_ms=9000)))
    assert (data.error_code, data.records) == (0, b"")
    assert data.diverging_epoch == FetchResponse.EpochEndOffset(0, 4)
    assert only(send(rig, request(wants(offset=6, last_epoch=2)))).diverging_epoch is None
    assert error(send(rig, request(wants(offset=6, last_epoch=7)))) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_older_version_in_a_session_hears_of_no_diverging_epoch(rig: HandlerRig) -> None:
    """Version 12 said with which epoch it had read last; in 11 and below there is no field for the answer."""
    rig.write("t", count=4)
    for _ in range(2):
        rig.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=1))
    rig.write("t", count=4)
    begun = now(send(rig, request(wants(offset=6, last_epoch=1), session_epoch=0), 12))
    assert begun.responses[0].partitions[0].diverging_epoch is not None
    again = send(rig, request(session_id=begun.session_id, session_epoch=1), 11)
    data = only(again)
    encode_response_frame(now(again), 11, 1)
    assert (data.error_code, data.diverging_epoch, offsets(data)) == (0, None, [4])


# Waiting.


def test_a_fetch_at_the_end_waits_for_the_append(rig: HandlerRig) -> None:
    rig.write("t")
    answer = send(rig, request(wants(offset=1)))
    assert len(rig.fetches.waiting) == 1
    rig.timers.advance(499)
    assert answer.response is None
    rig.write("t")
    assert answer.response is None, "the turn that appends is not the turn that answers"
    rig.write("t")
    rig.timers.run_soon()
    assert offsets(only(answer)) == [1, 2]
    assert not rig.fetches.waiting
    assert rig.replicas.by_name["t", 0].watchers == {}


def test_a_fetch_that_waited_in_vain_tells_the_high_watermark(rig: HandlerRig) -> None:
    answer = send(rig, request(wants(0), wants(1)))
    rig.timers.advance(500)
    assert [(d.error_code, d.high_watermark, d.records) for d in data_of(answer)] == [(0, 0, b"")] * 2
    assert rig.replicas.by_name["t", 0].watchers == {}


def test_min_bytes_are_gathered_over_partitions_and_appends(rig: HandlerRig) -> None:
    rig.write("t", 0, size_bytes=100)
    size = rig.log("t").active.size_bytes
    answer = send(rig, request(wants(0), wants(1), min_bytes=3 * size))
    assert isinstance(answer, Pending)
    assert holds(rig) == 0
    rig.write("t", 1, size_bytes=100)
    rig.timers.run_soon()
    assert answer.response is None
    rig.write("t", 1, size_bytes=100)
    rig.timers.run_soon()
    assert [offsets(data) for data in data_of(answer)] == [[0], [0, 1]]


@pytest.mark.parametrize("options", [{"max_wait_ms": 0}, {"min_bytes": 0}, {"max_wait_ms": -1}])
def test_who_does_not_want_to_wait_does_not(rig: HandlerRig, options: Any) -> None:
    assert only(send(rig, request(wants(), **options))).records == b""


def test_a_fetch_of_nothing_is_answered_at_once(rig: HandlerRig) -> None:
    assert data_of(send(rig, request())) == []


def test_a_lost_leadership_wakes(rig: HandlerRig) -> None:
    rig.apply(rig.broker_record(2))
    answer = send(rig, request(wants()), 10)
    rig.apply(
        PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), replicas=[2, 1], isr=[1, 2], leader=2)
    )
    rig.timers.run_soon()
    assert error(answer) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_deleted_topic_wakes(rig: HandlerRig) -> None:
    by_name, by_id = send(rig, request(wants()), 12), send(rig, request(wants()), 13)
    rig.remove_topic(topic_id(1))
    rig.timers.run_soon()
    assert error(by_name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(by_id) == ErrorCode.UNKNOWN_TOPIC_ID
    assert not rig.fetches.waiting


def test_a_client_that_has_gone_leaves_nothing_behind(rig: HandlerRig) -> None:
    answer = send(rig, request(wants(0), wants(1)))
    answer.cancel()
    assert not rig.fetches.waiting
    assert all(rig.replicas.by_name["t", index].watchers == {} for index in range(2))
    rig.write("t")
    rig.timers.advance(1000)
    assert answer.response is None
    assert holds(rig) == 0


def test_a_graceful_stop_answers_those_who_wait(rig: HandlerRig) -> None:
    answers = [send(rig, request(wants(index), max_wait_ms=60_000)) for index in range(3)]
    rig.fetches.answer_all()
    assert [only(answer).records for answer in answers] == [b""] * 3


@pytest.mark.parametrize("woken_by", ["deadline", "append", "stop"])
def test_a_second_look_that_fails_is_the_answer_and_nobody_elses_affair(
    rig: HandlerRig, monkeypatch: pytest.MonkeyPatch, woken_by: str
) -> None:
    waiting, other = send(rig, request(wants(0))), send(rig, request(wants(1)))

    def broken(each: fetch.Fetch) -> None:
        raise KeyError("a bug of ours")

    monkeypatch.setattr(fetch.Fetch, "_look", broken)
    if woken_by == "deadline":
        rig.timers.advance(500)
    elif woken_by == "append":
        rig.write("t", 0)
        rig.write("t", 1)
        rig.timers.run_soon()
    else:
        rig.fetches.answer_all()
    for answer in (waiting, other):
        assert isinstance(answer.response, Failed)
        assert isinstance(answer.response.failure, KeyError)
    assert not rig.fetches.waiting
    assert all(rig.replicas.by_name["t", index].watchers == {} for index in range(2))
    assert holds(rig) == 0


def test_many_who_wait_are_answered_in_more_than_one_turn(rig: HandlerRig) -> None:
    answers = [send(rig, request(wants())) for _ in range(150)]
    rig.write("t")

    def answered() -> int:
        return sum(answer.response is not None for answer in answers)

    counts: Iterable[int] = [rig.timers.run_once() and answered() for _ in range(3)]
    assert list(counts) == [64, 128, 150]


# Followers.


def test_a_follower_reads_to_the_end_and_moves_the_high_watermark() -> None:
    rig = HandlerRig()
    rig.apply(rig.broker_record(2))
    rig.topic("t", replicas=(1, 2))
    rig.write("t", count=3)
    consumer = send(rig, request(wants()))
    assert isinstance(consumer, Pending)
    state = FetchRequest.ReplicaState(2, 5)
    assert offsets(only(send(rig, request(wants(), replica_state=state)))) == [0]
    assert consumer.response is None
    follower = send(rig, request(wants(offset=3), replica_state=state))
    rig.timers.run_soon()
    assert offsets(only(consumer)) == [0]
    assert rig.log("t").high_watermark == 3
    assert isinstance(follower, Pending)


def test_only_peers_read_as_followers(rig: HandlerRig) -> None:
    rig.deny(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    answer = send(rig, request(wants(), replica_id=2), 12)
    assert error(answer) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# Extreme numbers; the answers are Apache Kafka's.


@pytest.mark.parametrize("version", [4, 12, 17])
def test_a_negative_limit_spoils_the_first_partition_that_has_records(rig: HandlerRig, version: int) -> None:
    rig.topic("two", 2, number=7)
    sizes = [0, 0]
    for index in (0, 1):
        rig.write("two", index)
        sizes[index] = rig.log("two", index).size_bytes
        rig.write("two", index)

    def told(first: Any, second: Any, max_bytes: int = MIB) -> list[tuple[int, int]]:
        asked = request(first, second, topic="two", made=topic_id(7), max_bytes=max_bytes)
        found = data_of(send(rig, asked, version))
        return [(data.error_code, len(bytes_of(data))) for data in found]

    refused, size = (int(ErrorCode.UNKNOWN_SERVER_ERROR), 0), sizes[0]
    assert told(wants(0), wants(1), -1) == [refused, (0, size)]
    assert told(wants(0), wants(1), -(1 << 31)) == [refused, (0, size)]
    assert told(wants(0, 2), wants(1), -1) == [(0, 0), (0, size)], "nothing to read, nothing spoilt"
    assert told(wants(0), wants(1), 0) == [(0, size), (0, 0)]
    assert told(wants(0, max_bytes=-1), wants(1)) == [refused, (0, 2 * size)]
    assert told(wants(0), wants(1, max_bytes=-1)) == [(0, 2 * size), refused]
    assert told(wants(0), wants(1, max_bytes=-1), 10) == [(0, size), refused]
    assert told(wants(0), wants(1), 10) == [(0, size), (0, 0)]


def test_only_what_kafka_counts_is_counted_as_failed(rig: HandlerRig) -> None:
    rig.topic("e", number=7, leader_epoch=3)
    rig.write("e")
    counters = rig.replicas.counters["e"]
    for wanted, expected in (
        (wants(offset=9), ErrorCode.OFFSET_OUT_OF_RANGE),
        (wants(epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (wants(epoch=4), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        assert error(send(rig, request(wanted, topic="e", made=topic_id(7)))) == expected
    assert counters.failed_fetch_requests == 0
    failed = send(rig, request(wants(max_bytes=-1), topic="e", made=topic_id(7)))
    assert error(failed) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert counters.failed_fetch_requests == 1


def test_a_negative_limit_does_not_wait(rig: HandlerRig) -> None:
    rig.topic("quiet", number=7)
    for options in ({"max_bytes": -1}, {"min_bytes": -5}, {"max_wait_ms": -1}):
        answer = send(rig, request(wants(), topic="quiet", made=topic_id(7), **options))
        assert error(answer) == ErrorCode.NONE
        assert not isinstance(answer, Pending)


@pytest.mark.parametrize("isolation_level", [-1, 2, 7])
@pytest.mark.parametrize("version", [4, 12, 17])
def test_an_isolation_level_that_does_not_exist(rig: HandlerRig, version: int, isolation_level: int) -> None:
    answer = send(rig, request(wants(), isolation_level=isolation_level, session_epoch=0), version)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    codes = [data.error_code for topic in answer.responses for data in topic.partitions]
    assert codes == ([] if version >= 13 else [ErrorCode.UNKNOWN_SERVER_ERROR])
    assert answer.session_id == 0
    assert len(rig.sessions) == 0


def test_to_a_fetch_every_negative_leader_epoch_is_none(rig: HandlerRig) -> None:
    rig.topic("e", number=7, leader_epoch=3)
    rig.write("e")
    for epoch, code in ((-1, 0), (-2, 0), (-(1 << 31), 0), (3, 0), (2, 74), (4, 75)):
        answer = send(rig, request(wants(epoch=epoch), topic="e", made=topic_id(7)))
        assert error(answer) == code, epoch
