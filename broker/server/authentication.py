"""SASL of a node, put together: what guards each of its listeners, and how it logs in to other nodes."""

from __future__ import annotations

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
from config.listeners import Endpoint
from config.ports import Clock, RandomSource, Timers
from protocol.scram import MECHANISMS, random_text

__all__ = ["Authentication"]

_SECRET_BYTES: Final = 32
_NONCE_BYTES: Final = 17


class Authentication:
    """What the listeners of a node share of SASL. gates: those that were made, by the listener's name."""

    def __init__(self, clock: Clock, timers: Timers, random_source: RandomSource) -> None:
        self.gates: dict[str, SaslGate] = {}
        self._clock = clock
        self._timers = timers
        self._random_source = random_source
        self._fakes = FakeCredentials(random_source.random_bytes(_SECRET_BYTES))

    def guarded(
        self, endpoint: Endpoint, config: BrokerConfig, service: Service, find: FindCredential
    ) -> Service:
        """The service of a listener: this one itself, or behind a gate where the listener has SASL. find:
        what is known of a user's SCRAM password. Raises ConfigError."""
        if not has_sasl(endpoint.security_protocol):
            return service
        listener = sasl_listener(config, endpoint.listener)
        settings = GateSettings(
            failure_delay_ms=config.integer("connection.failed.authentication.delay.ms"),
            max_frame_bytes=config.integer("socket.request.max.bytes"),
            max_receive_bytes=config.integer("sasl.server.max.receive.size"),
        )
        make = self._mechanisms(listener, find)
        gate = self.gates[endpoint.listener] = SaslGate(
            service,
            lambda: SaslAuthenticator(listener, make),
            settings,
            clock=self._clock,
            timers=self._timers,
        )
        return gate

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

    def _mechanisms(self, listener: SaslListener, find: FindCredential) -> Callable[[str], ServerMechanism]:
        def make(mechanism: str) -> ServerMechanism:
            if mechanism == PLAIN:
                return PlainServer(listener.plain_users)
            return ScramServer(MECHANISMS[mechanism], find, self._fakes, self.nonce())

        return make
