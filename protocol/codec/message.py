"""How a message is declared: one class for all of its versions.

::

    @request(key=12, versions="0-4", flexible="4+", listeners="broker")
    class HeartbeatRequest(Message):
        group_id: str = ""
        generation_id: i32 = 0
        member_id: str = ""
        group_instance_id: Annotated[str | None, Since(3)] = None

A field is present in every version of the struct that holds it, unless a marker narrows it. The fields
stand in wire order; tagged fields stand where Kafka's schema has them and travel at the struct's end. Nothing
is resolved or compiled when a class is made: `protocol.codec.schema` reads the annotations on first use.

The markers:

* `Since(3)`, `Until(14)`, `Between(7, 12)`: the versions that have the field.
* `Tag(0)`, `Tag(0, since=12)`: the field is tagged, and travels only when it differs from its default.
  A tagged struct's default is `None`: absent.
* `NullableSince(7)`, `NullableUntil(6)`: `| None` holds in these versions only.
* `Nullable`: a tagged struct that can be null on the wire; its default is an instance, and None travels.
* `Ignorable`: in a version without the field its value is dropped; without this marker a value other than the
  default is an error there.
* `NeverCompact`: keeps its int16 length even in flexible versions (the request header's client id, KIP-511).
"""

from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple, TypeVar

import msgspec

__all__ = [
    "Between",
    "Declaration",
    "Ignorable",
    "Message",
    "NeverCompact",
    "Nullable",
    "NullableSince",
    "NullableUntil",
    "Since",
    "Struct",
    "Tag",
    "Until",
    "Versions",
    "coordinator_key",
    "coordinator_value",
    "data",
    "header",
    "metadata_record",
    "request",
    "response",
]

UNBOUNDED: Final = 32767
"""The last version of an open range such as "4+": versions are int16."""


class Versions(NamedTuple):
    """An inclusive range of versions; it is empty when `last < first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Parses a range as Kafka's schemas write it: `"3"`, `"0-4"`, `"12+"` or `"none"`."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), UNBOUNDED)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def covers(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == UNBOUNDED:
            return f"{self.first}+"
        return f"{self.first}-{self.last}" if self.first != self.last else str(self.first)


class Declaration(msgspec.Struct, frozen=True):
    """The arguments of the decorator that declared a message."""

    kind: str
    """request, response, header, data, metadata, coordinator-key or coordinator-value."""
    key: int | None
    """The API key, or the record type; None for data that has neither."""
    versions: Versions
    flexible: Versions
    listeners: tuple[str, ...]
    """The kinds of listener that serve a request: "broker", "controller". It is empty for other messages."""
    latest_version_unstable: bool
    """The newest version is answered but advertised only to those who ask for unstable APIs."""


class Struct(msgspec.Struct, gc=False):
    """A struct inside a message. No cycles can be made of wire data, so the collector need not track it."""


class Message(Struct):
    """A whole message: request, response, record, key, value or header."""

    declaration: ClassVar[Declaration]


M = TypeVar("M", bound=Message)


def _declare(
    kind: str,
    key: int | None,
    versions: str,
    flexible: str,
    listeners: str = "",
    latest_version_unstable: bool = False,
) -> Callable[[type[M]], type[M]]:
    def decorate(cls: type[M]) -> type[M]:
        cls.declaration = Declaration(
            kind,
            key,
            Versions.parse(versions),
            Versions.parse(flexible),
            tuple(listeners.split()),
            latest_version_unstable,
        )
        return cls

    return decorate


def request(
    *, key: int, versions: str, flexible: str, listeners: str, latest_version_unstable: bool = False
) -> Callable[[type[M]], type[M]]:
    """Declares a request. `listeners` names the kinds of listener that serve it, separated by blanks."""
    return _declare("request", key, versions, flexible, listeners, latest_version_unstable)


def response(*, key: int, versions: str, flexible: str) -> Callable[[type[M]], type[M]]:
    return _declare("response", key, versions, flexible)


def metadata_record(*, key: int, versions: str, flexible: str) -> Callable[[type[M]], type[M]]:
    """Declares a record of the metadata log, or of the remote log metadata topic."""
    return _declare("metadata", key, versions, flexible)


def coordinator_key(*, key: int, versions: str, flexible: str) -> Callable[[type[M]], type[M]]:
    """Declares the key of a record in a coordinator's topic; `key` is the record type that precedes it."""
    return _declare("coordinator-key", key, versions, flexible)


def coordinator_value(*, key: int, versions: str, flexible: str) -> Callable[[type[M]], type[M]]:
    """Declares the value of a record in a coordinator's topic; the value's version precedes it."""
    return _declare("coordinator-value", key, versions, flexible)


def header(*, versions: str, flexible: str) -> Callable[[type[M]], type[M]]:
    return _declare("header", None, versions, flexible)


def data(*, versions: str, flexible: str) -> Callable[[type[M]], type[M]]:
    """Declares any other versioned data: control records, snapshots, what consumers embed in JoinGroup."""
    return _declare("data", None, versions, flexible)


class Between(msgspec.Struct, frozen=True, gc=False):
    first: int
    last: int


class Since(msgspec.Struct, frozen=True, gc=False):
    first: int


class Until(msgspec.Struct, frozen=True, gc=False):
    last: int


class NullableSince(msgspec.Struct, frozen=True, gc=False):
    first: int


class NullableUntil(msgspec.Struct, frozen=True, gc=False):
    last: int


class Tag(msgspec.Struct, frozen=True, gc=False):
    number: int
    since: int = 0


class Ignorable:
    """The class itself is the marker; it is never instantiated."""


class Nullable:
    """The class itself is the marker; it is never instantiated."""


class NeverCompact:
    """The class itself is the marker; it is never instantiated."""
