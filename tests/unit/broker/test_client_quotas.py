"""Clients that are over their quotas: what is counted, who is told, and who is deaf for how long."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import fetch
from broker.metrics.quota_families import mutation_collector, quota_collector, sanitized
from broker.network.connection import MUTED
from broker.quotas.address_rates import AddressRates
from broker.quotas.rate_quota import EXPIRES_AFTER_MS, RateQuota
from config.limits import METERED_CLIENTS
from controller.metadata.client_quotas import NO_LIMIT, ClientLimit
from controller.metadata.image.quotas import QuotasImage
from protocol.framing import decode_response
from protocol.messages.fetch import FetchResponse
from protocol.messages.produce import ProduceResponse
from tests.support.rigs.fetch_world import FetchWorld
from tests.support.rigs.produce_world import ProduceWorld


def produced() -> ProduceWorld:
    world = ProduceWorld(fast=True)
    world.topic("t")
    return world


def told_ms(world: ProduceWorld, version: int = 12) -> list[int]:
    """The throttle time of each answer."""
    found, data = [], memoryview(world.wires[0].sent)
    while data:
        size = int.from_bytes(data[:4], "big")
        frame, data = data[4 : 4 + size], data[4 + size :]
        found.append(decode_response(ProduceResponse, version, frame)[1].throttle_time_ms)
    return found


def test_a_producer_is_told_and_muted_for_what_it_sent_too_much() -> None:
    world = produced()
    one = world.request("t", bytes(world.rig.batch(size_bytes=4000)))
    size_bytes = len(one) - 4
    world.limit(producer_byte_rate=100)
    world.send(one)
    expected_ms = round((size_bytes / 10 - 100) / 100 * 10_000)
    assert told_ms(world) == [expected_ms]
    assert world.connections[0].holds == MUTED
    world.rig.timers.advance(expected_ms - 1)
    assert world.connections[0].holds == MUTED
    world.rig.timers.advance(1)
    assert world.connections[0].holds == 0


def test_a_burst_within_the_windows_is_let_through() -> None:
    world = produced()
    one = world.request("t", bytes(world.rig.batch(size_bytes=400)))
    world.limit(producer_byte_rate=(len(one) - 4) // 2)
    world.send(one * 4)
    assert told_ms(world) == [0] * 4


@pytest.mark.parametrize("version", [0, 3, 5, 9])
def test_an_old_client_that_knows_no_throttle_is_muted(version: int) -> None:
    world = produced()
    one = world.request("t", bytes(world.rig.batch(size_bytes=4000)), version=max(version, 3))
    world.limit(producer_byte_rate=100)
    world.send(one * 2)
    assert world.connections[0].holds == MUTED
    assert len(told_ms(world, max(version, 3))) == 1


def test_a_producer_without_answers_is_muted_for_its_bytes_and_not_for_its_time() -> None:
    world = produced()
    one = world.request("t", bytes(world.rig.batch(size_bytes=4000)), acks=0)
    world.limit(request_percentage=1e-9)
    world.send(one)
    assert world.connections[0].holds == 0
    world.limit(producer_byte_rate=100)
    world.send(one * 2)
    assert world.wires[0].sent == b""
    assert world.connections[0].holds == MUTED
    assert world.rig.log("t").log_end_offset == 2


def test_the_time_of_requests_is_throttled_for_a_window_at_most() -> None:
    world = produced()
    world.limit(request_percentage=1.0)
    limit = world.quotas._request.of("ANONYMOUS", "client")
    assert limit == ClientLimit("ANONYMOUS", "", 1.0)
    now_ms = world.rig.clock.monotonic_ms()
    assert world.quotas.request.record(limit, 9.0, now_ms) == 0
    assert world.quotas.request.record(limit, 3.0, now_ms) == 1000, "1.2 percent over ten seconds, cut"
    assert world.quotas.request.record(limit, -1.9, now_ms) == 100


def test_a_quota_that_goes_while_a_client_is_muted() -> None:
    """It stays muted as long as it was told, and is free then."""
    world = produced()
    one = world.request("t", bytes(world.rig.batch(size_bytes=4000)))
    world.limit(producer_byte_rate=100)
    world.send(one)
    (told,) = told_ms(world)
    world.limit(producer_byte_rate=None)
    world.rig.timers.advance(told - 1)
    assert world.connections[0].holds == MUTED
    world.rig.timers.advance(1)
    world.send(one * 2)
    assert told_ms(world) == [told, 0, 0]


def test_of_two_throttles_the_longer_one_counts() -> None:
    world = produced()
    connection = world.connections[0]
    connection.mute(1000)
    connection.mute(400)
    world.rig.timers.advance(999)
    assert connection.holds == MUTED
    world.rig.timers.advance(1)
    assert connection.holds == 0


# Fetch


def fetching(records: int = 4, size_bytes: int = 1000) -> FetchWorld:
    world = FetchWorld(fast=True)
    world.topic("t")
    for _ in range(records):
        world.write("t", size_bytes=size_bytes)
    return world


def fetched(world: FetchWorld, offset: int, version: int = 12, **fields: int) -> FetchResponse:
    wanted = world.asked("t", offset, max_bytes=1)
    session: dict[str, Any] = {"session_id": 0, "session_epoch": -1} | fields
    world.send(world.request(wanted, version=version, **session))
    return decode_response(FetchResponse, version, memoryview(world.received())[4:])[1]


def records_of(response: FetchResponse) -> int:
    answers: list[Any] = [data for topic in response.responses for data in topic.partitions]
    return sum(len(data.records or b"") for data in answers)


def test_a_fetch_over_its_quota_is_answered_without_records_and_takes_nothing() -> None:
    world = fetching()
    first = fetched(world, 0)
    size_bytes = records_of(first)
    assert size_bytes > 1000
    world.limit(consumer_byte_rate=170)
    assert records_of(fetched(world, 0)) == size_bytes
    over = fetched(world, 1)
    assert (over.responses, over.error_code, over.session_id) == ([], 0, 0)
    assert over.throttle_time_ms > 0
    assert world.connections[0].holds == MUTED
    world.advance(over.throttle_time_ms)
    assert world.connections[0].holds == 0
    usage = list(world.quotas.fetch.usages(world.rig.clock.monotonic_ms()))
    assert usage[0].per_second < 170, "what was not given is not counted"
    world.advance(11_000)
    assert records_of(fetched(world, 1)) == size_bytes


def test_an_answer_is_measured_for_those_alone_who_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measure(response: FetchResponse, version: int) -> int:
        measured.append(version)
        return 1

    monkeypatch.setattr(fetch, "frame_size_bytes", measure)
    world = fetching()
    world.limit(producer_byte_rate=5.0, controller_mutation_rate=5.0)
    assert world.rig.services.fetches.client_quotas is None
    fetched(world, 0)
    world.limit(consumer_byte_rate=1e9)
    fetched(world, 1)
    assert len(measured) == 1
    others = QuotasImage({(("client-id", "another"),): {"consumer_byte_rate": 1.0}})
    world.quotas.follow(others, [*world.rig.image.quotas.by_entity, *others.by_entity])
    assert world.quotas.limits_fetches
    fetched(world, 2)
    assert len(measured) == 1


def test_a_session_goes_on_after_an_answer_without_records() -> None:
    world = fetching()
    made = fetched(world, 0, session_epoch=0)
    assert made.session_id
    world.advance(60_000)
    world.limit(consumer_byte_rate=170)
    assert records_of(fetched(world, 1, session_id=made.session_id, session_epoch=1)) > 1000
    over = fetched(world, 2, session_id=made.session_id, session_epoch=2)
    assert (over.responses, over.session_id, over.error_code) == ([], made.session_id, 0)
    world.advance(max(over.throttle_time_ms, 11_000))
    again = fetched(world, 2, session_id=made.session_id, session_epoch=3)
    assert (again.error_code, again.throttle_time_ms) == (0, 0)
    assert records_of(again) > 1000


def test_a_full_fetch_over_its_quota_gets_no_session() -> None:
    world = fetching()
    world.limit(consumer_byte_rate=170)
    fetched(world, 0)
    over = fetched(world, 1, session_epoch=0)
    assert (over.session_id, over.responses) == (0, [])
    assert len(world.rig.services.fetches.sessions) == 0


def test_no_answer_is_larger_than_what_is_never_let_through() -> None:
    world = fetching(records=10, size_bytes=100)
    world.limit(consumer_byte_rate=50)
    wanted = world.asked("t", 0, max_bytes=100_000)
    world.send(world.request(wanted, session_epoch=-1))
    response = decode_response(FetchResponse, 12, memoryview(world.received())[4:])[1]
    assert 300 < records_of(response) <= 500, "50 bytes a second in ten windows of a second"
    assert response.throttle_time_ms < 2000


def test_a_batch_that_is_larger_than_all_windows_comes_through_nevertheless() -> None:
    world = fetching()
    world.limit(consumer_byte_rate=10)
    response = fetched(world, 0)
    assert records_of(response) > 1000
    assert response.throttle_time_ms > 90_000
    assert world.connections[0].holds == MUTED


def test_who_has_used_up_his_time_is_given_no_records() -> None:
    world = fetching()
    world.limit(request_percentage=1.0)
    limit = ClientLimit("ANONYMOUS", "", 1.0)
    assert records_of(fetched(world, 0)) > 1000
    world.quotas.request.record(limit, 20.0, world.rig.clock.monotonic_ms())
    over = fetched(world, 1)
    assert (over.responses, over.throttle_time_ms) == ([], 1000)
    world.advance(12_000)
    assert records_of(fetched(world, 1)) > 1000


def test_followers_are_not_throttled() -> None:
    world = fetching()
    world.limit(consumer_byte_rate=1, request_percentage=1e-9)
    wanted = world.asked("t", 0, max_bytes=100_000)
    for _ in range(3):
        world.send(world.request(wanted, session_epoch=-1, replica_id=2))
    assert world.connections[0].holds == 0
    assert not len(world.quotas.fetch)
    assert not len(world.quotas.request)


def test_a_fetch_that_waits_when_the_quota_comes_is_held_to_it() -> None:
    world = fetching()
    world.limit(consumer_byte_rate=170)
    fetched(world, 0)
    world.limit(consumer_byte_rate=None)
    for offset in (2, 3):
        fetched(world, offset)
    world.send(world.request(world.asked("t", 4, max_bytes=1), session_epoch=-1, max_wait_ms=500))
    assert world.received() == b""
    world.limit(consumer_byte_rate=100)
    world.write("t", size_bytes=1000)
    world.run()
    over = decode_response(FetchResponse, 12, memoryview(world.received())[4:])[1]
    assert (over.responses, over.throttle_time_ms > 0) == ([], True)


def test_a_node_that_asks_itself_is_not_throttled() -> None:
    world = produced()
    world.limit(producer_byte_rate=1, request_percentage=1e-9)
    world.connections[0].session.is_in_process = True
    world.send(world.request("t", bytes(world.rig.batch(size_bytes=4000))) * 2)
    assert told_ms(world) == [0, 0]


# What is remembered


def test_clients_are_forgotten_after_an_hour_or_for_others() -> None:
    quota = RateQuota(window_ms=1000, windows=11)
    for number in range(METERED_CLIENTS + 5):
        quota.record(ClientLimit("", f"client-{number}", 1.0), 1, number)
    assert len(quota) == METERED_CLIENTS
    quota.record(ClientLimit("", "client-7", 1.0), 1, EXPIRES_AFTER_MS)
    quota.record(ClientLimit("", "last", 1.0), 1, EXPIRES_AFTER_MS + METERED_CLIENTS + 4)
    assert [usage.client_id for usage in quota.usages(EXPIRES_AFTER_MS + METERED_CLIENTS + 4)] == [
        "client-7",
        "last",
    ]


def test_metrics_by_the_names_of_kafka_s_exporter() -> None:
    world = produced()
    world.limit(producer_byte_rate=100)
    one = world.request("t", bytes(world.rig.batch(size_bytes=4000)))
    world.send(one)
    families = {
        family.name: list(family.samples) for family in quota_collector(world.quotas, world.rig.clock)()
    }
    labels = {"user": "ANONYMOUS", "client_id": ""}
    assert families["kafka_server_produce_byte_rate"] == [(labels, (len(one) - 4) / 10)]
    assert families["kafka_server_produce_throttle_time"] == [(labels, told_ms(world)[0])]
    assert families["kafka_server_fetch_byte_rate"] == families["kafka_server_request_request_time"] == []


def test_metrics_of_mutations() -> None:
    (family,) = mutation_collector(lambda: [("a b", "c", -2.5)])()
    assert family.name == "kafka_server_controllermutation_tokens"
    assert list(family.samples) == [({"user": "a%20b", "client_id": "c"}, -2.5)]


@pytest.mark.parametrize(
    ("name", "written"),
    [("a b/c=%d,ü", "a%20b%2Fc%3D%25d%2C%C3%BC"), ("User*~-_.x", "User%2A%7E-_.x"), ("plain", "plain")],
)
def test_names_in_metrics_are_written_as_kafka_writes_them(name: str, written: str) -> None:
    assert sanitized(name) == written


# Addresses


def test_an_address_opens_connections_no_faster_than_it_may() -> None:
    rates = AddressRates(window_ms=1000, windows=11)
    assert not rates
    rates.follow({"10.0.0.1": 1.0, "::0001": 2.0, None: 3.0, "a.host": 1.0})
    assert rates
    for address, per_second in (("10.0.0.1", 1), ("0:0:0:0:0:0:0:1", 2), ("10.0.0.2", 3)):
        opened = [rates.throttle_ms(address, 5000) for _ in range(10 * per_second)]
        assert opened == [0] * (10 * per_second)
        assert rates.throttle_ms(address, 5000) == round(1000 / per_second)
        assert rates.throttle_ms(address, 5000) > 0
        assert rates.throttle_ms(address, 5000 + 12_000) == 0
    rates.follow({"10.0.0.1": NO_LIMIT, None: 1.0})
    assert rates
    assert [rates.throttle_ms("10.0.0.1", 5000) for _ in range(99)] == [0] * 99
    rates.follow({"10.0.0.1": NO_LIMIT})
    assert not rates
    rates.follow({"10.0.0.1": 1.0})
    assert [rates.throttle_ms("10.0.0.2", 5000) for _ in range(99)] == [0] * 99
