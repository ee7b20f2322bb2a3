"""What the tests with genuine clients share: fresh topic names, and one JVM for the Java tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="session")
def tool_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolServer]:
    """A JVM that runs the command line tools of Apache Kafka one after the other."""
    with ToolServer(tmp_path_factory.mktemp("tools")) as server:
        yield server


@pytest.fixture
def tool(broker: AnyBroker, tool_server: ToolServer) -> Tool:
    """Calls a tool with ``--bootstrap-server`` of the module's broker."""

    def call(name: str, *arguments: str, stdin: str = "", timeout_seconds: float = 60) -> ToolResult:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        return tool_server.run(name, *arguments, *at, stdin=stdin, timeout_seconds=timeout_seconds)

    return call
