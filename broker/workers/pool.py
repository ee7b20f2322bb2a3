"""`storage.jobs.Workers` over processes: as many as there are orders under way.

The pool has no limit of its own. Whoever gives orders knows how many shall run at once: the cleaner by
`log.cleaner.threads`, which may change while the broker runs, the moves between directories by their own
number. So neither waits behind the other.

Each order occupies one thread of ours, which sleeps in `read` until the answer is there; Python runs in it
for the length of a few lines. It handles bytes only: plans and results are encoded and decoded by whoever
made the order, because msgspec builds what it knows of a class when the class is first met, and two threads
that meet it at the same moment can end the process. A process that is free is used again; when none had work
for half a minute they are all let go, in a thread too, so a broker that compacts once an hour keeps no second
interpreter in memory.
"""

from __future__ import annotations

import logging
import sys
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final

import msgspec

from broker.workers.child import Order
from broker.workers.child_process import ROOT, ChildProcess
from storage.jobs import Job, JobFailed, P, R

IDLE_SECONDS: Final = 30.0

_log = logging.getLogger("barnabas.workers")

_PROGRAM: Final = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
from broker.__main__ import main
sys.exit(main())
"""


def start_worker() -> ChildProcess:
    """A worker process, `barnabas worker`, under the interpreter that runs this one."""
    return ChildProcess([sys.executable, "-P", "-c", _PROGRAM, ROOT, "worker"], name="worker process")


class WorkerPool:
    """`submit` from the loop, `run_all` before it runs, `close` at the end."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        # A thread is started only when none is free.
        self._threads = ThreadPoolExecutor(sys.maxsize, thread_name_prefix="worker")
        self._lock = Lock()
        self._idle: list[ChildProcess] = []
        self._busy: list[ChildProcess] = []
        self._closed = False
        self._release: TimerHandle | None = None

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that are alive."""
        with self._lock:
            return [worker.pid for worker in (*self._idle, *self._busy) if worker.is_alive]

    def submit(
        self,
        job: Job[P, R],
        plan: P,
        done: Callable[[R | JobFailed], None],
        *,
        bytes_per_second: float = 0,
    ) -> None:
        """See `storage.jobs.Workers`."""
        self._threads.submit(self._work, job, _encoded(job, plan, bytes_per_second), done)

    def run_all(
        self, job: Job[P, R], plans: list[P], at_once: int, tell: Callable[[str], None]
    ) -> list[R | JobFailed]:
        """See `storage.jobs.Workers`."""
        orders = [_encoded(job, plan, 0) for plan in plans]
        with ThreadPoolExecutor(at_once, thread_name_prefix="worker") as threads:
            try:
                answers = list(threads.map(partial(self._call, tell=tell), orders))
            except BaseException:  # Ctrl-C: the threads would wait for their workers first
                self.close()
                raise
        self.release_idle()
        return [_decoded(job, answer) for answer in answers]

    def _work(self, job: Job[P, R], order: bytes, done: Callable[[R | JobFailed], None]) -> None:
        answer = self._call(order, partial(_log.info, "%s"))
        if self._closed:
            return  # the loop has ended; nobody waits for the result
        try:
            self._loop.call_soon_threadsafe(self._finish, job, done, answer)
        except RuntimeError:
            _log.warning("The loop ended before the job %s did; its result is dropped", job.name)

    def _finish(
        self, job: Job[P, R], done: Callable[[R | JobFailed], None], answer: bytes | JobFailed
    ) -> None:
        if self._release is not None:
            self._release.cancel()
        if not self._closed:
            self._release = self._loop.call_later(IDLE_SECONDS, self._threads.submit, self.release_idle)
        done(_decoded(job, answer))

    def release_idle(self) -> None:
        """Ends the processes that have no work. It waits for them, so the loop leaves it to a thread."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close_pipes()  # of all first: they leave side by side
        for worker in idle:
            worker.end()

    def _call(self, order: bytes, tell: Callable[[str], None]) -> bytes | JobFailed:
        """Runs in a thread: sends bytes to a worker, and returns the bytes of its answer (see `wire`)."""
        try:
            worker = self._take()
        except OSError as error:
            return JobFailed(f"no worker process could be started: {error}")
        if worker is None:
            return JobFailed("the broker is stopping")
        try:
            return worker.call(order, tell)
        except JobFailed as failure:
            return failure
        finally:
            self._put_back(worker)

    def _take(self) -> ChildProcess | None:
        with self._lock:
            if self._closed:
                return None
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive:
                    break
                worker.end()
            else:
                worker = start_worker()
            self._busy.append(worker)
            return worker

    def _put_back(self, worker: ChildProcess) -> None:
        with self._lock:
            self._busy.remove(worker)
            if worker.is_alive and not self._closed:
                self._idle.append(worker)
                return
        worker.end()

    def close(self) -> None:
        """Takes no more orders, gives up those that are under way, and ends the processes."""
        with self._lock:
            self._closed = True
            busy = list(self._busy)
        if self._release is not None:
            self._release.cancel()
        self.release_idle()
        for worker in busy:
            worker.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)


def _encoded(job: Job[P, R], plan: P, bytes_per_second: float) -> bytes:
    return msgspec.msgpack.encode(Order(job.name, msgspec.msgpack.encode(plan), bytes_per_second))


def _decoded(job: Job[P, R], answer: bytes | JobFailed) -> R | JobFailed:
    if isinstance(answer, JobFailed):
        return answer
    return msgspec.msgpack.decode(answer, type=job.result)
