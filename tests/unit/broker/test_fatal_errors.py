"""What reaches the loop ends the process, with a code of its own and the stacks on standard error."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from broker.process.fatal_errors import EXIT_CODE, HALTED, end_on_failure
from controller.metadata.supported_features import UnsupportedCluster
from controller.raft.log_failure import MetadataLogFailed

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import asyncio, logging, socket, sys
import uvloop
from broker.process.fatal_errors import end_on_failure
from broker.network.interfaces import ListenerSettings
from broker.network.memory import RequestMemory
from broker.network.server import Server
from broker.network.socket_network import SocketNetwork
from broker.ports.clock import SystemClock
from broker.ports.timers import LoopTimers
from protocol.errors import invariant

logging.basicConfig(stream=sys.stderr)

class Service:
    def serve(self, connection, frame, arrived_ns):
        connection.now_ns = arrived_ns
        log_end_offset = 5
        invariant(log_end_offset > 7, "the log end never goes back", log_end_offset=log_end_offset)
    def sent(self, connection): pass
    def malformed(self, connection, reason): pass

async def main():
    loop = asyncio.get_running_loop()
    end_on_failure(loop)
    clock = SystemClock()
    timers = LoopTimers(loop, clock)
    network = SocketNetwork(loop, clock=clock, timers=timers)
    server = Server(network, clock=clock, timers=timers, memory=RequestMemory(1 << 27))
    port = server.listen(ListenerSettings("PLAINTEXT", "127.0.0.1", 0), Service()).port
    server.start()
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(bytes([0, 0, 0, 2, 0, 1]))
    await asyncio.sleep(100)
    print("still alive")

uvloop.run(main())
"""


def test_a_broken_invariant_of_a_request_ends_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == EXIT_CODE == 70
    assert "still alive" not in done.stdout
    assert "InvariantViolated: the log end never goes back (log_end_offset=5)" in done.stderr
    assert "most recent call first" in done.stderr, "the stacks of all threads are dumped"


@pytest.mark.parametrize("failure", [MetadataLogFailed("No room."), UnsupportedCluster("Another release.")])
def test_what_is_no_fault_of_ours_ends_the_process_with_one_sentence(
    failure: Exception, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    loop = asyncio.new_event_loop()
    ended: list[int] = []
    end_on_failure(loop, ended.append)
    loop.call_exception_handler({"message": "Exception in callback", "exception": failure})
    loop.close()
    assert ended == [HALTED]
    assert [(record.getMessage(), record.exc_info) for record in caplog.records] == [(str(failure), None)]
    assert "most recent call first" not in capfd.readouterr().err
