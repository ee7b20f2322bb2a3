"""A clean stop: what waits is answered, what was taken is kept, and the next start recovers nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from confluent_kafka import Message, Producer

from protocol.framing import decode_response
from protocol.messages.fetch import FetchRequest, FetchResponse
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
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


def test_ctrl_c_is_a_clean_stop_as_well(new_broker: NewBroker) -> None:
    broker = new_broker()
    os.kill(broker.pid, signal.SIGINT)
    assert broker.process.wait(60) == 0
    assert (broker.data / ".kafka_cleanshutdown").exists()


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
