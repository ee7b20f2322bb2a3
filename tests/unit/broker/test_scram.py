"""SCRAM by the examples of RFC 5802 and RFC 7677, by itself, and with what does not belong there."""

from __future__ import annotations

import base64
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.mechanism import AuthenticationFailed, LoginRefused, PlainClient, PlainServer
from broker.security.scram_exchange import FakeCredentials, SaltedPasswords, ScramClient, ScramServer
from config.authentication import SaslLogin
from protocol.scram import (
    MECHANISMS,
    ScramCredential,
    ScramMechanism,
    new_credential,
    random_text,
    salted_password,
)

SHA_256, SHA_512 = MECHANISMS["SCRAM-SHA-256"], MECHANISMS["SCRAM-SHA-512"]
FAKES = FakeCredentials(b"a secret of the node")
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE, MORE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"

KNOWN = new_credential(SHA_256, salted_password(SHA_256, "pencil", SALT, 4096), SALT, 4096)


def find(mechanism: ScramMechanism, user: str) -> tuple[ScramCredential | None, int]:
    return (KNOWN if (mechanism, user) == (SHA_256, "user") else None), 8192


def server(nonce: str = MORE) -> ScramServer:
    return ScramServer(SHA_256, find, FAKES, nonce)


def client(password: str = "pencil", user: str = "user") -> ScramClient:
    return ScramClient(SaltedPasswords(SaslLogin("SCRAM-SHA-256", user, password), SHA_256), NONCE)


def talk(one: ScramClient, other: ScramServer) -> None:
    token: bytes | None = one.first()
    while token is not None:
        token = one.answer(other.evaluate(token))


def test_the_conversation_of_rfc_7677() -> None:
    one, other = client(), server()
    assert one.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = other.evaluate(one.first())
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = one.answer(first)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    last = other.evaluate(final)
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert one.answer(last) is None
    assert (other.user, other.is_complete) == ("user", True)


def test_the_formulas_of_rfc_5802() -> None:
    sha_1 = ScramMechanism(0, "SCRAM-SHA-1", "sha1")
    salt = base64.b64decode("QSXCR+Q6sek8bf92")
    known = new_credential(sha_1, salted_password(sha_1, "pencil", salt, 4096), salt, 4096)
    other = ScramServer(sha_1, lambda mechanism, user: (known, 4096), FAKES, "3rfcNHYJY1ZVvWVs7j")
    assert other.evaluate(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL") == (
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    )
    final = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert other.evaluate(final) == b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=lambda each: each.name)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "Müller", "=2C"])
def test_any_name_logs_in_with_its_password(mechanism: ScramMechanism, user: str) -> None:
    known = new_credential(mechanism, salted_password(mechanism, "geheim, =ü", SALT, 4096), SALT, 4096)
    other = ScramServer(mechanism, lambda m, name: (known if name == user else None, 4096), FAKES, MORE)
    talk(ScramClient(SaltedPasswords(SaslLogin(mechanism.name, user, "geheim, =ü"), mechanism), NONCE), other)
    assert other.user == user


def test_a_wrong_password_and_an_unknown_user_fail_at_the_same_place() -> None:
    for one in (client("pencils"), client(user="nobody")):
        other = server()
        final = one.answer(other.evaluate(one.first()))
        assert final is not None
        with pytest.raises(AuthenticationFailed, match="invalid SCRAM credentials") as failed:
            other.evaluate(final)
        assert failed.value.told is None
        assert not other.is_complete


