"""A quorum of three controllers on one machine, ours beside Apache Kafka's: elections, commits, idleness.

::

    python -m tests.performance.quorum                    everything, in turns, medians as a table
    QUORUM_TURNS=7 QUORUM_SECONDS=2 python -m tests.performance.quorum commits
    QUORUM_ROUNDS=4 python -m tests.performance.quorum elections idle

Both quorums run all the time; a turn is a few seconds of the one and then of the other, so that both see the
same machine.

Election: from `kill -9` of the leader (or SIGTERM to it) until another controller says that it leads and has
committed a record of its epoch; all timeouts are the defaults. Commit: one IncrementalAlterConfigs with one
small record, answered when a majority has it on disk; the same raw client for both. CPU: of all three
processes, measured by the kernel.
"""

from __future__ import annotations

import os
import selectors
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from protocol.framing import encode_request_frame
from tests.support.brokers.quorum import KAFKAS, OURS, Quorum, config_change
from tests.support.brokers.quorum_members import Member
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.tool_server import ToolServer

ROUNDS: Final = int(os.environ.get("QUORUM_ROUNDS", "5"))
SECONDS: Final = float(os.environ.get("QUORUM_SECONDS", "3"))
IDLE_SECONDS: Final = float(os.environ.get("QUORUM_IDLE_SECONDS", "120"))
TURNS: Final = int(os.environ.get("QUORUM_TURNS", "5"))
CONNECTIONS: Final = (1, 8, 64)
WARMING: Final = 3_000
"""Commits before anything is measured: Java compiles what is hot."""


class Row(NamedTuple):
    what: str
    unit: str
    ours: list[float]
    kafkas: list[float]

    def line(self) -> str:
        return f"| {self.what} ({self.unit}) | {_spread(self.ours)} | {_spread(self.kafkas)} |"


Quorums = dict[str, Quorum]
"""By kind."""

Finding = tuple[str, str, str, float]
"""Kind, what, unit, value."""


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    digits = 0 if max(values) >= 100 else 2
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"**{middle:,.{digits}f}** ({low:,.{digits}f} to {high:,.{digits}f})"


# Elections


def next_leader_ms(quorum: Quorum, end: Callable[[Member], None]) -> float:
    """One leader is made to go; everybody is back when this returns."""
    leader = quorum.await_leader()
    others = [node_id for node_id in quorum.members if node_id != leader.node_id]
    for node_id in others:
        quorum.describe(node_id)  # the connection is there before it counts
    began = time.perf_counter()
    end(quorum.members[leader.node_id])
    quorum.await_leader(others, after_epoch=leader.epoch)
    took = time.perf_counter() - began
    gone = quorum.members[leader.node_id]
    gone.stop()
    gone.start()
    quorum.await_caught_up(*quorum.members)
    time.sleep(0.5)
    return took * 1000


def elections(quorums: Quorums) -> Iterator[Finding]:
    for _ in range(ROUNDS):
        for kind, quorum in quorums.items():
            kill = next_leader_ms(quorum, Member.kill)
            yield kind, "next leader after kill -9", "ms", kill
            stop = next_leader_ms(quorum, Member.ask_to_stop)
            yield kind, "next leader after a clean stop", "ms", stop


# Commits


class Load(NamedTuple):
    commits: int
    seconds: float
    latencies_ms: list[float]


def drive(address: str, connections: int, *, seconds: float, commits: int = 1 << 60) -> Load:
    """One commit under way on each connection, for so long or so many."""
    clients = [WireClient(address, client_id="load") for _ in range(connections)]
    numbers = count(1)
    latencies: list[float] = []
    began = time.perf_counter()
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        sent_at: dict[int, float] = {}

        def send(client: WireClient) -> None:
            sent_at[id(client)] = time.perf_counter()
            number = next(numbers)
            client.socket.sendall(encode_request_frame(config_change(number), 1, number, "load"))

        for client in clients:
            stack.callback(client.close)
            selector.register(client.socket, selectors.EVENT_READ, client)
            send(client)
        now = began
        while now - began < seconds and len(latencies) < commits:
            for key, _ in selector.select(10):
                client = key.data
                answer = client.receive()
                if answer[-20:-18] == b"\xff":
                    raise RuntimeError(f"refused: {answer!r}")
                now = time.perf_counter()
                latencies.append((now - sent_at[id(client)]) * 1000)
                send(client)
    return Load(len(latencies), now - began, sorted(latencies))


