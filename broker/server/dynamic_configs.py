"""Tells each part of a running broker when a config that it uses has changed.

A new config is complete: what was set for this broker or for all brokers, over the file (see
`broker.metadata.publishers`). The replica manager follows the configs of topics; here is the rest:
what handlers answer from, how many connections there may be, which listeners are open, and who may log in. A
listener that is added takes connections at once, but as in Kafka clients learn of it from the cluster only
after the next start, because that is when a broker registers; one that is taken away closes its connections.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from broker.fast_lane.epoch import LaneEpoch
from broker.network.interfaces import Listener, Service
from broker.server.connection_limits import change_limits, limits_of_addresses
from broker.server.shared_server import SharedServer, cleaner_settings, listener_settings
from broker.services import BrokerServices
from config.broker_config import BrokerConfig
from config.checks import max_connections_per_ip
from config.errors import ConfigError
from config.listeners import Endpoint
from config.loading import dynamic_warnings
from controller.metadata.image.cluster_image import ClusterImage
from protocol.serving.session import is_address

_log = logging.getLogger("barnabas.node")


class DynamicConfigListeners:
    """`follow` is called with every new config, in the order of the metadata log.

    service_of: what serves the connections of a new listener. lane_epoch: the node's (`broker.fast_lane`).
    """

    def __init__(
        self,
        shared: SharedServer,
        services: BrokerServices,
        acceptors: dict[str, Listener],
        service_of: Callable[[Endpoint, BrokerConfig], Service],
        lane_epoch: LaneEpoch,
    ) -> None:
        self._lane_epoch = lane_epoch
        self._shared = shared
        self._services = services
        self._acceptors = acceptors
        self._service_of = service_of
        self._overrides: Mapping[str, int] = {}
        """The value of max.connections.per.ip.overrides in force."""
        self._addresses: dict[str, list[str]] = {}
        """Those of its host names, as far as they have been found."""

    def follow(self, image: ClusterImage, config: BrokerConfig) -> None:
        before = self._services.config
        self._services.config = config
        self._lane_epoch.bump()
        for problem in config.refused:
            if problem not in before.refused:
                _log.warning("A stored setting is passed over: %s", problem)
        for warning in dynamic_warnings(before, config):
            _log.warning("Dynamic configs: %s", warning)
        self.limit_connections(config)
        self._shared.logs.cleaner.settings = cleaner_settings(config)
        self._shared.change_stores(config)
        self._shared.authentication.change(config)
        try:
            self._follow_listeners(config)
        except (ConfigError, OSError) as problem:
            _log.error("The listeners stay as they were: %s", problem)

    def limit_connections(self, config: BrokerConfig) -> None:
        """Applies the limits. Host names in max.connections.per.ip.overrides are looked up by a helper
        thread when these have changed; their limits apply when the addresses are known, and an address stays
        until another is found."""
        try:
            overrides = max_connections_per_ip(config)
        except ConfigError as problem:
            _log.error("The limits for single addresses stay as they were: %s", problem)
            return
        has_changed = overrides != self._overrides
        names = [host for host in overrides if not is_address(host)]
        self._overrides = overrides
        self._addresses = {host: self._addresses[host] for host in names if host in self._addresses}
        self._change_limits(config)
        unknown = [host for host in names if has_changed or host not in self._addresses]
        if unknown:
            resolve = self._shared.surroundings.network.resolve
            self._shared.threads.files.submit(partial(resolve, unknown), self._take_addresses)

    def _take_addresses(self, found: dict[str, list[str]] | BaseException) -> None:
        if isinstance(found, BaseException):
            _log.error("max.connections.per.ip.overrides: no name could be looked up: %s", found)
            return
        for host, addresses in found.items():
            if addresses and host in self._overrides:
                self._addresses[host] = addresses
            elif host in self._overrides:
                _log.error("max.connections.per.ip.overrides: there is no address of %s", host)
        self._change_limits(self._services.config)

    def _change_limits(self, config: BrokerConfig) -> None:
        overrides = self._overrides
        named = {each: overrides[host] for host, addresses in self._addresses.items() for each in addresses}
        names = [endpoint.listener for endpoint in config.broker_listeners]
        exempt = config.inter_broker_listener_name if len(names) > 1 else None
        per_ip = named | limits_of_addresses(overrides)
        change_limits(self._shared.server.limits, config, names, per_ip, exempt_listener=exempt)
        self._shared.server.close_excess()

    def _follow_listeners(self, config: BrokerConfig) -> None:
        wanted = {endpoint.listener: endpoint for endpoint in config.broker_listeners}
        server = self._shared.server
        for name in [name for name in self._acceptors if name not in wanted]:
            _log.info("Listener %s is closed", name)
            server.close_listener(name, "its listener was taken away")
            del self._acceptors[name]
        for name, endpoint in wanted.items():
            if name in self._acceptors:
                continue
            if not endpoint.host or is_address(endpoint.host):
                self._open_listener(endpoint, config)
            else:
                self._open_when_found(endpoint)

    def _open_listener(self, endpoint: Endpoint, config: BrokerConfig) -> None:
        name = endpoint.listener
        service = self._service_of(endpoint, config)
        acceptor = self._shared.server.listen(listener_settings(endpoint, config), service)
        self._acceptors[name] = acceptor
        acceptor.start()
        _log.info("Listener %s is open at %s:%d", name, acceptor.host, acceptor.port)

    def _open_when_found(self, endpoint: Endpoint) -> None:
        """Opens a listener at a host name, which a helper thread looks up. Where that fails, or no address
        can be bound, the next change of the configs tries again."""
        name, host = endpoint.listener, endpoint.host

        def found(addresses: dict[str, list[str]] | BaseException) -> None:
            config = self._services.config
            if endpoint not in config.broker_listeners or name in self._acceptors:
                return
            problem: BaseException = OSError(f"there is no address of {host}")
            if isinstance(addresses, BaseException):
                problem, addresses = addresses, {}
            for address in addresses.get(host, ()):
                try:
                    self._open_listener(replace(endpoint, host=address), config)
                except OSError as failure:
                    problem = failure
                else:
                    return
            _log.error("Listener %s stays closed: %s", name, problem)

        self._shared.threads.files.submit(partial(self._shared.surroundings.network.resolve, [host]), found)
