"""Slices of a real file that count their references, as a log's slices do."""

from __future__ import annotations

import os
from pathlib import Path


class CountedFile:
    """An open file that is closed when the last reference is given back, as a log's files are."""

    def __init__(self, path: Path) -> None:
        self.descriptor: int | None = os.open(path, os.O_RDONLY)
        self.references = 1
        self.warm = (0, 0, 0)

    def release(self) -> None:
        self.references -= 1
        if self.references == 0 and self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class Slice:
    def __init__(self, file: CountedFile, position: int, size_bytes: int, in_memory: bool = False) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes
        self.in_memory = in_memory
        file.references += 1

    @property
    def shared(self) -> CountedFile:
        return self.file

    @property
    def is_recent(self) -> bool:
        return False

    def fileno(self) -> int | None:
        return None if self.in_memory else self.file.descriptor

    def release(self) -> None:
        self.file.release()

    def read(self) -> bytes:
        assert self.file.descriptor is not None
        return os.pread(self.file.descriptor, self.size_bytes, self.position)
