"""From a frame to a handler and back, with real messages and scripted handlers."""

from __future__ import annotations

import gc
import logging
import random
from collections import Counter
from typing import Any

import pytest

from broker.dispatch.failures import failure_response
from broker.metrics.histogram import quantiles_ms
from broker.network.connection import CLOSED, MUTED
from protocol.errors import ErrorCode, InvariantViolated
from protocol.framing import encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import CloseConnection, Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session
from tests.support.rigs.authorizers import HandmadeAuthorizer
from tests.support.rigs.desk import Desk
from tests.support.rigs.sans_io import framed


class FixedThrottle:
    def throttle_ms(
        self, context: RequestContext, *, response_bytes: int, elapsed_ns: int, is_exempt: bool
    ) -> int:
        return 250

    def unanswered_ms(self, context: RequestContext) -> int:
        return 0

    def applies_to(self, context: RequestContext) -> bool:
        return True


class DenyAll(HandmadeAuthorizer):
    def __init__(self) -> None:
        self.asked: list[tuple[str, Operation, ResourceType, str]] = []

    def permits(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
        self.asked.append((str(session.principal), operation, resource, name))
        return False


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize("version", range(5))
def test_a_request_reaches_its_handler_and_the_answer_its_client(desk: Desk, version: int) -> None:
    desk.behaviours[ApiKey.HEARTBEAT] = lambda context, request: HeartbeatResponse(error_code=27)
    desk.ask(HeartbeatRequest("group", 3, "member"), version, correlation_id=-5)
    assert desk.requests == [HeartbeatRequest("group", 3, "member")]
    assert desk.answer(HeartbeatResponse, version) == (-5, HeartbeatResponse(error_code=27))
    context = desk.contexts[0]
    assert (context.api_key, context.version, context.correlation_id) == (12, version, -5)
    assert (context.client_id, context.session.host) == ("me", "127.0.0.1")
    assert context.now_ms == desk.rig.clock.wall_ms()
    assert context.frame_size_bytes == len(encode_request_frame(desk.requests[0], version, 0, "me")) - 4


def test_a_null_client_id_is_an_empty_one(desk: Desk) -> None:
    desk.ask(HeartbeatRequest(), 4, client_id=None)
    desk.ask(HeartbeatRequest(), 0, client_id="")
    assert [context.client_id for context in desk.contexts] == ["", ""]


def test_a_client_id_that_is_no_text_is_no_reason_to_refuse(desk: Desk) -> None:
    frame = encode_request_frame(HeartbeatRequest(), 4, 1, "ab")
    desk.rig.feed(frame.replace(b"ab", b"a\xff"))
    assert desk.contexts[0].client_id == "a�"


def test_tags_of_the_header_are_skipped(desk: Desk) -> None:
    frame = encode_request_frame(HeartbeatRequest("group"), 4, 9, "me")[4:]
    head = 10 + len("me")
    with_tags = frame[:head] + b"\x02\x00\x03abc\x63\x01z" + frame[head + 1 :]
    desk.rig.feed(framed(with_tags))
    assert desk.requests == [HeartbeatRequest("group")]


def test_bytes_behind_the_body_are_ignored_as_kafka_ignores_them(desk: Desk) -> None:
    frame = encode_request_frame(MetadataRequest(None), 2, 9, "rdkafka")[4:] + b"\0\0\0"
    desk.behaviours[ApiKey.METADATA] = lambda context, request: MetadataResponse(cluster_id="c")
    desk.rig.feed(framed(frame))
    assert desk.answer(MetadataResponse, 2)[1].cluster_id == "c"


def test_no_frame_whatever_it_holds_does_more_than_close_its_connection(desk: Desk) -> None:
    random_source = random.Random(4)
    topic = FetchRequest.FetchTopic("t", partitions=[FetchRequest.FetchPartition()])
    good = [
        encode_request_frame(request, version, 1, "client")[4:]
        for request, version in (
            (HeartbeatRequest("group", 1, "member"), 4),
            (ApiVersionsRequest("name", "1"), 3),
            (MetadataRequest([MetadataRequest.MetadataRequestTopic(name="topic")]), 12),
            (FetchRequest(topics=[topic]), 12),
        )
    ]
    desk.behaviours[ApiKey.METADATA] = lambda context, request: MetadataResponse()
    desk.behaviours[ApiKey.FETCH] = lambda context, request: FetchResponse()
    for _ in range(3000):
        frame = bytearray(random_source.choice(good))
        for _ in range(random_source.randrange(1, 4)):
            frame[random_source.randrange(len(frame))] = random_source.randrange(256)
        del frame[random_source.choice((len(frame), random_source.randrange(len(frame)))) :]
        connection = desk.rig.another()
        desk.rig.feed(framed(bytes(frame)), connection)
        assert connection.holds in (0, CLOSED)
    assert desk.dispatcher.metrics.failures == 0
    assert desk.dispatcher.metrics.malformed > 500
    assert len(desk.requests) > 500
    assert desk.rig.memory.used_bytes == 0


def test_the_way_through_leaves_nothing_for_the_collector(desk: Desk) -> None:
    pendings: list[Pending[HeartbeatResponse]] = []

    def wait(context: RequestContext, request: Any) -> Pending[HeartbeatResponse]:
        pendings.append(Pending())
        return pendings[-1]

    def some_requests() -> None:
        desk.behaviours[ApiKey.HEARTBEAT] = lambda context, request: HeartbeatResponse()
        for _ in range(1000):
            desk.ask(HeartbeatRequest("group", 1, "member"), 4)
        desk.behaviours[ApiKey.HEARTBEAT] = wait
        for _ in range(1000):
            desk.ask(HeartbeatRequest("group", 1, "member"), 4)
            pendings.pop().complete(HeartbeatResponse())
            desk.rig.timers.run_soon()
        for kept in (desk.requests, desk.contexts, desk.rig.wire.sends):
            kept.clear()

    some_requests()
    while gc.collect():  # what finalizers of other tests' remains leave behind is not ours
        pass
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        some_requests()
        gc.collect()
        assert not Counter(type(each).__qualname__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_the_wall_clock_is_read_again_as_time_goes_by(desk: Desk) -> None:
    desk.ask(HeartbeatRequest(), 4)
    desk.rig.clock.move(5000)
    desk.ask(HeartbeatRequest(), 4)
    assert desk.contexts[1].now_ms - desk.contexts[0].now_ms == 5000


@pytest.mark.parametrize("version", [5, 99, 32767, -1, -32768])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(desk: Desk, version: int) -> None:
    header = (18).to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + (77).to_bytes(4, "big")
    desk.rig.feed(framed(header + b"\0\2me" + b"\xff\xff what no version can read"))
    correlation_id, response = desk.answer(ApiVersionsResponse, 0)
    assert correlation_id == 77
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [(18, 0, 4)]
    assert desk.requests == []
    desk.ask(ApiVersionsRequest("librdkafka", "2.0"), 3)
    assert desk.answer(ApiVersionsResponse, 3)[1].error_code == 0


@pytest.mark.parametrize(
    ("key", "version", "word"),
    [
        (12, 5, "Heartbeat version 5, served are 0 to 4"),
        (12, -1, "Heartbeat version -1"),
        (1, 18, "Fetch version 18, served are 4 to 17"),
        (4, 0, "LeaderAndIsr, which is not served"),
        (8, 2, "OffsetCommit, which is not served"),
        (9999, 0, "API key 9999, which nobody knows"),
        (-1, 0, "API key -1, which nobody knows"),
    ],
)
def test_what_is_not_served_closes_the_connection(
    desk: Desk, caplog: pytest.LogCaptureFixture, key: int, version: int, word: str
) -> None:
    header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    with caplog.at_level(logging.WARNING):
        desk.rig.feed(framed(header + b"\0\0\0\1\0\0"))
    assert desk.connection.holds & CLOSED
    assert desk.rig.wire.sent == b""
    assert desk.dispatcher.metrics.malformed == 1
    assert word in caplog.text


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_request_that_is_cut_off_closes_the_connection(desk: Desk, cut: int) -> None:
    frame = encode_request_frame(HeartbeatRequest("group", 1, "member"), 4, 1, "client")[4:]
    desk.rig.feed(framed(frame[:-cut]))
    assert desk.connection.holds & CLOSED
    assert desk.requests == []
    assert desk.dispatcher.metrics.malformed == 1


def test_a_client_id_longer_than_the_frame_closes_even_where_the_body_is_empty(desk: Desk) -> None:
    frame = encode_request_frame(ListGroupsRequest(), 0, 1, "client")[4:]
    desk.rig.feed(framed(frame[:-3]))
    assert desk.connection.holds & CLOSED
    assert desk.requests == []


def test_an_empty_frame_closes_the_connection(desk: Desk) -> None:
    desk.rig.feed(framed(b""))
    assert desk.connection.holds & CLOSED


def test_an_address_is_named_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    with caplog.at_level(logging.WARNING, "barnabas.dispatch"):
        for _ in range(50):
            desk.rig.feed(framed(b"junk"), desk.rig.another())
        assert len(caplog.records) == 1
        desk.rig.clock.move(61_000)
        desk.rig.feed(framed(b"junk"), desk.rig.another())
    assert len(caplog.records) == 2
    assert "49 more from this address" in caplog.text
    assert desk.dispatcher.metrics.malformed == 51


def unserved(key: int, version: int, client_id: str) -> bytes:
    name = client_id.encode()
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4)
    return framed(head + len(name).to_bytes(2, "big") + name)


def test_what_is_not_served_is_named_once_for_each_api_and_client(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    asked = [(key, client) for key in (4, 8, int(ApiKey.HEARTBEAT)) for client in ("etl", "ui")]
    with caplog.at_level(logging.WARNING, "barnabas.dispatch"):
        desk.rig.feed(framed(b"junk"), desk.rig.another())
        for number in range(10):
            for key, client in asked:
                desk.rig.feed(unserved(key, 5 + number, client), desk.rig.another())
        named = desk.rig.another()
        named.session.client_software_name = "franz-go"
        desk.rig.feed(unserved(8, 3, "ui"), named)
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 1 + len(asked) + 1
        assert "client 'etl' (unknown) asked for LeaderAndIsr, which is not served" in lines[1]
        assert "client 'ui' (franz-go) asked for OffsetCommit" in lines[-1]
        assert "client 'ui' (unknown) asked for Heartbeat version 5, served are 0 to 4" in lines[-2]
        assert f"({9 * len(asked)} more from this address" in lines[-1]
        desk.rig.clock.move(61_000)
        desk.rig.feed(unserved(4, 0, "etl"), desk.rig.another())
    assert len(caplog.records) == len(lines) + 1
    assert desk.dispatcher.metrics.malformed == 1 + 10 * len(asked) + 2


def test_a_client_that_calls_itself_something_new_each_time_fills_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    with caplog.at_level(logging.WARNING, "barnabas.dispatch"):
        for number in range(500):
            desk.rig.feed(unserved(8, 2, f"{number} " + "x" * 30_000), desk.rig.another())
        assert len(caplog.records) == 20
        assert max(len(record.getMessage()) for record in caplog.records) < 400
        for hosts in range(3_000):
            connection = desk.rig.another()
            connection.session.host = f"10.0.{hosts // 256}.{hosts % 256}"
            desk.rig.feed(unserved(8, 2, "same"), connection)
    assert len(desk.dispatcher._malformed._hosts) <= 1_000


def test_a_client_id_that_is_no_utf8_is_read_as_java_reads_it(desk: Desk) -> None:
    frame = encode_request_frame(HeartbeatRequest("g"), 4, 1, "client")
    desk.rig.feed(frame.replace(b"client", b"\xed\xa0\x80cl\xff"))
    assert desk.contexts[0].client_id == "\ufffdcl\ufffd"
    desk.rig.feed(encode_request_frame(HeartbeatRequest(), 4, 1, "x" * 20_000).replace(b"x", b"\xff"))
    assert desk.connection.holds & CLOSED
    assert desk.dispatcher.metrics.malformed == 1


@pytest.mark.parametrize("size", [32_767, 32_768, 40_000])
def test_a_string_beyond_its_bound_closes_the_connection(desk: Desk, size: int) -> None:
    raw = encode_request_frame(HeartbeatRequest("g" * 32_767), 4, 1, "me")[4:]
    length = (size + 1).to_bytes(4, "big")
    bits = int.from_bytes(length, "big")
    prefix = bytes((bits & 127 | 128, bits >> 7 & 127 | 128, bits >> 14))
    desk.rig.feed(framed(raw.replace(b"\x80\x80\x02" + b"g" * 32_767, prefix + b"g" * size)))
    assert len(desk.requests) == (size == 32_767)
    assert desk.dispatcher.metrics.malformed == (size != 32_767)
    assert bool(desk.connection.holds & CLOSED) == (size != 32_767)


def test_a_pending_answer_comes_when_it_is_completed(desk: Desk) -> None:
    pending: Pending[HeartbeatResponse] = Pending()
    desk.behaviours[ApiKey.HEARTBEAT] = lambda context, request: pending
    desk.ask(HeartbeatRequest(), 4, correlation_id=11)
    assert desk.rig.wire.sends == []
    assert desk.dispatcher.metrics.waiting == 1
    desk.rig.clock.move(30)
    pending.complete(HeartbeatResponse(error_code=25))
    desk.rig.timers.run_soon()
    assert desk.answer(HeartbeatResponse, 4) == (11, HeartbeatResponse(error_code=25))
    assert desk.dispatcher.metrics.waiting == 0
    times = desk.counts("Heartbeat", 4).times
    for buckets in (times.remote, times.total):
        assert quantiles_ms(buckets, (1.0,)) == [pytest.approx(30, rel=0.2)]
    assert quantiles_ms(times.send, (1.0,))[0] < 1, "the wait does not count as sending"
    assert desk.counts("Heartbeat", 4).errors == {25: 1}


def test_a_pending_answer_that_is_there_already_leaves_at_once(desk: Desk) -> None:
    def handle(context: RequestContext, request: Any) -> Pending[HeartbeatResponse]:
        pending: Pending[HeartbeatResponse] = Pending()
        pending.complete(HeartbeatResponse())
        return pending

    desk.behaviours[ApiKey.HEARTBEAT] = handle
    desk.ask(HeartbeatRequest(), 4)
    assert desk.answer(HeartbeatResponse, 4) == (7, HeartbeatResponse())
    assert desk.dispatcher.metrics.waiting == 0


def test_a_peer_that_goes_cancels_the_pending_answer(desk: Desk) -> None:
    pending: Pending[HeartbeatResponse] = Pending()
    cancelled: list[bool] = []
    pending.on_cancel(lambda: cancelled.append(True))
    desk.behaviours[ApiKey.HEARTBEAT] = lambda context, request: pending
    desk.ask(HeartbeatRequest(), 4)
    desk.connection.peer_gone("gone")
    assert cancelled == [True]
    assert desk.dispatcher.metrics.waiting == 0
    pending.complete(HeartbeatResponse())
    assert desk.rig.wire.sends == []


def test_no_answer_to_a_handler_that_has_none(desk: Desk) -> None:
    desk.behaviours[ApiKey.PRODUCE] = lambda context, request: None
    desk.ask(ProduceRequest(None, 0), 9)
    desk.ask(HeartbeatRequest(), 4)
    assert len(desk.rig.wire.sends) == 1
    assert desk.counts("Produce", 9).requests == 1


def test_a_handler_may_close_the_connection(desk: Desk) -> None:
    def refuse(context: RequestContext, request: Any) -> None:
        raise CloseConnection("an append failed and acks=0 has no other way to say so")

    desk.behaviours[ApiKey.PRODUCE] = refuse
    desk.ask(ProduceRequest(None, 0), 9)
    assert desk.rig.wire.closed == "an append failed and acks=0 has no other way to say so"
    assert desk.dispatcher.metrics.failures == 0


def fail(context: RequestContext, request: Any) -> None:
    raise KeyError("a bug of ours")


def test_a_failing_handler_is_logged_and_the_client_told(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.behaviours[ApiKey.HEARTBEAT] = fail
    desk.ask(HeartbeatRequest(), 4)
    assert desk.answer(HeartbeatResponse, 4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert desk.dispatcher.metrics.failures == 1
    assert "Heartbeat version 4 from client 'me'" in caplog.text
    assert "a bug of ours" in caplog.text
    assert not desk.connection.holds


def test_a_failing_produce_names_each_partition(desk: Desk) -> None:
    desk.behaviours[ApiKey.PRODUCE] = fail
    data = [
        ProduceRequest.TopicProduceData(
            topic,
            partition_data=[ProduceRequest.PartitionProduceData(index, b"records") for index in (4, 2)],
        )
        for topic in ("a", "b")
    ]
    desk.ask(ProduceRequest(None, -1, 1000, data), 9)
    response = desk.answer(ProduceResponse, 9)[1]
    assert [
        (topic.name, partition.index, partition.error_code)
        for topic in response.responses
        for partition in topic.partition_responses
    ] == [("a", 4, -1), ("a", 2, -1), ("b", 4, -1), ("b", 2, -1)]
    assert desk.counts("Produce", 9).errors == {-1: 4}


def test_where_no_answer_can_be_made_the_connection_is_closed(desk: Desk) -> None:
    desk.behaviours[ApiKey.METADATA] = fail
    desk.ask(MetadataRequest(None), 12)
    assert desk.connection.holds & CLOSED
    assert desk.dispatcher.metrics.failures == 1


def test_an_answer_of_the_wrong_kind_is_a_failure(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.behaviours[ApiKey.HEARTBEAT] = lambda context, request: ListGroupsResponse()
    desk.ask(HeartbeatRequest(), 4)
    assert desk.answer(HeartbeatResponse, 4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ListGroupsResponse" in caplog.text


def test_an_answer_that_cannot_be_encoded_gives_its_files_back(desk: Desk) -> None:
    class Slice:
        size_bytes = 5
        released = 0

        def release(self) -> None:
            self.released += 1

    records = Slice()
    partition = FetchResponse.PartitionData(
        partition_index=2**40,
        records=records,
    )
    topic = FetchResponse.FetchableTopicResponse("t", partitions=[partition])
    desk.behaviours[ApiKey.FETCH] = lambda context, request: FetchResponse(responses=[topic])
    desk.ask(FetchRequest(), 12)
    assert records.released == 1
    assert desk.answer(FetchResponse, 12)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_what_cannot_be_ends_more_than_a_request(desk: Desk) -> None:
    def break_down(context: RequestContext, request: Any) -> None:
        raise InvariantViolated("high watermark beyond log end")

    desk.behaviours[ApiKey.HEARTBEAT] = break_down
    with pytest.raises(InvariantViolated):
        desk.ask(HeartbeatRequest(), 4)


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_throttled_answer_says_so_and_the_connection_is_muted(version: int) -> None:
    desk = Desk(throttle=FixedThrottle())
    desk.ask(HeartbeatRequest(), version)
    expected = HeartbeatResponse(throttle_time_ms=250 if version else 0)
    assert desk.answer(HeartbeatResponse, version) == (7, expected)
    assert desk.connection.holds == MUTED
    desk.rig.timers.advance(249)
    assert desk.connection.holds == MUTED
    desk.rig.timers.advance(1)
    assert desk.connection.holds == 0


def test_a_throttle_of_the_controllers_counts_where_it_is_longer() -> None:
    desk = Desk(throttle=FixedThrottle())
    desk.behaviours[ApiKey.HEARTBEAT] = lambda context, request: HeartbeatResponse(throttle_time_ms=900)
    desk.ask(HeartbeatRequest(), 4)
    assert desk.answer(HeartbeatResponse, 4)[1].throttle_time_ms == 900
    desk.rig.timers.advance(899)
    assert desk.connection.holds == MUTED


def test_the_context_asks_the_authorizer_for_the_connections_principal() -> None:
    authorizer = DenyAll()
    desk = Desk(authorizer=authorizer)
    desk.behaviours[ApiKey.HEARTBEAT] = lambda context, request: HeartbeatResponse(
        error_code=0 if context.allows(Operation.READ, ResourceType.GROUP, request.group_id) else 30
    )
    desk.ask(HeartbeatRequest("g"), 4)
    assert desk.answer(HeartbeatResponse, 4)[1].error_code == 30
    assert authorizer.asked == [("User:ANONYMOUS", Operation.READ, ResourceType.GROUP, "g")]


def test_a_connection_goes_under_the_name_of_its_clients_software(desk: Desk) -> None:
    desk.ask(ApiVersionsRequest("apache-kafka-java", "4.3.1"), 4)
    session = desk.connection.session
    assert (session.client_software_name, session.client_software_version) == ("apache-kafka-java", "4.3.1")


def test_a_long_name_of_software_is_cut(desk: Desk) -> None:
    desk.ask(ApiVersionsRequest("k" * 32_767, "1" * 32_767), 4)
    session = desk.connection.session
    assert (session.client_software_name, session.client_software_version) == ("k" * 256, "1" * 256)


def test_a_name_that_was_refused_is_not_taken(desk: Desk) -> None:
    desk.behaviours[ApiKey.API_VERSIONS] = lambda context, request: ApiVersionsResponse(error_code=42)
    desk.ask(ApiVersionsRequest("; drop", "1"), 4)
    assert desk.connection.session.client_software_name == "unknown"


def test_counts_and_times_of_requests(desk: Desk) -> None:
    def slow(context: RequestContext, request: Any) -> HeartbeatResponse:
        desk.rig.clock.move(0.5)
        return HeartbeatResponse()

    desk.behaviours[ApiKey.HEARTBEAT] = slow
    frame = encode_request_frame(HeartbeatRequest(), 4, 1, "me")
    desk.rig.feed(frame * 3 + encode_request_frame(HeartbeatRequest(), 3, 1, "me"))
    counts = desk.counts("Heartbeat", 4)
    assert counts.requests == 3
    assert counts.received_bytes == 3 * (len(frame) - 4)
    assert desk.counts("Heartbeat", 3).requests == 1
    times = counts.times
    assert (sum(times.local), sum(times.total), sum(times.queue), sum(times.send)) == (4, 4, 3, 1)
    assert max(index for index, count in enumerate(times.local) if count) == min(
        index for index, count in enumerate(times.local) if count
    ), "each took half a millisecond"
    assert len([count for count in times.total if count]) > 1, "the later ones waited for the earlier ones"


def test_fetches_of_followers_are_counted_apart(desk: Desk) -> None:
    pending: Pending[FetchResponse] = Pending()
    desk.behaviours[ApiKey.FETCH] = lambda context, request: pending
    replica = FetchRequest.ReplicaState(2, 5)
    desk.ask(FetchRequest(replica_state=replica), 17)
    desk.rig.clock.move(30)
    pending.complete(FetchResponse(error_code=71))
    desk.rig.timers.run_soon()
    assert desk.answer(FetchResponse, 17)[1].error_code == 71
    desk.behaviours[ApiKey.FETCH] = lambda context, request: FetchResponse()
    desk.ask(FetchRequest(replica_id=2), 12)
    many = [FetchRequest.FetchPartition(index) for index in range(5_000)]
    desk.ask(FetchRequest(replica_id=2, topics=[FetchRequest.FetchTopic("t", partitions=many)]), 12)
    for version in (12, 17):
        desk.ask(FetchRequest(), version)
    desk.ask(FetchRequest(replica_id=-2), 12)
    counted = {
        (name, version): desk.counts(name, version).requests
        for name in ("Fetch", "FetchFollower")
        for version in (12, 17)
    }
    assert counted == {
        ("Fetch", 12): 2, ("Fetch", 17): 1, ("FetchFollower", 12): 2, ("FetchFollower", 17): 1,
    }  # fmt: skip
    followers, consumers = (desk.counts(name, 12).times for name in ("FetchFollower", "Fetch"))
    assert (sum(followers.total), sum(followers.local), sum(followers.send)) == (3, 3, 3)
    assert quantiles_ms(followers.remote, (1.0,)) == [pytest.approx(30, rel=0.2)]
    assert (sum(consumers.total), sum(consumers.local), sum(consumers.remote)) == (3, 3, 0)
    assert desk.counts("FetchFollower", 17).errors == {71: 1}
    assert desk.counts("Fetch", 17).errors == {}


def test_error_codes_of_partitions_are_counted_each(desk: Desk) -> None:
    partitions = [
        FetchResponse.PartitionData(index, error_code=code) for index, code in enumerate((0, 3, 3, 6))
    ]
    topic = FetchResponse.FetchableTopicResponse("t", partitions=partitions)
    desk.behaviours[ApiKey.FETCH] = lambda context, request: FetchResponse(responses=[topic], error_code=71)
    desk.ask(FetchRequest(), 12)
    assert desk.counts("Fetch", 12).errors == {71: 1, 3: 2, 6: 1}


def test_failures_are_answered_by_the_shape_of_the_request() -> None:
    commit = OffsetCommitRequest(
        "g",
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                "t", partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(5, 100)]
            )
        ],
    )
    answer = failure_response(commit, OffsetCommitResponse, 9, 14)
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.topics[0].name == "t"
    assert (answer.topics[0].partitions[0].partition_index, answer.topics[0].partitions[0].error_code) == (
        5,
        14,
    )
    produce = ProduceRequest(
        acks=1,
        topic_data=[
            ProduceRequest.TopicProduceData("t", partition_data=[ProduceRequest.PartitionProduceData(3)])
        ],
    )
    produced = failure_response(produce, ProduceResponse, 12)
    assert isinstance(produced, ProduceResponse)
    (partition,) = produced.responses[0].partition_responses
    assert (partition.index, partition.error_code, partition.base_offset) == (3, -1, -1)
    produce.acks = 0
    assert failure_response(produce, ProduceResponse, 12) is None, "the client awaits no answer"
    create = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("new", 3, 1)])
    created = failure_response(create, CreateTopicsResponse, 7)
    assert isinstance(created, CreateTopicsResponse)
    assert (created.topics[0].name, created.topics[0].error_code) == ("new", -1)
    named = failure_response(
        MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")]), MetadataResponse, 12
    )
    assert isinstance(named, MetadataResponse)
    assert (named.topics[0].name, named.topics[0].error_code) == ("t", -1)