def commits(quorums: Quorums) -> Iterator[Finding]:
    for quorum in quorums.values():
        leader = quorum.await_caught_up(*quorum.members)
        drive(quorum.members[leader.node_id].address, 8, seconds=60, commits=WARMING)
    for turn in range(TURNS):
        for connections in CONNECTIONS:
            for kind, quorum in list(quorums.items())[:: 1 if turn % 2 else -1]:
                for what, unit, value in _some_commits(quorum, connections):
                    yield kind, what, unit, value
    for kind, quorum in quorums.items():
        leader = quorum.await_leader()
        for node_id, member in quorum.members.items():
            who = "leader" if node_id == leader.node_id else "follower"
            yield kind, f"memory of a {who} after that", "MiB", member.resident_bytes() / (1 << 20)


def _some_commits(quorum: Quorum, connections: int) -> Iterator[tuple[str, str, float]]:
    leader = quorum.await_leader()
    offset = leader.view.high_watermark
    before = {node_id: member.cpu_seconds() for node_id, member in quorum.members.items()}
    load = drive(quorum.members[leader.node_id].address, connections, seconds=SECONDS)
    cpu = {n: member.cpu_seconds() - before[n] for n, member in quorum.members.items()}
    written = quorum.await_leader().view.high_watermark - offset
    if written < load.commits:
        raise RuntimeError(f"{load.commits} answers, and {written} records in the log")
    name = f"{connections} at a time"
    yield f"commits, {name}", "a second", load.commits / load.seconds
    yield f"time of a commit, p50, {name}", "ms", load.latencies_ms[load.commits // 2]
    yield f"time of a commit, p99, {name}", "ms", load.latencies_ms[load.commits * 99 // 100]
    yield f"CPU of all three per commit, {name}", "µs", sum(cpu.values()) / load.commits * 1e6
    yield f"CPU of the leader per commit, {name}", "µs", cpu[leader.node_id] / load.commits * 1e6


# Idleness


def idle(quorums: Quorums) -> Iterator[Finding]:
    """All of them rest at the same time."""
    members = []
    for kind, quorum in quorums.items():
        leader = quorum.await_caught_up(*quorum.members)
        for node_id, member in quorum.members.items():
            quorum.forget_client(node_id)
            members.append((kind, "leader" if node_id == leader.node_id else "follower", member))
    time.sleep(3)
    for kind, who, member in members:
        yield kind, f"memory of a {who}, idle", "MiB", member.resident_bytes() / (1 << 20)
    before = [member.cpu_seconds() for _, _, member in members]
    time.sleep(IDLE_SECONDS)
    for (kind, who, member), began in zip(members, before, strict=True):
        yield kind, f"an idle {who}", "% of a core", (member.cpu_seconds() - began) / IDLE_SECONDS * 100


PARTS: Final = {"idle": idle, "elections": elections, "commits": commits}


def main(parts: list[str]) -> None:
    rows: dict[str, Row] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quorum-")))
        tools = stack.enter_context(ToolServer(folder))
        quorums: Quorums = {}
        for kind in (OURS, KAFKAS):
            where = folder / ("ours" if kind == OURS else "kafka")
            quorums[kind] = stack.enter_context(Quorum(where, [kind] * 3, tools=tools).format().start())
        for part in parts:
            for kind, what, unit, value in PARTS[part](quorums):
                row = rows.setdefault(what, Row(what, unit, [], []))
                (row.ours if kind == OURS else row.kafkas).append(value)
                print(f"{kind}: {what}: {value:.2f} {unit}", file=sys.stderr)
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("\n| | Barnabas | Apache Kafka |\n|---|---|---|")
    print("\n".join(row.line() for row in rows.values()))


if __name__ == "__main__":
    main(sys.argv[1:] or list(PARTS))
