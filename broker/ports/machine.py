"""What the machine lets this process have: open files and sockets, memory, processors.

Descriptors are shared by files and connections, so connections may take only a part of them.
"""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from config.limits import CODEC_THREADS, RESERVED_DESCRIPTORS

_log = logging.getLogger("barnabas.network")

LEAST_DESCRIPTORS: Final = 160
"""A node opens some thirty files and sockets before its first client comes."""

_UNLIMITED_CGROUP: Final = 1 << 60


def raise_descriptor_limit() -> int:
    """Raises the process's soft limit of open files to its hard limit, as far as the system permits, and
    returns the limit that is now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        _log.warning("The limit of open files stays at %d: %s", soft, error)
        return soft
    return hard


def descriptor_limit() -> int:
    """The number of files and sockets that the process may have open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**31 - 1 if limit == resource.RLIM_INFINITY else limit


def highest_connection_descriptor(limit: int | None = None) -> int:
    """The highest descriptor number that a connection may have, for a process that may open `limit` files.

    The kernel always gives out the lowest free number, so a connection with a higher one means that the
    reserve for log files is being used up.
    """
    if limit is None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 2**31 - 1
    return limit - min(RESERVED_DESCRIPTORS, limit // 4)


def enough_descriptors() -> int:
    """The number of files and sockets that the process may have open. Raises OSError if nothing can work with
    it."""
    limit = descriptor_limit()
    if limit < LEAST_DESCRIPTORS:
        raise OSError(
            f"The process may have only {limit} files and sockets open, but needs {LEAST_DESCRIPTORS}:"
            " raise the limit with ulimit -n, or LimitNOFILE= in a systemd unit"
        )
    return limit


def codec_threads() -> int:
    """The number of threads that may compress: the loop keeps a processor for itself."""
    return max(1, min(len(os.sched_getaffinity(0)) - 1, CODEC_THREADS))


def available_memory_bytes(
    meminfo: Path = Path("/proc/meminfo"),
    cgroup_files: Iterable[Path] = (
        Path("/sys/fs/cgroup/memory.max"),
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ),
) -> int:
    """Memory of the machine, or of the cgroup where that is less; 0 where the system does not tell."""
    amounts = [
        int(line.split()[1]) * 1024 for line in _read(meminfo).splitlines() if line.startswith("MemTotal:")
    ]
    for path in cgroup_files:
        text = _read(path).strip()
        if text.isdigit() and int(text) < _UNLIMITED_CGROUP:
            amounts.append(int(text))
    return min(amounts, default=0)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
