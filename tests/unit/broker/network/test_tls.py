"""Connections over TLS on real sockets: handshakes, records in any pieces, back-pressure, and the end."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer
from broker.network.limits import ConnectionLimits
from broker.network.response_pieces import Piece
from broker.network.tls.contexts import server_context
from broker.network.tls.filter import NoTls, TlsFilter, told
from broker.network.tls.handshakes import Handshakes
from config.limits import TLS_HANDSHAKE_MS, TLS_PART_BYTES, TLS_SILENT_BYTES, TLS_TURN_RECORDS
from protocol.serving.session import Principal
from tests.support.brokers.certificates import authority
from tests.support.rigs.file_slices import CountedFile, Slice
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.network_rig import NetworkRig
from tests.support.rigs.sans_io import KIB, MIB, framed, other
from tests.support.rigs.tls_rig import TlsClient, client_context, key_updates, tls_of

CONTENT = os.urandom(6 * MIB)


@pytest.fixture
def rig(tmp_path: Path) -> NetworkRig:
    return NetworkRig(tls=tls_of(tmp_path))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[CountedFile]:
    path = tmp_path / "log"
    path.write_bytes(CONTENT)
    counted = CountedFile(path)
    yield counted
    counted.release()
    assert counted.references == 0


def principals(rig: NetworkRig) -> list[Principal]:
    return [connection.session.principal for connection in rig.server.connections]


def test_requests_and_answers_in_order(rig: NetworkRig) -> None:
    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        for number in range(300):
            client.session.write(other(f"{number:04}"))
        await client.flush()
        assert await client.receive(300 * 5) == b"".join(b"%04d!" % number for number in range(300))
        assert principals(rig) == [Principal()]
        assert next(rig.server.connections).session.security_protocol == "SSL"

    rig.run(scenario)


def test_every_byte_by_itself(rig: NetworkRig) -> None:
    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        client.session.write(other("slow"))
        for byte in client.outgoing.read():
            await client.client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert await client.receive(5) == b"slow!"

    rig.run(scenario)


def test_a_request_behind_the_last_word_of_the_handshake(rig: NetworkRig) -> None:
    """The socket does not become readable for it again."""

    async def scenario(rig: NetworkRig) -> None:
        client = TlsClient(await rig.connect())
        with pytest.raises(ssl.SSLWantReadError):
            client.session.do_handshake()
        await client.flush()
        while True:
            await client.hear()
            try:
                client.session.do_handshake()
            except ssl.SSLWantReadError:
                continue
            break
        client.session.write(other("early"))
        await client.flush()
        assert await client.receive(6) == b"early!"

    rig.run(scenario)


def test_more_than_fits_the_receive_buffer_at_once(rig: NetworkRig) -> None:
    """What waits in the session is read without a readable socket, also behind a large request."""

    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        large = "a" + "x" * (3 * MIB)
        await client.send(framed(b"\0\1" + large.encode()) + other("behind"))
        answer = await client.receive(len(large) + 1 + 7)
        assert answer == large.encode() + b"!behind!"
        assert rig.service.requests == [large, "behind"]

    rig.run(scenario)


def test_requests_wait_while_one_is_answered(rig: NetworkRig) -> None:
    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        await client.send(other("wait") + other("b") * 200)
        await rig.until(lambda: rig.service.waiting)
        await client.send(other("c"))
        await asyncio.sleep(0.01)
        assert rig.service.requests == ["wait"]
        rig.service.answer("wait")
        assert await client.receive(5 + 400 + 2) == b"wait!" + b"b!" * 200 + b"c!"

    rig.run(scenario)


@pytest.mark.parametrize("in_memory", [False, True])
def test_slices_of_files_arrive_byte_by_byte_equal(
    rig: NetworkRig, file: CountedFile, in_memory: bool
) -> None:
    def serve(
        connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        connection.now_ns = arrived_ns
        begin, size = map(int, bytes(frame[2:]).split())
        return [b"head", Slice(file, begin, size, in_memory), b"foot"]

    rig.service.serve = serve  # type: ignore[method-assign]

    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig, SO_RCVBUF=16 * KIB)
        wanted = [(0, 6 * MIB), (7, 1), (100, TLS_PART_BYTES), (5 * MIB, MIB)]
        await client.send(b"".join(other(f"{begin} {size}") for begin, size in wanted))
        for begin, size in wanted:
            answer = await client.receive(size + 8)
            assert answer == b"head" + CONTENT[begin : begin + size] + b"foot"
        await rig.until(lambda: file.references == 1)

    rig.run(scenario)


def test_a_reader_that_does_not_read_is_not_heard_until_it_does(rig: NetworkRig) -> None:
    rig.service.answer_bytes = 512 * KIB

    async def scenario(rig: NetworkRig) -> None:
        slow, neighbour = await TlsClient.connect(rig, SO_RCVBUF=8192), await TlsClient.connect(rig)
        await slow.send(b"".join(other(f"{number:04}") for number in range(100)))
        await neighbour.ask("neighbour", 10)
        assert len(rig.service.requests) < 60, "8 MiB may wait, and what the kernel takes"
        size = 5 + 512 * KIB
        for number in range(100):
            answer = await slow.receive(size)
            assert (len(answer), answer[:5]) == (size, b"%04d!" % number)

    rig.run(scenario)


def test_half_closed_and_all_is_answered(rig: NetworkRig) -> None:
    """After its goodbye a client still gets its answers, and then the server's goodbye."""

    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        client.session.write(other("a") + other("wait"))
        with pytest.raises(ssl.SSLWantReadError):
            client.session.unwrap()
        await client.flush()
        await rig.until(lambda: rig.service.waiting)
        rig.service.answer("wait")
        assert await client.receive(100) == b"a!wait!"
        await rig.until(lambda: rig.server.limits.count == 0)

    rig.run(scenario)


