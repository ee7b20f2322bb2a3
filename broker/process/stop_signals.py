"""The signals that end a node, and what they do while its loop does not run.

uvloop hears of a signal through a descriptor that it has while it runs. A handler that is added before is
called for later signals only, and one that is left there afterwards is never called. So a node watches its
signals from its first turn on, and gives them back to the operating system when its loop has ended.
"""

from __future__ import annotations

import os
import signal
from typing import Final

__all__ = ["ENDED_AT_ONCE", "end_at_once", "end_while_starting", "stop_signals"]

ENDED_AT_ONCE: Final = 130
FIRST_PROCESS: Final = 1


def stop_signals() -> list[signal.Signals]:
    """SIGTERM, SIGINT, and SIGHUP, which a closed terminal sends, unless it is ignored as under `nohup`. A
    Java virtual machine shuts down in order at each of them."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


def end_while_starting() -> None:
    """The first process of a container is not ended by a signal that it does not handle. Any other process
    is."""
    if os.getpid() == FIRST_PROCESS:
        for number in stop_signals():
            signal.signal(number, lambda *_: os._exit(ENDED_AT_ONCE))


def end_at_once() -> None:
    """From now on such a signal ends the process, whatever it waits for."""
    if os.getpid() == FIRST_PROCESS:
        end_while_starting()
    else:
        for number in stop_signals():
            signal.signal(number, signal.SIG_DFL)
