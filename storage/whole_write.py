"""A write that is whole, or says why it is not: a file takes as much of one as it likes."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from config.ports import Buffer, File


def write_whole(file: File, buffers: Sequence[Buffer], size_bytes: int, position: int, path: str) -> None:
    """Writes all of it. A write that took only a part is gone on with; a full disk then says so. Raises
    OSError."""
    if not size_bytes:
        return
    written = file.write(buffers, position)
    if written == size_bytes:
        return
    data = memoryview(b"".join(buffers))
    while written < size_bytes:
        count = file.write([data[written:]], position + written)
        if count <= 0:
            raise OSError(errno.EIO, "The disk takes no more", path)
        written += count
