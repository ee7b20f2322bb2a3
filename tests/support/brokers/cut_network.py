"""The network between the nodes of a cluster, which a test may cut between any two of them.

Each listener that nodes use among themselves has a proxy in front of it, in this process. The other nodes are
told the proxy's address; clients and tests go to the nodes directly, so that a node that is cut off from all
others is still reached by clients. A proxy learns which node has connected from the client id of the first
request: `raft-client-2` and `broker-2-fetcher-0` are Barnabas' and Apache Kafka's, and `2` alone is Apache
Kafka's. No privilege is needed, as namespaces or rules of a firewall would.

    with CutNetwork() as network:
        port = network.in_front_of(2, 9093)     others reach port 9093 of node 2 through this port
        network.cut(1, 2, BLACK_HOLE)
        network.cut_off(3, RESET)               from all nodes there are
        network.heal()
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from itertools import permutations
from typing import Final, Self

__all__ = ["BLACK_HOLE", "RESET", "CutNetwork"]

RESET: Final = "reset"
"""Connections are reset, those that there are and each new one, as by a firewall that rejects."""
BLACK_HOLE: Final = "black hole"
"""Bytes do not come any more, and nobody is told. Those under way arrive when the network is whole again,
unless the connection has been given up."""

NODE_OF_CLIENT: Final = re.compile(rb"(?:raft-client-|broker-)?(\d+)(?:-[a-z0-9-]+)?")
PIECE_BYTES: Final = 1 << 16
HEAD_BYTES: Final = 14
"""Of a request: its size, API key, version, correlation id, and the length of the client id."""
CALL_SECONDS: Final = 30

Way = tuple[int, int]
"""From one node to another."""


class CutNetwork:
    """Proxies, all in one thread of their own; the methods are called from any other thread."""

    def __init__(self) -> None:
        self.strangers: list[bytes] = []
        """Client ids that name no node: their connections are never cut."""
        self._nodes: set[int] = set()
        self._cuts: dict[Way, str] = {}
        self._healed = asyncio.Event()
        self._links: set[_Link] = set()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def in_front_of(self, node_id: int, port: int) -> int:
        """The port of a new proxy for a port of 127.0.0.1 on which this node listens, now or later."""
        self._nodes.add(node_id)
        listener = socket.create_server(("127.0.0.1", 0))

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = _Link(self, node_id, port, reader, writer)
            self._links.add(link)
            with contextlib.suppress(asyncio.CancelledError):  # by `close`; streams would log it as a failure
                await link.run()
            self._links.discard(link)

        start = asyncio.start_server(connected, sock=listener)
        self._servers.append(asyncio.run_coroutine_threadsafe(start, self._loop).result(CALL_SECONDS))
        return int(listener.getsockname()[1])

    def cut(self, one: int, other: int, how: str) -> None:
        """Between two nodes, both ways; holds when this returns."""
        self._call(lambda: self._cut([(one, other), (other, one)], how))

    def cut_one_way(self, sender: int, receiver: int) -> None:
        """Bytes of `sender` do not come to `receiver` any more; those of `receiver` do come to `sender`."""
        self._call(lambda: self._cut([(sender, receiver)], BLACK_HOLE))

    def cut_off(self, node_id: int, how: str) -> None:
        """One node from all others that have a proxy; holds when this returns."""
        ways = [way for way in permutations(self._nodes, 2) if node_id in way]
        self._call(lambda: self._cut(ways, how))

    def heal(self) -> None:
        """The network is whole again."""
        self._call(self._heal)

    def how(self, way: Way) -> str | None:
        """How a way is cut; None if it is not."""
        return self._cuts.get(way)

    async def await_healed(self) -> None:
        await self._healed.wait()

    def close(self) -> None:
        """Ends all connections, and the thread."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for link in list(self._links):
            link.reset()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _cut(self, ways: Iterable[Way], how: str) -> None:
        self._healed.clear()
        self._cuts.update(dict.fromkeys(ways, how))
        for link in list(self._links):
            if any(self.how(way) == RESET for way in link.ways):
                link.reset()

    def _heal(self) -> None:
        self._cuts.clear()
        self._healed.set()

    def _call(self, change: Callable[[], None]) -> None:
        async def called() -> None:
            change()

        asyncio.run_coroutine_threadsafe(called(), self._loop).result(CALL_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Link:
    """One connection to a node through its proxy."""

    def __init__(
        self,
        network: CutNetwork,
        node_id: int,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.ways: list[Way] = []
        """There and back; empty while it is not known who has connected."""
        self._network = network
        self._node_id = node_id
        self._port = port
        self._reader = reader
        self._writers = [writer]

    async def run(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await self._meet()
            await self._pass_gate(self.ways[:1])
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writers.append(writer)
            writer.write(head)
            there = self._pump(self._reader, writer, self.ways[:1])
            back = self._pump(reader, self._writers[0], self.ways[1:])
            await asyncio.gather(there, back)
        self.reset()

    async def _meet(self) -> bytes:
        """Learns who has connected; the bytes that told it."""
        head = await self._reader.readexactly(HEAD_BYTES)
        client_id = await self._reader.readexactly(max(0, struct.unpack(">h", head[-2:])[0]))
        found = NODE_OF_CLIENT.fullmatch(client_id)
        if found is None:
            self._network.strangers.append(client_id)
        else:
            there = (int(found[1]), self._node_id)
            self.ways = [there, (there[1], there[0])]
        return head + client_id

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ways: list[Way]
    ) -> None:
        while piece := await reader.read(PIECE_BYTES):
            await self._pass_gate(ways)
            writer.write(piece)
            await writer.drain()
        await self._pass_gate(ways)
        writer.write_eof()

    async def _pass_gate(self, ways: list[Way]) -> None:
        """Waits as long as this way is cut. Raises ConnectionResetError where a cut resets."""
        for way in ways:
            while (how := self._network.how(way)) is not None:
                if how == RESET:
                    raise ConnectionResetError
                await self._network.await_healed()

    def reset(self) -> None:
        """Ends both connections at once; what was not written yet is lost."""
        for writer in self._writers:
            end = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
