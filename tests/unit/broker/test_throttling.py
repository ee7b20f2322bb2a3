"""A throttle of a fixed time before every API of both listeners: told in each answer that can tell it, the
answer leaves at once, and then the connection is deaf for that time (KIP-219)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from broker.dispatch.dispatcher import Dispatcher
from broker.handlers.table import broker_handlers
from broker.network.connection import MUTED
from broker.quotas.throttle import AsTold
from broker.security.authorizer import AllowAll
from controller.handler_table import controller_handlers
from protocol.codec.message import Message
from protocol.codec.schema import schema
from protocol.framing import decode_response, encode_request_frame
from protocol.messages.create_topics import CreateTopicsResponse
from protocol.registry import ApiKey, api
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import HandlerTable, serve
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from tests.support.rigs.sans_io import Rig
from tests.support.samples.messages import RandomChoice, build

THROTTLE_MS: Final = 250
TABLES: Final = {"broker": broker_handlers, "controller": controller_handlers}


class FixedThrottle:
    """Always the same, and it counts how often it was asked, and of how many bytes."""

    def __init__(self) -> None:
        self.asked = 0
        self.sizes: list[tuple[int, int]] = []
        self.exempt: list[bool] = []

    def throttle_ms(
        self, context: RequestContext, *, response_bytes: int, elapsed_ns: int, is_exempt: bool
    ) -> int:
        self.asked += 1
        self.sizes.append((context.frame_size_bytes, response_bytes))
        self.exempt.append(is_exempt)
        return THROTTLE_MS

    def unanswered_ms(self, context: RequestContext) -> int:
        return 0

    def applies_to(self, context: RequestContext) -> bool:
        return True


def served(listener: str) -> list[tuple[str, ApiKey, int]]:
    table = TABLES[listener]()
    found = []
    for key in ApiKey:
        registration = table.get(key)
        if registration is not None:
            versions = range(registration.min_version, registration.max_version + 1)
            found += [(listener, key, version) for version in versions]
    return found


EVERYTHING: Final = served("broker") + served("controller")


def answering(listener: str, answer: Callable[[ApiKey], Any]) -> HandlerTable:
    """The real table's APIs and versions, with handlers that answer what the test wants."""
    real = TABLES[listener]()

    def made(key: ApiKey) -> Callable[[Any, RequestContext, Any], Any]:
        def handle(services: Any, context: RequestContext, request: Any) -> Any:
            return answer(key)

        return handle

    rows = [
        serve(row.api_key, made(row.api_key), versions=(row.min_version, row.max_version)) for row in real
    ]
    return HandlerTable(listener, rows)


def desk(listener: str, answer: Callable[[ApiKey], Any], authorizer: Any = None) -> tuple[Rig, FixedThrottle]:
    rig, throttle = Rig(), FixedThrottle()
    dispatcher = Dispatcher(
        answering(listener, answer),
        None,
        clock=rig.clock,
        authorizer=authorizer or AllowAll(),
        lane=rig.lane,
        throttle=throttle,
    )
    rig.service = dispatcher  # type: ignore[assignment]
    rig.connection = rig.another()
    return rig, throttle


def request(key: ApiKey, version: int) -> bytes:
    return encode_request_frame(build(api(key).request, version, RandomChoice(key)), version, 9, "me")


def tells(key: ApiKey, version: int) -> bool:
    """Whether the response has the field at that version."""
    return any(
        field.name == "throttle_time_ms" and field.present.covers(version)
        for field in schema(api(key).response)
    )


def told(rig: Rig, key: ApiKey, version: int, which: int = -1) -> int:
    response: Any = decode_response(api(key).response, version, memoryview(rig.wire.sends[which])[4:])[1]
    return int(response.throttle_time_ms)


def sends(rig: Rig) -> int:
    return len(rig.wire.sends)


