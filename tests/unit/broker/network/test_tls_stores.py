"""Key stores and trust stores: the kinds that are read, and the sentence for each that cannot be used."""

from __future__ import annotations

import asyncio
import os
import pkgutil
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.socket_network import SocketNetwork
from broker.network.tls.contexts import client_context, server_context
from broker.network.tls.jks import JksFault, read_jks
from broker.network.tls.sides import ListeningSide
from broker.network.tls.stores import StoreRefused, open_key_store, open_trust_store
from config.broker_config import BrokerConfig
from config.errors import ConfigError
from config.setting import Setting, Source
from config.tls_settings import StoreSettings, TlsSettings, check_tls, tls_settings
from tests.support.brokers.certificates import Authority, authority
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.tls_rig import tls_of


def key_store(folder: Path, location: str, kind: str = "PEM", **more: Any) -> TlsSettings:
    return tls_of(folder, key_store=StoreSettings("ssl.keystore", kind, location, **more))


def settings_of(**given: str) -> BrokerConfig:
    texts = {
        "listeners": "SSL://:9094,CONTROLLER://:9093",
        "listener.security.protocol.map": "SSL:SSL,SASL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": "/keys/server.pem",
        **{name.replace("_", "."): text for name, text in given.items()},
    }
    return BrokerConfig({name: Setting(name, text, Source.FILE, "") for name, text in texts.items()})


def found(listener: str = "SSL", **given: str) -> TlsSettings:
    settings = tls_settings(settings_of(**given), listener)
    assert settings is not None
    return settings


def test_pem_with_and_without_a_password(tmp_path: Path) -> None:
    identity = authority().issue("broker")
    plain = identity.write_pem(tmp_path / "plain.pem")
    locked = identity.write_pem(tmp_path / "locked.pem", "geheim")
    server_context(key_store(tmp_path, plain))
    server_context(key_store(tmp_path, locked, key_password="geheim"))
    server_context(
        key_store(
            tmp_path,
            None,  # type: ignore[arg-type]
            key=identity.key_pem("geheim"),
            certificates=identity.certificate_pem,
            key_password="geheim",
        )
    )


def test_pem_in_one_line(tmp_path: Path) -> None:
    """As a properties file has it whose lines end in backslashes."""
    identity = authority().issue("broker")
    key, chain = (text.replace("\n", " ") for text in (identity.key_pem(), identity.certificate_pem * 2))
    store = StoreSettings("ssl.keystore", "PEM", key=key, certificates=chain)
    trusted = StoreSettings(
        "ssl.truststore", "PEM", certificates=authority().certificate_pem.replace("\n", " ")
    )
    server_context(tls_of(tmp_path, key_store=store, trust_store=trusted, client_auth="required"))
    assert open_trust_store(trusted) == authority().certificate_pem


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_whatever_its_type_says(tmp_path: Path, kind: str) -> None:
    path = (
        authority().issue("broker").write_pkcs12(tmp_path / "server.p12", "geheim", [authority().certificate])
    )
    settings = key_store(tmp_path, path, kind, password="geheim")
    opened = open_key_store(settings.key_store)
    assert opened is not None
    assert opened.pem.count(b"BEGIN CERTIFICATE") == 2
    server_context(settings)


@pytest.mark.java
def test_a_trust_store_of_keytool(tmp_path: Path) -> None:
    authority().write_certificate(tmp_path / "ca.pem")
    keytool(
        "-importcert", "-noprompt", "-alias", "ca", "-file", str(tmp_path / "ca.pem"),
        "-keystore", str(tmp_path / "trust.jks"), "-storepass", "geheim",
    )  # fmt: skip
    store = StoreSettings("ssl.truststore", "JKS", str(tmp_path / "trust.jks"), "geheim")
    assert open_trust_store(store) == authority().certificate_pem
    client_context(tls_of(tmp_path, trust_store=store))


