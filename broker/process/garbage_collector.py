"""Keeps Python's garbage collector from walking objects that never become garbage.

A full collection walks every tracked object: 56 ms for 400,000 of them, on the loop. Everything that lives
after the start (modules, classes, codecs, images) is frozen out of its sight. The hot path makes no cycles,
so young generations are rare; the oldest one is looked at in a quiet moment and never in a busy one.
"""

from __future__ import annotations

import gc
from asyncio import AbstractEventLoop
from typing import Final

YOUNG_OBJECTS: Final = 50_000
"""New containers, less freed ones, before the youngest generation is looked at."""
NEVER: Final = 1_000_000
QUIET_LOOK_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 0.005
"""A callback that comes no later than this finds the loop idle."""


def hold_collector() -> None:
    """Makes collections rare. Called before the start, whose objects stay: walking them again and again took
    a fifth of the time in which ten thousand logs were opened."""
    gc.set_threshold(YOUNG_OBJECTS, 20, NEVER)


def settle_collector(loop: AbstractEventLoop) -> None:
    """Freezes all objects that exist now. Called after the start, and after an image was loaded."""
    gc.collect()
    gc.freeze()
    hold_collector()
    loop.call_later(QUIET_LOOK_SECONDS, _look, loop, loop.time() + QUIET_LOOK_SECONDS)


def _look(loop: AbstractEventLoop, due: float) -> None:
    late = loop.time() - due
    if late < QUIET_SECONDS:
        gc.collect()
        loop.call_later(QUIET_LOOK_SECONDS, _look, loop, loop.time() + QUIET_LOOK_SECONDS)
    else:
        loop.call_later(1.0, _look, loop, loop.time() + 1.0)
