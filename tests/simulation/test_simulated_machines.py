"""The parts of a simulated machine: its loop, its network, its helper threads, and what a power cut ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.network.interfaces import Channel, Listener, ListenerSettings, Traffic
from broker.network.limits import ConnectionLimits
from broker.simulation.cluster.event_loop import EventLoop
from broker.simulation.cluster.memory_network import MemoryNetwork
from broker.simulation.cluster.surroundings import Machine
from protocol.serving.session import Principal
from storage.memory_files import lose_all

ADDRESS = ("here", 9092)


class User:
    """`broker.network.interfaces.ChannelUser` that notes what it is told."""

    connection_id = "user"
    waiting = 0
    now_ns = 0

    def __init__(self) -> None:
        self.holds = 0
        self.data = b""
        self.told: list[str] = []
        self._space = bytearray(1000)

    def space(self) -> memoryview:
        return memoryview(self._space)

    def received(self, count: int) -> None:
        self.data += bytes(self._space[:count])

    def peer_gone(self, reason: str) -> None:
        self.told.append(reason)

    def peer_finished(self) -> None:
        self.told.append("finished")

    def close(self, reason: str) -> None:
        self.told.append(f"closed: {reason}")

    def touch(self) -> None: ...
    def output_full(self) -> None: ...
    def output_drained(self) -> None: ...
    def failed(self) -> None: ...
    def secured(self, principal: Principal) -> None: ...
    def refused(self, reason: str) -> None: ...


class TwoMachines:
    """`here` listens, `there` connects."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = EventLoop()
        self.network = MemoryNetwork(self.loop, seed)
        self.here = Machine(self.network, "here", seed)
        self.there = Machine(self.network, "there", seed)
        self.limits = ConnectionLimits()
        self.accepted: list[tuple[Channel, User]] = []
        self.closed: list[str] = []
        self.listener = self.listen()
        self.theirs = self.there.surroundings().network

    def listen(self) -> Listener:
        self.ours = self.here.surroundings()
        listener = self.ours.network.listen(
            ListenerSettings("PLAINTEXT", *ADDRESS),
            limits=self.limits,
            on_accept=self._accept,
            on_closed=lambda _: self.closed.append("here"),
        )
        listener.start()
        return listener

    def _accept(self, channel: Channel, port: int) -> None:
        user = User()
        channel.begin(user)
        self.accepted.append((channel, user))

    def connect(self, port: int = 9092) -> list[Channel | OSError]:
        done: list[Channel | OSError] = []
        self.theirs.connect(
            "here",
            port,
            timeout_ms=1_000,
            traffic=Traffic(),
            done=done.append,
            on_closed=lambda _: self.closed.append("there"),
        )
        return done

    def connected(self) -> tuple[Channel, User]:
        done = self.connect()
        self.until(lambda: done)
        channel, user = done[0], User()
        assert not isinstance(channel, OSError)
        channel.begin(user)
        return channel, user

    def until(self, condition: Callable[[], object]) -> None:
        self.loop.run_until(condition, limit_ms=10_000)


def test_bytes_arrive_in_order_and_in_parts_on_both_sides() -> None:
    machines = TwoMachines()
    ours, user = machines.connected()
    ((theirs, their_user),) = machines.accepted
    sent = b"".join(number.to_bytes(2) * 30 for number in range(100))
    for at in range(0, len(sent), 60):
        ours.send([sent[at : at + 60]])
    theirs.send([b"an", memoryview(b"swer")])
    machines.until(lambda: their_user.data == sent and user.data == b"answer")
    assert machines.network.arrivals > 102, "some were split"


