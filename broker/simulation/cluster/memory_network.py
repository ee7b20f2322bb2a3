"""A network in memory between simulated machines: connections of bytes, in order, each part with its delay.

`HostNetwork` is a side of `broker.network.interfaces.Network`: a node listens and connects through it as it
does through sockets, and its frames are real ones. Bytes of one direction arrive in the order in which they
were sent, sometimes in several parts. A connection ends as TCP's do: after the last byte (FIN), or with a
reset. A machine that loses its power says nothing; its peers notice by their own time-outs, or by a reset
when the machine is back. Where a way is cut (see `links`), bytes wait until it is open again, as TCP sends
them again; after a while whoever sent them gives the connection up.

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
from broker.simulation.cluster.connect_attempt import Attempt
from broker.simulation.cluster.event_loop import EventLoop, HostClock, HostTimers
from broker.simulation.cluster.links import Links
from broker.simulation.coverage import Coverage
from broker.simulation.seeded_random import SeededRandom
from config.tls_settings import TlsSettings

LEAST_DELAY_NS: Final = 100_000
MOST_DELAY_NS: Final = 1_000_000
SPLIT_PROBABILITY: Final = 0.1
"""How often what is sent at once arrives in two parts."""
LEAST_PATIENCE_NS: Final = 3_000_000_000
MOST_PATIENCE_NS: Final = 30_000_000_000
"""For so long a machine sends bytes again before it gives a connection up: a real one may be told to give up
as early (tcp_retries2, TCP_USER_TIMEOUT)."""
LONGEST_SILENCE_NS: Final = 1_000_000_000
"""Until what waited for a way is sent once more after the way is open again."""
KNOCK_AGAIN_NS: Final = 1_000_000_000
"""As the first bytes of a connection (SYN) are sent again."""

_FIRST_FREE_PORT: Final = 49_152


class MemoryNetwork:
    """All machines of one simulation, and what is under way between them."""

    def __init__(self, loop: EventLoop, seed: int, coverage: Coverage | None = None) -> None:
        self.loop = loop
        self.coverage = Coverage() if coverage is None else coverage
        self.random = SeededRandom(seed, "memory network")
        self.links = Links()
        self.arrivals = 0
        """How many parts have arrived."""
        self.listeners: dict[tuple[str, int], MemoryListener] = {}
        """By address."""
        self.lost: list[MemoryChannel] = []
        """Ends whose peer's machine has lost its power."""
        self.is_on: dict[str, bool] = {}
        self.hosts: dict[str, HostNetwork] = {}
        """The present or last life of each machine."""
        self.stalled: dict[MemoryChannel, None] = {}
        """Ends whose bytes wait for a way to the peer."""
        self._digest = sha256()
        self._ports: dict[str, int] = {}

    @property
    def digest(self) -> str:
        """Of everything that has arrived so far, with times and addresses."""
        return self._digest.hexdigest()

    def delay_ns(self, source: str, target: str) -> int:
        delay_ns = self.random.between(LEAST_DELAY_NS, MOST_DELAY_NS)
        for least_ns, most_ns in self.links.of(source, target).delays:
            delay_ns += self.random.between(least_ns, most_ns)
        return delay_ns

    def channels(self, host: str, peer: str) -> list[MemoryChannel]:
        """The open ends on one machine of its connections with another."""
        there = self.hosts.get(host)
        return [] if there is None else [each for each in there.open_channels() if each.host == peer]

    def flow(self) -> None:
        """What waited for a way goes on, where there is one again."""
        for channel in [each for each in self.stalled if not each.is_held]:
            del self.stalled[channel]
            channel.flow(self.random.between(LEAST_DELAY_NS, LONGEST_SILENCE_NS))

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
        self.holds = 0
        """Faults that hold back what this end sends, on this connection alone."""
        self._flight: deque[tuple[int, str, bytes]] = deque()
        """What is under way to the peer, each part with the time of its arrival."""
        self._way, self._way_back = network.links.of(own, host), network.links.of(host, own)
        self._has_patience = False
        """A moment will come in which it gives up what is not acknowledged."""

    # What its user and the node call

    def begin(self, connection: ChannelUser) -> None:
        self._user = connection
        self.resume()

    def send(self, pieces: list[Piece]) -> None:
        if not self.open or self._is_broken:
            release_pieces(pieces)
            return
        try:
            data = joined_bytes(pieces)
        except OSError as error:  # of the disk, as sendfile would say it
            self.broken(str(error))
            return
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

    @property
    def is_held(self) -> bool:
        return bool(self.holds or self._way.cuts)

    def _transmit(self, what: str, data: bytes) -> None:
        """Sends a part to the peer's machine; it arrives after those that were sent before it."""
        network, way = self._network, self._way
        if self._is_broken and what == "data":
            return  # the first of two parts was lost, and the connection with it
        if way.resets and what == "data":
            way.resets -= 1
            network.coverage.count("answer lost by a reset")
            self.reset()
            return
        delay_ns = network.delay_ns(self.own, self.host)
        self.last_arrival_ns = max(self.last_arrival_ns + 1, network.loop.now_ns + delay_ns)
        self._flight.append((self.last_arrival_ns, what, data))
        if len(self._flight) == 1:
            network.loop.call_at(self.last_arrival_ns, self._arrive)
        if way.cuts or self._way_back.cuts:
            self._wait_for_acknowledgement()

    def _arrive(self) -> None:
        """The next part comes to the peer's machine, if there is a way and the machine has power."""
        peer, network, flight = self.peer, self._network, self._flight
        if not flight:
            return
        if self.is_held:
            network.stalled[self] = None
            return
        _, what, data = flight.popleft()
        if flight:
            network.loop.call_at(flight[0][0], self._arrive)
        if peer is None or not network.is_on.get(self.host, False):
            return
        network.arrived(f"{self.own}>{self.host} {what}", data)
        if what == "reset":
            peer.tell_broken("connection reset by peer")
        elif not peer.open:
            if what == "data":
                peer.send_reset()
        elif what == "end":
            peer.finished()
        else:
            peer.received(data)

    def flow(self, delay_ns: int) -> None:
        """What was held back is sent once more."""
        if self._flight:
            self._network.coverage.count("bytes came later, for the way was cut")
            self._network.loop.call_later(delay_ns, self._arrive)

    def _forget_flight(self) -> None:
        self._flight.clear()
        self._network.stalled.pop(self, None)

    def _wait_for_acknowledgement(self) -> None:
        if not self._has_patience:
            self._has_patience = True
            network = self._network
            patience_ns = network.random.between(LEAST_PATIENCE_NS, MOST_PATIENCE_NS)
            network.loop.call_later(patience_ns, self._give_up)

    def _give_up(self) -> None:
        """Its system has sent the bytes again and again, and nobody has acknowledged them."""
        self._has_patience = False
        if self._way.cuts or self._way_back.cuts:
            if self._way.cuts:
                self._forget_flight()
            self._network.coverage.count("connections broken")
            self.tell_broken("connection timed out")

    def send_reset(self) -> None:
        self._transmit("reset", b"")

    def reset(self) -> None:
        """Something on the way breaks the connection: what is under way is lost, and both ends are told."""
        for end in (self, self.peer):
            if end is not None:
                end._forget_flight()
                end._is_broken = True
                later = partial(end.tell_broken, "connection reset by peer")
                self._network.loop.call_later(self._network.delay_ns(end.host, end.own), later)

    def tell_broken(self, reason: str) -> None:
        self._timers.enter(partial(self.broken, reason))

    def received(self, data: bytes) -> None:
        """A part has come to the machine: a turn of it, see `HostTimers.enter`."""
        self._inbox += data
        self._timers.enter(self._deliver)

    def finished(self) -> None:
        self._is_finished = True
        self._timers.enter(self._deliver)

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
        if self.is_held:
            self._forget_flight()
        if self.peer is not None:
            self._network.lost.append(self.peer)

    def lose_process(self) -> None:
        """Its process has ended, and the system closes the connection. Nobody here is told."""
        self._transmit("end", b"")
        self.open = False


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

    def check_tls(self, tls: TlsSettings) -> None:
        """See `broker.network.interfaces.Listener`."""

    def change_tls(self, tls: TlsSettings) -> bool:
        """See `broker.network.interfaces.Listener`."""
        return False

    def start(self) -> None:
        self._is_started = True
        self._accept()

    def close(self) -> None:
        self._network.forget(self)
        self.refuse_waiting()

    def is_of(self, network: HostNetwork) -> bool:
        return self._network is network

    def refuse_waiting(self) -> None:
        self._is_started = False
        while self._backlog:
            self._network.answer(self._backlog.popleft(), None)

    def knock(self, attempt: Attempt) -> None:
        """Its system has heard of somebody; the node will."""
        self._backlog.append(attempt)
        self._network.timers.enter(self._accept)

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
            host = attempt.channel.own
            if limits.throttle_ms(host, now_ms) or limits.refusal(host) is not None:
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
        self._is_over = False
        network.hosts[name] = self
        self._switch_on()

    def _switch_on(self) -> None:
        """Whoever still believes in a connection with an earlier life hears that there is none."""
        network = self._network
        network.is_on[self.name] = True
        lost, network.lost = network.lost, []
        for channel in lost:
            if channel.host == self.name and channel.peer is not None:
                channel.peer.send_reset()
            else:
                network.lost.append(channel)

    def lose_power(self) -> None:
        """Nothing more is sent, heard or told to anybody on this machine."""
        self._network.is_on[self.name] = False
        for channel in self._end():
            channel.lose_power()

    def lose_process(self) -> None:
        """The process that used it has ended; the machine is still there and refuses connections."""
        for listener in [each for each in self._network.listeners.values() if each.is_of(self)]:
            listener.refuse_waiting()
        for channel in self._end():
            channel.lose_process()

    def _end(self) -> list[MemoryChannel]:
        """The channels that were open."""
        self._is_over = True
        for address in [each for each in self._network.listeners if each[0] == self.name]:
            del self._network.listeners[address]
        channels = self.open_channels()
        self._channels.clear()
        return channels

    def open_channels(self) -> list[MemoryChannel]:
        return [channel for channel in self._channels if channel.open]

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
        tls: TlsSettings | None = None,
    ) -> Attempt:
        """See `broker.network.interfaces.Network`. Nothing is encrypted in memory."""
        network = self._network
        channel = self.new_channel(host, traffic, on_closed)
        attempt = Attempt(channel, network.free_port(self.name), self.timers, done)
        if not self._is_over:
            delay_ns = network.delay_ns(self.name, host)
            network.loop.call_later(delay_ns, partial(self._knock, attempt, host, port))
        self.timers.call_later(timeout_ms * 1_000_000, attempt.expire)
        return attempt

    def _knock(self, attempt: Attempt, host: str, port: int) -> None:
        """Where a way is cut, it is tried again and again."""
        network, links = self._network, self._network.links
        if attempt.is_over or self._is_over or not network.is_on.get(host, False):
            return
        if links.is_cut(self.name, host):
            network.loop.call_later(KNOCK_AGAIN_NS, partial(self._knock, attempt, host, port))
            return
        network.arrived(f"{self.name}:{attempt.port}>{host}:{port} connect", b"")
        listener = network.listeners.get((host, port))
        if listener is None or links.of(self.name, host).refusals:
            self.answer(attempt, None)
        else:
            listener.knock(attempt)

    def prepare(self, tls: TlsSettings) -> None:
        """See `broker.network.interfaces.Network`."""

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
        network, asker = self._network, attempt.channel
        arrival_ns = network.loop.now_ns + network.delay_ns(asker.host, asker.own)
        if channel is None:
            refusal = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            network.loop.call_at(arrival_ns, partial(attempt.fail, refusal))
            return
        channel.peer, asker.peer = asker, channel
        channel.last_arrival_ns = arrival_ns
        network.loop.call_at(arrival_ns, partial(self._answered, attempt))

    def _answered(self, attempt: Attempt) -> None:
        network, asker = self._network, attempt.channel
        if network.links.is_cut(asker.own, asker.host) and not attempt.is_over:
            network.loop.call_later(KNOCK_AGAIN_NS, partial(self._answered, attempt))
        else:
            attempt.succeed()

    def forget(self, listener: MemoryListener) -> None:
        self._network.listeners.pop((self.name, listener.port), None)
