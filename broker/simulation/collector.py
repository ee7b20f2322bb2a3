"""The garbage collector in a process that simulates: it looks rarely, for a world is large and lives long.

Python's own thresholds are for programs with little memory: a world of some hundred thousand objects would be
walked through again and again, for a tenth of all time. Here much more must be made before a look at the
young, and the old are walked through when a new world is made: by then the one before is all garbage.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["rare_collections"]

THRESHOLDS: Final = (50_000, 10, 10)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Frees what was used before, and lets the collector look rarely until the end."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
