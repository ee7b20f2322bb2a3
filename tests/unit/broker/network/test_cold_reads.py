"""Slices whose bytes are not in memory leave by a helper thread; the loop and the descriptor stay safe."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.network.cold_reads import ColdReads
from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer, ListenerSettings
from broker.network.output import Transport, plain
from broker.network.response_pieces import NOTHING_WARM, Piece
from broker.network.sockets import SocketChannel
from config.tls_settings import TlsSettings
from tests.support.rigs.file_slices import CountedFile, Slice
from tests.support.rigs.hand_clock import HandClock
from tests.support.rigs.network_rig import NetworkRig
from tests.support.rigs.sans_io import MIB, other
from tests.support.rigs.tls_rig import TlsClient, tls_of

CONTENT = os.urandom(4 * MIB)


class HandOffload:
    """Runs a call when the test says so, on the loop's own thread."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, call: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.calls.append((call, done))

    def run_one(self) -> None:
        call, done = self.calls.pop(0)
        result: Any
        try:
            result = call()
        except OSError as error:
            result = error
        done(result)


class Scripted(ColdReads):
    """Says how much is in memory as the test wants it."""

    def __init__(self, offload: HandOffload, warm_bytes: int = 0) -> None:
        super().__init__(offload, HandClock())
        self.told_warm_bytes = warm_bytes
        self.asked: list[tuple[int, int]] = []

    def asked_is_warm(self, descriptor: int, position: int, size_bytes: int) -> bool:
        self.asked.append((position, size_bytes))
        return size_bytes <= self.told_warm_bytes


class RecentSlice(Slice):
    @property
    def is_recent(self) -> bool:
        return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_bytes(CONTENT)
    return path


