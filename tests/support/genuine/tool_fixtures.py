"""A fixture for a conftest to import: the Java tools, called at the module's broker."""

from __future__ import annotations

import pytest

from tests.conftest import AnyBroker
from tests.support.genuine.tool_server import Tool, ToolServer


@pytest.fixture
def tool(broker: AnyBroker, tool_server: ToolServer) -> Tool:
    """Calls a tool with ``--bootstrap-server`` of the module's broker."""
    return tool_server.tool_at(lambda: broker.bootstrap_servers)
