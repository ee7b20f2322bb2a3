"""All listeners of one node and their connections, and how they end.

start        bind and accept
stop         no new connections
drain        no new requests; what waits is answered; output leaves; then, or at a deadline, all is closed
abort        everything is closed now
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from heapq import nsmallest

import msgspec

from broker.network.connection import TURN_OVER, Connection
from broker.network.idle import IdleSweep
from broker.network.interfaces import Channel, Listener, ListenerSettings, Network, Service
from broker.network.limits import ConnectionLimits
from broker.network.memory import RequestMemory
from broker.network.ready_queue import ReadyQueue
from config.ports import Clock, Timers
from protocol.serving.session import Session

_log = logging.getLogger("barnabas.network")

_DRAIN_CHECK_MS = 5


class ServerSettings(msgspec.Struct, frozen=True):
    """The values of the configs `socket.request.max.bytes` and `connections.max.idle.ms`."""

    socket_request_max_bytes: int = 104_857_600
    connections_max_idle_ms: int = 600_000


class Server:
    """The listeners of one node, and their connections. memory and ready_queue are shared by all of these."""

    def __init__(
        self,
        network: Network,
        *,
        clock: Clock,
        timers: Timers,
        memory: RequestMemory,
        limits: ConnectionLimits | None = None,
        settings: ServerSettings | None = None,
    ) -> None:
        self.memory = memory
        self.limits = limits or ConnectionLimits()
        self.ready_queue = ReadyQueue(network.call_soon)
        self.acceptors: dict[str, Listener] = {}
        self._services: dict[str, Service] = {}
        self._limits: dict[str, ConnectionLimits] = {}
        self.network = network
        self._clock = clock
        self._timers = timers
        self._settings = settings or ServerSettings()
        self._idle = IdleSweep(self._settings.connections_max_idle_ms, clock, timers)
        self._channels: dict[Channel, Connection] = {}
        self._number = 0

    def listen(
        self,
        settings: ListenerSettings,
        service: Service | None = None,
        *,
        limits: ConnectionLimits | None = None,
    ) -> Listener:
        """Opens a listener; its port is known now. It takes connections at `start`, and who serves them must
        be named by then, here or with `serve`: a service may want to know the ports first. limits: by which
        its connections are counted; the server's own if there are none. Raises OSError."""
        counting = self._limits[settings.name] = limits or self.limits

        def on_accept(channel: Channel, port: int) -> None:
            self._open(acceptor, self._services[settings.name], channel, port)

        if service is not None:
            self._services[settings.name] = service

        acceptor = self.network.listen(settings, limits=counting, on_accept=on_accept, on_closed=self._closed)
        self.acceptors[settings.name] = acceptor
        return acceptor

    def serve(self, listener: str, service: Service) -> None:
        """Sets the service that answers the requests of a listener."""
        self._services[listener] = service

    def start(self) -> None:
        for acceptor in self.acceptors.values():
            acceptor.start()

    @property
    def connections(self) -> Iterator[Connection]:
        return iter(list(self._channels.values()))

    def connection_count(self, listener: str) -> int:
        return sum(1 for connection in self._channels.values() if connection.session.listener == listener)

    @property
    def interrupted(self) -> int:
        """The number of connections whose next request has arrived and waits for a further turn of the
        loop."""
        return sum(1 for connection in self._channels.values() if connection.holds & TURN_OVER)

    def _open(self, acceptor: Listener, service: Service, channel: Channel, port: int) -> None:
        settings, host = acceptor.settings, channel.host
        self._number += 1
        max_unauthenticated_bytes = settings.sasl_server_max_receive_size
        session = Session(
            connection_id=f"{acceptor.host}:{acceptor.port}-{host}:{port}-{self._number}",
            listener=settings.name,
            host=host,
            security_protocol=settings.security_protocol,
            is_authenticated=max_unauthenticated_bytes is None,
        )
        connection = Connection(
            service,
            channel,
            session,
            memory=self.memory,
            ready_queue=self.ready_queue,
            clock=self._clock,
            timers=self._timers,
            max_frame_bytes=(
                self._settings.socket_request_max_bytes
                if max_unauthenticated_bytes is None
                else max_unauthenticated_bytes
            ),
        )
        connection.touch()
        self._channels[channel] = connection
        self._limits[settings.name].opened(settings.name, host)
        channel.begin(connection)
        self._idle.add(channel)
        if self.limits.excess > 0:
            self.close_excess()

    def _closed(self, channel: Channel) -> None:
        listener = self._channels.pop(channel).session.listener
        acceptor = self.acceptors.get(listener)
        if acceptor is not None:  # the listener may have been removed already
            acceptor.traffic.closed += 1
        self._idle.removed()
        self._limits[listener].closed(listener, channel.host)

    def close_excess(self) -> None:
        """Closes connections while there are more than `max.connections`: those that have been quiet for
        longest, and none of the exempt listener. There may be too many since the limit was lowered, or
        because brokers have come to their listener. In Kafka this is `Processor.closeExcessConnections`."""
        limits = self.limits
        if limits.excess <= 0:
            return
        closable = [
            channel
            for channel, connection in self._channels.items()
            if self._limits[connection.session.listener] is limits
            and connection.session.listener != limits.exempt_listener
        ]
        for channel in nsmallest(limits.excess, closable, key=lambda each: each.last_active_ms()):
            channel.abort("there are more connections than max.connections")

    def close_listener(self, name: str, reason: str) -> None:
        """Closes the listener and all its connections."""
        self.acceptors[name].close()
        for channel, connection in list(self._channels.items()):
            if connection.session.listener == name:
                channel.abort(reason)
        del self.acceptors[name]

    # The end

    def stop(self) -> None:
        """Stops accepting connections; those that are open go on."""
        for acceptor in self.acceptors.values():
            acceptor.close()

    def drain(self, deadline_ms: int, done: Callable[[int], None]) -> None:
        """Lets the requests that have begun come to their end, then closes all connections. `done` gets the
        number of connections that were cut off at the deadline.

        Whoever owns delayed answers (long polls) completes them now; no further request begins. deadline_ms:
        on the monotonic clock.
        """
        self.stop()
        for connection in self.connections:
            connection.drain()
        self._drain_further(deadline_ms, done)

    def _drain_further(self, deadline_ms: int, done: Callable[[int], None]) -> None:
        busy = 0
        for channel, connection in list(self._channels.items()):
            if connection.waiting or connection.has_output or channel.unsent_bytes:
                busy += 1
            else:
                connection.close("the broker is shutting down")
        now_ms = self._clock.monotonic_ms()
        if busy and now_ms < deadline_ms:
            self._timers.call_at(
                min(deadline_ms, now_ms + _DRAIN_CHECK_MS), lambda: self._drain_further(deadline_ms, done)
            )
            return
        if busy:
            _log.info("%d connections did not take their answers in time and are cut off", busy)
        self.abort("the broker is shutting down")
        done(busy)

    def abort(self, reason: str) -> None:
        """Closes all listeners and connections at once."""
        self.stop()
        for channel in list(self._channels):
            channel.abort(reason)
        self._idle.close()
        self.network.close()
