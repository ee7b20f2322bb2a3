"""The C programs of the benchmarks: compiled when they are first wanted, kept in ``.cache``."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
CACHE: Final = HERE.parents[1] / ".cache"
FLAGS: Final = ("-O2", "-Wall", "-Wextra", "-Werror")
LIBRARIES: Final = ("-pthread", "-ldl")
"""Part of the C library itself where that is new enough."""


@cache
def compiled(name: str) -> Path | None:
    """The program of ``name.c``; None on a machine without a C compiler."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return None
    source = HERE / f"{name}.c"
    sources = b"".join(each.read_bytes() for each in (source, HERE / "client.h"))
    digest = hashlib.sha256(sources + repr(FLAGS + LIBRARIES).encode()).hexdigest()[:12]
    program = CACHE / f"{name}-{digest}"
    if not program.exists():
        CACHE.mkdir(exist_ok=True)
        made = program.with_name(f"{program.name}.{os.getpid()}")
        subprocess.run([compiler, *FLAGS, "-o", str(made), str(source), *LIBRARIES], check=True)
        made.replace(program)
    return program
