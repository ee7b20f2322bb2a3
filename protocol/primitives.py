"""The wire's types, as annotations that people and type checkers read.

A field's annotation says both what Python sees and how many bytes travel:

==========  ==============================  ====================================================
annotation  Python value                    on the wire (big endian)
==========  ==============================  ====================================================
bool        bool                            1 byte, 0 or 1 (any other value reads as true)
i8 … i64    int                             1, 2, 4 or 8 bytes, two's complement
u16, u32    int                             2 or 4 bytes, unsigned
f64         float                           8 bytes, IEEE 754
Uuid        bytes, exactly 16               16 bytes
str         str                             int16 length + UTF-8; compact: uvarint(length + 1)
bytes       bytes                           int32 length + bytes; compact: uvarint(length + 1)
Records     a view, bytes or a file slice   as bytes; never copied, see `RecordsSlice`
list[T]     list                            int32 count + elements; compact: uvarint(count + 1)
a struct    an instance                     its fields in order; a nullable one after -1 or 1
                                            (after 0 or 1 in a tagged field)
==========  ==============================  ====================================================

Strings, bytes and arrays may be null where the annotation says `| None`: length -1, compact 0.
The compact forms belong to a message's flexible versions (KIP-482).
"""

from typing import Annotated, Protocol, TypeAlias, runtime_checkable

__all__ = ["Records", "RecordsSlice", "Uuid", "f64", "i8", "i16", "i32", "i64", "u16", "u32"]


class Primitive:
    """A fixed-width wire type: its name and its `struct` format character(s)."""

    __slots__ = ("format", "name", "width")

    def __init__(self, name: str, format: str, width: int) -> None:  # noqa: A002
        self.name = name
        self.format = format
        self.width = width

    def __repr__(self) -> str:
        return self.name


class RecordsMarker:
    """Marks a records field, which differs from an ordinary bytes field."""

    def __repr__(self) -> str:
        return "records"


@runtime_checkable
class RecordsSlice(Protocol):
    """Record batches that need not be in memory: a piece of a segment file, say.

    The encoder only asks for the size, writes the length prefix and leaves the slice itself as a piece of its
    own. `None` is not a size: a slice whose size is unknown cannot be encoded.
    """

    @property
    def size_bytes(self) -> int | None: ...


i8: TypeAlias = Annotated[int, Primitive("int8", "b", 1)]
i16: TypeAlias = Annotated[int, Primitive("int16", "h", 2)]
i32: TypeAlias = Annotated[int, Primitive("int32", "i", 4)]
i64: TypeAlias = Annotated[int, Primitive("int64", "q", 8)]
u16: TypeAlias = Annotated[int, Primitive("uint16", "H", 2)]
u32: TypeAlias = Annotated[int, Primitive("uint32", "I", 4)]
f64: TypeAlias = Annotated[float, Primitive("float64", "d", 8)]
Uuid: TypeAlias = Annotated[bytes, Primitive("uuid", "16s", 16)]
Records: TypeAlias = Annotated[memoryview | bytes | bytearray | RecordsSlice, RecordsMarker()]
