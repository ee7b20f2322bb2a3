"""The worker's side: it takes orders until its parent closes the pipe.

It is niced, so that the broker's loop goes first. While it works it checks now and then whether its parent
still holds the pipe. If not, it stops in the middle; the next start removes its temporary files.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from broker.ports.files import RealFiles
from broker.workers.wire import FAILURE, LINE, RESULT, PipeClosed, read, write
from storage.cleaner.job import CLEAN
from storage.errors import LogStorageError
from storage.jobs import Job, JobAbandoned
from storage.recovery_job import RECOVER
from storage.replica_directory_move_job import MOVE

NICENESS: Final = 10
_LOOK_BYTES: Final = 4 * 1024 * 1024
_LONGEST_SLEEP_SECONDS: Final = 0.5

_ALL: Final[tuple[Job[Any, Any], ...]] = (CLEAN, MOVE, RECOVER)

JOBS: Final[Mapping[str, Job[Any, Any]]] = MappingProxyType({job.name: job for job in _ALL})
"""The jobs that a worker process knows, by name."""


class Order(msgspec.Struct, frozen=True):
    """An order for a worker. job: the name of the job. plan: its plan, encoded. bytes_per_second: 0 for no
    limit."""

    job: str
    plan: bytes
    bytes_per_second: float


def serve(orders: int, replies: int) -> int:
    """Works until the parent closes the pipe. Returns the exit code."""
    os.nice(NICENESS)
    try:
        while True:
            order = msgspec.msgpack.decode(read(orders)[1], type=Order)
            write(replies, *_do(order, ParentsPace(orders, replies, order.bytes_per_second)))
    except (PipeClosed, JobAbandoned):
        return 0


class ParentsPace:
    """`storage.jobs.Pace`: the rate of the order, and the parent's end of the pipe."""

    def __init__(self, orders: int, replies: int, bytes_per_second: float) -> None:
        self._orders = orders
        self._replies = replies
        self._rate = bytes_per_second
        self._began = time.monotonic()
        self._done_bytes = 0
        self._unlooked_bytes = 0

    def worked(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        self._unlooked_bytes += size_bytes
        if self._rate > 0:
            while (early := self._done_bytes / self._rate - (time.monotonic() - self._began)) > 0:
                time.sleep(min(early, _LONGEST_SLEEP_SECONDS))
                self._look()
        if self._unlooked_bytes >= _LOOK_BYTES:
            self._look()

    def _look(self) -> None:
        """The parent sends nothing while a job is under way, so a readable pipe is a closed one."""
        self._unlooked_bytes = 0
        if select.select([self._orders], [], [], 0)[0]:
            raise JobAbandoned("the broker has gone")

    def tell(self, line: str) -> None:
        try:
            write(self._replies, LINE, line.encode())
        except PipeClosed as error:
            raise JobAbandoned("the broker has gone") from error


def _do(order: Order, pace: ParentsPace) -> tuple[bytes, bytes]:
    """The kind and the body of the answer."""
    job: Any = JOBS.get(order.job)
    if job is None:
        return FAILURE, f"no job is called {order.job!r}".encode()
    try:
        plan = msgspec.msgpack.decode(order.plan, type=job.plan)
        return RESULT, msgspec.msgpack.encode(job.run(RealFiles(), pace, plan))
    except (OSError, LogStorageError, msgspec.MsgspecError, MemoryError) as error:
        return FAILURE, f"{type(error).__name__}: {error}".encode()
