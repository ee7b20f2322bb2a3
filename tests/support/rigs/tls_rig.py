"""Clients that speak TLS to a `NetworkRig`, record by record, and the settings of its listener."""

from __future__ import annotations

import hmac
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from config.tls_settings import StoreSettings, TlsSettings
from tests.support.brokers.certificates import Identity, authority
from tests.support.rigs.network_rig import Client, NetworkRig
from tests.support.rigs.sans_io import framed

__all__ = ["TlsClient", "client_context", "key_updates", "tls_of"]


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


def key_updates(key_log: Path) -> Iterator[bytes]:
    """Records of TLS 1.3 (TLS_AES_256_GCM_SHA384) without end that each ask the server for new keys; Python's
    client cannot send them. key_log: of a client that has sent no application data (SSLContext's
    keylog_filename). Source: RFC 8446, sections 4.6.3, 5.2, 7.1 and 7.2."""
    (line,) = [
        each for each in key_log.read_text().splitlines() if each.startswith("CLIENT_TRAFFIC_SECRET_0 ")
    ]
    secret = bytes.fromhex(line.split()[-1])

    def expand(label: bytes, size: int) -> bytes:
        info = size.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label + b"\0"
        return hmac.digest(secret, info + b"\1", "sha384")[:size]

    header = b"\x17\x03\x03\x00\x16"
    update_requested = b"\x18\x00\x00\x01\x01"
    while True:
        yield header + AESGCM(expand(b"key", 32)).encrypt(
            expand(b"iv", 12), update_requested + b"\x16", header
        )
        secret = expand(b"traffic upd", 48)
