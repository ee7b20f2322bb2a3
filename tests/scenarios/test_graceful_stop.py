"""A clean stop: what waits is answered, what was taken is kept, and the next start recovers nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from protocol.framing import decode_response
from protocol.messages.fetch import FetchRequest, FetchResponse
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import ROOT, BarnabasProcess
from tests.support.clients.librdkafka import create_topic, fill, settings
from tests.support.clients.wire_client import ConnectionEnded, WireClient

pytestmark = barnabas_only

NewBroker = Callable[..., BarnabasProcess]


def patient_fetch() -> FetchRequest:
    wanted = FetchRequest.FetchPartition(fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic("quiet", partitions=[wanted])
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic])


def test_a_waiting_fetch_is_answered(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "quiet")
    with WireClient(broker.bootstrap_servers) as client:
        client.send(patient_fetch(), 12)
        answers: list[FetchResponse | type[ConnectionEnded]] = []

        def receive() -> None:
            try:
                answers.append(decode_response(FetchResponse, 12, client.receive())[1])
            except ConnectionEnded:
                answers.append(ConnectionEnded)

        waiting = threading.Thread(target=receive)
        waiting.start()
        with WireClient(broker.bootstrap_servers) as other:
            other.ask(FetchRequest(max_wait_ms=0), 12)  # by now the first one waits, too
        before = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - before < 45, "and not after the minute that the fetch may take"
        waiting.join(60)
        (answer,) = answers
        assert isinstance(answer, FetchResponse)
        assert answer.error_code == 0


def test_the_marker_of_a_clean_end(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "kept")
    fill(broker.bootstrap_servers, "kept", range(10), partition=0)
    marker = broker.data / ".kafka_cleanshutdown"
    assert not marker.exists()
    assert broker.stop() == 0
    assert marker.exists()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert "kept 0 10\n" in (broker.data / name).read_text()
    assert (broker.data / "kept-0" / f"{10:020}.snapshot").exists()
    broker.start()
    assert not marker.exists(), "the next end is not known to be clean before it comes"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_are_clean_stops_as_well(
    new_broker: NewBroker, number: signal.Signals
) -> None:
    broker = new_broker()
    os.kill(broker.pid, number)
    assert broker.process.wait(60) == 0
    assert (broker.data / ".kafka_cleanshutdown").exists()


HEAD = """\
import os, signal, sys, time
from broker.__main__ import main
from broker.process import run
def stop():
    os.kill(os.getpid(), signal.SIGTERM)
"""


def changed_broker(folder: Path, change: str) -> subprocess.Popen[str]:
    """A broker with a change in it."""
    config = ("listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "barnabas.admin.listener=")
    words = [word for each in (*config, f"log.dirs={folder}") for word in ("--override", each)]
    program = f"{HEAD}{change}\nsys.exit(main(sys.argv[1:]))\n"
    return subprocess.Popen(
        [sys.executable, "-c", program, "start", *words], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def test_a_signal_in_the_moment_before_the_loop_runs(tmp_path: Path) -> None:
    change = "watch = run._Process.watch_signals\n"
    change += "run._Process.watch_signals = lambda self, node: (watch(self, node), stop())\n"
    broker = changed_broker(tmp_path, change)
    try:
        assert broker.wait(60) == 0
    finally:
        broker.kill()
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_second_signal_ends_a_broker_that_closes_its_files(tmp_path: Path) -> None:
    change = "run.Node.close = lambda self: (print('closing', flush=True), time.sleep(600))\n"
    broker = changed_broker(tmp_path, change)
    try:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("Barnabas is ready")
        broker.send_signal(signal.SIGTERM)
        assert broker.stdout.readline() == "closing\n"
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == -signal.SIGTERM
    finally:
        broker.kill()


def test_who_was_started_by_nohup_goes_on(new_broker: NewBroker) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        broker = new_broker()
    finally:
        signal.signal(signal.SIGHUP, before)
    os.kill(broker.pid, signal.SIGHUP)
    create_topic(broker.bootstrap_servers, "still-there")
    assert broker.stop() == 0


def test_a_stop_under_load_loses_nothing(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "busy")
    producer = Producer(settings(broker.bootstrap_servers, enable_idempotence=True, linger_ms=1))
    acknowledged: list[int] = []

    def told(error: object, message: Message) -> None:
        if error is None:
            acknowledged.append(message.offset() or 0)

    number = 0
    while len(acknowledged) < 1000:
        if number - len(acknowledged) < 500:
            producer.produce("busy", str(number), on_delivery=told)
            number += 1
        producer.poll(0.0001)
    assert broker.stop() == 0, "in the middle of it"
    broker.start()
    assert producer.flush(60) == 0
    assert acknowledged == list(range(number))


def test_stacks_on_request(new_broker: NewBroker) -> None:
    broker = new_broker()
    os.kill(broker.pid, signal.SIGQUIT)
    create_topic(broker.bootstrap_servers, "still-there")
    assert "run_node" in broker.log_tail(20_000)
