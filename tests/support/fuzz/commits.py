"""Somebody who changes metadata all the time, so that the controller always has something pending."""

from __future__ import annotations

import itertools
import random
import threading
from contextlib import ExitStack, suppress
from typing import Final

from protocol.codec.message import Message
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.support.clients.wire_client import ConnectionEnded, WireClient

_AT_ONCE: Final = 3
"""Changes that are under way together."""
_STEPS: Final = 3


class Commits:
    """See the module. Begins with its making."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ending.is_set():
            with suppress(OSError, ConnectionEnded), ExitStack() as stack:
                clients = [
                    stack.enter_context(WireClient(self._address, client_id="commits"))
                    for _ in range(_AT_ONCE)
                ]
                for number in itertools.count():
                    self._change(clients, number)
                    if self._ending.is_set():
                        return
            self._ending.wait(0.1)

    def _change(self, clients: list[WireClient], number: int) -> None:
        """Each client makes, alters and deletes a topic of its own, all of them at the same time."""
        for step in range(_STEPS):
            for index, client in enumerate(clients):
                client.send(*_changes(_AT_ONCE * number + index)[step])
            for client in clients:
                client.receive()
            if self._ending.wait(0.005):
                return


def _changes(number: int) -> list[tuple[Message, int]]:
    name = f"passing-{number % (2 * _AT_ONCE)}"
    topic = CreateTopicsRequest.CreatableTopic(name, 1 + number % 3, 1)
    value = str(random.Random(number).randrange(1, 10**6) * 1000)
    config = IncrementalAlterConfigsRequest.AlterableConfig("retention.ms", 0, value)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(2, name, [config])
    return [
        (CreateTopicsRequest([topic], 10_000), 7),
        (IncrementalAlterConfigsRequest([resource]), 1),
        (DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name)], timeout_ms=10_000), 6),
    ]
