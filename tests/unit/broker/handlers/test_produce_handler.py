"""Produce: each check in its order, each version's words, and what acks=0 makes of failures."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from broker.handlers import produce
from controller.metadata.image.cluster_image import replay
from protocol.codec.compiler import decode, encode
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.metadata_log.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import ZSTD
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import CloseConnection, Pending
from storage.faulty_files import Fault, FaultyFiles
from storage.memory_files import MemoryFiles
from tests.support.rigs.handler_rig import HandlerRig, now, topic_id

Topic = ProduceRequest.TopicProduceData
Entry = ProduceRequest.PartitionProduceData


def request(
    records: Any,
    *,
    topic: str = "t",
    made: bytes = topic_id(1),
    index: int = 0,
    acks: int = -1,
    **options: Any,
) -> ProduceRequest:
    view = memoryview(records) if isinstance(records, bytearray) else records
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[Topic(topic, made, [Entry(index, view)])], **options
    )


def send(rig: HandlerRig, asked: ProduceRequest, version: int = 12, client_id: str = "client") -> Any:
    return produce.handle(rig.services, rig.context(0, version, client_id), asked)


def only(answer: Any) -> ProduceResponse.PartitionProduceResponse:
    response = now(answer)
    assert isinstance(response, ProduceResponse)
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


def error(answer: Any) -> ErrorCode:
    return ErrorCode(only(answer).error_code)


@pytest.fixture
def rig() -> HandlerRig:
    made = HandlerRig()
    made.topic("t", 2)
    return made


@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_gets_the_next_offsets_and_is_readable_at_once(rig: HandlerRig, acks: int) -> None:
    assert only(send(rig, request(rig.batch(3), acks=acks))).base_offset == 0
    answer = only(send(rig, request(rig.batch(2), acks=acks)))
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 3, -1)
    assert answer.log_start_offset == 0
    assert rig.log("t").log_end_offset == rig.log("t").high_watermark == 5
    counters = rig.replicas.counters["t"]
    assert (counters.messages_in, counters.bytes_in) == (5, len(rig.batch(3)) + len(rig.batch(2)))


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_carries_a_success_and_an_error(rig: HandlerRig, version: int) -> None:
    asked = ProduceRequest(
        acks=-1,
        topic_data=[
            Topic("t", topic_id(1), [Entry(0, memoryview(rig.batch())), Entry(9, memoryview(rig.batch()))])
        ],
    )
    decoded = decode(ProduceRequest, version, bytearray(encode(asked, version)))
    response = now(send(rig, decoded, version))
    told = decode(ProduceResponse, version, encode(response, version)).responses[0]
    assert [(p.index, p.error_code, p.base_offset) for p in told.partition_responses] == [
        (0, 0, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


def test_topics_go_by_id_since_version_13(rig: HandlerRig) -> None:
    assert only(send(rig, request(rig.batch(), topic=""), version=13)).base_offset == 0
    assert error(send(rig, request(rig.batch(), topic="", made=topic_id(9)), version=13)) == (
        ErrorCode.UNKNOWN_TOPIC_ID
    )
    assert error(send(rig, request(rig.batch(), topic="nobody"))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [12, 13])
def test_a_batch_for_a_topic_made_anew_is_written_or_refused_at_every_step(version: int) -> None:
    """What is answered without error lies in the log of the topic that the metadata shows then."""
    rig = HandlerRig()
    old = rig.topic("t", 2)
    new = topic_id(2)
    records = [
        TopicRecord("t", new),
        *(
            PartitionRecord(partition_id=index, topic_id=new, replicas=[1], isr=[1], leader=1, leader_epoch=0)
            for index in range(2)
        ),
    ]
    seen: dict[bytes, set[ErrorCode]] = {old: set(), new: set()}
    for _ in rig.apply_in_steps([], RemoveTopicRecord(old), *records):
        for made in (old, new):
            for index in range(2):
                answer = only(send(rig, request(rig.batch(), made=made, index=index), version))
                seen[made].add(ErrorCode(answer.error_code))
                if answer.error_code:
                    assert answer.base_offset == -1
                    continue
                shown = rig.metadata.topic_id("t")
                hosted = rig.replicas.by_name["t", index]
                assert hosted.topic_id == shown
                assert version < 13 or made == shown
                assert answer.base_offset == hosted.log.log_end_offset - 1
    assert seen[new] >= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    if version >= 13:
        assert ErrorCode.UNKNOWN_TOPIC_ID in seen[old] & seen[new]


def test_a_batch_for_an_id_that_is_not_hosted_yet_is_not_acknowledged(rig: HandlerRig) -> None:
    """The cache shows the topic made anew, and the partition of the old one is still here."""
    new = topic_id(2)
    partition = PartitionRecord(partition_id=0, topic_id=new, replicas=[1], isr=[1], leader=1, leader_epoch=0)
    records = [RemoveTopicRecord(topic_id(1)), TopicRecord("t", new), partition]
    image, delta = replay(rig.image, records, offset=99, epoch=1)
    rig.metadata.apply(image, delta)
    answer = only(send(rig, request(rig.batch(), made=new), 13))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert rig.log("t").log_end_offset == 0


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("apart", [False, True])
def test_of_a_partition_named_twice_the_batch_named_last_is_taken(
    rig: HandlerRig, version: int, apart: bool
) -> None:
    batches = [rig.batch(1, size) for size in (5, 50)]
    first, second = (Entry(0, memoryview(batch)) for batch in batches)
    other = Entry(1, memoryview(rig.batch()))
    named = [[first, other], [second]] if apart else [[first, second, other]]
    asked = ProduceRequest(acks=-1, topic_data=[Topic("t", topic_id(1), each) for each in named])
    (topic,) = now(send(rig, asked, version)).responses
    assert [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    assert (rig.log("t").log_end_offset, rig.log("t").size_bytes) == (1, len(batches[1]))


@pytest.mark.parametrize("bad_first", [False, True])
def test_of_a_partition_named_twice_one_without_records_refuses_both(
    rig: HandlerRig, bad_first: bool
) -> None:
    entries = [Entry(0, memoryview(rig.batch())), Entry(0, None)]
    asked = ProduceRequest(acks=-1, topic_data=[Topic("t", topic_id(1), entries[:: -1 if bad_first else 1])])
    assert error(send(rig, asked)) == ErrorCode.INVALID_RECORD
    assert rig.log("t").log_end_offset == 0


def test_of_a_partition_named_twice_a_last_batch_that_is_broken_is_refused(rig: HandlerRig) -> None:
    broken = rig.batch()
    broken[-1] ^= 0xFF
    entries = [Entry(0, memoryview(rig.batch())), Entry(0, memoryview(broken))]
    assert error(send(rig, ProduceRequest(acks=-1, topic_data=[Topic("t", topic_id(1), entries)]))) == (
        ErrorCode.CORRUPT_MESSAGE
    )
    assert rig.log("t").log_end_offset == 0


def test_the_right_to_write_is_asked_before_the_partition_is_looked_for(rig: HandlerRig) -> None:
    rig.deny(Operation.WRITE, ResourceType.TOPIC)
    assert error(send(rig, request(rig.batch(), topic="nobody"))) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert error(send(rig, request(rig.batch()))) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert error(send(rig, request(rig.batch()), version=13)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert rig.log("t").log_end_offset == 0


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_impossible_acks_append_nothing(rig: HandlerRig, acks: int) -> None:
    answer = only(send(rig, request(rig.batch(), acks=acks)))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert error(send(rig, request(rig.batch(), topic="nobody", acks=acks))) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert rig.log("t").log_end_offset == 0


def test_the_coordinators_topics_are_not_for_clients(rig: HandlerRig) -> None:
    rig.topic("__consumer_offsets", number=2)
    asked = request(rig.batch(), topic="__consumer_offsets", made=topic_id(2))
    assert error(send(rig, asked)) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error(send(rig, asked, client_id="__admin_client")) == ErrorCode.NONE


def test_acks_0_is_silent_and_closes_on_failure(rig: HandlerRig) -> None:
    assert send(rig, request(rig.batch(), acks=0)) is None
    assert rig.log("t").log_end_offset == 1
    with pytest.raises(CloseConnection, match="nobody-0: UNKNOWN_TOPIC_OR_PARTITION"):
        send(rig, request(rig.batch(), topic="nobody", acks=0))


def test_a_failed_partition_does_not_harm_its_neighbours(rig: HandlerRig) -> None:
    broken = rig.batch()
    broken[-1] ^= 0xFF
    asked = ProduceRequest(
        acks=-1,
        topic_data=[
            Topic("nobody", topic_id(9), [Entry(0, memoryview(rig.batch()))]),
            Topic("t", topic_id(1), [Entry(1, memoryview(broken)), Entry(0, memoryview(rig.batch()))]),
        ],
    )
    response = now(send(rig, asked))
    codes = [[p.error_code for p in topic.partition_responses] for topic in response.responses]
    assert codes == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]]
    assert (rig.log("t", 0).log_end_offset, rig.log("t", 1).log_end_offset) == (1, 0)


def test_only_what_kafka_counts_is_counted_as_failed(rig: HandlerRig) -> None:
    rig.topic("small", number=2, max_message_bytes="100")
    corrupt = rig.batch()
    corrupt[-1] ^= 0xFF
    sent_twice = rig.batch() + rig.batch()
    out_of_order = rig.batch(producer_id=7, producer_epoch=0, base_sequence=9)
    assert error(send(rig, request(corrupt))) == ErrorCode.CORRUPT_MESSAGE
    assert error(send(rig, request(rig.batch(1, 200), topic="small", made=topic_id(2)))) == (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    counters = rig.replicas.counters
    assert [counters[topic].failed_produce_requests for topic in ("t", "small")] == [0, 0]
    assert (
        only(send(rig, request(rig.batch(producer_id=7, producer_epoch=0, base_sequence=0)))).error_code == 0
    )
    assert error(send(rig, request(out_of_order))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error(send(rig, request(sent_twice))) == ErrorCode.INVALID_RECORD
    assert counters["t"].failed_produce_requests == 2
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=2))
    assert error(send(rig, request(rig.batch()))) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert counters["t"].failed_produce_requests == 2


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"\0" * 30, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_bytes_that_are_no_batch(rig: HandlerRig, records: Any, expected: ErrorCode) -> None:
    answer = only(send(rig, request(records)))
    assert (answer.error_code, answer.base_offset) == (expected, -1)
    assert rig.log("t").log_end_offset == 0


def test_two_batches_in_one_partition_are_one_too_many(rig: HandlerRig) -> None:
    assert error(send(rig, request(rig.batch() + rig.batch()))) == ErrorCode.INVALID_RECORD


def test_a_batch_beyond_max_message_bytes(rig: HandlerRig) -> None:
    rig.topic("small", number=2, max_message_bytes="100")
    answer = only(send(rig, request(rig.batch(1, 200), topic="small", made=topic_id(2))))
    assert (answer.error_code, answer.error_message) == (ErrorCode.MESSAGE_TOO_LARGE, None)


def test_zstd_needs_version_7(rig: HandlerRig) -> None:
    assert error(send(rig, request(rig.batch(codec=ZSTD)), version=6)) == (
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    )
    assert error(send(rig, request(rig.batch(codec=ZSTD)), version=7)) == ErrorCode.NONE


def test_records_at_fault_are_named(rig: HandlerRig) -> None:
    rig.topic("compacted", number=2, cleanup_policy="compact")
    at = rig.clock.wall_ms()
    batch = build_batch(
        [SimpleRecord(b"k", b"v", at), SimpleRecord(None, b"v", at), SimpleRecord(None, b"w", at)]
    )
    answer = only(send(rig, request(batch, topic="compacted", made=topic_id(2))))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [record.batch_index for record in answer.record_errors] == [1, 2]
    assert answer.error_message
    assert answer.log_start_offset == 0


def test_a_timestamp_an_hour_ahead_is_too_far(rig: HandlerRig) -> None:
    ahead = rig.clock.wall_ms() + 3_600_001
    answer = only(send(rig, request(rig.batch(2, timestamp=ahead))))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [record.batch_index for record in answer.record_errors] == [0, 1]


def test_log_append_time_is_told(rig: HandlerRig) -> None:
    rig.topic("stamped", number=2, message_timestamp_type="LogAppendTime")
    answer = only(send(rig, request(rig.batch(timestamp=5), topic="stamped", made=topic_id(2))))
    assert (answer.error_code, answer.log_append_time_ms) == (0, rig.clock.wall_ms())


def test_an_idempotent_producer_is_answered_twice_the_same(rig: HandlerRig) -> None:
    def batch(sequence: int, epoch: int = 0) -> bytearray:
        return rig.batch(2, producer_id=7, producer_epoch=epoch, base_sequence=sequence)

    assert only(send(rig, request(batch(0)))).base_offset == 0
    assert only(send(rig, request(batch(2)))).base_offset == 2
    again = only(send(rig, request(batch(0))))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert rig.log("t").log_end_offset == 4
    assert rig.replicas.counters["t"].messages_in == 4
    assert error(send(rig, request(batch(9)))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert only(send(rig, request(batch(0, epoch=1)))).base_offset == 4
    assert error(send(rig, request(batch(4)))) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [3, 12, 13])
def test_one_transactional_batch_without_an_id_refuses_the_whole_request(
    rig: HandlerRig, version: int
) -> None:
    batch = rig.batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    entries = [Entry(0, memoryview(rig.batch())), Entry(1, memoryview(batch))]
    nobody = Topic("nobody", topic_id(9), [Entry(0, memoryview(rig.batch()))])
    for acks in (-1, 5):
        asked = ProduceRequest(acks=acks, topic_data=[nobody, Topic("t", topic_id(1), entries)])
        response = now(send(rig, asked, version))
        assert [
            (each.index, each.error_code, each.base_offset, each.error_message)
            for topic in response.responses
            for each in topic.partition_responses
        ] == [(index, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, None) for index in (0, 0, 1)]
    assert rig.log("t", 0).log_end_offset == rig.log("t", 1).log_end_offset == 0


@pytest.mark.parametrize(("version", "tells"), [(9, False), (10, True), (12, True), (13, True)])
def test_whoever_asks_the_wrong_broker_learns_the_leader(version: int, tells: bool) -> None:
    rig = HandlerRig()
    rig.apply(rig.broker_record(2, rack="r2"))
    rig.topic("t", replicas=(1, 2), leader=2, leader_epoch=4)
    response = now(send(rig, request(rig.batch()), version))
    answer = only(response)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not tells:
        assert (answer.current_leader, response.node_endpoints) == (None, [])
        return
    assert answer.current_leader == ProduceResponse.LeaderIdAndEpoch(2, 4)
    assert response.node_endpoints == [ProduceResponse.NodeEndpoint(2, "host2", 9002, "r2")]


def test_acks_all_needs_enough_replicas_and_acks_1_does_not() -> None:
    rig = HandlerRig()
    rig.topic("t", replicas=(1, 2), isr=(1,), min_insync_replicas="2")
    assert error(send(rig, request(rig.batch()))) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert rig.log("t").log_end_offset == 0
    assert error(send(rig, request(rig.batch(), acks=1))) == ErrorCode.NONE
    assert (rig.log("t").log_end_offset, rig.log("t").high_watermark) == (1, 0)


def test_min_isr_is_never_more_than_there_are_replicas() -> None:
    rig = HandlerRig()
    rig.topic("t", min_insync_replicas="3")
    assert error(send(rig, request(rig.batch()))) == ErrorCode.NONE


def test_acks_all_waits_for_the_follower() -> None:
    rig = HandlerRig()
    rig.topic("t", replicas=(1, 2))
    answer = send(rig, request(rig.batch(3)))
    assert isinstance(answer, Pending)
    assert answer.response is None
    partition = rig.replicas.by_name["t", 0]
    partition.follower_fetched(2, 2, now_ms=0)
    assert answer.response is None
    partition.follower_fetched(2, 3, now_ms=0)
    assert only(answer).base_offset == 0
    rig.timers.advance(5000)
    assert error(answer) == ErrorCode.NONE


def test_what_is_not_replicated_in_time_stays_appended() -> None:
    rig = HandlerRig()
    rig.topic("t", replicas=(1, 2))
    answer = send(rig, request(rig.batch(3)))
    rig.timers.advance(999)
    assert answer.response is None
    rig.timers.advance(1)
    assert (only(answer).error_code, only(answer).base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert rig.log("t").log_end_offset == 3
    assert not rig.replicas.by_name["t", 0].commit_waiters


def test_a_producer_that_has_gone_is_not_waited_for() -> None:
    rig = HandlerRig()
    rig.topic("t", replicas=(1, 2))
    answer = send(rig, request(rig.batch()))
    answer.cancel()
    assert not rig.replicas.by_name["t", 0].commit_waiters
    rig.timers.advance(5000)
    assert answer.response is None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("taken", [0, 20])
def test_a_disk_error_refuses_the_batch_and_the_next_one_passes(code: int, taken: int) -> None:
    files = FaultyFiles(MemoryFiles())
    rig = HandlerRig(files=files)
    rig.topic("t")
    rig.write("t", count=2)
    files.faults.append(Fault("write", error=code, partial_bytes=taken))
    if taken:
        files.faults.append(Fault("write", 2, error=code))
    answer = only(send(rig, request(rig.batch())))
    assert files.faults[0].hits == 1
    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert (rig.log("t").log_end_offset, rig.log("t").high_watermark) == (2, 2)
    assert only(send(rig, request(rig.batch()))).base_offset == 2
