"""What both roles of a node use: its surroundings, the listeners, the log directories, health and metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from broker.admin.health import Health
from broker.dispatch.dispatcher import CurrentRequest
from broker.dispatch.lane import Lane
from broker.metrics.families import Collectors
from broker.network.interfaces import Listener, ListenerSettings
from broker.network.limits import ConnectionLimits
from broker.network.memory import RequestMemory, pool_bound_bytes
from broker.network.server import Server, ServerSettings
from broker.ports.surroundings import Surroundings
from broker.replication.topic_settings import loading_config
from broker.server.authentication import Authentication
from config.authentication import controller_login, has_sasl, inter_broker_login
from config.broker_config import BrokerConfig
from config.dynamic import invalid_as_a_whole
from config.errors import ConfigError
from config.limits import RESERVED_DESCRIPTORS
from config.listeners import Endpoint as ListenerEndpoint
from config.tls_settings import TlsSettings, tls_settings
from controller.metadata.image.brokers import BrokerEndpoint
from storage.clean_shutdown import UNKNOWN_BROKER_EPOCH
from storage.cleaner.cleaner import CleanerSettings
from storage.directories import LogDirectory, open_directories
from storage.housekeeping import LogManagerSettings
from storage.log_loading import RecoverySettings, StartReport
from storage.log_manager import LogManager
from storage.open_files import bound_for
from storage.recovery import OnDamage

_log = logging.getLogger("barnabas.node")

PATIENCE_SECONDS: Final = 60
"""The time for which a service manager is asked to wait for the next report on the recovery."""

SECURITY_PROTOCOLS: Final[Mapping[str, int]] = MappingProxyType(
    {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
)


class SharedServer:
    """What the roles of a node share. It is made before them, and closed after them."""

    def __init__(self, surroundings: Surroundings, config: BrokerConfig, cluster_id: str) -> None:
        self.surroundings = surroundings
        self.config = config
        self.cluster_id = cluster_id
        self.node_id = config.node_id
        self.clock = surroundings.clock
        self.timers = surroundings.timers
        self.random_source = surroundings.random_source
        self.files = surroundings.files
        self.threads = surroundings.threads
        self.authentication = Authentication(self.clock, self.timers, self.random_source)
        self.controller_login = self.authentication.login(controller_login(config))
        self.broker_login = (
            self.authentication.login(inter_broker_login(config)) if config.is_broker else None
        )
        self.memory = RequestMemory(
            pool_bound_bytes(config.integer("queued.max.request.bytes"), surroundings.available_memory_bytes)
        )
        self.lane = Lane(clock=self.clock, timers=self.timers, memory=self.memory)
        self.current_request = CurrentRequest()
        self.server = Server(
            surroundings.network,
            clock=self.clock,
            timers=self.timers,
            memory=self.memory,
            settings=ServerSettings(
                config.integer("socket.request.max.bytes"), config.integer("connections.max.idle.ms")
            ),
        )
        self.logs = LogManager(
            self.files,
            config.log_directories,
            clock=self.clock,
            random_source=self.random_source,
            offload=self.threads.files,
            default_config=loading_config(config),
            settings=log_manager_settings(config),
            workers=surroundings.workers,
            recovery=RecoverySettings(
                threads_per_directory=config.integer("num.recovery.threads.per.data.dir"),
                on_damage=OnDamage(config.text("barnabas.recovery.corrupt")),
            ),
            tell=self._tell_of_the_start,
            required_directory=self.metadata_directory,
            cluster_id=cluster_id,
            node_id=config.node_id,
        )
        self._metadata_home: LogDirectory | None = None
        """The metadata log's directory, if it is not one of the log directories."""
        self.logs.cleaner.settings = cleaner_settings(config)
        self._connecting: dict[str, TlsSettings | None] = {}
        """How connections to listeners of other nodes are secured, by the listener's name."""
        self.health = Health()
        self.collectors = Collectors()

    @property
    def metadata_directory(self) -> str:
        """The directory of the metadata log, written as the log manager writes directories."""
        return self.config.metadata_log_directory.rstrip("/") or "/"

    def open_directories(self) -> StartReport:
        """Locks all directories and opens every partition's log. Raises DirectoryRefused, OSError."""
        report = self.logs.start()
        if all(directory.path != self.metadata_directory for directory in self.logs.directories):
            (self._metadata_home,), _ = open_directories(
                self.files, [self.metadata_directory],
                cluster_id=self.cluster_id, node_id=self.node_id, required=self.metadata_directory,
            )  # fmt: skip
        return report

    def close_directories(self, broker_epoch: int) -> None:
        """Closes all logs and marks the directories as cleanly shut down. The metadata log must be closed by
        then."""
        self.logs.shut_down(broker_epoch, side_by_side=self.threads.side_by_side)
        if self._metadata_home is not None:
            self._metadata_home.release()

    @property
    def directory_id(self) -> bytes:
        """The id of the directory with the metadata log; zeros if it has none."""
        homes = self.logs.directories if self._metadata_home is None else [self._metadata_home]
        for directory in homes:
            if directory.path == self.metadata_directory and directory.directory_id is not None:
                return directory.directory_id
        return bytes(16)

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last run, if it shut down cleanly in all directories; else -1."""
        epochs = {directory.clean_broker_epoch for directory in self.logs.directories}
        known = epochs.pop() if len(epochs) == 1 else None
        return UNKNOWN_BROKER_EPOCH if known is None else known

    def tell_of_descriptors(self) -> None:
        """Logs a warning if the logs have more files than may be open at a time."""
        descriptors = self.surroundings.descriptor_limit
        logs, bound = len(self.logs.logs), bound_for(descriptors)
        if logs > bound:
            _log.warning(
                "%d logs are here, and the process may have %d files and sockets open: at most %d of their "
                "files stay open, the others are opened when they are needed. For all to stay open raise the "
                "limit to %d (ulimit -n, or LimitNOFILE= in a systemd unit)",
                logs, descriptors, bound, 2 * logs + RESERVED_DESCRIPTORS,
            )  # fmt: skip

    def listen(
        self, listeners: Iterable[ListenerEndpoint], limits: ConnectionLimits | None = None
    ) -> dict[str, Listener]:
        """Opens listeners, so that their ports are known. They take connections when they are started.
        limits: their own ones, if they are not those of the broker's clients."""
        return {
            each.listener: self.server.listen(listener_settings(each, self.config), limits=limits)
            for each in listeners
        }

    def prepare_to_connect(self, config: BrokerConfig) -> None:
        """Opens the stores that connections to other nodes use from now on. Raises OSError for one that
        cannot be used, and ConfigError."""
        names = [*config.controller_listener_names[:1]]
        names += [config.inter_broker_listener_name] if config.is_broker else []
        for name in names:
            tls = tls_settings(config, name)
            if tls is not None:
                self.surroundings.network.prepare(tls)
            self._connecting[name] = tls

    def tls_to(self, listener: str) -> TlsSettings | None:
        """How connections to the listener of that name of other nodes are secured now."""
        return self._connecting.get(listener)

    def check_stores(self, config: BrokerConfig) -> None:
        """Whether the listeners that are open could exchange their stores for those of this config. Raises
        ConfigError."""
        for name, listener in self.server.acceptors.items():
            tls = tls_settings(config, name)
            try:
                if tls is not None:
                    listener.check_tls(tls)
            except OSError as problem:
                raise invalid_as_a_whole(ConfigError(str(problem))) from None

    def change_stores(self, config: BrokerConfig) -> None:
        """Reads the stores again, for connections that come or are made from now on. One that cannot be used
        leaves the former one in force, and the log says so."""
        for name, listener in self.server.acceptors.items():
            try:
                tls = tls_settings(config, name)
                if tls is not None and listener.change_tls(tls):
                    _log.info("Listener %s has read its key store and its trust store again", name)
            except (ConfigError, OSError) as problem:
                _log.error("Listener %s keeps its key store and its trust store: %s", name, problem)
        try:
            self.prepare_to_connect(config)
        except (ConfigError, OSError) as problem:
            _log.error("Connections to other nodes keep their key store and trust store: %s", problem)

    def advertised(
        self, listeners: Iterable[ListenerEndpoint], opened: Mapping[str, Listener]
    ) -> dict[str, BrokerEndpoint]:
        """The addresses that clients are told: port 0 is replaced by the port that was given, and an empty
        host by this machine's name."""
        endpoints = {}
        for each in listeners:
            acceptor = opened.get(each.listener)
            port = each.port or (acceptor.port if acceptor is not None else 0)
            host = each.host or self.surroundings.network.host_name()
            endpoints[each.listener] = BrokerEndpoint(host, port, SECURITY_PROTOCOLS[each.security_protocol])
        return endpoints

    def _tell_of_the_start(self, line: str) -> None:
        """Reports the progress of the recovery to the log, and to systemd, which then waits longer."""
        _log.info("%s", line)
        self.surroundings.service_manager.notify(
            f"STATUS={line}", f"EXTEND_TIMEOUT_USEC={PATIENCE_SECONDS * 1_000_000}"
        )


