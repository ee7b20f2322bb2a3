"""Calls on files that one system call does not do: writes that are whole, and syncs of many files at once."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from config.ports import Buffer, File, Files

__all__ = ["sync_files", "sync_one_by_one", "write_fully"]


def write_fully(file: File, buffers: Sequence[Buffer], size_bytes: int, position: int, path: str) -> None:
    """Writes all of it. If a call wrote only a part, the rest is written by further ones, of which one raises
    if the disk is full. Raises OSError."""
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


def sync_files(files: Files, directories: Sequence[str], paths: Sequence[str]) -> None:
    """Syncs the names in directories and the content of files, in a helper thread.

    Names come first: segments that were removed must not be there again behind what was appended since. Files
    that have been removed meanwhile are skipped.
    """
    for directory in directories:
        if files.exists(directory):
            files.fsync_directory(directory)
    files.sync_all(paths)


def sync_one_by_one(files: Files, paths: Sequence[str]) -> None:
    """Implements `Files.sync_all` for files that have no faster way. Raises OSError."""
    for path in paths:
        try:
            file = files.open(path)
        except FileNotFoundError:
            continue
        try:
            file.fdatasync()
        finally:
            file.close()
