"""The broker's own command line with a wall clock that a test sets anew while the broker runs.

The file beside the properties file with the suffix `.clock` holds by how many milliseconds the clock is
wrong; without it the clock is right. `set_clock` writes it. The monotonic clock is never wrong, as on any
machine.

    python -m tests.support.brokers.jumping_clock start node-1.properties
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from broker.__main__ import main
from broker.ports.clock import SystemClock

__all__ = ["SUFFIX", "set_clock"]

SUFFIX: Final = ".clock"


def set_clock(properties_file: Path, wrong_by_ms: int) -> None:
    """Of the running node with these properties, from its next look at the clock on."""
    new = properties_file.with_suffix(".new-clock")
    new.write_text(str(wrong_by_ms))
    os.replace(new, properties_file.with_suffix(SUFFIX))


def _wrong_by_ms() -> int:
    try:
        return int(_CLOCK_FILE.read_text())
    except FileNotFoundError:
        return 0


def _wall_ms(_: SystemClock) -> int:
    return time.time_ns() // 1_000_000 + _wrong_by_ms()


if __name__ == "__main__":
    _CLOCK_FILE = Path(sys.argv[-1]).with_suffix(SUFFIX)
    SystemClock.wall_ms = _wall_ms  # type: ignore[method-assign, assignment]
    sys.exit(main())
