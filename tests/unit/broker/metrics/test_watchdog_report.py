"""What the watchdog writes of a slow turn: a request and a stack that belong together."""

from __future__ import annotations

import asyncio
import linecache
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from broker.metrics.watchdog import Watchdog
from broker.security.authorizer import AllowAll
from protocol.registry import ApiKey
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session
from tests.support.rigs.hand_clock import HandClock


def context(api_key: ApiKey) -> RequestContext:
    session = Session("10.0.0.1:9092-10.0.0.2:5000-1", "PLAINTEXT", "10.0.0.2")
    return RequestContext(int(api_key), 5, 1, "me", session, 0, AllowAll())


class BusyLoop:
    """Stands for the loop's thread: in `handle_produce`, then in `handle_metadata` when told so."""

    def __init__(self) -> None:
        self.current = context(ApiKey.PRODUCE)
        self.is_there = threading.Event()
        self._go_on = threading.Event()
        self._end = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.is_there.wait(60)
        while sys._current_frames()[self.thread.ident or 0].f_code is not threading.Condition.wait.__code__:
            time.sleep(0.001)  # it has said that it is there, and is about to wait

    def _run(self) -> None:
        self.handle_produce()
        self.handle_metadata()

    def handle_produce(self) -> None:
        self.is_there.set()
        self._go_on.wait(60)

    def handle_metadata(self) -> None:
        self.current = context(ApiKey.METADATA)
        self.is_there.set()
        self._end.wait(60)

    def move_on(self) -> None:
        if not self._go_on.is_set():
            self.is_there.clear()
            self._go_on.set()
            self.is_there.wait(60)

    def end(self) -> None:
        self._go_on.set()
        self._end.set()
        self.thread.join(60)


@pytest.fixture
def busy() -> Iterator[BusyLoop]:
    loop = BusyLoop()
    yield loop
    loop.end()


def report(
    busy: BusyLoop, current: Callable[[], RequestContext | None], caplog: pytest.LogCaptureFixture
) -> str:
    loop = asyncio.new_event_loop()
    watchdog = Watchdog(loop, HandClock(), current)
    watchdog._loop_thread = busy.thread.ident or 0
    with caplog.at_level(logging.WARNING, "barnabas.watchdog"):
        watchdog._report()
    loop.close()
    return caplog.text


def test_the_loop_goes_on_to_another_request_while_the_stack_is_written(
    busy: BusyLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = linecache.getlines

    def getlines(*arguments: object) -> list[str]:
        busy.move_on()
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(linecache, "getlines", getlines)
    # An empty cache of the test's own: the real one holds the generated codecs' lines, which no file has.
    monkeypatch.setattr(linecache, "cache", {})
    text = report(busy, lambda: busy.current, caplog)
    assert "Produce version 5 from client 'me'" in text
    assert "in handle_produce" in text
    assert "self._go_on.wait(60)" in text
    assert "Metadata" not in text
    assert busy.current.api_key == ApiKey.METADATA, "it had gone on before all was written"


def test_it_goes_on_in_the_middle_of_the_look(busy: BusyLoop, caplog: pytest.LogCaptureFixture) -> None:
    def current() -> RequestContext:
        was = busy.current
        busy.move_on()
        return was

    text = report(busy, current, caplog)
    assert "Metadata version 5" in text
    assert "in handle_metadata" in text
    assert "handle_produce" not in text


def test_a_thread_that_has_ended(busy: BusyLoop, caplog: pytest.LogCaptureFixture) -> None:
    busy.end()
    assert "no request has been handled yet. It is here:\nunknown" in report(busy, lambda: None, caplog)
