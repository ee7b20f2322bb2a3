"""What systemd hears of a broker: ready, alive, stopping."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.process.service_manager import watchdog_timeout_seconds
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.several_nodes import Nodes
from tests.support.clients.wire_client import WireClient

pytestmark = barnabas_only


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(90)
        yield listening


class WatchedBroker(BarnabasProcess):
    """As systemd starts it, with a watchdog of 0.2 s."""

    def _environment(self) -> dict[str, str]:
        socket_path = str(self.data.with_name("notify"))
        return super()._environment() | {"NOTIFY_SOCKET": socket_path, "WATCHDOG_USEC": "200000"}


def test_a_life_as_systemd_hears_it(manager: socket.socket, tmp_path: Path) -> None:
    with WatchedBroker(tmp_path / "data") as broker:
        first = manager.recv(4096).decode().splitlines()
        assert first == ["READY=1", f"STATUS={broker.ready_line}"]
        assert [manager.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        # As systemd does, it listens all the time: the socket takes some ten datagrams, and whoever sends one
        # more waits.
        rest: list[bytes] = []
        listening = threading.Thread(target=lambda: rest.extend(iter(lambda: manager.recv(4096), b"")))
        listening.start()
        broker.stop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.sendto(b"", str(tmp_path / "notify"))
    listening.join(90)
    assert b"STOPPING=1" in rest
    assert set(rest) <= {b"STOPPING=1", b"WATCHDOG=1"}


def test_a_service_manager_that_does_not_listen_holds_nobody_up(
    manager: socket.socket, tmp_path: Path
) -> None:
    with WatchedBroker(tmp_path / "data") as broker:
        assert manager.recv(4096).startswith(b"READY=1")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as others:
            others.setblocking(False)
            with suppress(BlockingIOError):
                while others.sendto(b"what another service has to say", manager.getsockname()):
                    pass
        wait_for(broker.log_file, "The service manager at NOTIFY_SOCKET could not be told")
        with WireClient(broker.bootstrap_servers) as client:
            assert client.ask_for(MetadataResponse, MetadataRequest(), 12).brokers
        assert broker.stop() == 0


def test_the_parent_of_several_nodes_gives_signs_of_life(manager: socket.socket, tmp_path: Path) -> None:
    """And the signal of a watchdog ends neither it nor them: it dumps the stacks of all."""
    watched = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "200000"}
    nodes = Nodes(tmp_path, 2, environment=watched)
    try:
        nodes.await_ready()
        assert manager.recv(4096).startswith(b"READY=1\nSTATUS=Barnabas is ready: 2 nodes serve ")
        assert [manager.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        children = [nodes.pid_of(number) for number in (1, 2)]
        nodes.process.send_signal(signal.SIGQUIT)
        for whose in ("", "node 1 | ", "node 2 | "):
            wait_for(nodes.log_file, f"\n{whose}Current thread")
        assert [nodes.pid_of(number) for number in (1, 2)] == children
        assert manager.recv(4096) == b"WATCHDOG=1"
        assert nodes.stop() == 0
    finally:
        nodes.kill()


def wait_for(log_file: Path, words: str) -> None:
    end = time.monotonic() + 30
    while words not in log_file.read_text():
        assert time.monotonic() < end, log_file.read_text()
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_who_is_watched(environment: dict[str, str], seconds: float | None) -> None:
    assert watchdog_timeout_seconds(environment, os.getpid()) == seconds
