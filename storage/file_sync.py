"""Content and names reach the disk."""

from __future__ import annotations

from collections.abc import Sequence

from config.ports import Files

__all__ = ["sync_files", "sync_one_by_one"]


def sync_files(files: Files, directories: Sequence[str], paths: Sequence[str]) -> None:
    """For a helper thread: the names in the directories, and the content, are on the disk afterwards.

    Names first: segments that were cut off must not be there again behind what was appended since. Files that
    have gone meanwhile are skipped.
    """
    for directory in directories:
        if files.exists(directory):
            files.fsync_directory(directory)
    files.sync_all(paths)


def sync_one_by_one(files: Files, paths: Sequence[str]) -> None:
    """The plain `Files.sync_all`."""
    for path in paths:
        try:
            file = files.open(path)
        except FileNotFoundError:
            continue
        try:
            file.fdatasync()
        finally:
            file.close()
