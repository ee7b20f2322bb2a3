"""Worker processes: real ones, with the jobs of a table that is made for the test."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from broker.ports.files import RealFiles
from broker.workers import child
from broker.workers import pool as pool_module
from broker.workers.child import Order
from broker.workers.child_process import ChildProcess
from broker.workers.pool import WorkerPool, start_worker
from broker.workers.wire import FAILURE, LINE, ORDER, RESULT, PipeClosed, read, write
from config.ports import Files
from storage.jobs import DirectWorkers, Job, JobAbandoned, JobFailed, Pace


class Count(msgspec.Struct):
    path: str


class Counted(msgspec.Struct):
    lines: int


def _count(files: Files, pace: Pace, plan: Count) -> Counted:
    text = files.read_text(plan.path)
    pace.worked(len(text))
    pace.tell(f"read {plan.path}")
    return Counted(text.count("\n"))


COUNT = Job("count", _count, plan=Count, result=Counted)


class Serving:
    """The child's loop on pipes, in a thread of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(child, "JOBS", {"count": COUNT})
        monkeypatch.setattr(os, "nice", lambda by: 0)
        orders, self.orders = os.pipe()
        self.replies, replies = os.pipe()
        self.codes: list[int] = []
        self.thread = threading.Thread(target=lambda: self.codes.append(child.serve(orders, replies)))
        self.thread.start()

    def ask(self, order: Order) -> tuple[list[str], bytes, bytes]:
        """The lines, and kind and body of the outcome."""
        write(self.orders, ORDER, msgspec.msgpack.encode(order))
        lines = []
        kind, body = read(self.replies)
        while kind == LINE:
            lines.append(body.decode())
            kind, body = read(self.replies)
        return lines, kind, body

    def end(self) -> list[int]:
        os.close(self.orders)
        self.thread.join(60)
        return self.codes


KNIT = msgspec.msgpack.encode(Order("knit", b"", 0))


def order_for(path: Path, job: str = "count", rate: float = 0) -> Order:
    return Order(job, msgspec.msgpack.encode(Count(str(path))), rate)


def test_a_child_works_tells_fails_and_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text("a\nb\nc\n")
    serving = Serving(monkeypatch)
    lines, kind, body = serving.ask(order_for(tmp_path / "text"))
    assert lines == [f"read {tmp_path / 'text'}"]
    assert kind == RESULT
    assert msgspec.msgpack.decode(body, type=Counted) == Counted(3)
    lines, kind, body = serving.ask(order_for(tmp_path / "missing"))
    assert kind == FAILURE
    assert b"No such file" in body
    assert serving.ask(order_for(tmp_path / "text", "knit"))[1:] == (FAILURE, b"no job is called 'knit'")
    assert serving.end() == [0]


def test_a_rate_makes_a_child_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    orders, _keeps_open = os.pipe()
    pace = child.ParentsPace(orders, 1, 1000)
    for _ in range(10):
        pace.worked(500)
    assert sum(slept) == pytest.approx(5.0)


def test_an_orphan_stops_in_the_middle() -> None:
    orders, ours = os.pipe()
    pace = child.ParentsPace(orders, 1, 0)
    pace.worked(100 * 1024 * 1024)
    os.close(ours)
    with pytest.raises(JobAbandoned):
        pace.worked(100 * 1024 * 1024)


def test_a_real_process_answers_and_dies_with_a_word() -> None:
    worker = start_worker()
    try:
        with pytest.raises(JobFailed, match="no job is called 'knit'"):
            worker.call(KNIT, print)
        assert worker.is_alive
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == min(19, os.nice(0) + child.NICENESS)
        worker.kill()
        with pytest.raises(JobFailed, match="worker process died"):
            worker.call(KNIT, print)
    finally:
        worker.end()


def test_ctrl_c_does_not_reach_a_worker_and_its_niceness_counts() -> None:
    worker = start_worker()
    try:
        assert os.getpgid(worker.pid) == worker.pid
        assert os.getsid(worker.pid) == os.getsid(0)
    finally:
        worker.end()


def test_a_worker_leaves_when_its_broker_is_killed() -> None:
    """All that a dead parent leaves is a closed pipe."""
    worker = start_worker()
    with pytest.raises(JobFailed):
        worker.call(KNIT, print)
    process = worker._process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=90) == 0


def test_a_pool_reuses_and_lets_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        pool = WorkerPool(asyncio.get_running_loop())
        results: list[Counted | JobFailed] = []
        try:
            pool.submit(COUNT, Count("nowhere"), results.append)
            while len(results) < 1:
                await asyncio.sleep(0.01)
            assert isinstance(results[0], JobFailed), "a real worker does not know the test's job"
            (first,) = pool.pids
            pool.submit(COUNT, Count("nowhere"), results.append)
            while len(results) < 2:
                await asyncio.sleep(0.01)
            assert pool.pids == [first]
            pool.release_idle()
            assert pool.pids == []
        finally:
            pool.close()
        pool_results = pool.run_all(COUNT, [Count("a"), Count("b")], 2, print)
        assert [str(result) for result in pool_results] == ["the broker is stopping"] * 2

    asyncio.run(scenario())