def rig_with(
    file: CountedFile,
    cold: ColdReads,
    kind: type[Slice] = Slice,
    make_transport: Callable[[socket.socket, ListenerSettings], Transport] | None = None,
    tls: TlsSettings | None = None,
) -> NetworkRig:
    """A server that answers `position size` with head, slice, foot."""
    rig = NetworkRig(cold=cold, make_transport=make_transport, tls=tls)
    cold._clock = rig.clock

    def serve(
        connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        connection.now_ns = arrived_ns
        position, size = map(int, bytes(frame[2:]).split())
        return [b"head", kind(file, position, size), b"foot"]

    rig.service.serve = serve  # type: ignore[method-assign]
    return rig


def expected(position: int, size: int) -> bytes:
    return b"head" + CONTENT[position : position + size] + b"foot"


def test_a_cold_slice_leaves_by_helper_threads_in_order(path: Path) -> None:
    file, offload = CountedFile(path), HandOffload()
    rig = rig_with(file, cold := Scripted(offload))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(other(f"0 {3 * MIB}") + other("5 100"))
        reading = asyncio.ensure_future(client.receive(3 * MIB + 8 + 108))
        while not reading.done():
            if offload.calls:
                offload.run_one()
            await asyncio.sleep(0)
        assert reading.result() == expected(0, 3 * MIB) + expected(5, 100)
        await rig.until(lambda: file.references == 1)

    rig.run(scenario)
    assert cold.parts >= 4, "three parts of 1 MiB and the small slice"


def test_what_is_in_memory_goes_at_once_and_the_rest_by_a_helper(path: Path) -> None:
    file, offload = CountedFile(path), HandOffload()
    rig = rig_with(file, cold := Scripted(offload, warm_bytes=1000))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(other("0 1000"))
        assert await client.receive(1008) == expected(0, 1000)
        assert not offload.calls
        cold.told_warm_bytes = 0
        rig.clock.move(1000)
        await client.send(other("0 1000"))
        await rig.until(lambda: offload.calls)
        assert await client.receive(4) == b"head"
        cold.told_warm_bytes = 1000
        offload.run_one()
        assert await client.receive(1004) == expected(0, 1000)[4:]

    rig.run(scenario)


def test_a_recent_slice_is_not_asked_for(path: Path) -> None:
    rig = rig_with(CountedFile(path), cold := Scripted(HandOffload()), RecentSlice)

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        assert await client.ask("7 5000", 5008) == expected(7, 5000)

    rig.run(scenario)
    assert cold.asked == []


def test_a_slice_that_leaves_in_parts_is_asked_for_once(path: Path) -> None:
    file = CountedFile(path)
    rig = rig_with(file, cold := Scripted(HandOffload(), warm_bytes=4 * MIB))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        assert await client.ask(f"0 {4 * MIB}", 4 * MIB + 8) == expected(0, 4 * MIB)
        await rig.until(lambda: file.references == 1)

    rig.run(scenario)
    assert len(cold.asked) == 1


def test_a_file_that_is_read_in_order_is_asked_for_ahead(path: Path) -> None:
    file = CountedFile(path)
    rig = rig_with(file, cold := Scripted(HandOffload(), warm_bytes=4 * MIB))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        for position in range(0, 2_000_000, 10_000):
            assert await client.ask(f"{position} 10000", 10_008) == expected(position, 10_000)
        asked = len(cold.asked)
        assert cold.asked[:3] == [(0, 10_000), (10_000, 20_000), (30_000, 40_000)]
        assert asked < 10, "not for each of two hundred slices"
        rig.clock.move(1000)
        await client.ask("2000000 10000", 10_008)
        assert len(cold.asked) == asked + 1, "what was said is not believed for ever"

    rig.run(scenario)


def test_where_the_file_ahead_is_cold_only_the_slice_is_asked_for(path: Path) -> None:
    file, offload = CountedFile(path), HandOffload()
    rig = rig_with(file, cold := Scripted(offload, warm_bytes=1000))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        for position in (0, 1000, 2000):
            assert await client.ask(f"{position} 1000", 1008) == expected(position, 1000)
        assert cold.asked == [(0, 1000), (1000, 2000), (1000, 1000), (2000, 2000), (2000, 1000)]
        cold.told_warm_bytes = 0
        await client.send(other("3000 1000"))
        await rig.until(lambda: offload.calls)
        assert file.warm == NOTHING_WARM
        cold.told_warm_bytes = 1000
        offload.run_one()
        assert await client.receive(1008) == expected(3000, 1000)

    rig.run(scenario)


def test_nothing_behind_the_end_of_a_file_is_asked_for(path: Path) -> None:
    rig = rig_with(CountedFile(path), cold := Scripted(HandOffload(), warm_bytes=4 * MIB))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        for position in (0, 2 * MIB, 3 * MIB):
            size = min(2 * MIB, 4 * MIB - position) - 7
            assert await client.ask(f"{position} {size}", size + 8) == expected(position, size)
        assert all(position + size <= 4 * MIB for position, size in cold.asked)

    rig.run(scenario)


def test_a_slice_that_waited_long_is_asked_for_again(path: Path) -> None:
    """Its bytes may have left the memory while the peer took no answers."""
    file, offload = CountedFile(path), HandOffload()
    rig = rig_with(file, cold := Scripted(offload, warm_bytes=4 * MIB))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect(SO_RCVBUF=64 * 1024)
        await client.send(other(f"0 {4 * MIB}"))
        await rig.until(lambda: any(each._writing for each in rig.server._channels))  # type: ignore[attr-defined]
        cold.told_warm_bytes = 0
        rig.clock.move(1000)
        reading = asyncio.ensure_future(client.receive(4 * MIB + 8))
        await rig.until(lambda: offload.calls)
        while not reading.done():
            if offload.calls:
                offload.run_one()
            await asyncio.sleep(0)
        assert reading.result() == expected(0, 4 * MIB)

    rig.run(scenario)


def test_a_full_socket_is_not_asked_to_take_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, refused, sendfile = CountedFile(path), 0, os.sendfile

    def counted(target: int, descriptor: int, position: int, size_bytes: int) -> int:
        nonlocal refused
        try:
            return sendfile(target, descriptor, position, size_bytes)
        except BlockingIOError:
            refused += 1
            raise

    monkeypatch.setattr(os, "sendfile", counted)
    rig = rig_with(file, Scripted(HandOffload(), warm_bytes=4 * MIB))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        for _ in range(2):
            assert await client.ask(f"0 {3 * MIB}", 3 * MIB + 8) == expected(0, 3 * MIB)

    rig.run(scenario)
    assert refused == 0


def test_other_connections_go_on_while_one_waits_for_the_disk(path: Path) -> None:
    offload = HandOffload()
    rig = rig_with(CountedFile(path), cold := Scripted(offload))

    async def scenario(rig: NetworkRig) -> None:
        slow, quick = await rig.connect(), await rig.connect()
        await slow.send(other("0 1000"))
        await rig.until(lambda: offload.calls)
        cold.told_warm_bytes = MIB
        for _ in range(10):
            assert await quick.ask("3 50", 58) == expected(3, 50)
        offload.run_one()
        assert await slow.receive(1008) == expected(0, 1000)

    rig.run(scenario)


def test_the_descriptor_is_kept_until_the_helper_is_done(path: Path) -> None:
    """A number that is free again may be another client's connection: the helper must not write to that."""
    file, offload = CountedFile(path), HandOffload()
    rig = rig_with(file, Scripted(offload))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(other(f"0 {MIB}"))
        await rig.until(lambda: offload.calls)
        (channel,) = rig.server._channels
        assert isinstance(channel, SocketChannel)
        channel.abort("the test wants it")
        assert not channel.open
        assert rig.server.connection_count("PLAINTEXT") == 1
        os.fstat(channel.descriptor)  # still open
        assert file.references == 2, "the file too"
        offload.run_one()
        assert rig.server.connection_count("PLAINTEXT") == 0
        assert file.references == 1
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(channel.descriptor)

    rig.run(scenario)


def test_a_peer_that_reads_slowly_is_waited_for_by_the_loop(path: Path) -> None:
    file, offload = CountedFile(path), HandOffload()

    def narrow(sock: socket.socket, settings: ListenerSettings) -> Transport:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        return plain(sock)

    rig = rig_with(file, Scripted(offload), make_transport=narrow)

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect(SO_RCVBUF=64 * 1024)
        await client.send(other(f"0 {2 * MIB}"))
        for _ in range(5):
            await rig.until(lambda: offload.calls)
            offload.run_one()
            if any(isinstance(each, SocketChannel) and each._writing for each in rig.server._channels):
                break  # the socket is full: the loop waits for it, no thread does
        else:
            raise AssertionError("2 MiB went into a socket whose peer reads nothing")
        assert not offload.calls
        reading = asyncio.ensure_future(client.receive(2 * MIB + 8))
        while not reading.done():
            if offload.calls:
                offload.run_one()
            await asyncio.sleep(0)
        assert reading.result() == expected(0, 2 * MIB)

    rig.run(scenario)


def test_a_file_that_shrank_ends_the_connection(path: Path) -> None:
    file, offload = CountedFile(path), HandOffload()
    rig = rig_with(file, Scripted(offload))

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(other("0 1000"))
        await rig.until(lambda: offload.calls)
        os.truncate(path, 0)
        offload.run_one()
        assert await client.receive(100) in (b"head", b"")
        assert file.references == 1

    rig.run(scenario)


def test_a_transport_that_sends_no_files_has_cold_parts_read_by_a_helper(path: Path) -> None:
    offload = HandOffload()

    def filtered(sock: socket.socket, settings: ListenerSettings) -> Transport:
        return plain(sock)._replace(sends_files=False)

    rig = rig_with(CountedFile(path), cold := Scripted(offload), make_transport=filtered)

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(other(f"1 {MIB}"))
        reading = asyncio.ensure_future(client.receive(MIB + 8))
        while not reading.done():
            if offload.calls:
                offload.run_one()
            await asyncio.sleep(0)
        assert reading.result() == expected(1, MIB)

    rig.run(scenario)
    assert cold.parts == 4


def test_over_tls_cold_parts_are_read_by_a_helper_and_encrypted_in_order(path: Path, tmp_path: Path) -> None:
    offload = HandOffload()
    file = CountedFile(path)
    rig = rig_with(file, cold := Scripted(offload), tls=tls_of(tmp_path))

    async def scenario(rig: NetworkRig) -> None:
        client, leaving = await TlsClient.connect(rig), await TlsClient.connect(rig)
        await client.send(other(f"1 {MIB}") + other("5 10"))
        reading = asyncio.ensure_future(client.receive(MIB + 8 + 18))
        while not reading.done():
            if offload.calls:
                offload.run_one()
            await asyncio.sleep(0)
        assert reading.result() == expected(1, MIB) + expected(5, 10)
        await leaving.send(other("0 1000"))
        await rig.until(lambda: offload.calls)
        leaving.client.reset()
        await rig.until(lambda: not all(channel.open for channel in rig.server._channels))
        offload.run_one()
        await rig.until(lambda: file.references == 1)

    rig.run(scenario)
    assert cold.parts == 6


def test_the_kernel_tells_what_is_in_memory(tmp_path: Path) -> None:
    """The real question to a real file system; where it cannot be asked everything counts as unknown."""
    cold = ColdReads(HandOffload(), HandClock())
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        warm = cold.asked_is_warm(descriptor, 100, MIB)
    finally:
        os.close(descriptor)
    if not warm:
        pytest.skip(f"the file system of {tmp_path} does not tell what is in memory")
    tries = 100
    assert any(_found_cold(cold, tmp_path / f"cold-{number}", read_before=0) for number in range(tries))
    assert any(_found_cold(cold, tmp_path / f"part-{number}", read_before=1) for number in range(tries)), (
        "its beginning alone tells nothing of the rest"
    )


def _found_cold(cold: ColdReads, path: Path, read_before: int) -> bool:
    """Whether a new file counts as cold.

    To forget a file is a wish that the kernel may refuse, and an older one may have read it again between two
    bytes that were asked for. So one answer of many must do.
    """
    path.write_bytes(CONTENT[:MIB])
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(descriptor, read_before, 0)
        return not cold.asked_is_warm(descriptor, 0, MIB)
    finally:
        os.close(descriptor)
        path.unlink()