def test_the_end_of_the_socket_is_the_end_of_the_stream(rig: NetworkRig) -> None:
    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        assert await client.ask("a", 2) == b"a!"
        client.client.sock.close()
        await rig.until(lambda: rig.server.limits.count == 0)
        assert rig.service.complaints == []

    rig.run(scenario)


def test_a_reset_right_behind_a_part_of_a_record(rig: NetworkRig) -> None:
    """Nothing is answered that the reset would refuse, and the loop tells of it once, as of data."""

    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        assert await client.ask("a", 2) == b"a!"
        client.session.write(other("x" * 1000))
        client.client.sock.send(client.outgoing.read()[:100])
        client.client.reset()
        await rig.until(lambda: rig.server.limits.count == 0)
        assert rig.service.complaints == []

    rig.run(scenario)


def test_the_server_says_goodbye(rig: NetworkRig) -> None:
    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        assert await client.ask("a", 2) == b"a!"
        rig.server.abort("now")
        while await client.hear():
            pass
        assert client.session.read(1) == b"", "a goodbye, and no stream that was cut off"

    rig.run(scenario)


# Records that bring little


def count_what_comes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of plaintext that each turn of a connection brings, from now on."""
    receive, turns = TlsFilter.receive, []

    def count(tls: TlsFilter, view: memoryview) -> int:
        turns.append(0)
        turns[-1] = receive(tls, view)
        return turns[-1]

    monkeypatch.setattr(TlsFilter, "receive", count)
    return turns


def test_small_records_take_many_turns(rig: NetworkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = count_what_comes(monkeypatch)

    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        for byte in other("x" * 2000):
            client.session.write(bytes([byte]))
        await client.flush()
        assert await client.receive(2001) == b"x" * 2000 + b"!"
        assert sum(turns) == 2006
        assert max(turns) <= 2 * TLS_TURN_RECORDS, "the handshake's last turn has left as many at most"

    rig.run(scenario)


@pytest.mark.parametrize("is_early", [False, True])
def test_a_peer_that_asks_for_new_keys_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_early: bool
) -> None:
    """Some are borne, and the connection goes on; it ends when they are too many. is_early: they come with
    the last word of the handshake."""
    rig = NetworkRig(tls=tls_of(tmp_path))
    context = client_context()
    context.keylog_filename = str(tmp_path / "keys")
    turns = count_what_comes(monkeypatch)

    async def scenario(rig: NetworkRig) -> None:
        client, neighbour = TlsClient(await rig.connect(), context), await TlsClient.connect(rig)
        if is_early:
            with pytest.raises(ssl.SSLWantReadError):
                client.session.do_handshake()
            await client.flush()
            await client.hear()
            client.session.do_handshake()
        else:
            await client.shake_hands()
        records = key_updates(tmp_path / "keys")
        await client.client.send(client.outgoing.read() + b"".join(islice(records, 2 * TLS_TURN_RECORDS)))
        assert await neighbour.ask("a", 2) == b"a!"
        assert rig.server.limits.count == 2
        before = len(turns)
        with suppress(OSError):
            await client.client.send(b"".join(islice(records, TLS_SILENT_BYTES // 27)))
        await rig.until(lambda: rig.server.limits.count == 1)
        assert len(turns) - before > TLS_SILENT_BYTES // 27 // TLS_TURN_RECORDS // 2
        assert "bytes of TLS records have brought no data" in caplog.text
        assert await neighbour.ask("b", 2) == b"b!"

    rig.run(scenario)


# Handshakes that come to nothing


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (other("plain"), "as of a Kafka client without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "as of HTTP"),
        (b"\xff\xfe", "the first bytes are ff fe"),
        (b"\x16\x03\x01\x00\x05hello", "TLS failed:"),
    ],
)
def test_what_is_no_handshake_ends_with_one_line(rig: NetworkRig, data: bytes, seen: str) -> None:
    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(data)
        await rig.until(lambda: rig.server.limits.count == 0 and rig.service.complaints)
        (complaint,) = rig.service.complaints
        assert seen in complaint
        assert rig.service.requests == []

    rig.run(scenario)


def test_tls_on_a_plaintext_listener_is_named() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = TlsClient(await rig.connect())
        with pytest.raises(ssl.SSLWantReadError):
            client.session.do_handshake()
        await client.flush()
        assert await client.client.at_end()
        (complaint,) = rig.service.complaints
        assert complaint.startswith("the first bytes are 16 03 01 ")
        assert "a TLS handshake, and the listener speaks PLAINTEXT" in complaint

    rig.run(scenario)


def test_many_that_never_finish_cost_little_and_end_in_time(rig: NetworkRig) -> None:
    async def scenario(rig: NetworkRig) -> None:
        silent = [await rig.connect() for _ in range(100)]
        begun = TlsClient(await rig.connect())
        with pytest.raises(ssl.SSLWantReadError):
            begun.session.do_handshake()
        await begun.client.send(begun.outgoing.read()[:50])
        neighbour = await TlsClient.connect(rig)
        assert await neighbour.ask("a", 2) == b"a!"
        assert rig.server.limits.count == 102
        rig.timers.advance(TLS_HANDSHAKE_MS - 1)
        assert rig.server.limits.count == 102
        rig.timers.advance(1)
        await rig.until(lambda: rig.server.limits.count == 1)
        assert rig.service.complaints == ["no complete TLS handshake within 30 seconds"] * 101
        assert await silent[0].at_end()
        assert await neighbour.ask("b", 2) == b"b!"

    rig.run(scenario)


def test_handshakes_take_turns() -> None:
    """A turn of the loop ends after 2 ms of them, and those that come later wait behind the others."""
    clock = HandClock()
    called: list[int] = []
    soon: list[Callable[[], None]] = []
    handshakes = Handshakes(soon.append, clock, HandTimers(clock))

    def handshake(number: int) -> Callable[[], None]:
        def go_on() -> None:
            called.append(number)
            clock.move(0.6)

        return go_on

    for number in range(6):
        handshakes.add(handshake(number))
    assert (len(soon), called) == (1, [])
    soon.pop()()
    assert (len(soon), called) == (1, [0, 1, 2, 3])
    handshakes.add(handshake(6))
    assert len(soon) == 1
    soon.pop()()
    assert (soon, called) == ([], [0, 1, 2, 3, 4, 5, 6])


def test_others_are_served_between_handshakes(rig: NetworkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred clients come at once; a request of another one does not wait for all of them."""
    shake_hands = TlsFilter.shake_hands
    seen: list[int] = []

    def slow(self: TlsFilter) -> bool:
        rig.clock.move(3)
        seen.append(len(rig.service.requests))
        return shake_hands(self)

    async def scenario(rig: NetworkRig) -> None:
        neighbour = await TlsClient.connect(rig)
        coming = [TlsClient(await rig.connect()) for _ in range(100)]
        monkeypatch.setattr(TlsFilter, "shake_hands", slow)
        for client in coming:
            with pytest.raises(ssl.SSLWantReadError):
                client.session.do_handshake()
            client.client.sock.send(client.outgoing.read())
        neighbour.session.write(other("a"))
        neighbour.client.sock.send(neighbour.outgoing.read())
        assert await neighbour.receive(2) == b"a!"
        await rig.until(lambda: len(seen) >= 100)
        assert seen.index(1) < 5

    rig.run(scenario)


