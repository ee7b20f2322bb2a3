"""The broker's own command line on disks that a test can fill and empty again while it runs.

While there is a file named by `FLAKY_WHEN` every write below the directory `FLAKY_BELOW` finds the disk full.

    FLAKY_WHEN=/path/full FLAKY_BELOW=/path/flaky/ python -m tests.support.fuzz.flaky_broker start …
"""

from __future__ import annotations

import errno
import os
import sys

from broker.__main__ import main
from broker.ports.files import RealFiles
from broker.server import shared_server as shared
from storage.faulty_files import FaultyFiles
from storage.open_files import OpenFiles

_CALLS_THAT_NEED_ROOM = frozenset({"write", "makedirs", "write_atomically"})


class FullAtTimes(FaultyFiles):
    """See the module."""

    def __init__(self, open_files: OpenFiles) -> None:
        super().__init__(RealFiles(open_files))
        self._below = os.environ["FLAKY_BELOW"]
        self._when = os.environ["FLAKY_WHEN"]

    def ask(self, call: str, path: str) -> int | None:
        if call in _CALLS_THAT_NEED_ROOM and path.startswith(self._below) and os.path.exists(self._when):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return None


if __name__ == "__main__":
    setattr(shared, "RealFiles", FullAtTimes)  # noqa: B010
    sys.exit(main())
