"""Connections on real sockets: order of bytes and file slices, back pressure, peers that go."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from broker.network import socket_network
from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer, ListenerSettings
from broker.network.output import BytesLike, Transport, plain
from broker.network.response_pieces import Piece
from broker.network.server import ServerSettings
from broker.network.socket_network import large_receive_bytes
from broker.network.sockets import SocketChannel
from tests.support.rigs.file_slices import CountedFile, Slice
from tests.support.rigs.network_rig import Client, NetworkRig
from tests.support.rigs.sans_io import KIB, MIB, framed, other, produce


@pytest.fixture
def file(tmp_path: Path) -> CountedFile:
    path = tmp_path / "log"
    path.write_bytes(bytes(range(256)) * 4096 * 4)
    return CountedFile(path)


CONTENT = bytes(range(256)) * 4096 * 4


def serving_slices(rig: NetworkRig, file: CountedFile, in_memory: bool = False) -> None:
    """`position size` is answered with head, slice, middle, slice, foot."""

    def serve(
        connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        connection.now_ns = arrived_ns
        position, size = map(int, bytes(frame[2:]).split())
        slices = [Slice(file, position, size, in_memory), Slice(file, 0, 10, in_memory)]
        return [b"head", slices[0], b"middle", slices[1], b"foot"]

    rig.service.serve = serve  # type: ignore[method-assign]


def expected(position: int, size: int) -> bytes:
    return b"head" + CONTENT[position : position + size] + b"middle" + CONTENT[:10] + b"foot"


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("size", [0, 1, 70_000, 3 * MIB])
def test_slices_leave_in_order_between_their_headers(file: CountedFile, size: int, in_memory: bool) -> None:
    rig = NetworkRig()
    serving_slices(rig, file, in_memory)

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        for position in (0, 17, 300_000):
            await client.send(other(f"{position} {size}") + other(f"{position} 5"))
            answer = expected(position, size) + expected(position, 5)
            assert await client.receive(len(answer)) == answer
        assert file.references == 1

    rig.run(scenario)
    assert rig.acceptor.traffic.sent_bytes == 3 * len(expected(0, size) + expected(0, 5))


def test_slices_through_a_transport_that_sends_no_files(file: CountedFile) -> None:
    def make_transport(sock: socket.socket, settings: ListenerSettings) -> Transport:
        def receive(buffer: memoryview) -> int:
            count = sock.recv_into(buffer)
            buffer[:count] = bytes(byte ^ 0x5A for byte in buffer[:count])
            return count

        def send(data: BytesLike, flags: int) -> int:
            return sock.send(bytes(byte ^ 0x5A for byte in data[:50_000]), flags)

        return Transport(sock.fileno(), receive, send, False)

    rig = NetworkRig(make_transport=make_transport)
    serving_slices(rig, file)

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(bytes(byte ^ 0x5A for byte in other("5 300000")))
        answer = expected(5, 300_000)
        received = await client.receive(len(answer))
        assert bytes(byte ^ 0x5A for byte in received) == answer
        assert file.references == 1

    rig.run(scenario)


def test_slices_are_given_back_when_the_peer_goes(file: CountedFile) -> None:
    rig = NetworkRig()
    serving_slices(rig, file)

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect(SO_RCVBUF=4096)
        await client.send(b"".join(other(f"0 {4 * MIB}") for _ in range(20)))
        await rig.until(lambda: file.references > 10)
        client.reset()
        await rig.until(lambda: file.references == 1)
        assert rig.server.limits.count == 0

    rig.run(scenario)


def test_slices_are_given_back_when_the_server_ends(file: CountedFile) -> None:
    rig = NetworkRig()
    serving_slices(rig, file)

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect(SO_RCVBUF=4096)
        await client.send(other(f"0 {4 * MIB}"))
        await rig.until(lambda: file.references > 1)
        rig.server.abort("now")
        assert file.references == 1

    rig.run(scenario)


def test_a_file_that_shrank_costs_the_connection(file: CountedFile, tmp_path: Path) -> None:
    rig = NetworkRig()
    serving_slices(rig, file)

    async def scenario(rig: NetworkRig) -> None:
        client, neighbour = await rig.connect(), await rig.connect()
        os.truncate(tmp_path / "log", 1000)
        await client.send(other("900 200"))
        assert await client.receive(10_000) == b"head" + CONTENT[900:1000]
        await neighbour.send(other("0 100"))
        assert await neighbour.receive(len(expected(0, 100))) == expected(0, 100)
        assert file.references == 1

    rig.run(scenario)


def test_a_file_that_cannot_be_opened_costs_the_connection_and_keeps_no_other_open(
    file: CountedFile,
) -> None:
    class Unopenable(Slice):
        def fileno(self) -> int | None:
            raise OSError(errno.EMFILE, "Too many open files")

    rig = NetworkRig()

    def serve(
        connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        connection.now_ns = arrived_ns
        return [b"head", Slice(file, 0, 10), b"more", Unopenable(file, 0, 10), b"foot", Slice(file, 0, 10)]

    rig.service.serve = serve  # type: ignore[method-assign]

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(other("x"))
        await rig.until(lambda: rig.server.limits.count == 0)
        assert file.references == 1

    rig.run(scenario)


def test_a_reader_that_does_not_read_is_not_heard_until_it_does() -> None:
    rig = NetworkRig()
    rig.service.answer_bytes = 512 * KIB

    async def scenario(rig: NetworkRig) -> None:
        slow, neighbour = await rig.connect(SO_RCVBUF=8192), await rig.connect()
        await slow.send(b"".join(other(f"{number:04}") for number in range(200)))
        await neighbour.ask("neighbour", 10)
        served = len(rig.service.requests)
        assert served < 60, "8 MiB may wait, and what the kernel takes"
        size = 5 + 512 * KIB
        for number in range(200):
            answer = await slow.receive(size)
            assert (len(answer), answer[:5]) == (size, b"%04d!" % number)
        assert len(rig.service.requests) == 201

    rig.run(scenario)


def test_a_reader_that_does_not_read_but_asks_again_and_again() -> None:
    """Its answers pile up turn by turn, not in one; the bound is the same."""
    rig = NetworkRig()
    rig.service.answer_bytes = 512 * KIB

    async def scenario(rig: NetworkRig) -> None:
        slow, neighbour = await rig.connect(SO_RCVBUF=8192), await rig.connect()
        for number in range(200):
            await slow.send(other(f"{number:04}"))
            await asyncio.sleep(0.001)
        await neighbour.ask("neighbour", 10)
        assert len(rig.service.requests) < 60

    rig.run(scenario)


BEHIND = {"nothing": b"", "requests that are not read": other("unread") * 1000}


async def waits_with(rig: NetworkRig, behind: bytes) -> Client:
    """A client whose request waits, with more behind it."""
    client = await rig.connect()
    await client.send(other("wait"))
    await rig.until(lambda: rig.service.waiting)
    if behind:
        await client.send(behind)
        await rig.until(lambda: len(rig.network.disconnects) == 1)
    return client


@pytest.mark.parametrize("behind", BEHIND)
def test_a_peer_that_leaves_with_a_reset_while_it_waits_is_noticed(behind: str) -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await waits_with(rig, BEHIND[behind])
        client.reset()
        await rig.until(lambda: rig.server.limits.count == 0)
        assert rig.service.waiting["wait"].cancelled
        assert rig.service.requests == ["wait"]
        assert len(rig.network.disconnects) == 0

    rig.run(scenario)


@pytest.mark.parametrize("when", ["at once", "later"])
@pytest.mark.parametrize("behind", BEHIND)
def test_a_peer_that_resets_after_its_last_byte_is_noticed_too(behind: str, when: str) -> None:
    """The end of the stream has been seen, and only that the connection breaks is news."""
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await waits_with(rig, BEHIND[behind])
        client.sock.shutdown(socket.SHUT_WR)
        if when == "later":
            await asyncio.sleep(0.02)
            await rig.until(lambda: len(rig.network.disconnects) == 1)
            assert not rig.service.waiting["wait"].cancelled
        client.reset()
        await rig.until(lambda: rig.server.limits.count == 0)
        assert rig.service.waiting["wait"].cancelled
        assert rig.service.requests == ["wait"]
        assert len(rig.network.disconnects) == 0

    rig.run(scenario)


@pytest.mark.parametrize("closes", ["before it is read", "while it waits"])
def test_a_half_closed_peer_gets_the_answer_that_waits_and_those_behind_it(closes: str) -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        behind = other("a") + other("wait too") + other("b") + other("cut off")[:-1]
        if closes == "before it is read":
            client.sock.send(other("first") + other("wait") + behind)
            client.sock.shutdown(socket.SHUT_WR)
            await rig.until(lambda: rig.service.waiting)
        else:
            await client.send(other("first") + other("wait"))
            await rig.until(lambda: rig.service.waiting)
            await client.send(behind)
            client.sock.shutdown(socket.SHUT_WR)
        assert await client.receive(6) == b"first!"
        await asyncio.sleep(0.02)
        assert rig.service.requests == ["first", "wait"]
        for name, expected in (("wait", b"wait!a!"), ("wait too", b"wait too!b!")):
            await rig.until(lambda name=name: name in rig.service.waiting)  # type: ignore[misc]
            rig.service.answer(name)
            rig.timers.run_soon()
            assert await client.receive(len(expected)) == expected
        assert await client.at_end()
        await rig.until(lambda: rig.server.limits.count == 0)
        assert rig.service.requests == ["first", "wait", "a", "wait too", "b"]
        assert len(rig.network.disconnects) == 0

    rig.run(scenario)


def test_a_half_closed_peer_gets_its_acknowledgements() -> None:
    """Produce requests wait without a hold, so the stream is read to its end while they do."""
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        client.sock.send(produce("wait 1") + produce("wait 2") + produce("now"))
        client.sock.shutdown(socket.SHUT_WR)
        await rig.until(lambda: len(rig.service.requests) == 3)
        await rig.until(lambda: len(rig.network.disconnects) == 1)
        rig.service.answer("wait 2")
        rig.timers.run_soon()
        rig.service.answer("wait 1")
        rig.timers.run_soon()
        assert await client.receive(18) == b"wait 1!wait 2!now!"
        assert await client.at_end()
        await rig.until(lambda: rig.server.limits.count == 0)

    rig.run(scenario)


def test_a_peer_that_closes_both_sides_is_known_by_the_answer_that_it_refuses() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await waits_with(rig, b"")
        client.close()
        await asyncio.sleep(0.02)
        assert not rig.service.waiting["wait"].cancelled
        rig.service.answer("wait")
        rig.timers.run_soon()
        await rig.until(lambda: rig.server.limits.count == 0)

    rig.run(scenario)


@pytest.mark.parametrize("behind", BEHIND)
def test_what_waits_behind_the_end_of_a_stream_is_idle_at_last(behind: str) -> None:
    """A peer that is gone in silence looks like one that has sent its last byte and listens on."""
    rig = NetworkRig(settings=ServerSettings(connections_max_idle_ms=60_000))

    async def scenario(rig: NetworkRig) -> None:
        listens_on = await rig.connect()
        await listens_on.send(other("wait and listen"))
        await rig.until(lambda: rig.service.waiting)
        client = await rig.connect()
        await client.send(other("wait"))
        await rig.until(lambda: len(rig.service.waiting) == 2)
        if BEHIND[behind]:
            await client.send(BEHIND[behind])
            await rig.until(lambda: len(rig.network.disconnects) == 1)
        client.close()
        await rig.until(lambda: len(rig.network.disconnects) == 1)
        await asyncio.sleep(0.02)
        rig.timers.advance(59_000)
        assert rig.server.limits.count == 2
        rig.timers.advance(1_000)
        await rig.until(lambda: rig.server.limits.count == 1)
        assert rig.service.waiting["wait"].cancelled
        assert not rig.service.waiting["wait and listen"].cancelled

    rig.run(scenario)


def test_data_and_a_reset_that_arrive_together() -> None:
    """The loop tells of both at once and never again: the connection must not stay behind."""
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        for data in (b"\0", other("whole")[:9], produce("large")[:-1]):
            client = await rig.connect()
            await rig.until(lambda: rig.server.limits.count == 1)
            client.sock.send(data)
            client.reset()
            await rig.until(lambda: rig.server.limits.count == 0)

    rig.run(scenario)


def test_what_was_sent_behind_a_waiting_request_is_served_after_it() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(other("wait"))
        await rig.until(lambda: rig.service.waiting)
        await client.send(other("a") + other("b"))
        await rig.until(lambda: len(rig.network.disconnects) == 1)
        rig.service.answer("wait")
        rig.timers.run_soon()
        assert await client.receive(9) == b"wait!a!b!"
        assert await client.ask("c", 2) == b"c!"
        assert len(rig.network.disconnects) == 0

    rig.run(scenario)


def test_a_throttled_peer_that_leaves_is_still_heard_out() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        connection = next(rig.server.connections)
        rig.service.during = lambda text: connection.mute(1000) if text == "none 0" else None
        await client.send(produce("none 0"))
        await rig.until(lambda: rig.service.requests)
        await client.send(produce("none 1") + produce("none 2"))
        client.close()
        for _ in range(20):
            await asyncio.sleep(0)
        assert rig.service.requests == ["none 0"]
        rig.timers.advance(1000)
        await rig.until(lambda: rig.server.limits.count == 0)
        assert rig.service.requests == ["none 0", "none 1", "none 2"]

    rig.run(scenario)


def test_a_half_closed_peer_still_gets_its_answers() -> None:
    rig = NetworkRig()
    rig.service.answer_bytes = 8 * MIB

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(other("big"))
        client.sock.shutdown(socket.SHUT_WR)
        assert len(await client.receive(9 * MIB)) == 4 + 8 * MIB
        await rig.until(lambda: rig.server.limits.count == 0)

    rig.run(scenario)


def test_large_requests_come_in_over_a_socket() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        text = "x" * (5 * MIB)
        await client.send(other("first") + other(text) + other("last"))
        assert await client.receive(6 + len(text) + 1 + 5) == b"first!" + text.encode() + b"!last!"

    rig.run(scenario)


def test_a_malformed_frame_harms_nobody_else() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        bad, good = await rig.connect(), await rig.connect()
        await bad.send(b"GET / HTTP/1.1\r\n\r\n")
        assert await bad.at_end()
        assert await good.ask("hello", 6) == b"hello!"
        assert len(rig.service.complaints) == 1

    rig.run(scenario)


def test_many_requests_of_many_connections_come_out_in_order() -> None:
    rig = NetworkRig()

    async def talk(rig: NetworkRig, number: int) -> None:
        client = await rig.connect()
        texts = [f"{number}:{index}" for index in range(500)]
        sending: Any = asyncio.ensure_future(client.send(b"".join(other(text) for text in texts)))
        wanted = "".join(f"{text}!" for text in texts).encode()
        assert await client.receive(len(wanted)) == wanted
        await sending

    async def scenario(rig: NetworkRig) -> None:
        await asyncio.gather(*(talk(rig, number) for number in range(20)))

    rig.run(scenario)
    assert rig.acceptor.traffic.accepted == 20
    assert rig.acceptor.traffic.received_bytes == sum(
        len(framed(b"\0\1" + text.encode())) for text in rig.service.requests
    )


@pytest.mark.parametrize("chosen_bytes", [-1, 300 * KIB])
def test_the_kernel_takes_more_of_a_connection_that_brings_large_requests(
    monkeypatch: pytest.MonkeyPatch, chosen_bytes: int
) -> None:
    """But not where the operator has chosen a size."""
    monkeypatch.setattr(socket_network, "large_receive_bytes", lambda: MIB)
    rig = NetworkRig(receive_buffer_bytes=chosen_bytes)
    asked: list[int] = []
    monkeypatch.setattr(SocketChannel, "_widen", lambda channel: asked.append(channel._large_receive_bytes))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.ask("small", 6)
        assert asked == []
        for number in range(8):
            await client.ask(f"{number}" * 4 * MIB, 4 * MIB + 1)

    rig.run(scenario)
    assert set(asked) == ({MIB} if chosen_bytes < 0 else set())


def test_a_wider_receive_buffer_is_asked_for_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wanted: Any = ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        unused: Any = None
        channel = SocketChannel(
            ours, "somewhere", plain(ours), loop=unused, disconnects=unused, traffic=unused, on_closed=unused,
            large_receive_bytes=wanted,
        )  # fmt: skip
        channel._widen()
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * wanted, "the kernel doubles it"
        assert channel._large_receive_bytes == 0


@pytest.mark.parametrize(
    ("allowed", "asked"),
    [("212992", 0), (str(2 * MIB), 2 * MIB), (str(64 * MIB), 4 * MIB), ("nonsense", 0), (None, 0)],
)
def test_the_receive_buffer_keeps_to_what_the_machine_allows(
    tmp_path: Path, allowed: str | None, asked: int
) -> None:
    file = tmp_path / "rmem_max"
    if allowed is not None:
        file.write_text(f"{allowed}\n")
    assert large_receive_bytes(file) == asked
