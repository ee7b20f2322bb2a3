"""The two sides of TLS: that of a listener, and that of a node that connects to others.

Both keep the context of OpenSSL that was made from the settings. The listener's can be exchanged while it is
open: connections that are open keep theirs, and new ones get the new one. A certificate that takes the place
of another must have its name and all its hosts (KIP-978), unless the settings allow otherwise.
"""

from __future__ import annotations

import socket
from functools import partial

from broker.network.tls.channel import NameRefused
from broker.network.tls.contexts import client_context, open_stores, server_context
from broker.network.tls.filter import TlsFilter
from broker.network.tls.stores import StoreRefused, Stores
from broker.security.der import DerFault
from broker.security.distinguished_name import alternative_names_of, subject_of
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
        self._take(tls, open_stores(tls, for_server=True))

    def check(self, tls: TlsSettings) -> None:
        """Whether the listener could go on with these settings. Raises StoreRefused if not."""
        stores = open_stores(tls, for_server=True)
        if (tls, stores) != (self._tls, self._stores):
            _check_names(self._stores, stores, tls)
            server_context(tls, stores)

    def change(self, tls: TlsSettings) -> bool:
        """Uses these settings, and what is in the stores now, for connections that come from now on; whether
        that is something new. Raises StoreRefused, and nothing is changed then."""
        stores = open_stores(tls, for_server=True)
        if (tls, stores) == (self._tls, self._stores):
            return False
        _check_names(self._stores, stores, tls)
        self._take(tls, stores)
        return True

    def _take(self, tls: TlsSettings, stores: Stores) -> None:
        self._context = server_context(tls, stores)
        self._mapper = PrincipalMapper(tls.principal_rules)
        self._tls, self._stores = tls, stores

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
        self.tls = tls
        self._stores = open_stores(tls, for_server=False)
        self._context = client_context(tls, self._stores)
        self._scratch = scratch

    def is_current(self, tls: TlsSettings) -> bool:
        """Whether these are its settings, and its stores hold what they held. Raises StoreRefused."""
        return self.tls == tls and self._stores == open_stores(tls, for_server=False)

    def secure(self, sock: socket.socket, host: str) -> TlsFilter:
        """The filter of a connection to this host, as the address was written; its certificate must name
        it."""
        make_session = partial(self._context.wrap_bio, server_side=False, server_hostname=host)
        return TlsFilter(sock, make_session, self._scratch, awaits_peer=False)


def _check_names(before: Stores, now: Stores, tls: TlsSettings) -> None:
    """Refuses another owner, or fewer hosts, in the certificate of a listener that is open. Raises
    StoreRefused."""
    if before.key is None or now.key is None:
        return
    try:
        old, new = before.key.certificate, now.key.certificate
        names = subject_of(old), subject_of(new)
        lost = alternative_names_of(old) - alternative_names_of(new)
    except (DerFault, ValueError) as fault:
        raise StoreRefused(f"the certificate of listener {tls.listener} cannot be read: {fault}") from None
    if names[0] != names[1] and not tls.may_change_name:
        raise StoreRefused(
            f"Keystore DistinguishedName does not match: existing={names[0]}, new={names[1]} "
            "(ssl.allow.dn.changes)"
        )
    if lost and not tls.may_drop_hosts:
        raise StoreRefused(
            f"Keystore SubjectAlternativeNames do not match: {', '.join(sorted(lost))} of the existing one "
            "are not in the new one (ssl.allow.san.changes)"
        )
