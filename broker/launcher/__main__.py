"""``barnabas …`` and ``python -I -m barnabas …``: start the program of the wheel, or of the clone."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Put the private root first on the path, then become ``python -m broker``."""
    here = Path(__file__).resolve().parent
    wheel = here / "app"
    sys.path.insert(0, str(wheel if wheel.is_dir() else here.parents[1]))
    from broker.__main__ import main as broker_main

    return broker_main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
