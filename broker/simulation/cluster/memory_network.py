"""A network in memory between simulated machines: connections of bytes, in order, each part with its delay.

`HostNetwork` is a side of `broker.network.interfaces.Network`: a node listens and connects through it as it
does through sockets, and its frames are real ones. Bytes of one direction arrive in the order in which they
were sent, sometimes in several parts. A connection ends as TCP's do: after the last byte (FIN), or with a
reset. A machine that loses its power says nothing; its peers notice by their own time-outs, or by a reset
when the machine is back.

All that arrives goes into one digest with its time and its addresses, so two runs can be compared.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Final

from broker.network.cold_reads import ColdReads
from broker.network.connection import CLOSED
from broker.network.interfaces import Channel, ChannelUser, ListenerSettings, Traffic
from broker.network.limits import ConnectionLimits
from broker.network.response_pieces import Piece, joined_bytes, release_pieces
from broker.simulation.cluster.event_loop import EventLoop, HostClock, HostTimers
from broker.simulation.seeded_random import SeededRandom

LEAST_DELAY_NS: Final = 100_000
MOST_DELAY_NS: Final = 1_000_000
SPLIT_PROBABILITY: Final = 0.1
"""How often what is sent at once arrives in two parts."""

_FIRST_FREE_PORT: Final = 49_152


class MemoryNetwork:
    """All machines of one simulation, and what is under way between them."""

    def __init__(self, loop: EventLoop, seed: int) -> None:
        self.loop = loop
        self.random = SeededRandom(seed, "memory network")
        self.arrivals = 0
        """How many parts have arrived."""
        self.listeners: dict[tuple[str, int], MemoryListener] = {}
        """By address."""
        self.lost: list[MemoryChannel] = []
        """Ends whose peer's machine has lost its power."""
        self.is_on: dict[str, bool] = {}
        self._digest = sha256()
        self._ports: dict[str, int] = {}

    @property
    def digest(self) -> str:
        """Of everything that has arrived so far, with times and addresses."""
        return self._digest.hexdigest()

    def delay_ns(self) -> int:
        return self.random.between(LEAST_DELAY_NS, MOST_DELAY_NS)

    def free_port(self, host: str) -> int:
        port = self._ports[host] = self._ports.get(host, _FIRST_FREE_PORT - 1) + 1
        return port

    def arrived(self, what: str, data: bytes) -> None:
        self.arrivals += 1
        self._digest.update(f"{self.loop.now_ns} {what} {len(data)}\n".encode())
        self._digest.update(data)


class MemoryChannel:
    """One end of a connection: `broker.network.interfaces.Channel`. host: of its peer."""

    def __init__(
        self,
        network: MemoryNetwork,
        timers: HostTimers,
        *,
        own: str,
        host: str,
        traffic: Traffic,
        on_closed: Callable[[Channel], None],
    ) -> None:
        self.host = host
        self.own = own
        self.open = True
        self.unsent_bytes = 0
        self.peer: MemoryChannel | None = None
        self._network = network
        self._timers = timers
        self._traffic = traffic
        self._on_closed = on_closed
        self._user: ChannelUser | None = None
        self._inbox = bytearray()
        self._is_broken = False
        self._is_finished = False
        self._told_finished = False
        self.last_arrival_ns = 0
        """When the last part that was sent arrives."""

    # What its user and the node call

    def begin(self, connection: ChannelUser) -> None:
        self._user = connection
        self.resume()

    def send(self, pieces: list[Piece]) -> None:
        if not self.open or self._is_broken:
            release_pieces(pieces)
            return
        data = joined_bytes(pieces)
        self._traffic.sent_bytes += len(data)
        random = self._network.random
        if len(data) > 1 and random.happens(SPLIT_PROBABILITY):
            middle = random.between(1, len(data) - 1)
            self._transmit("data", data[:middle])
            data = data[middle:]
        self._transmit("data", data)

    def resume(self) -> None:
        self._timers.call_soon(self._deliver)

    def close(self, reason: str) -> None:
        """What was sent before still arrives."""
        if self.open:
            if not self._is_broken:
                self._transmit("end", b"")
            self.open = False
            self._on_closed(self)

    def abort(self, reason: str) -> None:
        if self.open and self._user is not None:
            self._user.close(reason)
        self.close(reason)

    def last_active_ms(self) -> int:
        return 0 if self._user is None else self._user.now_ns // 1_000_000

    def is_awaiting_answer(self) -> bool:
        return self._user is not None and self._user.waiting > 0 and not self._is_finished

    def expire(self) -> None:
        self._traffic.expired += 1
        self.abort("idle for longer than connections.max.idle.ms")

    # What the network calls

    def _transmit(self, what: str, data: bytes) -> None:
        """Sends a part to the peer's machine; it arrives after those that were sent before it."""
        network = self._network
        self.last_arrival_ns = max(self.last_arrival_ns + 1, network.loop.now_ns + network.delay_ns())
        network.loop.call_at(self.last_arrival_ns, partial(self._arrive, what, data))

    def _arrive(self, what: str, data: bytes) -> None:
        """At the peer's machine, if it has power."""
        peer, network = self.peer, self._network
        if peer is None or not network.is_on.get(self.host, False):
            return
        network.arrived(f"{self.own}>{self.host} {what}", data)
        if what == "reset":
            peer.broken("connection reset by peer")
        elif not peer.open:
            if what == "data":
                peer.send_reset()
        elif what == "end":
            peer.finished()
        else:
            peer.received(data)

    def send_reset(self) -> None:
        self._transmit("reset", b"")

    def received(self, data: bytes) -> None:
        self._inbox += data
        self._timers.call_soon(self._deliver)

    def finished(self) -> None:
        self._is_finished = True
        self._timers.call_soon(self._deliver)

    def broken(self, reason: str) -> None:
        """Nothing can be sent any more, and what waits is given up."""
        if self.open:
            self._is_broken = True
            if self._user is not None and not self._user.holds & CLOSED:
                self._user.peer_gone(reason)
            self.close(reason)

    def _deliver(self) -> None:
        """Hands over what has arrived, as far as it is wanted."""
        user = self._user
        while user is not None and self._inbox and self.open and not user.holds:
            space = user.space()
            count = min(len(space), len(self._inbox))
            space[:count] = self._inbox[:count]
            del self._inbox[:count]
            self._traffic.received_bytes += count
            user.received(count)
        if user is None or self._inbox or not self.open:
            return
        if self._is_finished and not self._told_finished:
            self._told_finished = True
            user.peer_finished()

    def lose_power(self) -> None:
        """Its machine is off: nothing is sent or heard, and nobody there is told."""
        self.open = False
        if self.peer is not None:
            self._network.lost.append(self.peer)

    def lose_process(self) -> None:
        """Its process has ended, and the system closes the connection. Nobody here is told."""
        self._transmit("end", b"")
        self.open = False


