"""What the parent of `barnabas start --nodes` makes of the lines of its nodes."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from broker.process.logging_setup import JsonFormatter
from broker.process.node_processes import _Nodes, _pass_on


def reader(*lines: str) -> asyncio.StreamReader:
    stream = asyncio.StreamReader()
    stream.feed_data("".join(f"{line}\n" for line in lines).encode())
    stream.feed_eof()
    return stream


def test_the_line_of_readiness_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A broker alone ends its own with its listeners, and a controller tells of more."""

    async def scenario() -> None:
        nodes = _Nodes([Path(f"node-{number}.properties") for number in range(1, 6)])
        for node in nodes._nodes:
            line = f"Barnabas is ready: node {node.number} serves PLAINTEXT://127.0.0.1:909{node.number}"
            if node.number <= 3:
                line += f"; controller listens on CONTROLLER://127.0.0.1:908{node.number}"
            await nodes._read_output(node, reader(line))

    asyncio.run(scenario())
    addresses = ",".join(f"127.0.0.1:909{number}" for number in range(1, 6))
    assert capsys.readouterr().out == f"Barnabas is ready: 5 nodes serve {addresses}\n"


def test_each_line_of_the_log_tells_its_node(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    record = logging.LogRecord("barnabas.node", logging.INFO, "", 0, "Opened %d logs", (12,), None)
    line = JsonFormatter().format(record)

    async def scenario() -> None:
        await _pass_on(2, reader("[2026-11-21 09:15:02,114] INFO Opened 12 logs", line, "{no JSON}"))

    asyncio.run(scenario())
    text, told, other = capsysbinary.readouterr().err.decode().splitlines()
    assert text == "node 2 | [2026-11-21 09:15:02,114] INFO Opened 12 logs"
    assert json.loads(told) == {"node": 2, **json.loads(line)}
    assert other == "node 2 | {no JSON}"
