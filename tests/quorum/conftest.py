"""Quorums of controllers in processes of their own, ours and Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.brokers.quorum import DYNAMIC, Quorum
from tests.support.genuine.tool_server import ToolServer

NewQuorum = Callable[..., Quorum]


@pytest.fixture
def new_quorum(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NewQuorum]:
    """A factory: formatted, started, caught up, closed at the end. Java only for genuine ones."""
    with ExitStack() as stack:

        def make(*kinds: str, voters: str = DYNAMIC, **properties: str) -> Quorum:
            tools: ToolServer | None = None
            if any(kind != "ours" for kind in kinds):
                tools = request.getfixturevalue("tool_server")
            given = {name.replace("_", "."): value for name, value in properties.items()}
            quorum = Quorum(tmp_path, kinds, tools=tools, voters=voters, properties=given)
            stack.enter_context(quorum)
            quorum.format().start()
            quorum.await_caught_up(*quorum.members)
            return quorum

        yield make
