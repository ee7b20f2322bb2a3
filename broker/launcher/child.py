"""The process of an embedded broker: ``python -I child.py FOLDER start …``, begun by `embedded.Broker`.

Isolated (-I), so that no folder of the user's project and no ``PYTHONPATH`` comes before the broker's own
packages. The folders in which the parent finds its libraries come last on the path: uvloop and msgspec may
lie where an isolated interpreter does not look. The parent clears FOLDER away; where it did not live to do
that, this process does. An empty FOLDER is none.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

LIBRARIES: Final = "BARNABAS_LIBRARIES"
"""The environment variable with the folders in which the parent finds its libraries."""


def main() -> int:
    """Runs `broker.__main__` with the arguments, and deletes FOLDER at the end if the parent has died."""
    parent = os.getppid()
    here = Path(__file__).resolve().parent
    wheel = here / "app"
    sys.path.insert(0, str(wheel if wheel.is_dir() else here.parents[1]))
    libraries = os.environ.pop(LIBRARIES, "").split(os.pathsep)
    sys.path += [folder for folder in libraries if folder and folder not in sys.path]
    folder, *arguments = sys.argv[1:]
    from broker.__main__ import main as broker_main

    try:
        return broker_main(arguments)
    finally:
        if folder and os.getppid() != parent:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
