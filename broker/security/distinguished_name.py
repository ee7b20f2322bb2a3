"""The names in a certificate, as text: of its owner, what Java's X500Principal.getName() says, by RFC 2253,
and of the hosts for which it is.

Kafka takes this text as the name of the principal of a client with a certificate (`User:CN=alice,O=Kafka`),
before `ssl.principal.mapping.rules`; ACLs are written with it, so it must be the same to the last character.

    certificate   SEQUENCE { tbs, … }
    tbs           SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject, …, [3] extensions }
    subject       SEQUENCE of SET of SEQUENCE { object identifier, value }
    extensions    SEQUENCE of SEQUENCE { object identifier, critical or nothing, OCTET STRING of DER }

The last part of the subject comes first; parts are joined by commas, those of one SET by a plus sign. Java
writes nine types of attributes by a keyword, and all others as `1.2.840.113549.1.9.1=#1603…`, the object
identifier and the DER of the value.
"""

from __future__ import annotations

from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

from broker.security.der import (
    OBJECT_IDENTIFIER,
    SEQUENCE,
    SET,
    DerFault,
    Element,
    elements,
    object_identifier,
)

__all__ = ["alternative_names_of", "subject_of"]

_KEYWORDS: Final = MappingProxyType(
    {
        "2.5.4.3": "CN",
        "2.5.4.6": "C",
        "2.5.4.7": "L",
        "2.5.4.8": "ST",
        "2.5.4.9": "STREET",
        "2.5.4.10": "O",
        "2.5.4.11": "OU",
        "0.9.2342.19200300.100.1.25": "DC",
        "0.9.2342.19200300.100.1.1": "UID",
    }
)

_TEXT_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString. Java reads the bytes of all of
them as UTF-8."""

_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION_TAG: Final = 0xA0
_EXTENSIONS_TAG: Final = 0xA3
_DNS_TAG: Final = 0x82
_ADDRESS_TAG: Final = 0x87
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_SUBJECT: Final = 4
"""The place of the subject behind the version."""


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate, which is given as DER. Raises DerFault."""
    fields = _fields(certificate)
    at = _SUBJECT + (1 if fields and fields[0].tag == _VERSION_TAG else 0)
    if at >= len(fields):
        raise DerFault("a certificate without a subject")
    names = fields[at].children(SEQUENCE)
    return ",".join("+".join(map(_attribute, name.children(SET))) for name in reversed(names))


def alternative_names_of(certificate: bytes) -> frozenset[str]:
    """The subject alternative names of a certificate: hosts, addresses, and others as the hexadecimal digits
    of their DER. Raises DerFault."""
    for field in _fields(certificate):
        if field.tag != _EXTENSIONS_TAG:
            continue
        extensions = next(iter(field.children(_EXTENSIONS_TAG)), None)
        for extension in () if extensions is None else extensions.children(SEQUENCE):
            parts = extension.children(SEQUENCE)
            if len(parts) > 1 and object_identifier(parts[0].content) == _ALTERNATIVE_NAMES:
                names = next(elements(parts[-1].content), None)
                return frozenset(map(_alternative, () if names is None else names.children(SEQUENCE)))
    return frozenset()


def _alternative(name: Element) -> str:
    if name.tag == _DNS_TAG:
        return bytes(name.content).decode("ascii", "replace")
    if name.tag == _ADDRESS_TAG and len(name.content) in (4, 16):
        return str(ip_address(bytes(name.content)))
    return name.whole.hex()


def _fields(certificate: bytes) -> list[Element]:
    whole = next(elements(certificate), None)
    if whole is None:
        raise DerFault("an empty certificate")
    parts = whole.children(SEQUENCE)
    if not parts:
        raise DerFault("a certificate without a content")
    return parts[0].children(SEQUENCE)


def _attribute(attribute: Element) -> str:
    parts = attribute.children(SEQUENCE)
    if len(parts) != 2 or parts[0].tag != OBJECT_IDENTIFIER:
        raise DerFault("an attribute of a name that is no pair of a type and a value")
    kind, value = object_identifier(parts[0].content), parts[1]
    keyword = _KEYWORDS.get(kind)
    if keyword is None:
        return f"{kind}=#{value.whole.hex()}"
    if value.tag not in _TEXT_TAGS:
        return f"{keyword}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(bytes(value.content).decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """The text with backslashes before what has a meaning in such a name, and before spaces at its ends."""
    inner = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    begin = len(inner) - len(inner.lstrip(" \r"))
    end = len(inner.rstrip(" \r"))
    if begin >= end:
        return "".join(f"\\{each}" for each in inner)
    before = "".join(f"\\{each}" for each in inner[:begin])
    behind = "".join(f"\\{each}" for each in inner[end:])
    return f"{before}{inner[begin:end]}{behind}"
