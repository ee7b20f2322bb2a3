"""Two brokers on one stage: raw clients ask both the same, and what they are told is made alike.

Only what a broker makes up by itself is replaced: the uuids in member ids, topic ids, hosts and ports,
throttle times, and the order of groups and of members.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from protocol.codec.message import Message
from protocol.framing import decode_response, encode_request_frame
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.registry import ApiKey, api

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MADE_UP = ("topic_id", "host", "port", "throttle_time_ms")
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA=="
"""How a topic id of zeros comes out of msgspec."""
UNORDERED = ("group_id", "member_id")
"""What names the entries of lists that Kafka gives in the order of a hash table."""


class Names:
    """Gives uuids names that are the same at both brokers: the scene, and which of its uuids it is."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._scene = 0
        self._number = 0

    def next_scene(self) -> None:
        self._scene += 1
        self._number = 0

    def of(self, found: re.Match[str]) -> str:
        name = self._names.get(found[0])
        if name is None:
            self._number += 1
            name = self._names[found[0]] = f"uuid-{self._scene}-{self._number}"
        return name


class Connection:
    """One connection of a raw client that notes what it was answered."""

    def __init__(self, bootstrap: str, names: Names, story: list[Any]) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._names = names
        self._story = story
        self._asked: list[tuple[Message, int]] = []

    def send(self, request: Message, version: int) -> None:
        self._socket.sendall(encode_request_frame(request, version, len(self._asked), "raw"))
        self._asked.append((request, version))

    def receive(self) -> Any:
        request, version = self._asked.pop(0)
        size = int.from_bytes(self._read(4), "big")
        response_class = api(ApiKey(request.declaration.key or 0)).response
        _, response = decode_response(response_class, version, self._read(size))
        self._story.append((type(request).__name__, version, self.alike(msgspec.to_builtins(response))))
        return response

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data

    def alike(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: "made up" if name in MADE_UP and each != NO_ID else self.alike(each)
                for name, each in value.items()
            }
        if isinstance(value, list):
            alike = [self.alike(each) for each in value]
            if alike and isinstance(alike[0], dict) and not alike[0].keys().isdisjoint(UNORDERED):
                alike.sort(key=lambda each: str([each.get(name) for name in UNORDERED]))
            return alike
        if isinstance(value, str):
            return UUID.sub(self._names.of, value)
        return value


class Stage:
    """A broker and the connections to it."""

    def __init__(self, bootstrap: str, data: Path) -> None:
        self._bootstrap = bootstrap
        self.data = data
        self._names = Names()
        self.story: list[Any] = []
        self.a, self.b = self.connect(), self.connect()
        self.topic_id = bytes(16)

    def connect(self) -> Connection:
        return Connection(self._bootstrap, self._names, self.story)

    def prepare(self) -> None:
        """Two topics, and a coordinator that is there."""
        topics = [CreateTopicsRequest.CreatableTopic(name, 2, 1) for name in ("t", "u")]
        self.a.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        for _ in range(1200):
            if not self.a.ask(FindCoordinatorRequest(key="g"), 2).error_code:
                heartbeat = self.a.ask(HeartbeatRequest(group_id="nobody", member_id="x"), 4)
                metadata = self.a.ask(MetadataRequest(topics=None), 12)
                ids = {each.name: each.topic_id for each in metadata.topics}
                if heartbeat.error_code == 25 and {"t", "u"} <= ids.keys():
                    self.topic_id = ids["t"]
                    break
            self.wait(0.1)
        else:
            pytest.fail("no coordinator")
        self.begin()

    def begin(self) -> None:
        """A new scene: nobody waits for the last one's answers."""
        self.story.clear()
        self._names.next_scene()
        self.a.close()
        self.b.close()
        self.a, self.b = self.connect(), self.connect()

    @staticmethod
    def wait(seconds: float) -> None:
        Event().wait(seconds)
