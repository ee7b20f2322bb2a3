"""What one long request does to everybody else: for each API, version and array, the longest step of the
broker's loop in processor time, the longest round trip of another client meanwhile, and the most memory that
the broker had.

    python -m tests.performance.long_requests --sizes 65536,1048576,4194304 [--api DESCRIBE_GROUPS]

A line for each request that made a step longer than `--report-ms` or took more memory than `--report-mib`;
the worst ones again at the end. The round trip is wall time: on a busy machine it says more of the others.
"""

from __future__ import annotations

import argparse
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.registry import ApiKey, api
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.topics import Topics
from tests.support.clients.wire_client import WireClient
from tests.support.samples.long_arrays import Distinct, Nothing, Same, Words, array_paths, long_frame

MIB = 1 << 20
TOPIC = "wide"
PARTITIONS = 20
PING_PAUSE_SECONDS = 0.002
PATIENCE_SECONDS = 60
FRESH_BROKER_ABOVE_MIB = 120
"""Python gives memory back unwillingly: the next request would be judged by what the last one took."""

NUMBERS = {
    "resource_type": 2,
    "timeout_ms": 30_000,
    "timestamp": -1,
    "session_timeout_ms": 10_000,
    "current_leader_epoch": -1,
    "include_synonyms": True,
    "include_documentation": True,
    "generation_id_or_member_epoch": -1,
    "session_epoch": -1,
}


class Seen(NamedTuple):
    """seconds: until the answer. step_ms: the longest step of the loop, with its name. ping_ms: the longest
    round trip of somebody else. peak_mib: resident."""

    what: str
    elements: int
    seconds: float
    step_ms: float
    step: str
    ping_ms: float
    peak_mib: float
    answer_bytes: int

    def __str__(self) -> str:
        answer = "closed" if self.answer_bytes < 0 else f"{self.answer_bytes:,} bytes"
        return (
            f"{self.what:78} {self.elements:>9,} elements {self.seconds:6.2f} s, step {self.step_ms:6.1f} ms,"
            f" ping {self.ping_ms:6.1f} ms, peak {self.peak_mib:6.1f} MiB, answer {answer}, {self.step}"
        )


class Pinger(threading.Thread):
    """Asks for versions again and again, and remembers the longest wait."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._client = WireClient(address, client_id="ping", timeout_seconds=PATIENCE_SECONDS)
        self._ended = threading.Event()
        self.worst_seconds = 0.0

    def run(self) -> None:
        request = ApiVersionsRequest("ping", "1")
        while not self._ended.is_set():
            began = time.perf_counter()
            self._client.ask(request, 4)
            self.worst_seconds = max(self.worst_seconds, time.perf_counter() - began)
            time.sleep(PING_PAUSE_SECONDS)

    def end(self) -> None:
        self._ended.set()
        self.join()
        self._client.close()


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def longest_step(log: str) -> tuple[float, str]:
    """In ms, and its name, of what the timed broker told; the shortest ones are not told."""
    steps = [line.split(" ", 4) for line in log.splitlines() if line.startswith("STEP ")]
    longest = max(steps, key=lambda step: float(step[1]), default=["", "0", "", "", "nothing"])
    return float(longest[1]), longest[4]


def one(process: BarnabasProcess, address: str, what: str, frame: bytes, elements: int) -> Seen:
    """Sends one request and waits for its answer, or for the end of the connection."""
    pid = process.pid
    forget_peak(pid)
    logged = process.log_file.stat().st_size
    pinger = Pinger(address)
    with WireClient(address, client_id="long", timeout_seconds=PATIENCE_SECONDS) as client:
        client.ask(ApiVersionsRequest("long", "1"), 4)
        pinger.start()
        time.sleep(0.02)
        began = time.perf_counter()
        try:
            client.socket.sendall(frame)
            answer = _swallow(client.socket)
        except OSError:
            answer = -1
        seconds = time.perf_counter() - began
    pinger.end()
    step_ms, step = longest_step(process.log_file.read_bytes()[logged:].decode(errors="replace"))
    return Seen(what, elements, seconds, step_ms, step, pinger.worst_seconds * 1000, peak_mib(pid), answer)


def _swallow(connection: socket.socket) -> int:
    """Reads a frame and keeps nothing of it; -1 if the connection ends before."""
    head = b""
    while len(head) < 4:
        part = connection.recv(4 - len(head))
        if not part:
            return -1
        head += part
    left = size = int.from_bytes(head, "big")
    buffer = bytearray(MIB)
    while left:
        count = connection.recv_into(buffer, min(left, MIB))
        if not count:
            return -1
        left -= count
    return size


class Broker:
    """One that is started anew when it has grown."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started = 0
        self.process = self._start()

    def _start(self) -> BarnabasProcess:
        self._started += 1
        process = BarnabasProcess(self._directory / str(self._started))
        process.module = "tests.performance.timed_broker"
        process.start()
        topics = Topics(process.bootstrap_servers)
        topics.create(TOPIC, PARTITIONS)
        with WireClient(process.bootstrap_servers) as client:
            asked = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=TOPIC)])
            self.topic_id = client.ask_for(MetadataResponse, asked, 12).topics[0].topic_id
        return process

    def renew(self) -> None:
        self.process.stop()
        self.process = self._start()