class Attempt:
    """A connection that is being made: `broker.network.interfaces.ConnectAttempt`."""

    def __init__(self, channel: MemoryChannel, port: int, done: Callable[[Channel | OSError], None]) -> None:
        """channel: the end of whoever connects. port: of its machine."""
        self.channel = channel
        self.port = port
        self._done: Callable[[Channel | OSError], None] | None = done

    @property
    def is_over(self) -> bool:
        return self._done is None

    def cancel(self) -> None:
        self._done = None

    def succeed(self) -> None:
        if self.channel.open:
            self._end(self.channel)
        else:
            self.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def fail(self, error: OSError) -> None:
        self._end(error)

    def _end(self, outcome: Channel | OSError) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(outcome)


class MemoryListener:
    """`broker.network.interfaces.Listener`. Who knocks before `start`, or beyond the limits, waits."""

    def __init__(
        self,
        network: HostNetwork,
        settings: ListenerSettings,
        port: int,
        limits: ConnectionLimits,
        *,
        on_accept: Callable[[Channel, int], None],
        on_closed: Callable[[Channel], None],
    ) -> None:
        self.settings = settings
        self.traffic = Traffic()
        self.host = settings.host or network.name
        self.port = port
        self._network = network
        self._limits = limits
        self._on_accept = on_accept
        self._on_closed = on_closed
        self._backlog: deque[Attempt] = deque()
        self._is_started = False

    def start(self) -> None:
        self._is_started = True
        self._accept()

    def close(self) -> None:
        self._is_started = False
        self._network.forget(self)
        while self._backlog:
            self._network.answer(self._backlog.popleft(), None)

    def knock(self, attempt: Attempt) -> None:
        self._backlog.append(attempt)
        self._accept()

    def _accept(self) -> None:
        name, limits = self.settings.name, self._limits
        while self._is_started and self._backlog:
            if not limits.has_room(name):
                limits.when_room(self._accept)
                return
            now_ms = self._network.clock.monotonic_ms()
            pause_ms = limits.pause_ms(name, now_ms)
            if pause_ms:
                self._network.timers.call_at(now_ms + pause_ms, self._accept)
                return
            attempt = self._backlog.popleft()
            if attempt.is_over:
                continue
            limits.record(name, now_ms)
            if limits.refusal(attempt.channel.own) is not None:
                self.traffic.refused += 1
                self._network.answer(attempt, None)
                continue
            self.traffic.accepted += 1
            channel = self._network.new_channel(attempt.channel.own, self.traffic, self._on_closed)
            self._network.answer(attempt, channel)
            self._on_accept(channel, attempt.port)