def test_what_is_held_waits_and_the_end_comes_after_it() -> None:
    machines = TwoMachines()
    ours, _ = machines.connected()
    ((theirs, their_user),) = machines.accepted
    their_user.holds = 1
    ours.send([b"request"])
    ours.close("enough")
    machines.loop.run_for(100)
    assert (their_user.data, their_user.told) == (b"", [])
    assert machines.closed == ["there"]
    their_user.holds = 0
    theirs.resume()
    machines.until(lambda: their_user.told)
    assert (their_user.data, their_user.told) == (b"request", ["finished"])
    theirs.send([b"to nobody"])
    machines.until(lambda: len(their_user.told) > 1)
    assert their_user.told == ["finished", "connection reset by peer"]
    assert machines.closed == ["there", "here"]


def test_nobody_listens_and_nobody_is_there() -> None:
    machines = TwoMachines()
    refused = machines.connect(port=1)
    machines.until(lambda: refused)
    assert isinstance(refused[0], ConnectionRefusedError)
    machines.here.cut_power(lose_all)
    silent = machines.connect()
    machines.until(lambda: silent)
    assert str(silent[0]) == "no answer in time"


def test_limits_of_connections_hold() -> None:
    machines = TwoMachines()
    machines.limits.maximum = 1
    machines.limits.opened("PLAINTEXT", "elsewhere")
    waiting = machines.connect()
    machines.loop.run_for(100)
    assert waiting == []
    machines.limits.closed("PLAINTEXT", "elsewhere")
    machines.until(lambda: waiting)
    machines.limits.maximum_per_ip = 0
    refused = machines.connect()
    machines.until(lambda: refused)
    assert isinstance(refused[0], ConnectionRefusedError)
    assert (machines.listener.traffic.accepted, machines.listener.traffic.refused) == (1, 1)


def test_a_power_cut_is_silent_until_the_machine_is_back() -> None:
    machines = TwoMachines()
    ours, user = machines.connected()
    machines.here.cut_power(lose_all)
    ours.send([b"heard by nobody"])
    machines.loop.run_for(1_000)
    assert user.told == []
    machines.listen()
    machines.until(lambda: user.told)
    assert user.told == ["connection reset by peer"]
    assert machines.closed == ["there"], "nobody was told where the power was cut"
    machines.connected()


def test_nothing_of_a_life_that_has_ended_happens() -> None:
    machines = TwoMachines()
    surroundings = machines.here.surroundings()
    happened: list[object] = []
    surroundings.timers.call_soon(lambda: happened.append("soon"))
    surroundings.threads.files.submit(lambda: happened.append("call"), happened.append)
    machines.here.cut_power(lose_all)
    machines.loop.run_for(1_000)
    assert happened == []


def test_helper_threads_take_their_time_and_keep_the_order() -> None:
    machines = TwoMachines()
    offload = machines.here.surroundings().threads.quorum
    came: list[object] = []
    failure = OSError(28, "No space left on device")

    def fail() -> None:
        raise failure

    offload.submit(lambda: 1, came.append)
    offload.submit(fail, came.append)
    assert came == []
    machines.until(lambda: len(came) == 2)
    assert came == [1, failure]


def test_a_condition_that_never_holds_is_given_up() -> None:
    with pytest.raises(TimeoutError, match="not so after 5 simulated ms"):
        TwoMachines().loop.run_until(lambda: False, limit_ms=5)


def test_a_cut_way_holds_bytes_back_and_keeps_their_order() -> None:
    machines = TwoMachines()
    ours, user = machines.connected()
    ((theirs, their_user),) = machines.accepted
    way = machines.network.links.of("there", "here")
    ours.send([b"under way, "])
    way.cuts += 1
    ours.send([b"held, "])
    theirs.send([b"the way back is open"])
    machines.loop.run_for(1_000)
    assert (their_user.data, user.data) == (b"", b"the way back is open")
    way.cuts -= 1
    machines.network.flow()
    ours.send([b"sent later"])
    machines.until(lambda: len(their_user.data) == 27)
    assert their_user.data == b"under way, held, sent later"


