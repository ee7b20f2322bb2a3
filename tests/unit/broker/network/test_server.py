"""Listeners, limits of connections, idleness, descriptors, and the ways to stop."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress

import pytest

from broker.network import acceptor as acceptor_module
from broker.network.acceptor import Acceptor
from broker.network.creation_rate import CreationRate
from broker.network.interfaces import ListenerSettings
from broker.network.limits import ConnectionLimits
from broker.network.server import ServerSettings
from broker.ports.machine import highest_connection_descriptor
from broker.quotas.address_rates import AddressRates
from config.limits import HELD_CONNECTIONS, TURN_REQUESTS
from protocol.serving.session import plain_host
from tests.support.rigs.network_rig import NetworkRig
from tests.support.rigs.sans_io import KIB, MIB, other


def test_the_kernel_chooses_a_port_and_several_listeners_serve() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        second = rig.server.listen(ListenerSettings("SECOND", "127.0.0.1", 0), rig.service)
        second.start()
        assert 0 < second.port != rig.acceptor.port > 0
        first_client = await rig.connect()
        assert await first_client.ask("one", 4) == b"one!"
        assert isinstance(second, Acceptor)
        rig.acceptor = second
        second_client = await rig.connect()
        assert await second_client.ask("two", 4) == b"two!"
        assert sorted(c.session.listener for c in rig.server.connections) == ["PLAINTEXT", "SECOND"]
        assert rig.server.connection_count("SECOND") == 1

    rig.run(scenario)


def test_whoever_looks_for_another_server_at_this_port_is_none_of_the_tests() -> None:
    """The rig closes such a connection unheard: a peer of a node that had the port before tries it again."""
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        with socket.create_connection(("127.0.0.1", rig.acceptor.port), 5) as stranger:
            stranger.sendall(other("of somebody else"))
            assert await client.ask("ours", 5) == b"ours!"
            stranger.setblocking(False)
            with suppress(ConnectionResetError):
                assert await rig.loop.sock_recv(stranger, 1) == b""
        assert rig.service.requests == ["ours"]

    rig.run(scenario)


def test_ipv6_is_spoken_and_shown_as_java_shows_it() -> None:
    rig = NetworkRig(host="::1")

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        assert await client.ask("six", 4) == b"six!"
        assert [connection.session.host for connection in rig.server.connections] == ["0:0:0:0:0:0:0:1"]

    rig.run(scenario)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
    ],
)
def test_addresses_as_kafka_shows_them(given: str, shown: str) -> None:
    assert plain_host(given) == shown


def test_a_port_in_use_is_named() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        with pytest.raises(OSError, match=f"listener TAKEN cannot listen on 127.0.0.1:{rig.acceptor.port}"):
            rig.server.listen(ListenerSettings("TAKEN", "127.0.0.1", rig.acceptor.port), rig.service)

    rig.run(scenario)


def test_beyond_max_connections_newcomers_wait_for_a_place() -> None:
    rig = NetworkRig(limits=ConnectionLimits(maximum=2))

    async def scenario(rig: NetworkRig) -> None:
        first, second, third = [await rig.connect() for _ in range(3)]
        await third.send(other("third"))
        assert await first.ask("first", 6) == b"first!"
        assert await second.ask("second", 7) == b"second!"
        assert "third" not in rig.service.requests
        first.close()
        assert await third.receive(6) == b"third!"
        assert rig.server.limits.count == 2

    rig.run(scenario)


def test_listeners_with_limits_of_their_own_are_counted_apart() -> None:
    """A controller hears its quorum, however many clients the broker of its node has."""
    rig = NetworkRig(limits=ConnectionLimits(maximum=1))

    async def scenario(rig: NetworkRig) -> None:
        first, second = await rig.connect(), await rig.connect()
        assert await first.ask("first", 6) == b"first!"
        limits = ConnectionLimits(maximum=1)
        settings = ListenerSettings("CONTROLLER", "127.0.0.1", 0)
        quorum = rig.server.listen(settings, rig.service, limits=limits)
        quorum.start()
        follower = await rig.connect(quorum.port)
        assert await follower.ask("votes", 6) == b"votes!"
        assert (rig.server.limits.count, limits.count) == (1, 1)
        await second.send(other("second"))
        first.close()
        assert await second.receive(7) == b"second!"
        assert "second" in rig.service.requests
        follower.close()
        await rig.until(lambda: limits.count == 0)

    rig.run(scenario)


def test_who_comes_faster_than_allowed_waits_for_a_while() -> None:
    limits = ConnectionLimits()
    limits.change(
        maximum=99, maximum_per_ip=99, per_ip_overrides={}, per_listener={}, exempt_listener=None,
        creation_rate=1,
    )  # fmt: skip
    rig = NetworkRig(limits=limits)

    async def scenario(rig: NetworkRig) -> None:
        crowd = [await rig.connect() for _ in range(11)]
        await crowd[10].send(other("last"))
        assert await crowd[9].ask("in", 3) == b"in!"
        assert "last" not in rig.service.requests
        rig.timers.advance(1_000)
        assert await crowd[10].receive(5) == b"last!"

    rig.run(scenario)


def test_beyond_the_limit_of_an_address_newcomers_are_closed() -> None:
    rig = NetworkRig(limits=ConnectionLimits(maximum_per_ip=1, per_ip_overrides={"127.0.0.1": 2}))

    async def scenario(rig: NetworkRig) -> None:
        first, second = await rig.connect(), await rig.connect()
        await first.ask("first", 6)
        await second.ask("second", 7)
        third = await rig.connect()
        assert await third.at_end()
        assert rig.acceptor.traffic.refused == 1
        first.close()
        await rig.until(lambda: rig.server.limits.count == 1)
        fourth = await rig.connect()
        assert await fourth.ask("fourth", 7) == b"fourth!"

    rig.run(scenario)


def of_one_a_second() -> ConnectionLimits:
    """This machine may open one connection a second, and two at once."""
    limits = ConnectionLimits()
    limits.address_rates = AddressRates(window_ms=1000, windows=3)
    limits.address_rates.follow({"127.0.0.1": 1})
    return limits


def test_an_address_that_is_too_fast_is_held_and_cut_off() -> None:
    rig = NetworkRig(limits=of_one_a_second())

    async def scenario(rig: NetworkRig) -> None:
        crowd = [await rig.connect() for _ in range(3)]
        assert await crowd[1].ask("in", 3) == b"in!"
        await crowd[2].send(other("out"))
        await rig.until(lambda: rig.acceptor.traffic.refused == 1)
        assert rig.acceptor.traffic.accepted == 2
        rig.timers.advance(999)
        assert len(rig.acceptor._held) == 1
        rig.timers.advance(1)
        assert await crowd[2].at_end()
        assert "out" not in rig.service.requests
        rig.timers.advance(3_000)
        again = await rig.connect()
        assert await again.ask("again", 6) == b"again!"

    rig.run(scenario)


def test_an_address_that_is_too_fast_takes_nothing_of_its_listener_s_rate() -> None:
    limits = of_one_a_second()
    rig = NetworkRig(limits=limits)
    rate = CreationRate(1)
    before = rate._left

    async def scenario(rig: NetworkRig) -> None:
        limits._rates[rig.acceptor.settings.name] = rate
        crowd = [await rig.connect() for _ in range(5)]
        assert await crowd[1].ask("in", 3) == b"in!"
        await rig.until(lambda: rig.acceptor.traffic.refused == 3)
        assert before - rate._left == rig.acceptor.traffic.accepted == 2

    rig.run(scenario)


def test_what_is_held_ends_with_the_listener_and_is_not_without_end() -> None:
    rig = NetworkRig(limits=of_one_a_second())

    async def scenario(rig: NetworkRig) -> None:
        crowd = [await rig.connect() for _ in range(HELD_CONNECTIONS + 4)]
        await rig.until(lambda: rig.acceptor.traffic.refused == HELD_CONNECTIONS + 2)
        assert len(rig.acceptor._held) == HELD_CONNECTIONS
        assert await crowd[-1].at_end(), "no more than so many are held"
        rig.acceptor.close()
        assert await crowd[2].at_end()

    rig.run(scenario)


def test_the_listener_between_brokers_is_exempt_from_the_limit_of_all() -> None:
    limits = ConnectionLimits(maximum=1, exempt_listener="INTERNAL", per_listener={"INTERNAL": 2})
    limits.opened("EXTERNAL", "a")
    assert not limits.has_room("EXTERNAL")
    assert limits.has_room("INTERNAL")
    limits.opened("INTERNAL", "b")
    limits.opened("INTERNAL", "b")
    assert not limits.has_room("INTERNAL")


def test_who_is_quiet_for_longest_is_closed_when_there_are_too_many() -> None:
    limits = ConnectionLimits(maximum=3, exempt_listener="INTERNAL")
    rig = NetworkRig(limits=limits)

    async def scenario(rig: NetworkRig) -> None:
        internal = rig.server.listen(ListenerSettings("INTERNAL", "127.0.0.1", 0), rig.service)
        internal.start()
        talking, quiet, third = [await rig.connect() for _ in range(3)]
        await rig.until(lambda: limits.count == 3)
        rig.clock.move(1_000)
        for client in (third, talking):
            assert await client.ask("hello", 6) == b"hello!"
            rig.clock.move(1_000)
        broker = await rig.connect(internal.port)
        assert await quiet.at_end()
        assert limits.count == 3
        limits.maximum = 1
        rig.server.close_excess()
        for client in (third, talking):
            assert await client.at_end()
        assert await broker.ask("hello", 6) == b"hello!"
        assert limits.count == 1

    rig.run(scenario)


def test_silent_connections_are_closed_and_talking_ones_are_not() -> None:
    rig = NetworkRig(settings=ServerSettings(connections_max_idle_ms=1000))

    async def scenario(rig: NetworkRig) -> None:
        silent, talking, waiting, half = [await rig.connect() for _ in range(4)]
        await rig.until(lambda: rig.server.limits.count == 4)
        await half.send(b"\0\0\0")
        await waiting.send(other("wait"))
        await rig.until(lambda: rig.service.waiting)
        rig.timers.advance(900)
        assert await talking.ask("hello", 6) == b"hello!"
        rig.timers.advance(99)
        assert rig.server.limits.count == 4
        rig.timers.advance(1)
        assert rig.server.limits.count == 2
        assert await silent.at_end()
        assert await half.at_end()
        rig.timers.advance(899)
        assert rig.server.limits.count == 2
        rig.timers.advance(1)
        assert await talking.at_end()
        rig.service.answer("wait")
        rig.timers.run_soon()
        assert await waiting.receive(5) == b"wait!"
        assert rig.acceptor.traffic.expired == 3

    rig.run(scenario)


def test_connections_that_come_and_go_leave_nothing_in_the_idle_heap() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        for number in range(300):
            client = await rig.connect()
            await client.ask("x", 2)
            client.close()
            await rig.until(lambda: rig.server.limits.count == 0)
            assert rig.acceptor.traffic.closed == number + 1
        assert len(rig.server._idle._heap) < 130

    rig.run(scenario)


def test_connections_whose_turn_was_over_too_early_are_known() -> None:
    rig = NetworkRig()
    seen: set[int] = set()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.ask("one", 4)
        assert rig.server.interrupted == 0
        await client.send(b"".join(other("x") for _ in range(5 * TURN_REQUESTS)))
        while len(rig.service.requests) < 1 + 5 * TURN_REQUESTS:
            await asyncio.sleep(0)
            seen.add(rig.server.interrupted)
        assert rig.server.interrupted == 0

    rig.run(scenario)
    assert 1 in seen


class NoDescriptors:
    """A listening socket of a process that has no descriptor left."""

    def __init__(self, inner: socket.socket) -> None:
        self.inner = inner
        self.attempts = 0

    def fileno(self) -> int:
        return self.inner.fileno()

    def close(self) -> None:
        self.inner.close()

    def accept(self) -> object:
        self.attempts += 1
        raise OSError(errno.EMFILE, "Too many open files")


def test_without_descriptors_accepting_rests_for_a_second() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        real = rig.acceptor._socket
        fake = NoDescriptors(real)
        rig.acceptor._socket = fake  # type: ignore[assignment]
        client = await rig.connect()
        await rig.until(lambda: fake.attempts)
        for _ in range(20):
            await rig.loop.run_in_executor(None, lambda: None)
        assert fake.attempts == 1, "no busy loop"
        rig.acceptor._socket = real
        rig.timers.advance(1000)
        assert await client.ask("hello", 6) == b"hello!"

    rig.run(scenario)


def test_connections_leave_descriptors_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor_module, "highest_connection_descriptor", lambda: 3)
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        assert await client.at_end()
        assert rig.acceptor.traffic.refused == 1

    rig.run(scenario)


@pytest.mark.parametrize(("limit", "highest"), [(1024, 768), (100, 75), (1_048_576, 1_048_320)])
def test_how_many_descriptors_are_kept_for_files(limit: int, highest: int) -> None:
    assert highest_connection_descriptor(limit) == highest


def test_a_drain_answers_what_waits_and_begins_nothing_new() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        waiting, idle = await rig.connect(), await rig.connect()
        await waiting.send(other("wait"))
        await rig.until(lambda: rig.service.waiting)
        finished: list[int] = []
        rig.server.drain(rig.clock.monotonic_ms() + 5000, finished.append)
        assert await idle.at_end()
        with pytest.raises(ConnectionRefusedError):
            await rig.connect()
        assert finished == []
        rig.service.answer("wait")
        await rig.until(lambda: waiting_is_answered(rig))
        rig.timers.advance(10)
        assert finished == [0]
        assert await waiting.receive(100) == b"wait!"

    rig.run(scenario)


def waiting_is_answered(rig: NetworkRig) -> bool:
    return all(not connection.waiting for connection in rig.server.connections)


def test_a_drain_ends_at_its_deadline() -> None:
    rig = NetworkRig()

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect()
        await client.send(other("wait"))
        await rig.until(lambda: rig.service.waiting)
        finished: list[int] = []
        rig.server.drain(rig.clock.monotonic_ms() + 300, finished.append)
        rig.timers.advance(299)
        assert finished == []
        rig.timers.advance(1)
        assert finished == [1]
        assert rig.service.waiting["wait"].cancelled
        assert await client.at_end()

    rig.run(scenario)


def test_a_drain_lets_output_leave() -> None:
    rig = NetworkRig()
    rig.service.answer_bytes = 6 * MIB

    async def scenario(rig: NetworkRig) -> None:
        client = await rig.connect(SO_RCVBUF=16 * KIB)
        await client.send(other("big"))
        await rig.until(lambda: rig.service.requests)
        finished: list[int] = []
        rig.server.drain(rig.clock.monotonic_ms() + 60_000, finished.append)
        assert len(await client.receive(6 * MIB + 4)) == 6 * MIB + 4
        rig.timers.advance(10)
        assert finished == [0]

    rig.run(scenario)
