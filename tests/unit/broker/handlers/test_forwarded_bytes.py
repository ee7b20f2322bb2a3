"""What a broker passes on to the controller are the client's own bytes, not an encoding of what it read."""

from __future__ import annotations

import struct

import pytest

from broker.dispatch.dispatcher import Dispatcher
from broker.handlers.table import broker_handlers
from broker.security.authorizer import AllowAll
from config.limits import LONG_REQUEST_BYTES
from controller.metadata.image.configs import ConfigResourceType
from protocol.codec.compiler import decoder, encode
from protocol.headers import decode_request_header
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.envelope import EnvelopeRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.registry import ApiKey
from tests.support.rigs.handler_rig import HandlerRig
from tests.support.rigs.sans_io import Rig, framed


def header(key: ApiKey, version: int) -> bytes:
    """With a null client id and a tagged field (99) that this release does not know."""
    return struct.pack(">hhih", key, version, 77, -1) + b"\x01\x63\x02xy"


class Node:
    """A broker whose controller hears requests and does not answer."""

    def __init__(self) -> None:
        self.rig = HandlerRig()
        self.wires = Rig()
        self.wires.service = Dispatcher(  # type: ignore[assignment]
            broker_handlers(),
            self.rig.services,
            clock=self.wires.clock,
            authorizer=AllowAll(),
            lane=self.wires.lane,
        )

    def heard_of(self, data: bytes) -> bytes:
        """What the controller is sent when a client sends a request."""
        assert self.wires.feed(framed(data), self.wires.another()) == len(data) + 4
        self.wires.timers.run_soon()
        (sent,) = self.rig.peer.requests
        assert isinstance(sent, EnvelopeRequest)
        return sent.request_data


def creation(topics: int) -> bytes:
    creatable = [CreateTopicsRequest.CreatableTopic(f"topic-{n}", 1, 1) for n in range(topics)]
    return encode(CreateTopicsRequest(creatable), 7)


@pytest.mark.parametrize("topics", [1, LONG_REQUEST_BYTES // 20])
def test_header_and_body_go_on_as_they_came(topics: int) -> None:
    data = header(ApiKey.CREATE_TOPICS, 7) + creation(topics)
    assert Node().heard_of(data) == data


def test_what_follows_the_request_in_its_frame_does_not_go_on() -> None:
    """The broker reads over it; a controller of an older release would refuse it as malformed."""
    data = header(ApiKey.CREATE_TOPICS, 7) + creation(1)
    assert Node().heard_of(data + b"more") == data


def configs(*resources: tuple[int, str]) -> bytes:
    asked = IncrementalAlterConfigsRequest
    config = asked.AlterableConfig("retention.ms", 0, "5")
    request = asked([asked.AlterConfigsResource(kind, name, [config]) for kind, name in resources])
    return header(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1) + encode(request, 1)


def test_configs_that_are_all_the_controllers_go_on_as_they_came() -> None:
    data = configs((ConfigResourceType.TOPIC, "a"), (ConfigResourceType.TOPIC, "b"))
    assert Node().heard_of(data) == data


def test_of_configs_that_are_partly_this_brokers_the_rest_goes_on() -> None:
    heard = Node().heard_of(configs((ConfigResourceType.BROKER, "7"), (ConfigResourceType.TOPIC, "b")))
    _, position = decode_request_header(heard, 0)
    request, end = decoder(IncrementalAlterConfigsRequest, 1)(heard, position)
    assert end == len(heard)
    assert [resource.resource_name for resource in request.resources] == ["b"]
