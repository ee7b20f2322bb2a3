"""`storage.jobs.Workers` over processes: as many as there is work for, at most so many at once.

Each order occupies one thread of ours, which sleeps in `read` until the answer is there; Python runs in it
for the length of a few lines. A process that is free is used again; when none had work for half a minute
they are all let go, so a broker that compacts once an hour keeps no second interpreter in memory.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final

import msgspec

from broker.workers.process import WorkerProcess
from broker.workers.wire import Order
from storage.jobs import Job, JobFailed, P, R

IDLE_SECONDS: Final = 30.0

_log = logging.getLogger("barnabas.workers")


class WorkerPool:
    """`submit` from the loop, `run_all` before it runs, `close` at the end."""

    def __init__(self, loop: AbstractEventLoop, at_once: int) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="worker")
        self._lock = Lock()
        self._idle: list[WorkerProcess] = []
        self._busy: list[WorkerProcess] = []
        self._closed = False
        self._release: TimerHandle | None = None

    @property
    def pids(self) -> list[int]:
        """Processes that live, for tests and the health page."""
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
        order = Order(job.name, msgspec.msgpack.encode(plan), bytes_per_second)
        self._threads.submit(self._work, job, order, done)

    def run_all(
        self, job: Job[P, R], plans: list[P], at_once: int, tell: Callable[[str], None]
    ) -> list[R | JobFailed]:
        """See `storage.jobs.Workers`."""

        def one(plan: P) -> R | JobFailed:
            return self._call(job, Order(job.name, msgspec.msgpack.encode(plan), 0), tell)

        with ThreadPoolExecutor(at_once, thread_name_prefix="worker") as threads:
            results = list(threads.map(one, plans))
        self.release_idle()
        return results

    def _work(self, job: Job[P, R], order: Order, done: Callable[[R | JobFailed], None]) -> None:
        result = self._call(job, order, partial(_log.info, "%s"))
        if self._closed:
            return  # nobody is left to hear of it
        try:
            self._loop.call_soon_threadsafe(self._finish, done, result)
        except RuntimeError:
            _log.warning("The loop ended before the job %s did; its result is dropped", order.job)

    def _finish(self, done: Callable[[R | JobFailed], None], result: R | JobFailed) -> None:
        if self._release is not None:
            self._release.cancel()
        if not self._closed:
            self._release = self._loop.call_later(IDLE_SECONDS, self.release_idle)
        done(result)

    def release_idle(self) -> None:
        """Lets the processes go that have no work."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def _call(self, job: Job[P, R], order: Order, tell: Callable[[str], None]) -> R | JobFailed:
        worker = self._take()
        if worker is None:
            return JobFailed("the broker is stopping")
        try:
            answer = worker.call(order, tell)
        except JobFailed as failure:
            return failure
        finally:
            self._put_back(worker)
        return msgspec.msgpack.decode(answer, type=job.result)

    def _take(self) -> WorkerProcess | None:
        with self._lock:
            if self._closed:
                return None
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive:
                    break
                worker.end()
            else:
                worker = WorkerProcess()
            self._busy.append(worker)
            return worker

    def _put_back(self, worker: WorkerProcess) -> None:
        with self._lock:
            self._busy.remove(worker)
            if worker.is_alive and not self._closed:
                self._idle.append(worker)
                return
        worker.end()

    def close(self) -> None:
        """No more orders; what is under way is given up, its processes end."""
        with self._lock:
            self._closed = True
            busy = list(self._busy)
        if self._release is not None:
            self._release.cancel()
        self.release_idle()
        for worker in busy:
            worker.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
