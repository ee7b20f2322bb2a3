"""Strings as long as the protocol allows, and a byte longer, in every place where a client may put one.

Every API and version of both listeners is asked with each of its strings at the bound by itself, with all of
them together, in characters of one and of three bytes, in bytes that are no UTF-8, and with a client id of
that length; all the while another client creates and deletes topics, so that commits are pending. A string
at the bound is legal: the request is answered. It may come back in an answer, in a text that quotes it, in a
record, in an envelope to the controller, in a member id. None of that may be a fault of ours, let alone the
end of the node.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

from protocol.codec.compiler import encode
from protocol.codec.message import Message
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.registry import ApiKey, api
from tests.hostile.conftest import AnyBroker
from tests.hostile.test_bodies import served
from tests.support.brokers.against import barnabas_only
from tests.support.clients.raw_connection import RawConnection
from tests.support.clients.wire_client import WireClient
from tests.support.samples.messages import build

MAX: Final = 0x7FFF
OUR_FAULT: Final = "this is our fault"
SHORT: Final = "a"
THIRD: Final = "y" * (MAX // 3)
"""Put in as text and then replaced by bytes that are no UTF-8; as replacements they fill the bound."""

KINDS: Final = (0, 1, 4, 8, 16, 32, 99)
ONE_BYTE, THREE_BYTES = "x" * MAX, "日" * (MAX // 3)
TIMEOUTS: Final = {
    "max_wait_ms": 10,
    "timeout_ms": 5_000,
    "session_timeout_ms": 6_000,
    "rebalance_timeout_ms": 50,
    "transaction_timeout_ms": 1_000,
}


class Placed:
    """A `messages.Choice` that puts `text` where the n-th string stands, everywhere without a number.

    kind: the value of all int8: types of resources, of elections, of keys.
    """

    def __init__(self, text: str, number: int | None = None, kind: int = 2) -> None:
        self._text = text
        self._number = number
        self._kind = kind
        self.strings = 0
        self.has_kinds = False

    def integer(self, low: int, high: int) -> int:
        if high == 127:
            self.has_kinds = True
            return self._kind
        return min(max(5, low), high)

    def boolean(self) -> bool:
        return True

    def number(self) -> float:
        return 1.0

    def text(self) -> str:
        self.strings += 1
        return self._text if self._number in (None, self.strings) else SHORT

    def blob(self, size: int | None = None) -> bytes:
        return bytes(16 if size is None else size)

    def length(self) -> int:
        return 1


def request_of(key: int, version: int, choice: Placed) -> Message:
    request = build(api(key).request, version, choice)
    for name, value in TIMEOUTS.items():
        if hasattr(request, name):
            setattr(request, name, value)
    return request


def bodies(key: int, version: int) -> Iterator[tuple[str, bytes]]:
    counted = Placed(SHORT)
    request_of(key, version, counted)
    for number in range(1, counted.strings + 1):
        placed = Placed(ONE_BYTE, number)
        yield f"string {number}", encode(request_of(key, version, placed), version)
    for kind in KINDS if counted.has_kinds else ():
        yield f"all x, kind {kind}", encode(request_of(key, version, Placed(ONE_BYTE, kind=kind)), version)
    for name, text in (("x", ONE_BYTE), ("日", THREE_BYTES)):
        yield f"all {name}", encode(request_of(key, version, Placed(text)), version)
    whole = encode(request_of(key, version, Placed(THIRD)), version)
    yield "no UTF-8", whole.replace(THIRD.encode(), b"\xff" * len(THIRD))


def header(key: int, version: int, client_id: bytes = b"long") -> bytes:
    flexible = api(key).request.declaration.flexible.covers(version)
    number = (7).to_bytes(4, "big")
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + number + len(client_id).to_bytes(2, "big")
    return head + client_id + (b"\0" if flexible else b"")


class Churn:
    """Somebody who has topics made and deleted without a pause."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._end = threading.Event()
        self.rounds = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        topic = CreateTopicsRequest.CreatableTopic("churn", 1, 1)
        with WireClient(self._address, client_id="churn") as client:
            while not self._end.is_set():
                client.ask(CreateTopicsRequest([topic], 10_000), 7)
                client.ask(DeleteTopicsRequest(topic_names=["churn"], timeout_ms=10_000), 4)
                self.rounds += 1

    def __enter__(self) -> Churn:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(30)
        assert self.rounds > 1, "the neighbour was not served"


@barnabas_only
def test_strings_at_the_bound_everywhere(listener: str, victim: AnyBroker) -> None:
    faults_before = victim.log_file.read_text().count(OUR_FAULT)
    unanswered = []
    with Churn(victim.bootstrap_servers):
        for key, version in served(listener):
            cases = [(name, header(key, version) + body) for name, body in bodies(key, version)]
            small = encode(request_of(key, version, Placed(SHORT)), version)
            for name, client_id in (("x", b"x" * MAX), ("no UTF-8", b"\xff" * (MAX // 3))):
                cases.append((f"client id {name}", header(key, version, client_id) + small))
            for name, payload in cases:
                with RawConnection(listener, timeout_seconds=90) as client:
                    client.send_frame(payload)
                    if client.answer_or_end() is None:
                        unanswered.append(f"{ApiKey(key).name} {version}: {name}")
    text = victim.log_file.read_text()
    assert text.count(OUR_FAULT) == faults_before, text[-5000:]
    assert unanswered == []
