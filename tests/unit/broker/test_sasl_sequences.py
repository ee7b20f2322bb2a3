"""Whatever a client sends, in whatever pieces: it is served only behind a successful exchange, and never
again once it has failed.

What must happen is said by `Expected`, which knows the rules of KIP-43 and KIP-368 and nothing of the code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from config.authentication import SaslListener
from protocol.framing import encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from tests.support.rigs.desk import Desk
from tests.unit.broker.test_sasl_gate import (
    LISTENER,
    WITH_END,
    frames_of,
    guarded,
    handshake,
    heartbeat,
    token,
)

DELAY_MS = 100

FRAMES = {
    "versions": encode_request_frame(ApiVersionsRequest("x", "1"), 3, 1, "me"),
    "unknown versions": bytes.fromhex("0000000b 0012 0063 0000002a ffff 00"),
    "handshake": handshake(),
    "old handshake": handshake(version=0),
    "other handshake": handshake("GSSAPI"),
    "alice": token("\0alice\0secret"),
    "bob": token("\0bob\0b"),
    "wrong": token("\0alice\0wrong"),
    "raw alice": b"\0\0\0\x0d\0alice\0secret",
    "raw wrong": b"\0\0\0\x0c\0alice\0wrong",
    "negative size": b"\xff\xff\xff\xff",
    "too long": b"\0\1\0\0",
}
HEARTBEAT = "heartbeat"
BEGINNINGS = [
    [],
    ["handshake"],
    ["versions", "handshake", "wrong"],
    ["versions", "handshake", "alice"],
    ["old handshake", "raw alice"],
]
GARBAGE = (
    st.binary(max_size=30)
    .filter(lambda body: body[:1] != b"\0")
    .map(lambda body: len(body).to_bytes(4, "big") + body)
)
"""Frames that are a request of no API, and no right token."""


class Expected:
    """What a client may expect. served: the numbers of its heartbeats. answers: how many it gets. user: who
    it is, as far as it has proved that. is_dead: its connection is closed."""

    def __init__(self, listener: SaslListener) -> None:
        self.served: list[int] = []
        self.answers = 0
        self.user = ""
        self._has_end = listener is WITH_END
        self._again = False
        self._step = "begin"

    @property
    def is_dead(self) -> bool:
        return self._step == "dead"

    def take(self, item: str | bytes, number: int) -> None:
        steps = {
            "begin": self._begin,
            "chosen": self._choose,
            "tokens": self._prove,
            "raw tokens": self._prove_raw,
            "in": self._ask,
        }
        if not self.is_dead:
            step, answers = steps[self._step](item, number)
            self._step = step
            self.answers += answers

    def _begin(self, item: str | bytes, number: int) -> tuple[str, int]:
        if item in ("versions", "unknown versions"):
            return "chosen" if item == "versions" else "begin", 1
        return self._choose(item, number)

    def _choose(self, item: str | bytes, number: int) -> tuple[str, int]:
        following = {"handshake": "tokens", "old handshake": "raw tokens", "other handshake": "dead"}
        return (following[item], 1) if item in following and isinstance(item, str) else ("dead", 0)

    def _prove(self, item: str | bytes, number: int) -> tuple[str, int]:
        if item in ("alice", "bob") and self.user in ("", item):
            self.user = str(item)
            return "in", 1
        return "dead", int(item in ("alice", "bob", "wrong"))

    def _prove_raw(self, item: str | bytes, number: int) -> tuple[str, int]:
        if item == "raw alice" and self.user in ("", "alice"):
            self.user = "alice"
            return "in", 1
        return "dead", 0

    def _ask(self, item: str | bytes, number: int) -> tuple[str, int]:
        if item == HEARTBEAT:
            self.served.append(number)
            return "in", 1
        if item in ("versions", "unknown versions"):
            return "in", 1
        if item in ("handshake", "old handshake", "other handshake") and self._has_end and not self._again:
            self._again = True
            return self._choose(item, number)
        return "dead", 0


def pieces_of(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    at = 0
    for stop in sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)}):
        yield data[at:stop]
        at = stop


def send(desk: Desk, data: bytes, cuts: Sequence[int]) -> None:
    """As a client that waits for no answer. A socket keeps what the connection does not take yet."""
    for piece in pieces_of(data, cuts):
        at = 0
        while at < len(piece) and desk.rig.wire.closed is None:
            at += desk.rig.feed(piece[at:])
            if desk.connection.holds:
                desk.rig.timers.advance(DELAY_MS)
    desk.rig.timers.advance(DELAY_MS)


@given(
    st.sampled_from([LISTENER, WITH_END]),
    st.sampled_from([0, DELAY_MS]),
    st.sampled_from(BEGINNINGS),
    st.lists(st.one_of(st.sampled_from([*FRAMES, HEARTBEAT]), GARBAGE), max_size=8),
    st.lists(st.integers(0, 1000), max_size=6),
)
def test_only_who_has_authenticated_is_served_and_never_after_a_failure(
    listener: SaslListener,
    delay_ms: int,
    beginning: list[str],
    rest: list[str | bytes],
    cuts: list[int],
) -> None:
    expected = Expected(listener)
    data = b""
    for number, item in enumerate([*beginning, *rest]):
        expected.take(item, number)
        if isinstance(item, bytes):
            data += item
        else:
            data += heartbeat(number) if item == HEARTBEAT else FRAMES[item]
    desk, gate = guarded(listener, delay_ms)
    send(desk, data, cuts)
    served = [each.generation_id for each in desk.requests if isinstance(each, HeartbeatRequest)]
    assert served == expected.served
    assert (desk.rig.wire.closed is not None) == expected.is_dead
    assert len(frames_of(desk.rig.wire.sent)) == expected.answers
    if expected.served:
        assert {str(each.session.principal) for each in desk.contexts[-1:]} == {f"User:{expected.user}"}
    assert gate.counts.failed + gate.counts.failed_again <= 1