def keytool(*arguments: str) -> None:
    made = subprocess.run(["keytool", *arguments], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.fixture(scope="module")
def jks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of keytool's in the older format: a key whose password is not the store's."""
    folder = tmp_path_factory.mktemp("jks")
    path = folder / "server.jks"
    keytool(
        "-genkeypair", "-alias", "broker", "-keyalg", "EC", "-dname", "CN=broker", "-storetype", "JKS",
        "-keystore", str(path), "-storepass", "geheim", "-keypass", "schluessel",
    )  # fmt: skip
    authority().write_certificate(folder / "ca.pem")
    keytool(
        "-importcert", "-noprompt", "-alias", "ca", "-file", str(folder / "ca.pem"), "-storetype", "JKS",
        "-keystore", str(folder / "trust.jks"), "-storepass", "geheim",
    )  # fmt: skip
    return folder


@pytest.mark.java
def test_javas_older_format(tmp_path: Path, jks: Path) -> None:
    path = str(jks / "server.jks")
    server_context(key_store(tmp_path, path, "JKS", password="geheim", key_password="schluessel"))
    store = StoreSettings("ssl.truststore", "JKS", str(jks / "trust.jks"), "geheim")
    assert open_trust_store(store) == authority().certificate_pem
    for more, complaint in (
        ({"password": "geheim"}, "the password of the private key is wrong"),
        (
            {"password": "wrong", "key_password": "schluessel"},
            "the password is wrong, or the file is damaged",
        ),
    ):
        with pytest.raises(StoreRefused, match=complaint):
            server_context(key_store(tmp_path, path, "JKS", **more))


@pytest.mark.java
@given(at=st.integers(0, 5_000), byte=st.integers(0, 255), is_cut=st.booleans())
def test_damaged_stores_of_the_older_format_are_told(jks: Path, at: int, byte: int, is_cut: bool) -> None:
    """Without a password, so that the digest does not hide what the reader makes of them."""
    data = (jks / "server.jks").read_bytes()
    at %= len(data)
    damaged = data[:at] if is_cut else data[:at] + bytes([byte]) + data[at + 1 :]
    with suppress(JksFault):
        for entry in read_jks(damaged, None).keys:
            entry.key("schluessel")


def stores_that_cannot_be_used(folder: Path) -> dict[str, TlsSettings]:
    identity, another = authority().issue("broker"), authority().issue("another")
    (folder / "empty").write_bytes(b"")
    (folder / "certificate.pem").write_text(identity.certificate_pem)
    (folder / "key.pem").write_text(identity.key_pem())
    (folder / "mixed.pem").write_text(another.key_pem() + identity.certificate_pem)
    (folder / "broken.pem").write_text(identity.key_pem()[:100] + "\n" + identity.certificate_pem)
    (folder / "damaged.pem").write_text(identity.key_pem() + identity.certificate_pem.replace("M", "N", 20))
    (folder / "nested.pem").write_text(
        identity.key_pem() + "-----BEGIN CERTIFICATE-----\n" + identity.certificate_pem
    )
    identity.write_pem(folder / "good.pem")
    identity.write_pem(folder / "locked.pem", "geheim")
    identity.write_pkcs12(folder / "good.p12", "geheim")
    os.mkfifo(folder / "pipe")
    (folder / "cut.p12").write_bytes((folder / "good.p12").read_bytes()[:-50])

    def at(name: str, kind: str = "PEM", **more: Any) -> TlsSettings:
        return key_store(folder, str(folder / name), kind, **more)

    return {
        "nowhere.pem cannot be read: No such file or directory": at("nowhere.pem"),
        f"{folder} cannot be read: Is a directory": at(""),
        "pipe is no regular file": at("pipe"),
        "empty: it is no PEM file, and ssl.keystore.type says PEM": at("empty"),
        "empty: it is neither PKCS12 nor JKS nor PEM": at("empty", "PKCS12"),
        "certificate.pem: there is no private key in it": at("certificate.pem"),
        "key.pem: there is no certificate in it": at("key.pem"),
        "mixed.pem: the private key does not belong to the first certificate": at("mixed.pem"),
        "broken.pem: there is no private key in it": at("broken.pem"),
        "damaged.pem: key or certificates cannot be used": at("damaged.pem"),
        "nested.pem: key or certificates cannot be used": at("nested.pem"),
        "locked.pem: the private key is encrypted: set ssl.key.password": at("locked.pem"),
        "locked.pem: the private key cannot be decrypted: ssl.key.password is wrong": at(
            "locked.pem", key_password="g-e-r-a-t-e-n"
        ),
        "good.pem: it is a PEM file: set ssl.keystore.type=PEM": at("good.pem", "JKS"),
        "good.p12: it is no PEM file": at("good.p12"),
        "good.p12: cannot be opened: ssl.keystore.password is not set": at("good.p12", "PKCS12"),
        "good.p12: cannot be opened: ssl.keystore.password is wrong": at(
            "good.p12", "PKCS12", password="g-e-r-a-t-e-n"
        ),
        "cut.p12: cannot be opened": at("cut.p12", "PKCS12", password="geheim"),
    }


def test_stores_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    for sentence, settings in stores_that_cannot_be_used(tmp_path).items():
        with pytest.raises(StoreRefused) as refused:
            server_context(settings)
        assert sentence in str(refused.value)
        assert str(tmp_path) in str(refused.value)
        assert "g-e-r" not in str(refused.value)
        assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    "content", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"]
)
def test_trust_that_cannot_be_used_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.pem").write_text(content)
    store = StoreSettings("ssl.truststore", "PEM", str(tmp_path / "bad.pem"))
    for make, asked in ((client_context, "none"), (server_context, "required")):
        with pytest.raises(StoreRefused, match=r"ssl.truststore.location=.*bad.pem: "):
            make(tls_of(tmp_path, trust_store=store, client_auth=asked))


def test_secrets_are_in_no_representation() -> None:
    settings = found(
        ssl_key_password="geheim", ssl_keystore_location="", ssl_keystore_key="geheim",
        ssl_keystore_certificate_chain="geheim", ssl_truststore_certificates="geheim",
    )  # fmt: skip
    assert settings.key_store.key == "geheim"
    assert "geheim" not in repr(settings)


def test_a_certificate_that_is_trusted_by_itself(tmp_path: Path) -> None:
    """As in Java: one in the trust store need not be an authority's."""
    stranger = Authority("stranger").issue("broker")
    (tmp_path / "pinned.pem").write_text(stranger.certificate_pem)
    store = StoreSettings("ssl.truststore", "PEM", str(tmp_path / "pinned.pem"))
    context = client_context(tls_of(tmp_path, trust_store=store))
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


@pytest.mark.parametrize(
    ("name", "hosts", "changed", "complaint"),
    [
        ("broker", ["127.0.0.1", "localhost", "more.example"], {}, ""),
        ("other", ["127.0.0.1", "localhost"], {}, "existing=CN=broker, new=CN=other"),
        ("other", ["127.0.0.1", "localhost"], {"may_change_name": True}, ""),
        ("broker", ["127.0.0.1"], {}, "localhost of the existing one"),
        ("broker", ["127.0.0.1"], {"may_drop_hosts": True}, ""),
    ],
)
def test_what_another_certificate_may_say(
    tmp_path: Path, name: str, hosts: list[str], changed: dict[str, bool], complaint: str
) -> None:
    before = tls_of(tmp_path)
    side = ListeningSide(before, memoryview(bytearray(100)), names_clients=True)
    assert not side.change(before)
    another = authority().issue(name, hosts=hosts).write_pem(tmp_path / "another.pem")
    wanted = key_store(tmp_path, another)
    wanted = msgspec.structs.replace(wanted, **changed)
    for attempt in (side.check, side.change):
        if complaint:
            with pytest.raises(StoreRefused, match=complaint):
                attempt(wanted)
        else:
            attempt(wanted)


def test_what_has_not_changed_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change of a dynamic config asks all sides to look at their stores."""
    work: list[str] = []

    def count(name: str) -> None:
        module, _, function = name.rpartition(".")
        called = pkgutil.resolve_name(name)

        def counted(*arguments: Any, **named: Any) -> Any:
            work.append(function)
            return called(*arguments, **named)

        monkeypatch.setattr(f"{module}.{function}", counted)

    count("broker.network.tls.stores._pkcs12")
    count("broker.network.tls.sides.server_context")
    count("broker.network.tls.sides.client_context")
    path = authority().issue("broker").write_pkcs12(tmp_path / "server.p12", "geheim")
    tls = key_store(tmp_path, path, "PKCS12", password="geheim")
    other = msgspec.structs.replace(tls, listener="OTHER")
    scratch = memoryview(bytearray(100))
    listening = [ListeningSide(each, scratch, names_clients=True) for each in (tls, other)]
    clock = HandClock()
    loop = asyncio.new_event_loop()
    network = SocketNetwork(loop, clock=clock, timers=HandTimers(clock))

    def look() -> list[bool]:
        listening[0].check(tls)
        found = [listening[0].change(tls), listening[1].change(other)]
        network.prepare(tls)
        return found

    look()
    assert work == ["_pkcs12", "server_context", "server_context", "client_context"], "opened once for all"
    work.clear()
    assert look() == [False, False]
    assert work == []
    authority().issue("broker").write_pkcs12(tmp_path / "server.p12", "geheim")
    assert look() == [True, True]
    assert sorted(work) == ["_pkcs12", "client_context", *["server_context"] * 3]
    work.clear()
    network.prepare(msgspec.structs.replace(tls, checks_host=False))
    assert work == ["client_context"]
    assert look() == [False, False]
    assert work == ["client_context"] * 2, "other settings, and back"
    network.close()
    loop.close()


# What the configs say


def test_each_listener_has_its_own() -> None:
    given = {"listener.name.ssl.ssl.client.auth": "required", "ssl.client.auth": "requested"}
    assert found(**given).client_auth == "required"
    assert found("SASL", **given).client_auth == "none"
    assert found("SASL", **{"listener.name.sasl.ssl.client.auth": "required"}).client_auth == "required"
    dynamic = settings_of(**given).with_dynamic({"listener.name.sasl.ssl.client.auth": "requested"}, {})
    settings = tls_settings(dynamic, "SASL")
    assert settings is not None
    assert settings.client_auth == "requested"
    assert tls_settings(settings_of(), "CONTROLLER") is None
    assert found().checks_host
    assert not found(ssl_endpoint_identification_algorithm="").checks_host


@pytest.mark.parametrize(
    ("given", "versions"),
    [
        ({}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl_enabled_protocols": "TLSv1.3"}, ("TLSv1.3",)),
        ({"ssl_enabled_protocols": "TLSv1.2,TLSv1.1,TLSv1"}, ("TLSv1.2",)),
        ({"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"}, ("TLSv1.3",)),
        ({"ssl_cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, ("TLSv1.2",)),
        (
            {"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
            ("TLSv1.2", "TLSv1.3"),
        ),
    ],
)
def test_versions(given: dict[str, str], versions: tuple[str, ...]) -> None:
    assert found(**given).versions == versions


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"ssl_enabled_protocols": "TLSv1.1"}, "names no version that is served: use TLSv1.2, TLSv1.3"),
        ({"ssl_enabled_protocols": "TLSv9"}, "TLSv9 is not served"),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, "only the first, the first two or all three"),
        (
            {"ssl_enabled_protocols": "TLSv1.2", "ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"},
            "names no cipher suite of a version",
        ),
        ({"ssl_keystore_type": "BKS"}, "ssl.keystore.type: BKS is not served: use JKS, PKCS12, PEM"),
        ({"ssl_keystore_key": "x"}, "leave one of the two out"),
        ({"ssl_keystore_type": "JKS", "ssl_keystore_key": "x"}, "ssl.keystore.type must be PEM, and is JKS"),
        ({"ssl_keystore_location": "", "ssl_keystore_key": "x"}, "need each other"),
        ({"ssl_keystore_password": "x"}, "the password of a key is ssl.key.password"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "use https, or leave it empty"),
        ({"ssl_principal_mapping_rules": "x"}, "Invalid rule: x"),
        (
            {"ssl_keystore_location": ""},
            "listener SSL asks for TLS and has no key: set ssl.keystore.location",
        ),
    ],
)
def test_configs_that_cannot_be_used(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_tls(settings_of(**given), ["SSL"], [])
    assert complaint in str(refused.value)


def test_cipher_suites_by_the_names_of_iana(tmp_path: Path) -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384")
    context = server_context(tls_of(tmp_path, cipher_suites=suites))
    older = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    with pytest.raises(StoreRefused, match=r"ssl.cipher.suites: ECDHE-RSA-AES128-SHA is not served"):
        server_context(tls_of(tmp_path, cipher_suites=("ECDHE-RSA-AES128-SHA",)))
