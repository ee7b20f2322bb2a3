"""A disk that takes no more: the client is told, nothing acknowledged is lost, and all goes on with space.

Once by a limit on the size of files, which the system may set for a running process, and once on a real file
system of eight megabytes, where the broker's own files want space too.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.framing import decode_response
from protocol.messages.produce import ProduceResponse
from protocol.records.header import headers
from protocol.records.reader import records
from tests.hostile.conftest import AnyBroker
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.produced import (
    PRODUCE_VERSION,
    fetched_bytes,
    list_offset,
    produce,
    produce_request,
)
from tests.support.clients.raw_connection import RawConnection, await_that, serves_others
from tests.support.clients.topics import Topics
from tests.support.samples import bad_batches as bad

pytestmark = barnabas_only

STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
OVERHEAD_BYTES = 73
WHOLE_BATCH_BYTES = 10_000


def numbered(number: int, size_bytes: int = WHOLE_BATCH_BYTES) -> bytearray:
    """A batch of one record, of exactly that size."""
    value = b"%d:" % number
    return bad.good(1, value=value + bytes(size_bytes - len(value) - OVERHEAD_BYTES))


def numbers_in(client: RawConnection, topic: str) -> list[int]:
    """What a consumer reads from the beginning, whole batches with good checksums only."""
    data = memoryview(fetched_bytes(client, topic))
    found: list[int] = []
    for at, _ in headers(data):
        for record in records(data, at, check_crc=True):
            assert record.offset == len(found)
            found.append(int((record.value or b"").partition(b":")[0]))
    return found


class Writer:
    """Sends numbered batches and remembers those that were acknowledged."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.acknowledged: list[int] = []
        self.errors: list[int] = []

    def burst(self, client: RawConnection, count: int, size_bytes: int = WHOLE_BATCH_BYTES) -> None:
        """All requests in one go, so that they arrive together."""
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        for number in numbers:
            client.send(produce_request(self.topic, numbered(number, size_bytes)), PRODUCE_VERSION)
        for number in numbers:
            response = decode_response(ProduceResponse, PRODUCE_VERSION, client.receive())[1]
            answer = response.responses[0].partition_responses[0]
            if answer.error_code == 0:
                assert answer.base_offset == len(self.acknowledged)
                self.acknowledged.append(number)
            else:
                assert (answer.error_code, answer.base_offset) == (STORAGE_ERROR, -1)
                self.errors.append(number)


def limit_files(broker: AnyBroker, size_bytes: int) -> None:
    """The largest size that the process may give to a file, from now on."""
    hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