def test_a_handshake_has_a_bound_in_bytes(tmp_path: Path) -> None:
    """A client may show as many certificates as it likes, until it is told to stop."""
    rig = NetworkRig(tls=tls_of(tmp_path, client_auth="requested"))
    identity = authority().issue("alice")
    chain = tmp_path / "chain.pem"
    chain.write_text(identity.key_pem() + identity.certificate_pem + authority().certificate_pem * 600)
    context = client_context()
    context.load_cert_chain(chain)

    async def scenario(rig: NetworkRig) -> None:
        client = TlsClient(await rig.connect(), context)
        with suppress(ssl.SSLError, OSError):
            await client.shake_hands()
        await rig.until(lambda: rig.service.complaints)
        (complaint,) = rig.service.complaints
        assert complaint == "TLS failed: excessive message size"
        assert rig.server.limits.count == 0

    rig.run(scenario)


def test_a_handshake_without_an_end(rig: NetworkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.network.tls.filter.TLS_HANDSHAKE_BYTES", 100)

    async def scenario(rig: NetworkRig) -> None:
        client = TlsClient(await rig.connect())
        with pytest.raises(ssl.SSLWantReadError):
            client.session.do_handshake()
        await client.flush()
        assert await client.client.at_end()
        (complaint,) = rig.service.complaints
        assert complaint.startswith("no end of the TLS handshake after ")

    rig.run(scenario)


def test_limits_count_connections_before_their_handshake(tmp_path: Path) -> None:
    rig = NetworkRig(tls=tls_of(tmp_path), limits=ConnectionLimits(maximum_per_ip=2))

    async def scenario(rig: NetworkRig) -> None:
        for _ in range(2):
            await rig.connect()
        await rig.until(lambda: rig.server.limits.count == 2)
        assert await (await rig.connect()).at_end()

    rig.run(scenario)


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS failed: tlsv1 alert protocol version"),
        (b"\0\0\0\x08", "no TLS handshake: the first bytes are 00 00 00 08"),
    ],
)
def test_what_a_node_tells_of_a_peer_that_refuses_it(answer: bytes, seen: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        make_session = partial(client_context().wrap_bio, server_hostname="127.0.0.1")
        tls = TlsFilter(ours, make_session, memoryview(bytearray(1000)), awaits_peer=False)
        assert not tls.shake_hands()
        theirs.send(answer)
        with pytest.raises((ssl.SSLError, NoTls)) as refused:
            tls.shake_hands()
        error = refused.value
        assert seen in (told(error) if isinstance(error, ssl.SSLError) else str(error))


# Certificates of clients


def test_one_complaint_about_a_session_that_breaks(rig: NetworkRig, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        await client.client.send(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        await rig.until(lambda: rig.server.limits.count == 0)
        (complaint,) = rig.service.complaints
        assert complaint.startswith("TLS failed: ")
        assert caplog.records == []

    rig.run(scenario)


def test_a_fault_of_ours_ends_its_connection_alone(rig: NetworkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.service.may_fail = True

    async def scenario(rig: NetworkRig) -> None:
        neighbour = await TlsClient.connect(rig)
        assert await neighbour.ask("a", 2) == b"a!"
        with monkeypatch.context() as broken:
            broken.setattr("broker.network.tls.filter.TlsFilter.shake_hands", lambda self: 1 // 0)
            client = await rig.connect()
            await client.send(b"x")
            assert await client.at_end()
        assert rig.service.failures == 1
        assert await neighbour.ask("b", 2) == b"b!"

    rig.run(scenario)


# Records that are broken


@pytest.mark.parametrize("seed", range(40))
def test_broken_records_end_the_connection_alone(rig: NetworkRig, seed: int) -> None:
    chance = random.Random(seed)

    async def scenario(rig: NetworkRig) -> None:
        client, neighbour = await TlsClient.connect(rig), await TlsClient.connect(rig)
        client.session.write(other("x" * chance.randrange(1, 5_000)))
        record = bytearray(client.outgoing.read())
        for _ in range(chance.randrange(1, 4)):
            record[chance.randrange(len(record))] ^= 1 << chance.randrange(8)
        await client.client.send(bytes(record))
        client.client.sock.shutdown(1)
        await rig.until(lambda: rig.server.limits.count == 1)
        assert rig.service.requests == []
        assert await neighbour.ask("b", 2) == b"b!"

    rig.run(scenario)


@pytest.mark.parametrize("seed", range(40))
def test_broken_handshakes_end_the_connection_alone(rig: NetworkRig, seed: int) -> None:
    chance = random.Random(seed)

    async def scenario(rig: NetworkRig) -> None:
        client = TlsClient(await rig.connect())
        with pytest.raises(ssl.SSLWantReadError):
            client.session.do_handshake()
        hello = bytearray(client.outgoing.read())
        for _ in range(chance.randrange(1, 6)):
            hello[chance.randrange(len(hello))] = chance.randrange(256)
        await client.client.send(bytes(hello[: chance.randrange(1, len(hello) + 1)]))
        client.client.sock.shutdown(1)
        await rig.until(lambda: rig.server.limits.count == 0)
        neighbour = await TlsClient.connect(rig)
        assert await neighbour.ask("b", 2) == b"b!"

    rig.run(scenario)


def test_a_client_that_renegotiates_is_refused(tmp_path: Path) -> None:
    """Python's client cannot ask for it; the option that forbids it is what can be seen."""
    context = server_context(tls_of(tmp_path))
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
