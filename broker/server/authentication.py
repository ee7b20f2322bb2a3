"""SASL of a node, put together: what guards each of its listeners, and how it logs in to other nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from broker.controller_channel.peer.login import Login
from broker.network.interfaces import Service
from broker.security.mechanism import PlainClient, PlainServer, ServerMechanism
from broker.security.sasl_authenticator import SaslAuthenticator
from broker.security.sasl_gate import GateSettings, SaslGate
from broker.security.scram_exchange import (
    FakeCredentials,
    FindCredential,
    SaltedPasswords,
    ScramClient,
    ScramServer,
)
from config.authentication import PLAIN, SaslListener, SaslLogin, has_sasl, sasl_listener
from config.broker_config import BrokerConfig
from config.errors import ConfigError
from config.listeners import Endpoint
from config.ports import Clock, RandomSource, Timers
from protocol.scram import MECHANISMS, random_text

__all__ = ["Authentication"]

_log = logging.getLogger("barnabas.node")

_SECRET_BYTES: Final = 32
_NONCE_BYTES: Final = 17


class Authentication:
    """What the listeners of a node share of SASL. gates: those that were made, by the listener's name."""

    def __init__(self, clock: Clock, timers: Timers, random_source: RandomSource) -> None:
        self.gates: dict[str, SaslGate] = {}
        self._listeners: dict[str, SaslListener] = {}
        self._clock = clock
        self._timers = timers
        self._random_source = random_source
        self._fakes: FakeCredentials | None = None
        """Made with the first listener that has SASL."""

    def guarded(
        self, endpoint: Endpoint, config: BrokerConfig, service: Service, find: FindCredential
    ) -> Service:
        """The service of a listener: this one itself, or behind a gate where the listener has SASL. find:
        what is known of a user's SCRAM password. Raises ConfigError."""
        if not has_sasl(endpoint.security_protocol):
            return service
        name = endpoint.listener
        self._listeners[name] = sasl_listener(config, name)
        settings = GateSettings(
            failure_delay_ms=config.integer("connection.failed.authentication.delay.ms"),
            max_frame_bytes=config.integer("socket.request.max.bytes"),
            max_receive_bytes=config.integer("sasl.server.max.receive.size"),
        )
        if self._fakes is None:
            self._fakes = FakeCredentials(self._random_source.random_bytes(_SECRET_BYTES))
        make = self._mechanisms(find, self._fakes)
        gate = self.gates[name] = SaslGate(
            service,
            lambda: SaslAuthenticator(lambda: self._listeners[name], make),
            settings,
            clock=self._clock,
            timers=self._timers,
        )
        return gate

    def change(self, config: BrokerConfig) -> None:
        """Takes over the mechanisms, the users and how long sessions last, for who authenticates from now on.
        The controller's listeners keep those of the file, by which the other nodes log in."""
        for endpoint in config.broker_listeners:
            name = endpoint.listener
            if name not in self._listeners or not has_sasl(endpoint.security_protocol):
                continue
            try:
                listener = sasl_listener(config, name)
            except ConfigError as problem:
                _log.error("Listener %s lets in whom it has let in: %s", name, problem)
                continue
            if listener != self._listeners[name]:
                self._listeners[name] = listener
                _log.info("Listener %s has taken over its mechanisms and users from the configs", name)

    def login(self, login: SaslLogin | None) -> Login | None:
        """How a channel logs in to another node; None where it need not."""
        if login is None:
            return None
        if login.mechanism == PLAIN:
            return Login(PLAIN, login.username, lambda: PlainClient(login))
        passwords = SaltedPasswords(login, MECHANISMS[login.mechanism])
        return Login(login.mechanism, login.username, lambda: ScramClient(passwords, self.nonce()))

    def nonce(self) -> str:
        return random_text(self._random_source.random_bytes(_NONCE_BYTES))

    def _mechanisms(
        self, find: FindCredential, fakes: FakeCredentials
    ) -> Callable[[SaslListener, str], ServerMechanism]:
        def make(listener: SaslListener, mechanism: str) -> ServerMechanism:
            if mechanism == PLAIN:
                return PlainServer(listener.plain_users)
            return ScramServer(MECHANISMS[mechanism], find, fakes, self.nonce())

        return make
