"""The memory that the elements of an array take once they are decoded.

An empty string is one byte of a frame and, in a list, up to 64 bytes of memory; a struct of nothing but
defaults takes some hundreds. So a frame of a few megabytes can ask for gigabytes. A decoder that counts (see
`decoding`) adds up, at the head of each array, what its elements will take, and refuses the message before
they exist. The numbers are those of CPython on 64 bits, rounded up; what lies inside an element's own arrays
is counted at their heads.
"""

from functools import cache
from typing import Final, NoReturn

from protocol.codec.message import Struct
from protocol.codec.schema import Field, Kind, schema
from protocol.errors import ProtocolError

__all__ = ["count_elements", "element_bytes", "over_budget"]

_REFERENCE_BYTES: Final = 8
_LIST_BYTES: Final = 56
_STRING_BYTES: Final = 56
"""The memory of an empty string; the characters are counted with the bytes of the frame."""
_NUMBER_BYTES: Final = 32
_UUID_BYTES: Final = 56


def element_bytes(field: Field, version: int) -> int:
    """The memory that one element of an array field takes, with its reference in the list."""
    if field.kind is Kind.STRUCT:
        return _REFERENCE_BYTES + struct_bytes(field.struct_class, version)
    return _REFERENCE_BYTES + _value_bytes(field)


@cache
def struct_bytes(cls: type[Struct], version: int) -> int:
    """The memory that an instance takes with its fields, as long as its arrays are empty."""
    total: int = cls.__basicsize__
    for field in schema(cls):
        if field.is_array:
            total += _LIST_BYTES
        elif not field.present.covers(version):
            continue
        elif field.kind is Kind.STRUCT:
            total += struct_bytes(field.struct_class, version)
        else:
            total += _value_bytes(field)
    return total


def _value_bytes(field: Field) -> int:
    if field.kind is not Kind.FIXED:
        return _STRING_BYTES
    if field.wire.name == "uuid":
        return _UUID_BYTES
    return 0 if field.wire.width == 1 else _NUMBER_BYTES  # the numbers of one byte are there already


def count_elements(message: Struct) -> int:
    """The number of structs, strings and bytes in the arrays of a message, at whatever depth. Numbers do not
    count."""
    total = 0
    for field in schema(type(message)):
        if field.is_array:
            elements = getattr(message, field.name) or ()
            if field.kind is not Kind.FIXED:
                total += len(elements)
            if field.kind is Kind.STRUCT:
                total += sum(map(count_elements, elements)) if _has_arrays(field.struct_class) else 0
        elif field.kind is Kind.STRUCT:
            inner = getattr(message, field.name)
            total += 0 if inner is None else count_elements(inner)
    return total


@cache
def _has_arrays(cls: type[Struct]) -> bool:
    return any(
        field.is_array or (field.struct is not None and _has_arrays(field.struct)) for field in schema(cls)
    )


def over_budget(count: int, name: str, allowed_bytes: int) -> NoReturn:
    raise ProtocolError(
        f"{count} {name} and what came before them would take more memory than a request may have"
        f" ({allowed_bytes} bytes)"
    )
