"""The end of a process that cannot trust itself.

An error of a request ends at its connection. What reaches the loop is an invariant that does not hold, or an
error in a callback of ours that nobody awaits: state may be half changed, and going on would write it down.
So it is logged, the stacks of all threads are dumped, and the process ends at once, without a clean shutdown
marker: the next start will check its logs. A disk that refuses the metadata log is no fault of ours, nor is a
cluster whose metadata needs another release: one sentence says it.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, Final

from controller.metadata.supported_features import UnsupportedCluster
from controller.raft.log_failure import MetadataLogFailed

_log = logging.getLogger("barnabas.fatal")

EXIT_CODE: Final = 70
"""EX_SOFTWARE of sysexits: an internal error, as opposed to a wrong configuration or a full disk."""

HALTED: Final = 1
"""The code with which the process ends when the metadata log cannot be written or followed, as Apache Kafka's
does."""


def end_on_failure(loop: AbstractEventLoop, end: Callable[[int], object] = os._exit) -> None:
    """Makes every exception that reaches the loop the last one."""

    def handle(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if failure is None:
            _log.error("The loop reports: %s", context.get("message"))
            return
        if isinstance(failure, MetadataLogFailed | UnsupportedCluster):
            halt(str(failure), end)
            return
        _log.critical(
            "%s; the process ends with code %d",
            context.get("message") or "A callback failed",
            EXIT_CODE,
            exc_info=failure,
        )
        for handler in logging.getLogger().handlers:
            handler.flush()
        _dump_stacks()
        end(EXIT_CODE)

    loop.set_exception_handler(handle)


def halt(sentence: str, end: Callable[[int], object] = os._exit) -> None:
    """Ends the process at once, as Apache Kafka does when there is nothing left to write to."""
    _log.critical("%s", sentence)
    for handler in logging.getLogger().handlers:
        handler.flush()
    end(HALTED)


def _dump_stacks() -> None:
    try:
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    except (ValueError, OSError, AttributeError):
        _log.exception("The stacks could not be written")  # standard error is closed or is no file
