"""A message class, read once: its fields with their wire types and the versions that they have.

This is the only place that reads annotations. `decoding` and `encoding` turn a schema and a version into
code; the tests compare schemas with Kafka's own.
"""

import typing
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

import msgspec

from protocol.codec.message import (
    UNBOUNDED,
    Between,
    Ignorable,
    NeverCompact,
    Nullable,
    NullableSince,
    NullableUntil,
    Since,
    Struct,
    Tag,
    Until,
    Versions,
)
from protocol.errors import InvariantViolated
from protocol.primitives import Primitive, RecordsMarker

__all__ = ["Field", "Kind", "schema"]

ALWAYS = Versions(0, UNBOUNDED)
NEVER = Versions(0, -1)
BOOL = Primitive("bool", "?", 1)


class Kind(Enum):
    """The kind of a field, or of the elements of an array, on the wire."""

    FIXED = "fixed"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"
    STRUCT = "struct"


class Field(msgspec.Struct, frozen=True):
    """One field of a struct, in all its versions."""

    name: str
    kind: Kind
    primitive: Primitive | None
    struct: type[Struct] | None
    is_array: bool
    present: Versions
    nullable: Versions
    """The versions, among those that have the field, in which it can be null on the wire."""
    tag: int | None
    ignorable: bool
    never_compact: bool
    default: Any

    @property
    def wire(self) -> Primitive:
        """The fixed-width type of the field, whose kind must be Kind.FIXED."""
        if self.primitive is None:
            raise InvariantViolated(f"{self.name} is of no fixed width")
        return self.primitive

    @property
    def struct_class(self) -> type[Struct]:
        """The class of the struct, for a field whose kind is Kind.STRUCT."""
        if self.struct is None:
            raise InvariantViolated(f"{self.name} is no struct")
        return self.struct

    @property
    def absent_is_none(self) -> bool:
        """Whether None stands for an absent value: the field is a tagged struct that cannot be null."""
        return (
            self.tag is not None and self.kind is Kind.STRUCT and not self.is_array and self.nullable == NEVER
        )


@cache
def schema(cls: type[Struct]) -> tuple[Field, ...]:
    """The fields of a message or struct class, in the order of their declaration."""
    hints = typing.get_type_hints(cls, include_extras=True)
    defaults = cls()
    return tuple(_field(cls, name, hints[name], getattr(defaults, name)) for name in cls.__struct_fields__)


def _field(cls: type[Struct], name: str, annotation: Any, default: Any) -> Field:
    annotation, markers = _strip(annotation)
    annotation, optional = _without_none(annotation)
    annotation, inner_markers = _strip(annotation)
    markers += inner_markers
    is_array = get_origin(annotation) is list
    if is_array:
        annotation, element_markers = _strip(get_args(annotation)[0])
        markers += element_markers
    kind, primitive, struct = _kind(cls, name, annotation, markers)
    present, nullable, tag = ALWAYS, ALWAYS if optional else NEVER, None
    for marker in markers:
        match marker:
            case Since(first):
                present = Versions(first, UNBOUNDED)
            case Until(last):
                present = Versions(0, last)
            case Between(first, last):
                present = Versions(first, last)
            case Tag(number, since):
                tag, present = number, Versions(since, UNBOUNDED)
            case NullableSince(first):
                nullable = Versions(first, UNBOUNDED)
            case NullableUntil(last):
                nullable = Versions(0, last)
            case _:
                pass
    if tag is not None and kind is Kind.STRUCT and not is_array and Nullable not in markers:
        nullable = NEVER
    return Field(
        name=name,
        kind=kind,
        primitive=primitive,
        struct=struct,
        is_array=is_array,
        present=present,
        nullable=nullable,
        tag=tag,
        ignorable=Ignorable in markers,
        never_compact=NeverCompact in markers,
        default=default,
    )


def _strip(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(annotation) is Annotated:
        return annotation.__origin__, annotation.__metadata__
    return annotation, ()


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (typing.Union, UnionType):
        return annotation, False
    arguments = get_args(annotation)
    if NoneType not in arguments:
        return annotation, False
    others = tuple(argument for argument in arguments if argument is not NoneType)
    return typing.Union[others], True  # noqa: UP007


def _kind(
    cls: type[Struct], name: str, annotation: Any, markers: tuple[Any, ...]
) -> tuple[Kind, Primitive | None, type[Struct] | None]:
    for marker in markers:
        if isinstance(marker, Primitive):
            return Kind.FIXED, marker, None
        if isinstance(marker, RecordsMarker):
            return Kind.RECORDS, None, None
    if annotation is bool:
        return Kind.FIXED, BOOL, None
    if annotation is str:
        return Kind.STRING, None, None
    if annotation is bytes:
        return Kind.BYTES, None, None
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return Kind.STRUCT, None, annotation
    raise InvariantViolated(f"{cls.__qualname__}.{name} has no wire type: {annotation}")
