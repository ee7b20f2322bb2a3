"""Who a client over TLS is, by its certificate, and who is not let in."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from protocol.serving.session import Principal
from tests.support.brokers.certificates import Authority, authority
from tests.support.rigs.network_rig import NetworkRig
from tests.support.rigs.sans_io import other
from tests.support.rigs.tls_rig import TlsClient, client_context, tls_of


def principals(rig: NetworkRig) -> list[Principal]:
    return [connection.session.principal for connection in rig.server.connections]


@pytest.mark.parametrize(
    ("asked", "rules", "name"),
    [
        ("requested", "DEFAULT", "CN=alice"),
        ("required", "RULE:^CN=(.*)$/$1@kafka/U", "ALICE@KAFKA"),
        ("none", "DEFAULT", "ANONYMOUS"),
    ],
)
def test_a_certificate_gives_its_name(tmp_path: Path, asked: str, rules: str, name: str) -> None:
    rig = NetworkRig(tls=tls_of(tmp_path, client_auth=asked, principal_rules=rules))

    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig, client_context(authority().issue("alice"), tmp_path))
        assert await client.ask("a", 2) == b"a!"
        assert principals(rig) == [Principal(name)]

    rig.run(scenario)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("case", ["no certificate", "a stranger's", "no rule"])
def test_who_is_not_let_in(tmp_path: Path, version: str, case: str) -> None:
    rules = "RULE:^CN=bob$/bob/" if case == "no rule" else "DEFAULT"
    rig = NetworkRig(tls=tls_of(tmp_path, client_auth="required", principal_rules=rules))
    issuer = Authority("stranger") if case == "a stranger's" else authority()
    context = client_context(None if case == "no certificate" else issuer.issue("alice"), tmp_path)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]

    async def scenario(rig: NetworkRig) -> None:
        client = TlsClient(await rig.connect(), context)
        with suppress(ssl.SSLError, OSError):
            await client.shake_hands()
            await client.send(other("a"))
            assert await client.receive(1) == b""
        await rig.until(lambda: rig.server.limits.count == 0)
        (complaint,) = rig.service.complaints
        expected = {
            "no certificate": "TLS failed: peer did not return a certificate",
            "a stranger's": "the peer's certificate is refused",
            "no rule": "no rule of ssl.principal.mapping.rules matches CN=alice",
        }
        assert expected[case] in complaint
        assert rig.service.requests == []

    rig.run(scenario)


def test_without_a_certificate_where_one_is_requested(tmp_path: Path) -> None:
    rig = NetworkRig(tls=tls_of(tmp_path, client_auth="requested"))

    async def scenario(rig: NetworkRig) -> None:
        client = await TlsClient.connect(rig)
        assert await client.ask("a", 2) == b"a!"
        assert principals(rig) == [Principal()]

    rig.run(scenario)


def test_a_session_that_is_resumed_is_the_same_client(tmp_path: Path) -> None:
    rig = NetworkRig(tls=tls_of(tmp_path, client_auth="required"))
    context = client_context(authority().issue("alice"), tmp_path)

    async def scenario(rig: NetworkRig) -> None:
        first = await TlsClient.connect(rig, context)
        assert await first.ask("a", 2) == b"a!"
        again = TlsClient(await rig.connect(), context)
        again.session = context.wrap_bio(
            again.incoming, again.outgoing, server_hostname="127.0.0.1", session=first.session.session
        )
        await again.shake_hands()
        assert await again.ask("b", 2) == b"b!"
        assert again.session.session_reused
        assert principals(rig) == [Principal("CN=alice")] * 2

    rig.run(scenario)