class HostNetwork:
    """`broker.network.interfaces.Network` of one life of one machine. name: its address."""

    cold: ColdReads | None = None

    def __init__(self, network: MemoryNetwork, name: str, clock: HostClock, timers: HostTimers) -> None:
        self.name = name
        self.clock = clock
        self.timers = timers
        self.call_soon = timers.call_soon
        self._network = network
        self._channels: dict[MemoryChannel, None] = {}
        self._switch_on()

    def _switch_on(self) -> None:
        """Whoever still believes in a connection with an earlier life hears that there is none."""
        network = self._network
        network.is_on[self.name] = True
        lost, network.lost = network.lost, []
        for channel in lost:
            if channel.host == self.name:
                broken = partial(channel.broken, "connection reset by peer")
                network.loop.call_later(network.delay_ns(), broken)
            else:
                network.lost.append(channel)

    def lose_power(self) -> None:
        """Nothing more is sent, heard or told to anybody on this machine."""
        self._network.is_on[self.name] = False
        for channel in self._end():
            channel.lose_power()

    def lose_process(self) -> None:
        """The process that used it has ended; the machine is still there and refuses connections."""
        for channel in self._end():
            channel.lose_process()

    def _end(self) -> list[MemoryChannel]:
        """The channels that were open."""
        for address in [each for each in self._network.listeners if each[0] == self.name]:
            del self._network.listeners[address]
        channels = [channel for channel in self._channels if channel.open]
        self._channels.clear()
        return channels

    # The port

    def listen(
        self,
        settings: ListenerSettings,
        *,
        limits: ConnectionLimits,
        on_accept: Callable[[Channel, int], None],
        on_closed: Callable[[Channel], None],
    ) -> MemoryListener:
        """See `broker.network.interfaces.Network`."""
        port = settings.port or self._network.free_port(self.name)
        if (self.name, port) in self._network.listeners:
            where = f"listener {settings.name} cannot listen on {self.name}:{port}"
            raise OSError(errno.EADDRINUSE, f"{where}: {os.strerror(errno.EADDRINUSE)}")
        listener = MemoryListener(self, settings, port, limits, on_accept=on_accept, on_closed=on_closed)
        self._network.listeners[(self.name, port)] = listener
        return listener

    def connect(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        traffic: Traffic,
        done: Callable[[Channel | OSError], None],
        on_closed: Callable[[Channel], None],
    ) -> Attempt:
        """See `broker.network.interfaces.Network`."""
        network = self._network
        channel = self.new_channel(host, traffic, on_closed)
        attempt = Attempt(channel, network.free_port(self.name), done)

        def knock() -> None:
            if not network.is_on.get(host, False):
                return
            network.arrived(f"{self.name}:{attempt.port}>{host}:{port} connect", b"")
            listener = network.listeners.get((host, port))
            if listener is None:
                self.answer(attempt, None)
            else:
                listener.knock(attempt)

        network.loop.call_later(network.delay_ns(), knock)
        late = partial(attempt.fail, OSError("no answer in time"))
        self.timers.call_later(timeout_ms * 1_000_000, late)
        return attempt

    def host_name(self) -> str:
        """See `broker.network.interfaces.Network`."""
        return self.name

    def resolve(self, names: Sequence[str]) -> dict[str, list[str]]:
        """See `broker.network.interfaces.Network`. A machine's address is its name."""
        return {name: [name] if name in self._network.is_on else [] for name in names}

    def close(self) -> None:
        """See `broker.network.interfaces.Network`."""

    # What its listeners call

    def new_channel(self, host: str, traffic: Traffic, on_closed: Callable[[Channel], None]) -> MemoryChannel:
        """An end of a connection on this machine."""

        def closed(channel: Channel) -> None:
            self._channels.pop(made, None)
            on_closed(channel)

        made = MemoryChannel(
            self._network, self.timers, own=self.name, host=host, traffic=traffic, on_closed=closed
        )
        self._channels[made] = None
        return made

    def answer(self, attempt: Attempt, channel: MemoryChannel | None) -> None:
        """Tells whoever knocked. channel: this machine's end of the new connection, None for a refusal."""
        network = self._network
        arrival_ns = network.loop.now_ns + network.delay_ns()
        if channel is None:
            refusal = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            network.loop.call_at(arrival_ns, partial(attempt.fail, refusal))
            return
        channel.peer, attempt.channel.peer = attempt.channel, channel
        channel.last_arrival_ns = arrival_ns
        network.loop.call_at(arrival_ns, attempt.succeed)

    def forget(self, listener: MemoryListener) -> None:
        self._network.listeners.pop((self.name, listener.port), None)
