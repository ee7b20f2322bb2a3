"""Two log directories on real files and real threads, one of them slow: who writes where."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.ports.clock import SystemClock, ThreadStalls
from broker.ports.files import RealFiles
from broker.ports.offload import ThreadOffload
from broker.ports.timers import LoopTimers
from broker.replication.waiting_appends import WaitingAppends
from config.limits import SLOW_DIRECTORY_MS
from config.ports import Buffer, File
from storage import log_disk
from storage.append import AppendResult
from storage.background_tasks import BackgroundTasks
from storage.log_config import LogConfig
from storage.opening import create_log
from storage.partition_log import PartitionLog
from tests.support.rigs.log_rig import client_batch, everything, offsets_of


class SlowFiles(RealFiles):
    """Writes to segments below `slow_path` take their time; where each was made is noted."""

    def __init__(self, slow_path: str) -> None:
        self.slow_path = slow_path
        self.writers: dict[str, list[str]] = {}

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        file: Any = super().open(path, write=write, create=create)
        return SlowFile(file, self) if path.endswith(".log") else file


class SlowFile:
    def __init__(self, file: File, files: SlowFiles) -> None:
        self._file = file
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, buffers: Sequence[Buffer], offset: int) -> int:
        name = threading.current_thread().name
        self._files.writers.setdefault(Path(self._file.path).parent.name, []).append(name)
        if self._file.path.startswith(self._files.slow_path):
            time.sleep((SLOW_DIRECTORY_MS + 10) / 1000)
        return self._file.write(buffers, offset)


def test_after_two_slow_writes_threads_wait_for_the_disk_and_the_loop_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It stays slow, however slow the test itself is.
    monkeypatch.setattr(log_disk, "SLOW_DIRECTORY_REST_MS", 600_000)
    files = SlowFiles(f"{tmp_path}/slow")
    logs: dict[str, PartitionLog] = {}
    for name in ("slow", "quick"):
        (tmp_path / name).mkdir()
        logs[name] = create_log(
            files, f"{tmp_path}/{name}/{name}-0", name, 0, bytes(16), LogConfig(), BackgroundTasks(), now_ms=0
        )
    results: list[Any] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        clock = SystemClock()
        threads = ThreadOffload(loop, 8, name="append")
        stalls = ThreadStalls()
        waiting = WaitingAppends(
            clock=clock, timers=LoopTimers(loop, clock), disks=threads, codecs=threads, stalls=stalls
        )
        for log in logs.values():
            waiting.watch(log)
        for _ in range(12):
            send(logs["slow"], results.append)
            send(logs["quick"], results.append)
            await asyncio.sleep(0.005)
        while len(results) < 24:
            await asyncio.sleep(0.005)
        assert waiting.by_directory[f"{tmp_path}/slow"].is_slow
        assert not waiting.by_directory[f"{tmp_path}/quick"].is_slow
        threads.close()
        stalls.close()

    asyncio.run(serve())
    main = threading.current_thread().name
    slow = files.writers["slow-0"]
    assert slow[:2] == [main] * 2
    assert len(slow) > 2
    assert all(name.startswith("append") for name in slow[2:])
    assert len(slow) < 12, "those that waited together were written together"
    assert files.writers["quick-0"] == [main] * 12
    for log in logs.values():
        assert offsets_of(everything(log)) == [(n, n) for n in range(12)]
        log.close()


def send(log: PartitionLog, heard: Callable[[Any], None]) -> None:
    """As the replica manager appends."""
    batch = client_batch(b"value")
    now_ms = int(time.time() * 1000)
    result = log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
    if isinstance(result, AppendResult):
        heard(result)
    else:
        result.then(heard)
