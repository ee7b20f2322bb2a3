"""A broker that belongs to another process hears of its end, with a descriptor of it or without."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from broker.process import other_process


async def hears_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_process, "LOOK_EVERY_SECONDS", 0.01)
    loop = asyncio.get_running_loop()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        ended: asyncio.Future[int] = loop.create_future()
        other_process.when_process_ends(loop, process.pid, ended.set_result)
        await asyncio.sleep(0.1)
        assert not ended.done()
        process.kill()
        await loop.run_in_executor(None, process.wait)
        assert await asyncio.wait_for(ended, 90) == process.pid


def test_through_a_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(hears_of_the_end(monkeypatch))


def test_by_looking_where_the_kernel_has_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    asyncio.run(hears_of_the_end(monkeypatch))


def test_a_process_that_has_gone_already() -> None:
    async def at_once() -> int:
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            process.wait()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()
        other_process.when_process_ends(loop, process.pid, ended.set_result)
        return await asyncio.wait_for(ended, 90) - process.pid

    assert asyncio.run(at_once()) == 0