def listener_settings(endpoint: ListenerEndpoint, config: BrokerConfig) -> ListenerSettings:
    """The socket configs of Kafka for one listener."""
    return ListenerSettings(
        name=endpoint.listener,
        host=endpoint.host,
        port=endpoint.port,
        backlog=config.integer("socket.listen.backlog.size"),
        send_buffer_bytes=_if_set(config, "socket.send.buffer.bytes"),
        receive_buffer_bytes=_if_set(config, "socket.receive.buffer.bytes") or -1,
        security_protocol=endpoint.security_protocol,
        tls=tls_settings(config, endpoint.listener),
        sasl_server_max_receive_size=(
            config.integer("sasl.server.max.receive.size") if has_sasl(endpoint.security_protocol) else None
        ),
    )


def _if_set(config: BrokerConfig, name: str) -> int | None:
    """A buffer size if it is set explicitly. Kafka's default of 100 KiB would switch off the kernel's own
    tuning, and file slices would be sent in small pieces."""
    return config.integer(name) if config.is_set(name) else None


def cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    return CleanerSettings(
        enabled=config.flag("log.cleaner.enable"),
        threads=config.integer("log.cleaner.threads"),
        backoff_ms=config.integer("log.cleaner.backoff.ms"),
        dedupe_buffer_bytes=config.integer("log.cleaner.dedupe.buffer.size"),
        load_factor=config.number("log.cleaner.io.buffer.load.factor"),
        io_max_bytes_per_second=config.number("log.cleaner.io.max.bytes.per.second"),
    )


def log_manager_settings(config: BrokerConfig) -> LogManagerSettings:
    initial_delay_set = config.is_set("log.initial.task.delay.ms")
    return LogManagerSettings(
        initial_task_delay_ms=config.integer("log.initial.task.delay.ms") if initial_delay_set else None,
        high_watermark_checkpoint_interval_ms=config.integer("replica.high.watermark.checkpoint.interval.ms"),
        flush_checkpoint_interval_ms=config.integer("log.flush.offset.checkpoint.interval.ms"),
        log_start_checkpoint_interval_ms=config.integer("log.flush.start.offset.checkpoint.interval.ms"),
        flush_look_interval_ms=(
            config.integer("log.flush.scheduler.interval.ms")
            if config.is_set("log.flush.scheduler.interval.ms")
            else LogManagerSettings().flush_look_interval_ms
        ),
        retention_check_interval_ms=config.integer("log.retention.check.interval.ms"),
        producer_expiration_check_interval_ms=config.integer("producer.id.expiration.check.interval.ms"),
    )