@pytest.mark.parametrize(("listener", "key", "version"), EVERYTHING)
def test_the_answer_tells_it_and_the_connection_is_deaf_after_it(
    listener: str, key: ApiKey, version: int
) -> None:
    rig, throttle = desk(listener, lambda asked: api(asked).response())
    asked = request(key, version)
    rig.feed(asked)
    assert sends(rig) == 1, "the answer does not wait"
    assert throttle.sizes == [(len(asked) - 4, len(rig.wire.sends[0]) - 4)]
    if tells(key, version):
        assert told(rig, key, version) == THROTTLE_MS
    assert rig.connection.holds == MUTED
    rig.timers.advance(THROTTLE_MS - 1)
    assert rig.connection.holds == MUTED
    assert rig.feed(request(key, version)) == 0, "nothing is read meanwhile"
    rig.timers.advance(1)
    assert rig.connection.holds == 0
    rig.feed(request(key, version))
    assert (sends(rig), throttle.asked) == (2, 2)


def test_who_cannot_tell_it() -> None:
    """Of the newest versions on the broker's listener only these lack the field: those of SASL, whose
    exchange no quota sees, one of brokers, and one of the quorum."""
    newest = {key: version for _, key, version in served("broker")}
    cannot = [key.name for key, version in newest.items() if not tells(key, version)]
    assert cannot == ["SASL_HANDSHAKE", "WRITE_TXN_MARKERS", "SASL_AUTHENTICATE", "DESCRIBE_QUORUM"]


def test_a_pending_answer_is_throttled_when_it_comes() -> None:
    pendings: list[Pending[Message]] = []

    def later(key: ApiKey) -> Any:
        pendings.append(Pending())
        return pendings[-1]

    rig, throttle = desk("broker", later)
    rig.feed(request(ApiKey.FETCH, 12))
    assert (sends(rig), throttle.asked) == (0, 0)
    pendings[0].complete(api(ApiKey.FETCH).response())
    rig.timers.run_soon()
    assert told(rig, ApiKey.FETCH, 12) == THROTTLE_MS
    assert rig.connection.holds == MUTED


def test_no_answer_no_throttle() -> None:
    """Produce with acks=0 is never answered, and request quotas do not count it."""
    rig, throttle = desk("broker", lambda key: None)
    rig.feed(request(ApiKey.PRODUCE, 9))
    assert (sends(rig), throttle.asked) == (0, 0)
    assert rig.connection.holds == 0


class Allowing:
    """Allows one operation on the cluster, or none."""

    def __init__(self, *allowed: Operation) -> None:
        self.allowed = allowed

    def authorize(
        self, context: RequestContext, operation: Operation, kind: Any, name: str, log: bool = True
    ) -> bool:
        return operation in self.allowed


@pytest.mark.parametrize("allowed", [[], [Operation.ALTER], [Operation.CLUSTER_ACTION]])
def test_markers_take_nothing_of_quotas_if_their_client_may_write_them(allowed: list[Operation]) -> None:
    rig, throttle = desk("broker", lambda asked: api(asked).response(), Allowing(*allowed))
    rig.feed(request(ApiKey.WRITE_TXN_MARKERS, 2))
    assert throttle.exempt == [bool(allowed)]


def test_a_client_of_a_controller_is_muted_for_what_its_answer_tells() -> None:
    rig, _ = desk("controller", lambda asked: CreateTopicsResponse(throttle_time_ms=THROTTLE_MS))
    service: Any = rig.service
    service.throttle_by(AsTold())
    rig.feed(request(ApiKey.CREATE_TOPICS, 5))
    assert told(rig, ApiKey.CREATE_TOPICS, 5) == THROTTLE_MS
    assert rig.connection.holds == MUTED
    rig.timers.advance(THROTTLE_MS)
    assert rig.connection.holds == 0
    rig.connection.session.is_in_process = True
    rig.feed(request(ApiKey.CREATE_TOPICS, 5))
    assert rig.connection.holds == 0, "a node does not mute itself"
