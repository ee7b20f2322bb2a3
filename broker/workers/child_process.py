"""One child process as its parent sees it: a worker, or the process of the operator's policies."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

from broker.workers.wire import LARGEST_BYTES, LINE, ORDER, RESULT, PipeClosed, read, write
from storage.jobs import JobFailed

ROOT: Final = str(Path(__file__).resolve().parents[2])
"""The folder that holds `broker`: the clone, or the private root within the wheel."""

ENDING_SECONDS: Final = 2.0
"""The time that a process whose pipes are closed may take to end, before it is killed."""


class ChildProcess:
    """`config.ports.ChildProcess` over pipes to a program's standard input and output.

    Calls block, so they are made in a helper thread, or before the loop runs. name: what the process is
    called in messages. ending_seconds: how long it may take to leave in order. largest_answer_bytes: a larger
    answer is a fault of the process, which is then ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        ending_seconds: float = ENDING_SECONDS,
        largest_answer_bytes: int = LARGEST_BYTES,
    ) -> None:
        self._name = name
        self._ending_seconds = ending_seconds
        self._largest_answer_bytes = largest_answer_bytes
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=_environment(),
            # A process group of its own, because Ctrl-C is for the broker, which closes the pipes of its
            # children. The same session, because with `sched_autogroup` niceness counts within a session
            # only.
            process_group=0,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(
        self, order: bytes, tell: Callable[[str], None], *, timeout_seconds: float | None = None
    ) -> bytes:
        """See `config.ports.ChildProcess`."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.kill()

        alarm = None if timeout_seconds is None else threading.Timer(timeout_seconds, give_up)
        if alarm is not None:
            alarm.start()
        try:
            kind, body = self._exchange(order, tell)
        except (PipeClosed, OSError) as error:
            self.end()
            if late.is_set():
                raise JobFailed(f"the {self._name} took longer than {timeout_seconds:g} s") from error
            raise JobFailed(f"the {self._name} died (exit code {self._process.returncode})") from error
        finally:
            if alarm is not None:
                alarm.cancel()
        if kind != RESULT:
            raise JobFailed(body.decode())
        return body

    def _exchange(self, order: bytes, tell: Callable[[str], None]) -> tuple[bytes, bytes]:
        write(self._descriptor(self._process.stdin), ORDER, order)
        while True:
            kind, body = read(self._descriptor(self._process.stdout), self._largest_answer_bytes)
            if kind != LINE:
                return kind, body
            tell(body.decode())

    def kill(self) -> None:
        """See `config.ports.ChildProcess`."""
        self._process.kill()

    def close_pipes(self) -> None:
        """Makes an idle child leave at once, and a busy one soon."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def end(self) -> None:
        """Closes the pipes, waits until the child has left, and kills one that does not."""
        self.close_pipes()
        try:
            self._process.wait(timeout=self._ending_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @staticmethod
    def _descriptor(pipe: IO[bytes] | None) -> int:
        if pipe is None or pipe.closed:
            raise PipeClosed("no pipe")
        return pipe.fileno()


def _environment() -> dict[str, str]:
    """The environment of this process, with our own folder taken from PYTHONPATH, because policies must not
    import anything of ours."""
    environment = dict(os.environ)
    folders = environment.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [folder for folder in folders if folder and str(Path(folder).resolve()) != ROOT]
    if kept:
        environment["PYTHONPATH"] = os.pathsep.join(kept)
    return environment
