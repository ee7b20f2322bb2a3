"""A broker that has nothing to do imports the libraries of compression, so that no batch waits for it."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.raw_connection import await_that

pytestmark = barnabas_only

LIBRARIES = ("cramjam", "lz4", "zstandard")


def test_an_idle_broker_imports_the_codecs(tmp_path: Path) -> None:
    broker = BarnabasProcess(tmp_path / "data").start()
    try:

        def has_all() -> bool:
            mapped = Path(f"/proc/{broker.pid}/maps").read_text()
            return all(f"/{name}/" in mapped for name in LIBRARIES)

        await_that("the codecs are there", has_all, 60)
    finally:
        broker.stop()
