"""The pieces of a response: bytes that were encoded, and slices of files that Python never reads.

Whoever reads a slice from a log holds one reference to its file. The reference travels with the response into
the network, which releases it exactly once: when the last byte has been handed to the kernel, or when the
response is thrown away. A descriptor that is closed earlier may come back as another topic's file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeAlias


class SharedBySlices(Protocol):
    """The open file of slices: one object for all of them."""

    warm: tuple[int, int, int]
    """The network's note of what lies in memory: its first byte, the byte behind it, and the time in ns up to
    which that is taken for true. NOTHING_WARM as long as nothing is known."""


NOTHING_WARM: Final = (0, 0, 0)


class FileSlice(Protocol):
    """A range of bytes in an open file."""

    @property
    def shared(self) -> SharedBySlices: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def position(self) -> int:
        """The position of the slice in the file."""
        ...

    @property
    def is_recent(self) -> bool:
        """Whether the bytes were written a moment ago, so that they are in memory for certain."""
        ...

    def fileno(self) -> int | None:
        """The descriptor of the file; None for a file in memory, which has none."""
        ...

    def release(self) -> None:
        """Releases the reference to the file."""
        ...

    def read(self) -> bytes:
        """The bytes of the slice, for a transport that cannot send files."""
        ...


Piece: TypeAlias = bytes | bytearray | memoryview | FileSlice

BYTES_LIKE: Final = (bytes, bytearray, memoryview)


def release_pieces(pieces: Iterable[Piece]) -> None:
    """Releases the files of a response that is thrown away."""
    for piece in pieces:
        if not isinstance(piece, BYTES_LIKE):
            piece.release()


def joined_bytes(pieces: Iterable[Piece]) -> bytes:
    """The bytes of an answer, for a wire that cannot send files; the files are given back. Raises OSError."""
    left = iter(pieces)
    try:
        return b"".join(piece if isinstance(piece, BYTES_LIKE) else _read(piece) for piece in left)
    except OSError:
        release_pieces(left)
        raise


def _read(piece: FileSlice) -> bytes:
    try:
        return piece.read()
    finally:
        piece.release()


def as_pieces(encoded: list[Any]) -> list[Piece]:
    """The encoder's output as pieces: bytes, and the records as the handler gave them, which are bytes or
    file slices."""
    return encoded
