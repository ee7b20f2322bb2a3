"""Which listeners of a controller take connections before the access control entries are loaded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.server.controller_server import ControllerServer
from tests.support.rigs.controllers import one_node_config

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class CountingListener:
    def __init__(self) -> None:
        self.starts = 0

    def start(self) -> None:
        self.starts += 1


@pytest.mark.parametrize(
    ("settings", "starts_early"),
    [
        ({}, True),
        ({"authorizer__class__name": AUTHORIZER}, True),
        ({"early__start__listeners": ""}, True),
        ({"authorizer__class__name": AUTHORIZER, "early__start__listeners": "controller"}, True),
        ({"authorizer__class__name": AUTHORIZER, "early__start__listeners": ""}, False),
        ({"authorizer__class__name": AUTHORIZER, "early__start__listeners": "PLAINTEXT"}, False),
    ],
)
def test_a_listener_that_must_wait_takes_connections_when_the_replica_has_caught_up(
    settings: dict[str, str], starts_early: bool
) -> None:
    listener, part = CountingListener(), SimpleNamespace(start=lambda: None, is_caught_up=False)
    server: Any = SimpleNamespace(
        _config=one_node_config(**settings), _waiting=[], acceptors={"CONTROLLER": listener},
        log=part, controller=part, registration=part,
    )  # fmt: skip
    server._start_waiting = lambda: ControllerServer._start_waiting(server)
    ControllerServer.start(server)
    assert listener.starts == starts_early
    part.is_caught_up = True
    for _ in range(2):
        server._start_waiting()
    assert listener.starts == 1
