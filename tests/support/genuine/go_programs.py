"""Programs in Go, of tests/support/go, built once for all tests: clients of franz-go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from zlib import crc32

from tests.support.genuine.fetched import fetch_with, fetched

MODULE: Final = Path(__file__).parents[1] / "go"


def go_program(name: str, *, optimized: bool = False) -> str:
    """The program whose source is ``NAME/main.go``, ready to be run. optimized: as fast as it can be;
    without, it is built in half the time."""
    checksum = 0
    for source in ("go.mod", "go.sum", f"{name}/main.go"):
        checksum = crc32((MODULE / source).read_bytes(), checksum)

    def build(folder: Path) -> None:
        into = ["-o", str(folder / name), f"./{name}"]
        flags = [] if optimized else ["-gcflags=all=-N -l"]
        command = ["go", "build", "-C", str(MODULE), *flags, *into]
        fetch_with(command, folder, os.environ | {"CGO_ENABLED": "0"})

    return str(fetched(f"{name}-go{'-optimized' * optimized}-{checksum:08x}", build) / name)
