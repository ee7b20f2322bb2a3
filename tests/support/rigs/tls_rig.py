"""Clients that speak TLS to a `NetworkRig`, record by record, and the settings of its listener."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from config.tls_settings import StoreSettings, TlsSettings
from tests.support.brokers.certificates import Identity, authority
from tests.support.rigs.network_rig import Client, NetworkRig
from tests.support.rigs.sans_io import framed

__all__ = ["TlsClient", "client_context", "tls_of"]


def tls_of(folder: Path, **changed: Any) -> TlsSettings:
    """The settings of a listener with a key of its own. changed: fields of `TlsSettings`."""
    authority().write_certificate(folder / "ca.pem")
    authority().issue("broker").write_pem(folder / "server.pem")
    given: dict[str, Any] = {
        "listener": "SSL",
        "key_store": StoreSettings("ssl.keystore", "PEM", str(folder / "server.pem")),
        "trust_store": StoreSettings("ssl.truststore", "PEM", str(folder / "ca.pem")),
        "client_auth": "none",
        "versions": ("TLSv1.2", "TLSv1.3"),
        "cipher_suites": (),
        "checks_host": True,
        "principal_rules": "DEFAULT",
    }
    return TlsSettings(**(given | changed))


def client_context(identity: Identity | None = None, folder: Path | None = None) -> ssl.SSLContext:
    """That of a client that trusts the tests' authority; with a certificate of its own if it has one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority().certificate_pem)
    if identity is not None and folder is not None:
        context.load_cert_chain(identity.write_pem(folder / "client.pem"))
    return context


class TlsClient:
    """One connection: what the client's session has to say leaves when a test lets it."""

    def __init__(self, client: Client, context: ssl.SSLContext | None = None) -> None:
        self.client = client
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.session = (context or client_context()).wrap_bio(
            self.incoming, self.outgoing, server_hostname="127.0.0.1"
        )

    @classmethod
    async def connect(
        cls, rig: NetworkRig, context: ssl.SSLContext | None = None, **options: int
    ) -> TlsClient:
        """With its handshake complete."""
        talk = cls(await rig.connect(**options), context)
        await talk.shake_hands()
        return talk

    async def shake_hands(self) -> None:
        while True:
            try:
                self.session.do_handshake()
            except ssl.SSLWantReadError:
                await self.flush()
                await self.hear()
            else:
                await self.flush()
                return

    async def flush(self) -> None:
        await self.client.send(self.outgoing.read())

    async def hear(self, count: int = 65536) -> bool:
        """Takes what comes next; False at the end of the stream."""
        data = await self.client.rig.loop.sock_recv(self.client.sock, count)
        self.incoming.write(data)
        if not data:
            self.incoming.write_eof()
        return bool(data)

    async def send(self, data: bytes) -> None:
        self.session.write(data)
        await self.flush()

    async def ask(self, text: str, expected: int) -> bytes:
        await self.send(framed(b"\0\1" + text.encode()))
        return await self.receive(expected)

    async def receive(self, count: int) -> bytes:
        """Exactly so many bytes, fewer only at the end of the stream."""
        data = bytearray()
        while len(data) < count:
            try:
                part = self.session.read(count - len(data))
            except ssl.SSLWantReadError:
                await self.hear()
                continue
            except ssl.SSLZeroReturnError:
                break
            if not part:
                break
            data += part
        return bytes(data)
