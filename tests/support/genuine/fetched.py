"""What tests fetch once from a package registry: kept in .cache, under a name with its version."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.genuine.kafka_jars import ROOT, not_here


def fetched(name: str, fetch: Callable[[Path], None]) -> Path:
    """The folder ``.cache/NAME``; where it is not there, ``fetch`` fills it, once for all processes."""
    target = ROOT / ".cache" / name
    target.parent.mkdir(exist_ok=True)
    with open(target.with_name(target.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            partial = target.with_name(target.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            fetch(partial)
            partial.rename(target)
    return target


def fetch_with(command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a package manager in the folder; without it, or where it fails, the test skips (fails on CI)."""
    if shutil.which(command[0]) is None:
        not_here(f"{command[0]} is not on the PATH: install it to run this test")
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False
    )
    if done.returncode != 0:
        not_here(f"`{' '.join(command[:4])} …` failed: {(done.stderr or done.stdout).strip()[-400:]}")
