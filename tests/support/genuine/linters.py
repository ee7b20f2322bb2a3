"""Tools that look at files which are no Python, from the packages of the environment that runs the tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.genuine.kafka_jars import ROOT, not_here


def tool_path(name: str) -> str:
    """Of a tool beside this interpreter or on the PATH."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        not_here(f"{name} is not installed: .ci/setup dev installs what comes from PyPI")
    return found


def complaints(name: str, *arguments: str | Path) -> str:
    """What a tool has to say; empty when it is content."""
    done = subprocess.run(
        [tool_path(name), *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = (done.stdout + done.stderr).strip()
    return said or (f"{name} ended with {done.returncode}" if done.returncode else "")
