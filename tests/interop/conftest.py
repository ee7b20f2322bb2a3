"""What the tests with genuine clients share: fresh topic names, and the Java tools on one broker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

import pytest

from tests.conftest import AnyBroker
from tests.support.kafka_tools import ToolResult
from tests.support.tool_server import Tool, ToolServer

NUMBERS: Final = count(1)


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes names for topics and groups that nobody else uses."""
    stem = "".join(each if each.isascii() and each.isalnum() else "-" for each in request.node.name)
    return lambda: f"{stem[:60]}-{next(NUMBERS)}"


@pytest.fixture
def tool(broker: AnyBroker, tool_server: ToolServer) -> Tool:
    """Calls a tool with ``--bootstrap-server`` of the module's broker."""

    def call(name: str, *arguments: str, stdin: str = "", timeout_seconds: float = 60) -> ToolResult:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        return tool_server.run(name, *arguments, *at, stdin=stdin, timeout_seconds=timeout_seconds)

    return call
