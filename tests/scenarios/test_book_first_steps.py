"""The first chapter's exercises: create a topic, send a countdown, read it again.

"Apache Kafka: Von den Grundlagen bis zum Produktiveinsatz", exercises 1.2 to
2.1.1.2, with the genuine command line tools, in the book's order: each test
goes on where the one before it ended.
"""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from tests.conftest import AnyBroker
from tests.support.clients.book import FLIGHT, consume
from tests.support.clients.librdkafka import until
from tests.support.genuine.kafka_tools import read_lines, running_tool
from tests.support.genuine.tool_server import Tool

pytestmark = pytest.mark.java

HISTORY = ["Countdown gestartet", *FLIGHT]


def test_e1_create_the_first_topic(tool: Tool) -> None:
    created = tool(
        "kafka-topics", "--create", "--topic", "flugdaten", "--partitions", "1", "--replication-factor", "1"
    )
    assert created.out == "Created topic flugdaten.\n"
    assert created.code == 0


def test_e2_produce_one_message_by_pipe(tool: Tool) -> None:
    sent = tool("kafka-console-producer", "--topic", "flugdaten", stdin="Countdown gestartet\n")
    assert (sent.code, sent.out) == (0, "")


def test_e3_a_consumer_starts_at_the_end(tool: Tool) -> None:
    read = consume(tool, "flugdaten")
    assert read.out == ""
    assert "Processed a total of 0 messages" in read.err


@pytest.mark.parametrize("time_", ["first", "second"])
def test_e4_from_the_beginning_as_often_as_one_likes(tool: Tool, time_: str) -> None:
    read = consume(tool, "flugdaten", "--from-beginning", at_least=1)
    assert read.lines == ["Countdown gestartet"]
    assert "Processed a total of 1 messages" in read.err


def test_e5_live_consumer_and_interactive_producer(broker: AnyBroker) -> None:
    at = ("--topic", "flugdaten", "--bootstrap-server", broker.bootstrap_servers)
    with (
        running_tool("kafka-console-consumer", *at) as consumer,
        running_tool("kafka-console-producer", *at) as producer,
    ):
        # The consumer stands at the end of the log once it has its assignment; the marker
        # is typed until it arrives, so that no line of the flight is sent too early.
        _await_at_the_end(consumer, producer)
        for line in FLIGHT:
            _type(producer, line)
        assert read_lines(consumer, len(FLIGHT)) == list(FLIGHT)


def _type(producer: subprocess.Popen[str], line: str) -> None:
    if producer.stdin is None:
        raise RuntimeError("the producer's input is not a pipe")
    producer.stdin.write(line + "\n")
    producer.stdin.flush()


def _await_at_the_end(consumer: subprocess.Popen[str], producer: subprocess.Popen[str]) -> None:
    import selectors

    with selectors.DefaultSelector() as selector:
        if consumer.stdout is None:
            raise RuntimeError("the consumer's output is not a pipe")
        selector.register(consumer.stdout, selectors.EVENT_READ)
        sent = 0
        deadline = time.monotonic() + 120
        while not selector.select(timeout=0.5):
            if time.monotonic() > deadline:
                pytest.fail("the consumer saw nothing in two minutes")
            _type(producer, "...")
            sent += 1
    _type(producer, "jetzt")
    for _ in range(sent + 1):
        if read_lines(consumer, 1) == ["jetzt"]:
            return
    pytest.fail("the marker did not arrive")


def history(tool: Tool, *arguments: str, topic: str = "flugdaten") -> list[str]:
    """All lines of the topic, without the markers that the live exercise typed."""
    lines = consume(tool, topic, "--from-beginning", *arguments, at_least=len(HISTORY)).lines
    return [line for line in lines if line not in {"...", "jetzt"}]


def test_e6_a_late_consumer_reads_the_history(tool: Tool) -> None:
    assert history(tool) == HISTORY


def test_e7_a_second_producer(broker: AnyBroker, tool: Tool) -> None:
    at = ("--topic", "flugdaten", "--bootstrap-server", broker.bootstrap_servers)
    with (
        running_tool("kafka-console-consumer", *at, "--from-beginning") as one,
        running_tool("kafka-console-consumer", *at, "--from-beginning") as other,
    ):
        tool("kafka-console-producer", "--topic", "flugdaten", stdin="Countdown gestartet\n")
        tool("kafka-console-producer", "--topic", "flugdaten", stdin="Countdown abgebrochen\n")
        for consumer in (one, other):
            assert _last_lines(consumer, "Countdown abgebrochen") == [
                "Landung erfolgreich",
                "Countdown gestartet",
                "Countdown abgebrochen",
            ]
            consumer.send_signal(signal.SIGINT)
            assert "Processed a total of" in _last_words(consumer)


def _last_words(consumer: subprocess.Popen[str]) -> str:
    """What it says at its end. One that does not end tells first what its threads are doing."""
    assert consumer.stderr is not None
    try:
        consumer.wait(timeout=120)
    except subprocess.TimeoutExpired:
        consumer.send_signal(signal.SIGQUIT)
        time.sleep(10)  # Java writes down what its threads do; where that ends it does not say
        consumer.kill()
        threads, last_words = consumer.communicate()
        pytest.fail(f"it did not end:\n{threads}\n{last_words}")
    return consumer.stderr.read()


def _last_lines(consumer: subprocess.Popen[str], last: str) -> list[str]:
    lines = read_lines(consumer, 1)
    while lines[-1] != last:
        lines += read_lines(consumer, 1)
    return lines[-3:]


def test_e8_describe(tool: Tool) -> None:
    described = tool("kafka-topics", "--describe", "--topic", "flugdaten").lines
    fields = [
        dict(part.split(": ", 1) for part in line.strip().split("\t") if ": " in part) for line in described
    ]
    assert fields[0]["Topic"] == "flugdaten"
    assert (fields[0]["PartitionCount"], fields[0]["ReplicationFactor"]) == ("1", "1")
    assert len(fields[0]["TopicId"]) == 22
    assert (fields[1]["Partition"], fields[1]["Leader"], fields[1]["Replicas"], fields[1]["Isr"]) == (
        "0",
        "1",
        "1",
        "1",
    )
    assert len(described) == 2


def test_e9_list(tool: Tool) -> None:
    assert tool("kafka-topics", "--list").lines == ["__consumer_offsets", "flugdaten"]
    assert history(tool)[: len(HISTORY)] == HISTORY


def test_e10_delete_list_and_describe_what_is_gone(tool: Tool) -> None:
    assert tool("kafka-topics", "--delete", "--topic", "flugdaten").out == ""
    until(
        lambda: tool("kafka-topics", "--list").lines == ["__consumer_offsets"],
        "the broker hears that the topic is gone",
    )
    described = tool("kafka-topics", "--describe", "--topic", "flugdaten")
    assert (
        "Error while executing topic command : Topic 'flugdaten' does not exist as expected" in described.out
    )
    assert described.code == 1