@pytest.mark.parametrize("room", [0, 1, 61, 5_000, 3 * WHOLE_BATCH_BYTES + 7])
def test_a_write_that_fails_in_the_middle(new_broker: Callable[..., BarnabasProcess], room: int) -> None:
    broker = new_broker()
    Topics(broker.bootstrap_servers).create("t")
    log_file = broker.data / "t-0" / "00000000000000000000.log"
    writer = Writer("t")
    with RawConnection(broker.bootstrap_servers) as client:
        writer.burst(client, 10)
        assert writer.errors == []
        limit_files(broker, log_file.stat().st_size + room)
        writer.burst(client, 10)
        assert len(writer.errors) == 10 - room // WHOLE_BATCH_BYTES
        assert numbers_in(client, "t") == writer.acknowledged
        assert list_offset(client, "t", -1).offset == len(writer.acknowledged)
        serves_others(broker.bootstrap_servers)
        limit_files(broker, resource.RLIM_INFINITY)
        failed = len(writer.errors)
        writer.burst(client, 5)
        assert len(writer.errors) == failed
        assert numbers_in(client, "t") == writer.acknowledged
    assert broker.stop() == 0
    broker.start_anywhere()
    with RawConnection(broker.bootstrap_servers) as client:
        assert numbers_in(client, "t") == writer.acknowledged
        assert produce(client, "t", numbered(99)).base_offset == len(writer.acknowledged)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight megabytes."""
    where = tmp_path / "disk"
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "small", str(where)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("this user may not mount a small file system")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


@pytest.mark.parametrize("how", ["stop", "kill", "stop while full", "kill while full"])
def test_a_full_file_system(small_disk: Path, tmp_path: Path, how: str) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    broker = BarnabasProcess(small_disk / "data", {"offsets.topic.num.partitions": "3"})
    broker.log_file = tmp_path / "broker.log"
    with broker:
        topics = Topics(broker.bootstrap_servers)
        topics.create("t")
        topics.create("other")
        writer = Writer("t")
        with RawConnection(broker.bootstrap_servers) as client:
            while not writer.errors:
                writer.burst(client, 20, 100_000)
            assert len(writer.acknowledged) > 30
            assert numbers_in(client, "t") == writer.acknowledged
            if "while full" not in how:
                ballast.unlink()
                failed = len(writer.errors)
                writer.burst(client, 10, 100_000)
                assert len(writer.errors) == failed
                assert produce(client, "other", numbered(0)).error_code == 0
                assert numbers_in(client, "t") == writer.acknowledged
        serves_others(broker.bootstrap_servers)
        if how.startswith("stop"):
            assert broker.stop() in ((0, 1) if "full" in how else (0,))
        else:
            broker.kill()
        ballast.unlink(missing_ok=True)
        broker.start_anywhere()
        with RawConnection(broker.bootstrap_servers) as client:
            assert numbers_in(client, "t") == writer.acknowledged
            assert produce(client, "t", numbered(99)).base_offset == len(writer.acknowledged)
        assert broker.stop() == 0
    assert "Traceback" not in broker.log_file.read_text()


def fill(where: Path) -> Path:
    """Takes all the room that a file system has left."""
    ballast = where / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        while file.write(bytes(4096)):
            file.flush()
    return ballast


def test_a_topic_for_whose_logs_there_was_no_space(small_disk: Path, tmp_path: Path) -> None:
    """It is served when there is some, without a restart."""
    data = small_disk / "data"
    data.mkdir()
    settings = {"log.dirs": str(data), "metadata.log.dir": str(tmp_path / "metadata")}
    broker = BarnabasProcess(data, settings)
    broker.log_file = tmp_path / "broker.log"
    with broker:
        ballast = fill(small_disk)
        Topics(broker.bootstrap_servers).create("t")
        with RawConnection(broker.bootstrap_servers) as client:
            assert produce(client, "t", numbered(0)).error_code == STORAGE_ERROR
            ballast.unlink()
            await_that("the log is made", lambda: produce(client, "t", numbered(0)).error_code == 0)
            assert numbers_in(client, "t") == [0]
        assert "t-0 cannot be served, its log could not be made" in broker.log_file.read_text()
        assert "t-0 can be served, there is space for its log" in broker.log_file.read_text()
        assert broker.stop() == 0


def test_a_metadata_log_that_cannot_grow(small_disk: Path, tmp_path: Path) -> None:
    """The node cannot keep its word: it says so in one sentence, and ends as Apache Kafka does."""
    settings = {"metadata.log.dir": str(small_disk / "metadata"), "metadata.max.idle.interval.ms": "10"}
    ballast = small_disk / "ballast"
    with BarnabasProcess(tmp_path / "data", settings) as broker:
        Topics(broker.bootstrap_servers).create("t")
        with RawConnection(broker.bootstrap_servers) as client:
            acknowledged = [produce(client, "t", numbered(number)).base_offset for number in range(5)]
        fill(small_disk)
        assert broker.process.wait(120) == 1
        log = broker.log_file.read_text()
        assert f"The metadata log in {small_disk / 'metadata'}" in log
        assert "cannot be written: " in log
        assert "Traceback" not in log
        ballast.unlink()
        broker.start_anywhere()
        with RawConnection(broker.bootstrap_servers) as client:
            assert numbers_in(client, "t") == acknowledged == list(range(5))
        assert broker.stop() == 0
