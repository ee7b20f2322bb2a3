"""Changes of a quorum's voters by the genuine tool, asked again as an operator would ask again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from controller.raft.membership import NOT_FENCED
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import ToolServer

__all__ = ["change_voters"]

LAGGING: Final = "since it is lagging behind"


class Nodes(Protocol):
    """A quorum or a cluster."""

    @property
    def tools(self) -> ToolServer | None: ...

    def wait(self, found: Callable[[], ToolResult | None], what: str) -> ToolResult: ...


def change_voters(nodes: Nodes, address: str, *words: str, by: str = "--bootstrap-controller") -> ToolResult:
    """`kafka-metadata-quorum` with `add-controller` or `remove-controller`, asked until it is done; what the
    tool says in the end. by: the option that takes the address, `--bootstrap-server` for one of brokers.

    A leader answers REQUEST_TIMED_OUT at once while nothing of its epoch is committed, and while the one that
    joins has not caught up; no client of Kafka asks again by itself. Any other refusal fails the test.
    """
    if nodes.tools is None:
        raise ValueError("a quorum without tools")
    tools = nodes.tools

    def is_done() -> ToolResult | None:
        done: ToolResult = tools.run("kafka-metadata-quorum", by, address, *words)
        if NOT_FENCED in done.err or LAGGING in done.err:
            return None
        assert done.code == 0, done
        return done

    return nodes.wait(is_done, "leader that changes the voters")