class Lingering(ChildProcess):
    """A process that fails its one order and does not leave by itself. It tells of its end, and in which
    thread."""

    def __init__(self, told: list[tuple[str, int]]) -> None:
        answer = "os.read(0, 99); time.sleep(0.3); os.write(1, b'F' + bytes(4))"
        code = f"import os, time; {answer}; time.sleep(600)"
        super().__init__([sys.executable, "-c", code], name="child", ending_seconds=0.2)
        self._told = told

    def close_pipes(self) -> None:
        self._told.append(("pipes", threading.get_ident()))
        super().close_pipes()

    def end(self) -> None:
        self._told.append(("end", threading.get_ident()))
        super().end()


def test_idle_workers_leave_beside_the_loop_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them may take seconds."""
    told: list[tuple[str, int]] = []

    async def scenario() -> None:
        pool = WorkerPool(asyncio.get_running_loop())
        try:
            for _ in range(2):
                pool.submit(COUNT, Count("nowhere"), print)
            while [what for what, _ in told].count("end") < 2 or pool.pids:
                await asyncio.sleep(0.01)
        finally:
            pool.close()

    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(pool_module, "start_worker", lambda: Lingering(told))
    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert threading.get_ident() not in [thread for _, thread in told]
    assert [what for what, _ in told][:3] == ["pipes", "pipes", "end"]


def test_no_order_waits_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many run at once is up to the cleaner, whose threads may become more, and to the moves."""

    def silent() -> ChildProcess:
        return ChildProcess([sys.executable, "-c", "import time; time.sleep(600)"], name="child")

    async def scenario() -> None:
        pool = WorkerPool(asyncio.get_running_loop())
        try:
            for _ in range(5):
                pool.submit(COUNT, Count("nowhere"), print)
            while len(pool.pids) < 5:
                await asyncio.sleep(0.01)
        finally:
            pool.close()

    monkeypatch.setattr(pool_module, "start_worker", silent)
    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_process_that_cannot_be_started_is_a_failed_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the operating system allows no more of them: whoever waits must hear of it."""

    def refuse() -> ChildProcess:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    async def scenario() -> list[Counted | JobFailed]:
        pool = WorkerPool(asyncio.get_running_loop())
        results: list[Counted | JobFailed] = []
        try:
            pool.submit(COUNT, Count("nowhere"), results.append)
            while not results:
                await asyncio.sleep(0.01)
            return results + pool.run_all(COUNT, [Count("a")], 1, print)
        finally:
            pool.close()

    monkeypatch.setattr(pool_module, "start_worker", refuse)
    texts = [str(each) for each in asyncio.run(scenario())]
    reason = "no worker process could be started: [Errno 11] Resource temporarily unavailable"
    assert texts == [reason] * 2


def test_ctrl_c_does_not_wait_for_the_work_of_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = ChildProcess([sys.executable, "-c", "import time; time.sleep(600)"], name="child")
    monkeypatch.setattr(pool_module, "start_worker", lambda: silent)
    loop = asyncio.new_event_loop()
    pool = WorkerPool(loop)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        while not pool.pids:
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        pool.run_all(COUNT, [Count("a"), Count("b")], 1, print)
    interrupting.join()
    loop.close()
    assert not silent.is_alive


def test_the_direct_side_does_the_same(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a\n")
    workers = DirectWorkers(RealFiles())
    results: list[Counted | JobFailed] = []
    workers.submit(COUNT, Count(str(tmp_path / "text")), results.append)
    assert results == [Counted(1)]
    (failed,) = workers.run_all(COUNT, [Count(str(tmp_path / "missing"))], 1, print)
    assert isinstance(failed, JobFailed)
    assert "missing" in str(failed)


def test_a_pipe_that_closed_is_said() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(PipeClosed):
        read(reading)
    os.close(reading)


def test_a_child_that_answers_too_much_or_too_late_is_ended() -> None:
    head = "import os, time; os.read(0, 100); os.write(1, b'R' + (17).to_bytes(4, 'big'))"
    babbling = ChildProcess([sys.executable, "-c", head], name="child", largest_answer_bytes=16)
    with pytest.raises(JobFailed, match="the child died"):
        babbling.call(b"", print)
    assert not babbling.is_alive
    silent = ChildProcess([sys.executable, "-c", f"{head}; time.sleep(600)"], name="child")
    with pytest.raises(JobFailed, match=r"the child took longer than 0\.2 s"):
        silent.call(b"", print, timeout_seconds=0.2)
    assert not silent.is_alive
