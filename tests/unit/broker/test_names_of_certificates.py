"""The name in a certificate and the rules for it, as Java and Apache Kafka read them; and bytes that are no
certificate."""

from __future__ import annotations

import base64
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from broker.security.der import DerFault
from broker.security.distinguished_name import alternative_names_of, subject_of
from config.errors import ConfigError
from config.principal_mapping import NoRuleMatches, PrincipalMapper
from tests.support.brokers.certificates import authority
from tests.support.genuine.kafka_jars import java_command
from tests.support.genuine.tool_server import compile_java

ORGANISATION: Final = [
    (NameOID.COUNTRY_NAME, "DE"),
    (NameOID.ORGANIZATION_NAME, "Kafka"),
    (NameOID.ORGANIZATIONAL_UNIT_NAME, "Castle"),
    (NameOID.COMMON_NAME, "alice"),
]
NAMES: Final = [
    (ORGANISATION, "CN=alice,OU=Castle,O=Kafka,C=DE"),
    ([(NameOID.COMMON_NAME, 'a,b=c+d<e>f#g;h"i\\j')], r"CN=a\,b\=c\+d\<e\>f\#g\;h\"i\\j"),
    ([(NameOID.COMMON_NAME, " two  spaces  ")], r"CN=\ two  spaces\ \ "),
    ([(NameOID.COMMON_NAME, "Käfer ☃")], "CN=Käfer ☃"),
    (
        [(NameOID.EMAIL_ADDRESS, "a@b.c"), (NameOID.SERIAL_NUMBER, "7"), (NameOID.COMMON_NAME, "x")],
        "CN=x,2.5.4.5=#130137,1.2.840.113549.1.9.1=#1605614062" + "2e63",
    ),
    (
        [
            (NameOID.DOMAIN_COMPONENT, "org"),
            (NameOID.DOMAIN_COMPONENT, "example"),
            (NameOID.USER_ID, "u1"),
            (NameOID.STATE_OR_PROVINCE_NAME, "S"),
            (NameOID.LOCALITY_NAME, "L"),
            (NameOID.STREET_ADDRESS, "1 Way"),
        ],
        "STREET=1 Way,L=L,ST=S,UID=u1,DC=example,DC=org",
    ),
]
RULES: Final = [
    ("DEFAULT", "CN=alice,OU=Castle,O=Kafka,C=DE"),
    ("RULE:^CN=(.*?),.*$/$1/", "alice"),
    ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U, DEFAULT", "ALICE@CASTLE"),
    ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$4/L", "alice@$4"),
    ("RULE:^CN=(.*?),OU=(.*?),.*$/$12/", "alice2"),
    ("RULE:^CN=bob$/bob/,RULE:.*/everybody/", "everybodyeverybody"),
    (r"RULE:^CN=([^,]*),.*$/\$$1\/x/", "$alice/x"),
    ("RULE:^CN=bob$/bob/", None),
    ("", None),
    ("RULE:^CN=(?:a)(l)?(z)?.*$/[$1$2$0]/L", "[lcn=alice,ou=castle,o=kafka,c=de]"),
]


def certificate(parts: list[tuple[x509.ObjectIdentifier, str]]) -> bytes:
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in parts])
    return authority().issue(name).certificate.public_bytes(Encoding.DER)


def mapped(rules: str, name: str) -> str | None:
    try:
        return PrincipalMapper(rules).name_of(name)
    except NoRuleMatches:
        return None


@pytest.mark.parametrize(("parts", "name"), NAMES)
def test_names(parts: list[tuple[x509.ObjectIdentifier, str]], name: str) -> None:
    assert subject_of(certificate(parts)) == name


def test_a_part_of_several_attributes_and_kinds_of_text() -> None:
    several = x509.RelativeDistinguishedName(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "alice", _ASN1Type.PrintableString),
            x509.NameAttribute(NameOID.USER_ID, "7", _ASN1Type.IA5String),
        ]
    )
    issued = authority().issue(x509.Name([several])).certificate.public_bytes(Encoding.DER)
    assert sorted(subject_of(issued).split("+")) == ["CN=alice", "UID=7"]


def test_the_hosts_of_a_certificate() -> None:
    def hosts(*names: str) -> frozenset[str]:
        issued = authority().issue("broker", hosts=names).certificate
        return alternative_names_of(issued.public_bytes(Encoding.DER))

    assert hosts("a.example", "127.0.0.1", "::1") == {"a.example", "127.0.0.1", "::1"}
    assert hosts() == frozenset()


@pytest.mark.parametrize(("rules", "name"), RULES)
def test_rules(rules: str, name: str | None) -> None:
    assert mapped(rules, "CN=alice,OU=Castle,O=Kafka,C=DE") == name


@pytest.mark.java
def test_java_and_kafka_say_the_same(tmp_path: Path) -> None:
    asked = [(parts, "DEFAULT", name, name) for parts, name in NAMES]
    asked += [(ORGANISATION, rules, NAMES[0][1], name or "!") for rules, name in RULES]
    lines = "".join(
        f"{base64.b64encode(certificate(parts)).decode()}\t{rules}\n" for parts, rules, _, _ in asked
    )
    command = java_command("NamesOfCertificates")
    command[command.index("-cp") + 1] = compile_java("NamesOfCertificates", tmp_path)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answers = [
        tuple(base64.b64decode(part).decode() for part in line.split("\t"))
        for line in done.stdout.splitlines()
    ]
    assert answers == [(name, said) for _, _, name, said in asked]


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ("RULE:x", "Invalid rule: RULE:x"),
        ("DEFAULT, nonsense", "Invalid rule: nonsense"),
        ("RULE:a/b/LX", "Invalid rule: RULE:a/b/LX"),
        ("RULE:(/b/", "cannot be read"),
        ("RULE:a/$x/", "followed by no group"),
        ("RULE:a/$1/", "followed by no group"),
    ],
)
def test_rules_that_cannot_be_read(rules: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl.principal.mapping.rules: .*") as refused:
        PrincipalMapper(rules)
    assert complaint in str(refused.value)


WHOLE: Final = certificate(ORGANISATION)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_name_or_a_fault(data: bytes) -> None:
    try:
        subject_of(data)
    except DerFault:
        return


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_changed_byte_is_a_name_or_a_fault(at: int, byte: int) -> None:
    for names in (subject_of, alternative_names_of):
        with suppress(DerFault):
            names(WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])


@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_certificate_is_a_fault(size: int) -> None:
    with pytest.raises(DerFault):
        subject_of(WHOLE[:size])