def served(address: str) -> dict[int, tuple[int, int]]:
    with WireClient(address) as client:
        answer = client.ask_for(ApiVersionsResponse, ApiVersionsRequest("long", "1"), 4)
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def versions(low: int, high: int, *, every: bool) -> Iterator[int]:
    yield from range(low, high + 1) if every else dict.fromkeys((low, high))


def judge(broker: Broker, options: argparse.Namespace) -> list[Seen]:
    found: list[Seen] = []
    for role in (options.role,) if options.role else ("broker", "controller"):
        process = broker.process
        offered = served(getattr(process, f"bootstrap_{'servers' if role == 'broker' else 'controllers'}"))
        for key, (low, high) in sorted(offered.items()):
            described = api(key)
            if options.api and ApiKey(key).name not in options.api.split(","):
                continue
            low = max(low, described.request.declaration.versions.first)
            for version in versions(low, high, every=options.every_version):
                for path in array_paths(described.request, version):
                    for words in (Nothing(), Distinct(), Same(TOPIC, broker.topic_id, NUMBERS)):
                        for size in options.sizes:
                            found.append(_measured(broker, role, key, version, path, words, size))
                            worst = found[-1]
                            if worst.step_ms > options.report_ms or worst.peak_mib > options.report_mib:
                                print(worst, flush=True)
                            if worst.peak_mib > FRESH_BROKER_ABOVE_MIB:
                                broker.renew()
    return found


def _measured(
    broker: Broker, role: str, key: int, version: int, path: tuple[str, ...], words: Words, size: int
) -> Seen:
    sized = long_frame(api(key).request, version, path, size, words)
    kind = type(words).__name__.lower()
    what = f"{role} {ApiKey(key).name} {version} {'.'.join(path)} {kind} {size >> 10} KiB"
    process = broker.process
    address = process.bootstrap_servers if role == "broker" else process.bootstrap_controllers
    return one(process, address, what, sized.frame, sized.elements)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=lambda text: [int(each) for each in text.split(",")],
                        default=[64 << 10, MIB, 4 * MIB])  # fmt: skip
    parser.add_argument("--api", default="")
    parser.add_argument("--every-version", action="store_true")
    parser.add_argument("--role", choices=("broker", "controller"))
    parser.add_argument("--report-ms", type=float, default=50)
    parser.add_argument("--report-mib", type=float, default=100)
    parser.add_argument("--worst", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = Broker(Path(directory))
        try:
            found = judge(broker, options)
        finally:
            broker.process.stop()
    for title, key in (
        ("longest steps", "step_ms"),
        ("slowest for others", "ping_ms"),
        ("most memory", "peak_mib"),
    ):
        print(f"\n{title}:")
        for each in sorted(found, key=lambda seen: -getattr(seen, key))[: options.worst]:
            print(each)


if __name__ == "__main__":
    main()
