"""A reader of DER, the encoding of certificates (X.690): just what finds the parts of one.

    element   tag, length, content
    length    one byte up to 127; else 0x80 + the number of length bytes that follow, at most four here

Every length is checked against what is there before anything is taken. Tags of more than one byte do not
occur in certificates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

__all__ = ["OBJECT_IDENTIFIER", "SEQUENCE", "SET", "DerFault", "Element", "elements", "object_identifier"]

OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31

_MULTI_BYTE_TAG: Final = 0x1F
_LENGTH_BYTES: Final = 4


class DerFault(Exception):
    """The bytes are no DER, or not of the form that was expected."""


class Element:
    """One element. content: its bytes without tag and length. whole: with them."""

    __slots__ = ("content", "tag", "whole")

    def __init__(self, tag: int, content: memoryview, whole: memoryview) -> None:
        self.tag = tag
        self.content = content
        self.whole = whole

    def children(self, tag: int) -> list[Element]:
        """The elements inside this one, which must have the tag."""
        if self.tag != tag:
            raise DerFault(f"tag {self.tag:#04x} where {tag:#04x} was expected")
        return list(elements(self.content))


def elements(data: bytes | memoryview) -> Iterator[Element]:
    """The elements that lie one behind the other. Raises DerFault."""
    view = memoryview(data)
    at = 0
    while at < len(view):
        tag = view[at]
        if tag & _MULTI_BYTE_TAG == _MULTI_BYTE_TAG:
            raise DerFault(f"a tag of several bytes at {at}")
        begin, size = _length(view, at + 1)
        end = begin + size
        if end > len(view):
            raise DerFault(f"an element of {size} bytes at {at}, where {len(view) - begin} are left")
        yield Element(tag, view[begin:end], view[at:end])
        at = end


def _length(view: memoryview, at: int) -> tuple[int, int]:
    """Where the content begins, and its length."""
    if at >= len(view):
        raise DerFault("the bytes end in the middle of an element")
    first = view[at]
    at += 1
    if first < 0x80:
        return at, first
    count = first - 0x80
    if not 1 <= count <= _LENGTH_BYTES or at + count > len(view):
        raise DerFault(f"a length of {count} bytes")
    return at + count, int.from_bytes(view[at : at + count], "big")


def object_identifier(content: memoryview) -> str:
    """The numbers of an object identifier, with dots between them. Raises DerFault."""
    if not content or content[-1] & 0x80:
        raise DerFault("an object identifier without an end")
    numbers = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    root = min(numbers[0] // 40, 2)
    return ".".join(map(str, (root, numbers[0] - 40 * root, *numbers[1:])))
