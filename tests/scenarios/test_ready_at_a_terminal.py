"""`make run` at a terminal: after the line for programs comes what a person types next, and it works."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.process.run import first_steps
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import ROOT

SECONDS = 120


def read_until(terminal: int, end: str) -> list[str]:
    """The lines of a terminal up to one that begins so."""
    told = b""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            told += os.read(terminal, 4096)
        lines = told.decode().replace("\r\n", "\n").split("\n")
        if any(line.startswith(end) for line in lines[:-1]):
            return lines[:-1]
    raise AssertionError(f"nothing begins with {end!r}: {told!r}")


@contextmanager
def started(folder: Path, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    """A broker whose standard output goes there; stopped in order at the end."""
    overrides = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "log.dirs": str(folder / "data"),
        "barnabas.admin.listener": "",
    }
    words = [word for name, value in overrides.items() for word in ("--override", f"{name}={value}")]
    with open(folder / "log", "wb") as log:
        command = [sys.executable, "-m", "broker", "start", *words]
        broker = subprocess.Popen(command, cwd=ROOT, stdout=stdout, stderr=log)
    try:
        yield broker
    finally:
        broker.send_signal(signal.SIGINT)
        assert broker.wait(SECONDS) == 0


@barnabas_only
@pytest.mark.skipif(
    shutil.which("kcat") is None, reason="what is printed are kcat's commands, and it is missing"
)
def test_what_is_printed_can_be_typed(tmp_path: Path) -> None:
    terminal, its_end = pty.openpty()
    with started(tmp_path, its_end):
        os.close(its_end)
        ready, heading, produce, consume, _ = read_until(terminal, "Ctrl-C")
        assert ready.startswith("Barnabas is ready: node 1 serves PLAINTEXT://127.0.0.1:")
        assert heading == "In another terminal:"
        for command, told in ((produce, ""), (consume, "Liftoff\n")):
            done = subprocess.run(
                command, shell=True, capture_output=True, text=True, check=True, timeout=SECONDS
            )
            assert done.stdout == told
    os.close(terminal)


@barnabas_only
def test_a_pipe_gets_the_one_line(tmp_path: Path) -> None:
    with started(tmp_path, subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith(b"Barnabas is ready: ")
    with broker.stdout:
        assert broker.stdout.read() == b""


def test_kafkas_own_tools_are_named_where_kcat_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    at = "--bootstrap-server [::1]:9092"
    assert first_steps("[::1]:9092", creates_topics=True)[1:3] == [
        f"    echo Liftoff | kafka-console-producer.sh {at} --topic flights",
        f"    kafka-console-consumer.sh {at} --topic flights --from-beginning",
    ]
    assert first_steps("[::1]:9092", creates_topics=False)[1] == (
        f"    kafka-topics.sh {at} --create --topic flights"
    )
    assert first_steps("", creates_topics=True) == []
