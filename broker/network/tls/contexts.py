"""What OpenSSL is told about a listener: keys, trust, versions and cipher suites, as contexts for both sides.

Renegotiation is switched off. A certificate in a trust store is trusted by itself, whether it may sign others
or not, as in Java. Compression is not there (Python never allows it).

Cipher suites have the names of IANA in Kafka's configs and names of their own in OpenSSL. The suites of TLS
1.3 cannot be chosen one by one from Python; `config.tls_settings` refuses what this could not keep.
"""

from __future__ import annotations

import ssl
from types import MappingProxyType
from typing import Final

from broker.network.tls.stores import (
    KeyPem,
    StoreRefused,
    Stores,
    as_file,
    open_key_store,
    open_trust_store,
)
from config.setting import one_line
from config.tls_settings import NEWEST_SUITES, TlsSettings

__all__ = ["client_context", "open_stores", "server_context"]

_VERSIONS: Final = MappingProxyType({"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3})

_CLIENT_AUTH: Final = MappingProxyType(
    {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
)

_KEY_EXCHANGES: Final = MappingProxyType(
    {"ECDHE_ECDSA": "ECDHE-ECDSA-", "ECDHE_RSA": "ECDHE-RSA-", "DHE_RSA": "DHE-RSA-", "RSA": ""}
)
_CIPHERS: Final = MappingProxyType(
    {
        "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
        "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
        "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
        "AES_256_CBC_SHA384": "AES256-SHA384",
        "AES_256_CBC_SHA256": "AES256-SHA256",
        "AES_128_CBC_SHA256": "AES128-SHA256",
        "AES_256_CBC_SHA": "AES256-SHA",
        "AES_128_CBC_SHA": "AES128-SHA",
    }
)


def open_stores(tls: TlsSettings, *, for_server: bool) -> Stores:
    """Opens the stores that this side of a connection needs. Raises StoreRefused."""
    key = open_key_store(tls.key_store)
    if for_server and key is None:
        raise StoreRefused(f"listener {tls.listener} has no key: set ssl.keystore.location")
    if for_server and tls.client_auth == "none":
        return Stores(key, None)
    return Stores(key, open_trust_store(tls.trust_store))


def server_context(tls: TlsSettings, stores: Stores | None = None) -> ssl.SSLContext:
    """For the connections that a listener accepts. stores: those that are open already. Raises
    StoreRefused."""
    key, trusted = stores or open_stores(tls, for_server=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _prepare(context, tls, key)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = _CLIENT_AUTH[tls.client_auth]
    if tls.client_auth != "none":
        _trust(context, tls, trusted, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(tls: TlsSettings, stores: Stores | None = None) -> ssl.SSLContext:
    """For the connections that this node makes to listeners of that name. stores: those that are open
    already. Raises StoreRefused."""
    key, trusted = stores or open_stores(tls, for_server=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.checks_host
    _prepare(context, tls, key)
    _trust(context, tls, trusted, ssl.Purpose.SERVER_AUTH)
    return context


def _prepare(context: ssl.SSLContext, tls: TlsSettings, key: KeyPem | None) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.minimum_version = _VERSIONS[tls.versions[0]]
    context.maximum_version = _VERSIONS[tls.versions[-1]]
    older = [each for each in tls.cipher_suites if each not in NEWEST_SUITES]
    if older:
        names = [_openssl_name(each) for each in older]
        try:
            context.set_ciphers(":".join(names))
        except ssl.SSLError:
            raise StoreRefused(f"ssl.cipher.suites: OpenSSL has none of {', '.join(older)}") from None
    if key is not None:
        _load(context, tls, key)


def _openssl_name(suite: str) -> str:
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if exchange not in _KEY_EXCHANGES or cipher not in _CIPHERS:
        raise StoreRefused(
            f"ssl.cipher.suites: {one_line(suite)} is not served. Names are those of IANA, such as "
            "TLS_AES_256_GCM_SHA384 or TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        )
    return f"{_KEY_EXCHANGES[exchange]}{_CIPHERS[cipher]}"


def _load(context: ssl.SSLContext, tls: TlsSettings, key: KeyPem) -> None:
    store = tls.key_store
    where = f"{store.config}.location={store.location}" if store.location else "ssl.keystore.key"
    password = key.password or ""  # without one OpenSSL would ask at the terminal
    try:
        with as_file(key.pem) as path:
            context.load_cert_chain(path, password=lambda: password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = "the private key does not belong to the first certificate"
        elif key.password is not None:
            reason = "the private key cannot be decrypted: ssl.key.password is wrong, or the file is damaged"
        else:
            reason = f"key or certificates cannot be used ({error.reason or 'damaged'})"
        raise StoreRefused(f"{where}: {reason}") from None


def _trust(context: ssl.SSLContext, tls: TlsSettings, trusted: str | None, purpose: ssl.Purpose) -> None:
    """Without a trust store the certificates of the machine are trusted, as the JVM's are in Kafka."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if trusted is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        store = tls.trust_store
        name = (
            f"{store.config}.location={store.location}" if store.location else f"{store.config}.certificates"
        )
        raise StoreRefused(f"{name}: cannot be used ({error.reason or 'damaged'})") from None
