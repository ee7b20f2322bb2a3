"""Notices the end of another process: a broker of a test or notebook stops when that process has ended.

The kernel reports it at once through a descriptor of the process (pidfd, Linux 5.3). Where there is no such
descriptor, the process is looked for once a second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

LOOK_EVERY_SECONDS: Final = 1.0


def when_process_ends(loop: asyncio.AbstractEventLoop, pid: int, callback: Callable[[int], None]) -> None:
    """Calls back once, on the loop, when the process has ended; soon, if there is no such process."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        loop.call_soon(callback, pid)
        return
    except (AttributeError, OSError):
        _look(loop, pid, callback)
        return

    def ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        callback(pid)

    loop.add_reader(descriptor, ended)


def _look(loop: asyncio.AbstractEventLoop, pid: int, callback: Callable[[int], None]) -> None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        callback(pid)
        return
    except PermissionError:
        pass  # the process exists and belongs to another user
    loop.call_later(LOOK_EVERY_SECONDS, _look, loop, pid, callback)
