"""The checkers that run in threads beside a cluster in trouble tell what they have found.

What is played here breaks a promise at once; the checker that meets it must raise in the thread of the test.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, Self

import pytest

from tests.support.clients import checked_load, numbered_load, watermarks
from tests.support.clients.raising_threads import RaisingThread
from tests.support.genuine.fetched import fetch_with
from tests.support.genuine.kafka_jars import kafka_jars
from tests.support.genuine.kafka_tools import read_lines
from tests.support.genuine.kcat import kcat

WAIT_SECONDS: Final = 30


class Told(NamedTuple):
    """What librdkafka tells of a record that was acknowledged."""

    place: int
    text: bytes

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.place

    def value(self) -> bytes:
        return self.text


class PlayedProducer:
    """Tells two records the same offset."""

    def __init__(self) -> None:
        self.met = threading.Event()
        self._on_delivery: Any = None

    def produce(self, *_: Any, on_delivery: Any, **__: Any) -> None:
        self._on_delivery = on_delivery

    def poll(self, _: float) -> None:
        self.met.set()
        for text in (b"0:0:", b"0:1:"):
            self._on_delivery(None, Told(7, text))

    def flush(self, _: float) -> int:
        return 0


class RefusingProducer(PlayedProducer):
    """Takes no record."""

    def produce(self, *_: Any, **__: Any) -> NoReturn:
        self.met.set()
        raise ValueError("not taken")


class PlayedConsumer:
    """Breaks at the first poll."""

    def __init__(self) -> None:
        self.met = threading.Event()

    def assign(self, _: Any) -> None:
        pass

    def poll(self, _: float) -> NoReturn:
        self.met.set()
        raise ValueError("a record that cannot be read")

    def close(self) -> None:
        pass


class PlayedConnection:
    """Answers with what cannot be read, or not at all."""

    def __init__(self, failure: Exception) -> None:
        self.met = threading.Event()
        self._failure = failure

    def ask_for(self, *_: Any) -> NoReturn:
        self.met.set()
        raise self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_two_records_at_one_offset_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = PlayedProducer()
    monkeypatch.setattr(checked_load, "Producer", lambda _: producer)
    writer = checked_load.Writer("", "fire", range(1), is_idempotent=True)
    assert producer.met.wait(WAIT_SECONDS)
    with pytest.raises(AssertionError, match="both told offset 7"):
        writer.end()


def test_a_reader_that_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = PlayedConsumer()
    monkeypatch.setattr(checked_load, "Consumer", lambda _: consumer)
    reader = checked_load.Reader("", "fire", 1)
    assert consumer.met.wait(WAIT_SECONDS)
    with pytest.raises(ValueError, match="cannot be read"):
        reader.end()
    with pytest.raises(ValueError, match="cannot be read"):
        reader.check_thread()


def watched_node(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> watermarks.Watermarks:
    """All that it is asked has failed so."""
    connection = PlayedConnection(failure)
    monkeypatch.setattr(watermarks, "WireClient", lambda *_, **__: connection)
    watched = watermarks.Watermarks({1: ("", lambda: 1)}, "fire", 1)
    assert connection.met.wait(WAIT_SECONDS)
    assert dict(watched.told_by_node) == {1: 0}
    return watched


def test_the_watch_of_a_node_that_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watched_node(monkeypatch, ValueError("cut short"))
    with pytest.raises(ValueError, match="cut short"):
        watched.check({})


def test_a_node_that_is_down_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    watched_node(monkeypatch, ConnectionRefusedError()).check({})


def test_a_numbered_load_that_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = RefusingProducer()
    monkeypatch.setattr(numbered_load, "Producer", lambda _: producer)
    load = numbered_load.Load("", "topic", idempotent=True, partitions=1)
    assert producer.met.wait(WAIT_SECONDS)
    for wait in (load.pause, load.close):
        with pytest.raises(ValueError, match="not taken"):
            wait()


def tool(script: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(["sh", "-c", script], stdout=pipe, stderr=pipe, text=True)


def test_lines_of_a_tool_that_ends_or_falls_silent() -> None:
    with tool("echo one; echo two") as process:
        assert read_lines(process, 2) == ["one", "two"]
    with (
        tool("echo one; echo lost >&2; exit 3") as process,
        pytest.raises(pytest.fail.Exception, match=r"(?s)ended with 3 after 1 of 2 lines:.*lost"),
    ):
        read_lines(process, 2)
    with (
        tool(f"exec sleep {WAIT_SECONDS}") as process,
        pytest.raises(pytest.fail.Exception, match="after 0 of 1 lines"),
    ):
        read_lines(process, 1, seconds=0.1)


@pytest.mark.parametrize("environment", ["BARNABAS_REQUIRE_JAVA", "CI"])
def test_java_and_other_programs_are_missed_by_rules_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: str
) -> None:
    """Whoever has Java and Maven need not have kcat, Go or Node. CI sets both."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("BARNABAS_REQUIRE_JAVA", "1")
    monkeypatch.setenv(environment, "1")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    outcome = pytest.fail.Exception if environment == "CI" else pytest.skip.Exception
    with pytest.raises(outcome, match="kcat is not on the PATH"):
        kcat("127.0.0.1:9092", "-L")
    with pytest.raises(outcome, match="go is not on the PATH"):
        fetch_with(["go", "build"], tmp_path)
    with pytest.raises(pytest.fail.Exception, match="Java is not on the PATH"):
        kafka_jars.__wrapped__()


def test_a_thread_that_goes_on_is_told() -> None:
    may_end = threading.Event()
    thread = RaisingThread(may_end.wait, WAIT_SECONDS, name="the call")
    thread.start()
    with pytest.raises(TimeoutError, match="the call does not come back"):
        thread.join(0.01)
    may_end.set()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive
