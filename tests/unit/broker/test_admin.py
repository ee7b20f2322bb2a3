"""The admin port over real sockets, and Prometheus' own parser as the judge of what it says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import pytest
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from broker.admin.health import Health
from broker.admin.http import AdminServer
from broker.admin.pages import Pages
from broker.metrics.families import Collectors, Family, gauge
from config.limits import ADMIN_CONNECTIONS, ADMIN_REQUEST_BYTES

Ask = Callable[[bytes], Awaitable[tuple[int, dict[str, str], bytes]]]
Scenario = Callable[[Ask, AdminServer], Awaitable[None]]


def run(scenario: Scenario, health: Health | None = None, collectors: Collectors | None = None) -> None:
    async def main() -> None:
        pages = Pages(health or Health(), collectors or Collectors())
        server = AdminServer(asyncio.get_running_loop(), pages)
        await server.start("127.0.0.1", 0)

        async def ask(request: bytes) -> tuple[int, dict[str, str], bytes]:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request)
            answer = await reader.read()
            writer.close()
            head, _, body = answer.partition(b"\r\n\r\n")
            status, *lines = head.decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            if "transfer-encoding" in headers:
                body = unchunked(body)
            return int(status.split()[1]), headers, body

        try:
            await asyncio.wait_for(scenario(ask, server), 120)
        finally:
            server.close()

    uvloop.run(main())


def unchunked(body: bytes) -> bytes:
    """The body behind chunked encoding; a ValueError when its end is missing."""
    whole, size = b"", -1
    while size != 0:
        length, _, rest = body.partition(b"\r\n")
        size = int(length, 16)
        whole += rest[:size]
        body = rest[size + 2 :]
    return whole


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def test_health_and_readiness_are_told_with_their_reasons() -> None:
    health = Health()
    ailing: list[str | None] = [None]
    health.register("disk", lambda: ailing[0])
    health.register("fenced", lambda: None, for_readiness_only=True)

    async def scenario(ask: Ask, server: AdminServer) -> None:
        assert (await ask(get("/healthz")))[::2] == (200, b"ok\n")
        assert (await ask(get("/readyz")))[::2] == (503, b"the broker is starting\n")
        health.set_ready()
        assert (await ask(get("/readyz?verbose")))[0] == 200
        ailing[0] = "/data is full"
        assert (await ask(get("/healthz")))[::2] == (503, b"disk: /data is full\n")
        assert (await ask(get("/readyz")))[::2] == (503, b"disk: /data is full\n")
        ailing[0] = None
        health.set_not_ready("the broker is shutting down")
        assert (await ask(get("/healthz")))[0] == 200
        assert (await ask(get("/readyz")))[2] == b"the broker is shutting down\n"

    run(scenario, health)


def test_metrics_are_what_prometheus_reads() -> None:
    collectors = Collectors()

    def collect() -> Iterator[Family]:
        yield gauge("kafka_server_replicamanager_partitioncount", 'Partitions "here"\nand now', 61)
        awkward, plain = 'quo"te\\back\nline', "other"
        yield Family(
            "kafka_things_total", "counter", "Things", [({"topic": awkward}, 5), ({"topic": plain}, 6)]
        )
        yield Family(
            "kafka_log_log_size", "gauge", "Sizes", (({"partition": str(n)}, n * 2.5) for n in range(2000))
        )

    collectors.register(collect)

    async def scenario(ask: Ask, server: AdminServer) -> None:
        status, headers, body = await ask(get("/metrics"))
        assert status == 200
        assert headers["content-type"].startswith("text/plain; version=0.0.4")
        families = {family.name: family for family in text_string_to_metric_families(body.decode())}
        assert families["kafka_server_replicamanager_partitioncount"].samples[0].value == 61
        things = families["kafka_things"]
        assert {sample.labels["topic"]: sample.value for sample in things.samples} == {
            'quo"te\\back\nline': 5,
            "other": 6,
        }
        assert things.type == "counter"
        assert [sample.value for sample in families["kafka_log_log_size"].samples] == [
            number * 2.5 for number in range(2000)
        ]
        assert families["process_open_fds"].samples[0].value > 0

    run(scenario, collectors=collectors)


def test_a_long_answer_lets_others_through() -> None:
    collectors = Collectors()
    turns: list[int] = []

    def endless() -> Iterator[Family]:
        def samples() -> Iterator[tuple[dict[str, str], float]]:
            for number in range(200_000):
                if number % 10_000 == 0:
                    turns.append(number)
                yield {"partition": str(number)}, number

        yield Family("large", "gauge", "Large", samples())

    collectors.register(endless)

    async def scenario(ask: Ask, server: AdminServer) -> None:
        large = asyncio.ensure_future(ask(get("/metrics")))
        while not turns:
            await asyncio.sleep(0)
        assert (await ask(get("/healthz")))[0] == 200
        assert len(turns) < 20, "the health check did not wait for the whole of the metrics"
        assert (await large)[2].count(b"\nlarge{") == 200_000

    run(scenario, collectors=collectors)


def test_a_collector_that_fails_does_not_take_the_others_along() -> None:
    collectors = Collectors()

    def broken() -> Iterator[Family]:
        yield gauge("before", "Before", 1)
        raise KeyError("collector")

    collectors.register(broken)
    collectors.register(lambda: [gauge("after", "After", 2)])

    async def scenario(ask: Ask, server: AdminServer) -> None:
        lines = (await ask(get("/metrics")))[2].decode().splitlines()
        assert {"before 1", "after 2", "barnabas_collector_failures_total 1"} <= set(lines)

    run(scenario, collectors=collectors)


def test_an_answer_that_breaks_off_does_not_look_whole() -> None:
    collectors = Collectors()

    def samples() -> Iterator[tuple[dict[str, str], float]]:
        yield {}, 1
        raise KeyError("sample")

    collectors.register(lambda: [Family("broken", "gauge", "Broken", samples())])

    async def scenario(ask: Ask, server: AdminServer) -> None:
        with pytest.raises((ConnectionResetError, ValueError)):
            await ask(get("/metrics"))
        assert (await ask(get("/healthz")))[0] == 200

    run(scenario, collectors=collectors)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_client_that_has_said_all_gets_the_whole_answer(version: str) -> None:
    """As `nc -N` does, it ends its side of the connection right behind the request."""
    collectors = Collectors()
    samples = [({"partition": str(number)}, number) for number in range(50_000)]
    collectors.register(lambda: [Family("large", "gauge", "Large", samples)])

    async def scenario(ask: Ask, server: AdminServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET /metrics HTTP/{version}\r\n\r\n".encode())
        writer.write_eof()
        _, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert (unchunked(body) if version == "1.1" else body).count(b"\nlarge{") == 50_000

    run(scenario, collectors=collectors)


def test_a_client_that_ends_within_its_request_gets_no_answer() -> None:
    async def scenario(ask: Ask, server: AdminServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        while server._open:
            await asyncio.sleep(0.001)

    run(scenario)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/nothing/here"), 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"\r\n\r\n", 405),
        (b"GET\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * ADMIN_REQUEST_BYTES, 431),
        (b"\xff" * (ADMIN_REQUEST_BYTES + 1), 431),
    ],
)
def test_other_requests_get_their_error(request_bytes: bytes, status: int) -> None:
    async def scenario(ask: Ask, server: AdminServer) -> None:
        assert (await ask(request_bytes))[0] == status

    run(scenario)


def test_head_has_no_body() -> None:
    async def scenario(ask: Ask, server: AdminServer) -> None:
        assert (await ask(b"HEAD /healthz HTTP/1.1\r\n\r\n"))[::2] == (200, b"")

    run(scenario)


def test_connections_are_limited_and_free_again() -> None:
    async def scenario(ask: Ask, server: AdminServer) -> None:
        held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(ADMIN_CONNECTIONS)]
        while len(server._open) < ADMIN_CONNECTIONS:
            await asyncio.sleep(0.001)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        for _, each in held:
            each.close()
        while server._open:
            await asyncio.sleep(0.001)
        assert (await ask(get("/healthz")))[0] == 200

    run(scenario)
