"""What an answer consists of: bytes that were encoded, and slices of files that were not touched.

Whoever reads a slice from a log holds one reference to its file. The reference travels with the response into
the network, which gives it back exactly once: when the last byte has been handed to the kernel, or when the
answer is thrown away. A descriptor that is closed earlier may come back as another topic's file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeAlias


class FileSlice(Protocol):
    """A run of bytes in an open file."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def position(self) -> int:
        """Where it begins in the file."""
        ...

    @property
    def is_recent(self) -> bool:
        """Written a moment ago: the bytes are in memory, nobody needs to ask."""
        ...

    def fileno(self) -> int | None:
        """The file's descriptor, or None where there is none (memory)."""
        ...

    def release(self) -> None:
        """Gives the reference to the file back."""
        ...

    def read(self) -> bytes:
        """The bytes, for whoever cannot send a file."""
        ...


Piece: TypeAlias = bytes | bytearray | memoryview | FileSlice

BYTES_LIKE: Final = (bytes, bytearray, memoryview)


def release_pieces(pieces: Iterable[Piece]) -> None:
    """Gives back the files of an answer that nobody will get."""
    for piece in pieces:
        if not isinstance(piece, BYTES_LIKE):
            piece.release()


def as_pieces(encoded: list[Any]) -> list[Piece]:
    """What the encoder gave: bytes, and the records as the handler gave them, which are bytes or file
    slices."""
    return encoded
