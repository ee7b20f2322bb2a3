"""The configs of listeners, sockets and connections, and of the size of requests."""

from __future__ import annotations

from typing import Final

from config.definition import (
    CLUSTER_WIDE,
    HIGH,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    READ_ONLY,
    STRING,
    Definition,
)
from config.validators import Items, OneOf, at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("listeners", LIST, ("PLAINTEXT://:9092",), Items(may_be_empty=False), HIGH, PER_BROKER,
        "Where the server listens: `NAME://host:port`, separated by commas. An empty host means all "
        "interfaces, port 0 lets the system choose one."),
    Definition("advertised.listeners", LIST,
        None, Items(may_be_empty=False, may_be_null=True), HIGH, READ_ONLY,
        "What clients are told to connect to; by default the listeners themselves. It may name a port "
        "that a proxy or container maps."),
    Definition("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, LOW, PER_BROKER,
        "Which security protocol each listener name speaks, as `NAME:PROTOCOL`; PLAINTEXT "
        "is the one that works today."),
    Definition("inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY,
        "The listener that brokers use among themselves; by default the one of "
        "security.inter.broker.protocol."),
    Definition("security.inter.broker.protocol", STRING,
        "PLAINTEXT", OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")), MEDIUM, READ_ONLY,
        "Security protocol between brokers, for setups where no inter.broker.listener.name is given."),
    Definition("early.start.listeners", LIST, None, Items(may_be_null=True), HIGH, READ_ONLY,
        "Listeners that accept connections before the others, while the broker is still starting."),
    Definition("socket.request.max.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Largest request frame; a larger announced size closes the connection before any memory is taken."),
    Definition("queued.max.request.bytes", LONG, -1, None, MEDIUM, READ_ONLY,
        "Memory that requests being received or handled may take together; at the bound reading pauses. "
        "-1 means a quarter of the memory of the machine or its cgroup."),
    Definition("queued.max.requests", INT, 500, at_least(1), HIGH, READ_ONLY,
        "In Kafka the length of the queue between network and I/O threads."),
    Definition("socket.send.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_SNDBUF of client sockets; -1 keeps the system's own sizing. So does a file that does not set it, "
        "but where the system's congestion control is BBR it is 192 KiB then."),
    Definition("socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_RCVBUF of client sockets; -1 keeps the system's own sizing. Where it is not set, a connection "
        "that brings large requests gets 4 MiB, as far as net.core.rmem_max allows."),
    Definition("socket.listen.backlog.size", INT, 50, at_least(1), MEDIUM, READ_ONLY,
        "Length of the system's queue of connections that wait to be accepted."),
    Definition("connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY,
        "An idle connection is closed after this time."),
    Definition("max.connections", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Most connections of the whole broker; at the bound accepting pauses until one leaves."),
    Definition("max.connections.per.ip", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Most connections from one address; a further one is closed at once."),
    Definition("max.connections.per.ip.overrides", STRING, "", None, MEDIUM, CLUSTER_WIDE,
        "Other limits for single addresses or host names, as `host:limit`, separated by commas."),
    Definition("max.connection.creation.rate", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Most new connections a second for the whole broker."),
    Definition("num.network.threads", INT, 3, at_least(1), HIGH, CLUSTER_WIDE,
        "In Kafka the threads that read and write sockets."),
    Definition("num.io.threads", INT, 8, at_least(1), HIGH, CLUSTER_WIDE,
        "In Kafka the threads that handle requests."),
    Definition("background.threads", INT, 10, at_least(1), HIGH, CLUSTER_WIDE,
        "In Kafka the threads for background work such as deleting files."),
    Definition("request.timeout.ms", INT, 30000, None, HIGH, READ_ONLY,
        "How long the broker waits for the answer to a request that it sent to another node."),
    Definition("socket.connection.setup.timeout.ms", LONG, 10000, None, MEDIUM, READ_ONLY,
        "First bound for the set-up of a connection to another node; it grows with each failure."),
    Definition("socket.connection.setup.timeout.max.ms", LONG, 30000, None, MEDIUM, READ_ONLY,
        "Largest bound for the set-up of a connection to another node."),
    Definition("fetch.max.bytes", INT, 57_671_680, at_least(1024), MEDIUM, READ_ONLY,
        "Most record bytes of one fetch answer; caps what the client asks for. The first "
        "batch is always sent whole."),
    Definition("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "Fetch sessions that are remembered; when all are in use a new reader gets full fetches."),
    Definition("fetch.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, READ_ONLY,
        "In Kafka the number of finished waiting fetches after which their leftovers are swept."),
    Definition("producer.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, READ_ONLY,
        "In Kafka the number of finished waiting produce requests after which their leftovers are swept."),
    Definition("delete.records.purgatory.purge.interval.requests", INT, 1, None, MEDIUM, READ_ONLY,
        "In Kafka the number of finished waiting DeleteRecords requests after which their "
        "leftovers are swept."),
    Definition("connection.failed.authentication.delay.ms", INT, 100, at_least(0), LOW, READ_ONLY,
        "Pause before a connection whose authentication failed is closed; slows down guessing."),
    Definition("connections.max.reauth.ms", LONG, 0, None, MEDIUM, READ_ONLY,
        "Age of a SASL session at which the client must authenticate again; 0 means never."),
)
# fmt: on
