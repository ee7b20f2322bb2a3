"""One worker process as its parent sees it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from broker.workers.wire import LINE, ORDER, RESULT, PipeClosed, read, write
from storage.jobs import JobFailed

_ROOT: Final = str(Path(__file__).resolve().parents[2])
"""The folder that holds `broker`: the clone, or the private root within the wheel."""

_PROGRAM: Final = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
from broker.__main__ import main
sys.exit(main())
"""


class WorkerProcess:
    """Calls block: they are made in a thread that waits in `os.read`, or before the loop runs."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, _ROOT, "worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C is for the broker, which tells its workers by closing the pipe: so a group of its own.
            # But in the broker's session: under `sched_autogroup` niceness counts within a session only.
            process_group=0,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, order: bytes, tell: Callable[[str], None]) -> bytes:
        """The encoded result of an encoded `Order`. Raises JobFailed, also when the process dies on the
        way."""
        try:
            write(self._descriptor(self._process.stdin), ORDER, order)
            kind, body = read(self._descriptor(self._process.stdout))
            while kind == LINE:
                tell(body.decode())
                kind, body = read(self._descriptor(self._process.stdout))
        except (PipeClosed, OSError) as error:
            self.end()
            raise JobFailed(f"the worker process died (exit code {self._process.returncode})") from error
        if kind != RESULT:
            raise JobFailed(body.decode())
        return body

    def kill(self) -> None:
        """Ends a busy one from another thread: the call comes back with JobFailed."""
        self._process.kill()

    def end(self) -> None:
        """Closes the pipes, at which an idle worker leaves at once and a busy one soon, and kills one that
        does not."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @staticmethod
    def _descriptor(pipe: IO[bytes] | None) -> int:
        if pipe is None:
            raise PipeClosed("no pipe")
        return pipe.fileno()
