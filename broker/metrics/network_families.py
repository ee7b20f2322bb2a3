"""Connections, bytes and memory of the network as Kafka's JMX exporter names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from broker.metrics.families import Collector, Family, Sample, counter, gauge
from broker.network.cold_reads import ColdReads
from broker.network.interfaces import Traffic
from broker.network.memory import RequestMemory
from broker.network.server import Server
from broker.security.sasl_gate import AuthenticationCounts, SaslGate
from config.limits import LABELS_PER_METRIC

_PREFIX: Final = "kafka_server_socket_server_metrics_"


def network_collector(server: Server, gates: Mapping[str, SaslGate] = MappingProxyType({})) -> Collector:
    """gates: those of the listeners with SASL, by the listener's name."""

    def collect() -> Iterator[Family]:
        def per_listener(value: Callable[[Traffic], int]) -> Iterator[Sample]:
            for name, acceptor in list(server.acceptors.items()):  # they come and go while this is written
                yield {"listener": name, "networkProcessor": "0"}, value(acceptor.traffic)

        yield Family(
            _PREFIX + "connection_count",
            "gauge",
            "Open connections",
            per_listener(lambda traffic: traffic.accepted - traffic.closed),
        )
        yield Family(
            _PREFIX + "connection_creation_total",
            "counter",
            "Connections that were accepted",
            per_listener(lambda traffic: traffic.accepted),
        )
        yield Family(
            _PREFIX + "connection_close_total",
            "counter",
            "Connections that have ended",
            per_listener(lambda traffic: traffic.closed),
        )
        yield Family(
            _PREFIX + "expired_connections_killed_count",
            "gauge",
            "Connections that were closed because they were idle",
            per_listener(lambda traffic: traffic.expired),
        )
        yield Family(
            _PREFIX + "incoming_byte_total",
            "counter",
            "Bytes that came in",
            per_listener(lambda traffic: traffic.received_bytes),
        )
        yield Family(
            _PREFIX + "outgoing_byte_total",
            "counter",
            "Bytes that went out",
            per_listener(lambda traffic: traffic.sent_bytes),
        )
        yield Family(
            _PREFIX + "connections_software",
            "gauge",
            "Open connections by the client software that they named",
            _software(server),
        )
        yield from _authentications(server, gates)
        yield Family(
            "barnabas_connections_refused_total",
            "counter",
            "Connections that were closed at once, for their address or for want of descriptors",
            per_listener(lambda traffic: traffic.refused),
        )
        yield from _memory(server.memory)
        yield gauge(
            "kafka_network_socketserver_expiredconnectionskilledcount",
            "Connections that were closed because they were idle, all listeners",
            sum(acceptor.traffic.expired for acceptor in server.acceptors.values()),
        )
        if server.network.cold is not None:
            yield from _cold_reads(server.network.cold)

    return collect


def _authentications(server: Server, gates: Mapping[str, SaslGate]) -> Iterator[Family]:
    """Listeners without SASL have them too, as in Kafka."""

    def per_listener(value: Callable[[AuthenticationCounts], int]) -> Iterator[Sample]:
        for name in list(server.acceptors):
            gate = gates.get(name)
            yield {"listener": name, "networkProcessor": "0"}, 0 if gate is None else value(gate.counts)

    for name, words, value in _AUTHENTICATIONS:
        yield Family(name, "counter", words, per_listener(value))


_AUTHENTICATIONS: Final[tuple[tuple[str, str, Callable[[AuthenticationCounts], int]], ...]] = (
    (
        _PREFIX + "successful_authentication_total",
        "Connections whose clients have authenticated",
        lambda counts: counts.successful,
    ),
    (
        _PREFIX + "successful_authentication_no_reauth_total",
        "Those of clients that cannot authenticate again",
        lambda counts: counts.without_again,
    ),
    (
        _PREFIX + "failed_authentication_total",
        "Connections whose clients have not",
        lambda counts: counts.failed,
    ),
    (
        _PREFIX + "successful_reauthentication_total",
        "Authentications of clients that had authenticated before",
        lambda counts: counts.again,
    ),
    (_PREFIX + "failed_reauthentication_total", "Those that have failed", lambda counts: counts.failed_again),
    (
        "barnabas_expired_sessions_closed_total",
        "Connections that were closed because their sessions had ended",
        lambda counts: counts.expired,
    ),
)


def _memory(memory: RequestMemory) -> Iterator[Family]:
    yield gauge(
        "kafka_network_socketserver_memorypoolused", "Bytes held by requests in flight", memory.used_bytes
    )
    yield gauge(
        "kafka_network_socketserver_memorypoolavailable",
        "Bytes that requests in flight may still take",
        max(0, memory.bound_bytes - memory.used_bytes),
    )


def _cold_reads(cold: ColdReads) -> Iterator[Family]:
    yield counter(
        "barnabas_cold_reads_total", "Parts of fetches that a helper thread read from the disk", cold.parts
    )
    yield counter("barnabas_cold_read_bytes_total", "Bytes of those parts", cold.cold_bytes)


def _software(server: Server) -> Iterator[Sample]:
    """Counts connections by client software. Clients choose these names, so there may be any number of them;
    beyond a limit they are counted together as "other"."""
    counts: dict[tuple[str, str, str], int] = {}
    for connection in server.connections:
        session = connection.session
        key = (session.listener, session.client_software_name, session.client_software_version)
        if key not in counts and len(counts) >= LABELS_PER_METRIC:
            key = (session.listener, "other", "other")
        counts[key] = counts.get(key, 0) + 1
    for (listener, name, version), count in counts.items():
        yield (
            {
                "listener": listener,
                "networkProcessor": "0",
                "clientSoftwareName": name,
                "clientSoftwareVersion": version,
            },
            count,
        )
