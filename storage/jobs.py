"""Work on files that is too long for the loop, as a value: what a worker process is asked, and answers.

Compacting a partition or reading 5 GB after a crash is Python that runs for seconds. Beside the loop it would
ruin the loop (a thread shares its interpreter), so it runs in another process. A `Job` is a plain function
over the files port: it gets a plan of plain values and returns a result of plain values; it sees no object of
this process, and what becomes of its result is for the loop to decide. So a job that dies has done nothing
but leave temporary files, which the next start removes.

`Workers` is the door; behind it are processes in production (`broker.workers`) and a direct call in tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from config.ports import Files
from storage.errors import LogStorageError

P = TypeVar("P", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)


class Pace(Protocol):
    """How fast a job may go, and whether anybody still waits for its result."""

    def worked(self, size_bytes: int) -> None:
        """Notes that so many bytes were read or written since the last call. May sleep. Raises JobAbandoned
        if nobody waits for the result any more."""
        ...

    def tell(self, line: str) -> None:
        """Gives a line about the progress to the log of the process that waits for the result."""
        ...


class Job(Generic[P, R]):
    """A kind of work. plan and result: structs of plain values that are sent between processes."""

    __slots__ = ("name", "plan", "result", "run")

    def __init__(
        self, name: str, run: Callable[[Files, Pace, P], R], *, plan: type[P], result: type[R]
    ) -> None:
        """run: raises OSError and LogStorageError, which the caller gets as JobFailed."""
        self.name = name
        self.run = run
        self.plan = plan
        self.result = result


class JobFailed(Exception):
    """A job has ended without a result. The text is its error, or how its process has died."""


class JobAbandoned(Exception):
    """The job was broken off because nobody waits for its result any more."""


class Workers(Protocol):
    """Runs jobs."""

    def submit(
        self,
        job: Job[P, R],
        plan: P,
        done: Callable[[R | JobFailed], None],
        *,
        bytes_per_second: float = 0,
    ) -> None:
        """Runs the job beside the loop, and calls `done` on the loop. A rate of 0 means no limit."""
        ...

    def run_all(
        self, job: Job[P, R], plans: list[P], at_once: int, tell: Callable[[str], None]
    ) -> list[R | JobFailed]:
        """Runs the job for all plans, `at_once` of them side by side, and waits for them. It is for the start
        of a node, when the loop does not run yet. The results are in the order of the plans."""
        ...


class NoPace:
    """A `Pace` without a limit, for a caller that always waits."""

    def worked(self, size_bytes: int) -> None:
        """See `Pace`."""

    def tell(self, line: str) -> None:
        """See `Pace`."""


class DirectWorkers:
    """Runs every job at once, in this process. It is for tests and the simulator, and for nodes that may not
    start processes."""

    def __init__(self, files: Files, pace: Pace | None = None) -> None:
        self._files = files
        self._pace = pace or NoPace()

    def submit(
        self,
        job: Job[P, R],
        plan: P,
        done: Callable[[R | JobFailed], None],
        *,
        bytes_per_second: float = 0,
    ) -> None:
        """See `Workers`."""
        done(self._run(job, plan))

    def run_all(
        self, job: Job[P, R], plans: list[P], at_once: int, tell: Callable[[str], None]
    ) -> list[R | JobFailed]:
        """See `Workers`."""
        return [self._run(job, plan) for plan in plans]

    def _run(self, job: Job[Any, R], plan: msgspec.Struct) -> R | JobFailed:
        # Through bytes, as between processes: what does not survive that must not be in a plan.
        copy = msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=job.plan)
        try:
            return job.run(self._files, self._pace, copy)
        except (OSError, LogStorageError, JobAbandoned) as error:
            return JobFailed(f"{type(error).__name__}: {error}")
