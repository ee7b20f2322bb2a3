"""A fixture for a conftest to import: the Java tools, called at the module's broker."""

from __future__ import annotations

import pytest

from tests.conftest import AnyBroker
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import Tool, ToolServer


@pytest.fixture
def tool(broker: AnyBroker, tool_server: ToolServer) -> Tool:
    """Calls a tool with ``--bootstrap-server`` of the module's broker."""

    def call(name: str, *arguments: str, stdin: str = "", timeout_seconds: float = 60) -> ToolResult:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        return tool_server.run(name, *arguments, *at, stdin=stdin, timeout_seconds=timeout_seconds)

    return call