def test_an_unknown_user_has_the_same_salt_each_time_and_nobody_else_has_it() -> None:
    first = server().evaluate(b"n,,n=nobody,r=abc")
    assert first == server().evaluate(b"n,,n=nobody,r=abc")
    assert first != server().evaluate(b"n,,n=nobody2,r=abc")
    salt = base64.b64decode(first.split(b",s=")[1].split(b",")[0]).decode()
    assert len(salt) in (25, 26)
    assert salt.isalnum()
    assert first.endswith(b",i=8192"), "as many as others have"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=a\0c",
        b"n,,n=user,r=\xff",
        b"n,,n=user,r=abc,tokenauth=true",
    ],
)
def test_a_first_message_that_is_none_is_refused_without_a_word(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        server().evaluate(token)
    assert failed.value.told is None


@pytest.mark.parametrize(
    "token",
    [
        b"n,,n=user,r=" + b"A" * 257,
        b"n,,n=" + b"A" * 2038 + b",r=abc",
        b"n,,n=user,r=abc,x=" + b"A" * 2048,
        b"n,,n=user,r=" + b"A" * 500_000,
    ],
    ids=["nonce", "name", "extension", "all"],
)
def test_a_first_message_that_is_too_long_is_refused_without_a_word(token: bytes) -> None:
    other = server()
    with pytest.raises(AuthenticationFailed) as failed:
        other.evaluate(token)
    assert failed.value.told is None


def test_a_final_message_that_is_too_long_is_refused() -> None:
    one, other = client(), server()
    final = one.answer(other.evaluate(one.first()))
    assert final is not None
    unproved, proof = final.split(b",p=")
    with pytest.raises(AuthenticationFailed, match="bytes, allowed are 2048"):
        other.evaluate(unproved + b",x=" + b"A" * 2048 + b",p=" + proof)


@pytest.mark.parametrize("user", ["u" * 1_700, "\U0001f600" * 425])
def test_a_long_name_and_a_long_nonce_are_no_hindrance(user: str) -> None:
    passwords = SaltedPasswords(SaslLogin("SCRAM-SHA-256", user, "pencil"), SHA_256)
    other = ScramServer(SHA_256, lambda mechanism, name: (KNOWN if name == user else None, 4096), FAKES, MORE)
    talk(ScramClient(passwords, "n" * 256), other)
    assert other.user == user


def test_little_is_kept_for_a_client_that_has_proved_nothing() -> None:
    token = f"n,,n=\U0001f600,r={'r' * 256},x={'x' * 1_700}".encode()
    servers = [server() for _ in range(50)]
    tracemalloc.start()
    try:
        for each in servers:
            each.evaluate(token)
        assert tracemalloc.get_traced_memory()[0] < 50 * 4_096
    finally:
        tracemalloc.stop()


def test_who_asks_to_be_another_user_is_told_so() -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        server().evaluate(b"n,a=admin,n=user,r=abc")
    assert failed.value.told == (
        "Authentication failed: Client requested an authorization id that is different from username"
    )
    assert server().evaluate(b"n,a=user,n=user,r=abc,x=y").startswith(b"r=abc")


@pytest.mark.parametrize(
    "final",
    [
        b"c=biws,r=another,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"c=biws,r=" + (NONCE + MORE).encode() + b",p=AAAA",
        b"c=biws,r=" + (NONCE + MORE).encode() + b",p=A",
        b"c=biws,r=" + (NONCE + MORE).encode(),
        b"",
    ],
)
def test_a_final_message_that_is_none_is_refused(final: bytes) -> None:
    other = server()
    other.evaluate(client().first())
    with pytest.raises(AuthenticationFailed):
        other.evaluate(final)


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        (b"r=rOprNGfwEbeRWgbNEkqO,s=AAAA,i=4096", "its SCRAM nonce does not continue ours"),
        (b"r=another,s=AAAA,i=4096", "its SCRAM nonce does not continue ours"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=4095", "it asks for 4095 SCRAM iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=999999999", "it asks for 999999999 SCRAM iterations"),
        (b"e=other-error", "its first SCRAM message is malformed"),
        (b"\xff", "its first SCRAM message is malformed"),
    ],
)
def test_a_node_does_not_follow_a_server_that_is_none(first: bytes, sentence: str) -> None:
    with pytest.raises(LoginRefused, match=sentence):
        client().answer(first)


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    one, other = client(), server()
    one.answer(other.evaluate(one.first()))
    with pytest.raises(LoginRefused, match="cannot prove"):
        one.answer(b"v=" + base64.b64encode(bytes(32)))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_do_more_than_fail(first: bytes, second: bytes) -> None:
    for other in (server(), PlainServer({"user": "pencil"})):
        for token in (first, second):
            try:
                other.evaluate(token)
            except AuthenticationFailed:
                break
        assert not other.is_complete


def test_random_texts_are_130_bits_in_base_36() -> None:
    assert random_text(bytes(17)) == "0"
    assert int(random_text(b"\xff" * 32), 36) == (1 << 130) - 1


# PLAIN


def test_plain_knows_its_users() -> None:
    other = PlainServer({"alice": "secret"})
    assert other.evaluate(PlainClient(SaslLogin("PLAIN", "alice", "secret")).first()) == b""
    assert (other.user, other.is_complete) == ("alice", True)
    assert PlainServer({"alice": "secret"}).evaluate(b"alice\0alice\0secret") == b""


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0bob\0secret", "Authentication failed: Invalid username or password"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_plain_refuses_in_kafkas_words(token: bytes, told: str) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        PlainServer({"alice": "secret", "empty": ""}).evaluate(token)
    assert failed.value.told == told
    assert "secret" not in failed.value.reason
