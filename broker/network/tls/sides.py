"""The two sides of TLS: that of a listener, and that of a node that connects to others.

Both keep the context of OpenSSL that was made from the settings. The listener's can be exchanged while it is
open: connections that are open keep theirs, and new ones get the new one.
"""

from __future__ import annotations

import socket
from functools import partial

from broker.network.tls.channel import NameRefused
from broker.network.tls.contexts import client_context, server_context
from broker.network.tls.filter import TlsFilter
from broker.security.der import DerFault
from broker.security.distinguished_name import subject_of
from config.principal_mapping import NoRuleMatches, PrincipalMapper
from config.tls_settings import TlsSettings
from protocol.serving.session import Principal

__all__ = ["ConnectingSide", "ListeningSide"]


class ListeningSide:
    """Secures the connections that a listener accepts. Raises StoreRefused.

    names_clients: whether a client's certificate says who it is; False where SASL does.
    """

    def __init__(self, tls: TlsSettings, scratch: memoryview, *, names_clients: bool) -> None:
        self._scratch = scratch
        self._names_clients = names_clients
        self.change(tls)

    def change(self, tls: TlsSettings) -> None:
        """Uses these settings for connections that come from now on. Raises StoreRefused, and nothing is
        changed then."""
        context, mapper = server_context(tls), PrincipalMapper(tls.principal_rules)
        self._context = context
        self._mapper = mapper

    def secure(self, sock: socket.socket) -> TlsFilter:
        """The filter of a connection that was accepted; its handshake has not begun."""
        make_session = partial(self._context.wrap_bio, server_side=True)
        return TlsFilter(sock, make_session, self._scratch, awaits_peer=True)

    def principal_of(self, certificate: bytes | None) -> Principal | None:
        """The principal of a client: ANONYMOUS without a certificate. Raises NameRefused."""
        if not self._names_clients:
            return None
        if certificate is None:
            return Principal()
        try:
            return Principal(self._mapper.name_of(subject_of(certificate)))
        except (NoRuleMatches, DerFault) as problem:
            raise NameRefused(str(problem)) from None


class ConnectingSide:
    """Secures the connections of this node to listeners of other nodes. Raises StoreRefused."""

    def __init__(self, tls: TlsSettings, scratch: memoryview) -> None:
        self._context = client_context(tls)
        self._scratch = scratch

    def secure(self, sock: socket.socket, host: str) -> TlsFilter:
        """The filter of a connection to this host, as the address was written; its certificate must name
        it."""
        make_session = partial(self._context.wrap_bio, server_side=False, server_hostname=host)
        return TlsFilter(sock, make_session, self._scratch, awaits_peer=False)
