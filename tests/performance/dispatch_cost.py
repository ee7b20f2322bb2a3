"""What the way through costs: connection, dispatch and socket work around one small request.

    python -m tests.performance.dispatch_cost

A handler that does nothing answers Heartbeat 4 and Produce 9 (1 KB of records, not looked at). A client in a
process of its own keeps a number of requests in flight with prebuilt frames. Two numbers come out:

* over a socket: the server's processor time per request, user and system apart;
* without one: the same connection and dispatch on a wire that swallows, which is our Python alone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import uvloop

from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.lane import Lane
from broker.network.connection import Connection
from broker.network.interfaces import ListenerSettings
from broker.network.memory import RequestMemory
from broker.network.ready_queue import ReadyQueue
from broker.network.response_pieces import Piece
from broker.network.server import Server
from broker.network.socket_network import SocketNetwork
from broker.ports.clock import SystemClock
from broker.ports.timers import LoopTimers
from broker.security.authorizer import AllowAll
from config.limits import MIB
from protocol.codec.message import Message
from protocol.framing import encode_request_frame
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import HandlerTable, serve
from protocol.serving.session import Session

REQUESTS = 100_000
Topic = ProduceResponse.TopicProduceResponse
Partition = ProduceResponse.PartitionProduceResponse


def null_handlers() -> HandlerTable:
    def heartbeat(services: Any, context: Any, request: HeartbeatRequest) -> HeartbeatResponse:
        return HeartbeatResponse()

    def produce(services: Any, context: Any, request: ProduceRequest) -> ProduceResponse:
        return ProduceResponse([Topic("topic", partition_responses=[Partition(0, 0, 17)])])

    return HandlerTable("broker", (serve(ApiKey.HEARTBEAT, heartbeat), serve(ApiKey.PRODUCE, produce)))


def frames() -> dict[str, bytes]:
    data = [
        ProduceRequest.TopicProduceData(
            "topic", partition_data=[ProduceRequest.PartitionProduceData(0, b"r" * 1024)]
        )
    ]
    requests: list[tuple[str, Message, int]] = [
        ("Heartbeat 4", HeartbeatRequest("group", 5, "member-0123456789"), 4),
        ("Produce 9, 1 KB", ProduceRequest(None, 1, 1000, data), 9),
    ]
    return {name: encode_request_frame(request, version, 7, "bench") for name, request, version in requests}


class SwallowingWire:
    def send(self, pieces: list[Piece]) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self, reason: str) -> None:
        raise RuntimeError(reason)


def python_ns_per_request(frame: bytes, in_flight: int) -> float:
    """Our part alone, in processor time: `in_flight` frames per read."""
    clock = SystemClock()
    soon: list[Callable[[], None]] = []
    loop = uvloop.new_event_loop()
    timers, memory = LoopTimers(loop, clock), RequestMemory(128 * MIB)
    lane = Lane(clock=clock, timers=timers, memory=memory)
    dispatcher = Dispatcher(null_handlers(), None, clock=clock, authorizer=AllowAll(), lane=lane)
    connection = Connection(
        dispatcher,
        SwallowingWire(),
        Session("bench", "PLAINTEXT", "127.0.0.1"),
        memory=memory,
        ready_queue=ReadyQueue(soon.append),
        clock=clock,
        timers=timers,
        max_frame_bytes=MIB,
    )
    read = frame * in_flight
    best = float("inf")
    for _ in range(5):
        rounds = REQUESTS // 10 // in_flight
        began = time.thread_time_ns()
        for _ in range(rounds):
            connection.space()[: len(read)] = read
            connection.received(len(read))
            while soon:
                soon.pop(0)()
        best = min(best, (time.thread_time_ns() - began) / rounds / in_flight)
    loop.close()
    return best


def client(port: int, frame: bytes, in_flight: int, requests: int) -> None:
    """Sends `in_flight` frames, then as many more as answers came."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(frame)
        size = 4 + int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
        sock.recv(size - 4, socket.MSG_WAITALL)
        sock.sendall(frame * in_flight)
        answered, left, tail = 0, requests - in_flight, 0
        while answered < requests:
            got = len(sock.recv(1 << 20)) + tail
            count, tail = divmod(got, size)
            answered += count
            more = min(count, left)
            if more:
                sock.sendall(frame * more)
                left -= more


async def served(frame: bytes, in_flight: int) -> tuple[float, float, float]:
    """(requests a second, user µs, system µs) per request."""
    loop = asyncio.get_running_loop()
    clock = SystemClock()
    timers, memory = LoopTimers(loop, clock), RequestMemory(128 * MIB)
    network = SocketNetwork(loop, clock=clock, timers=timers)
    server = Server(network, clock=clock, timers=timers, memory=memory)
    lane = Lane(clock=clock, timers=timers, memory=memory)
    dispatcher = Dispatcher(null_handlers(), None, clock=clock, authorizer=AllowAll(), lane=lane)
    port = server.listen(ListenerSettings("PLAINTEXT", "127.0.0.1", 0), dispatcher).port
    server.start()
    process = multiprocessing.get_context("spawn").Process(
        target=client, args=(port, frame, in_flight, REQUESTS)
    )
    process.start()
    while not any(connection.received_bytes for connection in server.connections):
        await asyncio.sleep(0.001)
    before, began = os.times(), time.perf_counter()
    while server.limits.count:
        await asyncio.sleep(0.01)
    after, took = os.times(), time.perf_counter() - began
    process.join()
    server.abort("done")
    user, system = after.user - before.user, after.system - before.system
    return REQUESTS / took, user / REQUESTS * 1e6, system / REQUESTS * 1e6


def main() -> None:
    print(f"{sys.version.split()[0]}, {os.cpu_count()} processors")
    print(
        f"{'request':<18}{'in flight':>10}{'Python µs':>11}{'requests/s':>12}{'user µs':>9}{'system µs':>11}"
    )
    for name, frame in frames().items():
        for in_flight in (1, 5, 64):
            alone = python_ns_per_request(frame, in_flight) / 1000
            rate, user, system = uvloop.run(served(frame, in_flight))
            print(f"{name:<18}{in_flight:>10}{alone:>11.2f}{rate:>12,.0f}{user:>9.2f}{system:>11.2f}")


if __name__ == "__main__":
    main()