def test_a_connection_breaks_when_nothing_is_acknowledged_for_too_long() -> None:
    machines = TwoMachines()
    ours, user = machines.connected()
    ((theirs, their_user),) = machines.accepted
    way = machines.network.links.of("there", "here")
    way.cuts += 1
    ours.send([b"never heard"])
    machines.loop.run_for(31_000)
    assert (user.told, their_user.told) == (["connection timed out"], [])
    way.cuts -= 1
    machines.network.flow()
    theirs.send([b"still there?"])
    machines.loop.run_for(2_000)
    assert (their_user.data, their_user.told) == (b"", ["connection reset by peer"])


def test_a_connection_cannot_be_made_while_one_of_both_ways_is_cut() -> None:
    machines = TwoMachines()
    for way in (("here", "there"), ("there", "here")):
        machines.network.links.of(*way).cuts += 1
        silent = machines.connect()
        machines.until(lambda: silent)  # noqa: B023
        assert str(silent[0]) == "no answer in time"
        machines.network.links.of(*way).cuts -= 1
    machines.network.links.of("there", "here").refusals += 1
    refused = machines.connect()
    machines.until(lambda: refused)
    assert isinstance(refused[0], ConnectionRefusedError)


def test_bytes_of_an_older_connection_may_come_after_those_of_a_newer_one() -> None:
    machines = TwoMachines()
    older, _ = machines.connected()
    (held,) = machines.network.channels("there", "here")
    held.holds += 1
    older.send([b"first"])
    older.close("it takes too long")
    newer, _ = machines.connected()
    newer.send([b"second"])
    machines.loop.run_for(1_000)
    assert [user.data for _, user in machines.accepted] == [b"", b"second"]
    held.holds -= 1
    machines.network.flow()
    machines.loop.run_for(2_000)
    assert [user.data for _, user in machines.accepted] == [b"first", b"second"]


def test_a_reset_on_the_way_loses_the_answer_and_tells_both() -> None:
    machines = TwoMachines()
    _, user = machines.connected()
    ((theirs, their_user),) = machines.accepted
    machines.network.links.of("here", "there").resets = 1
    theirs.send([b"the answer"])
    machines.loop.run_for(100)
    assert (user.data, user.told) == (b"", ["connection reset by peer"])
    assert their_user.told == ["connection reset by peer"]


def test_a_machine_that_stands_still_takes_bytes_and_makes_no_turn() -> None:
    machines = TwoMachines()
    ours, _ = machines.connected()
    ((_, their_user),) = machines.accepted
    timers = machines.ours.timers
    happened: list[str] = []
    timer = timers.call_at(machines.here.clock.monotonic_ms() + 10, lambda: happened.append("cancelled"))
    machines.here.stand_still(1_000_000_000)
    timers.call_soon(lambda: happened.append("soon"))
    timers.call_soon(timer.cancel)
    ours.send([b"request"])
    machines.loop.run_for(990)
    assert (happened, their_user.data, machines.here.is_still) == ([], b"", True)
    machines.loop.run_for(20)
    assert (happened, their_user.data) == (["soon"], b"request")


def test_a_clock_runs_faster_and_slower_and_is_set() -> None:
    machines = TwoMachines()
    clock, timers = machines.here.clock, machines.ours.timers
    wall_ms, monotonic_ms, rang = clock.wall_ms(), clock.monotonic_ms(), list[int]()
    timers.call_at(monotonic_ms + 1_000, lambda: rang.append(clock.monotonic_ms() - monotonic_ms))
    clock.run_at(900_000)
    machines.loop.run_for(1_050)
    assert rang == [], "a slow clock has not come so far"
    machines.loop.run_for(100)
    assert (rang, clock.monotonic_ms() - monotonic_ms) == ([1_000], 1_035)
    clock.run_at(1_000_000)
    clock.jump(-60_000)
    assert clock.wall_ms() - wall_ms == 1_035 - 60_000
    assert clock.monotonic_ms() - monotonic_ms == 1_035
