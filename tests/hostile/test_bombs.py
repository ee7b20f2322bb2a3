"""A few kilobytes that unfold into gigabytes: refused, in bounded memory, and others are served meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from config.limits import DECOMPRESSED_BATCH_BYTES
from protocol.errors import ErrorCode
from protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from tests.hostile.conftest import AnyBroker
from tests.support.brokers.against import barnabas_only
from tests.support.clients.produced import list_offset, produce
from tests.support.clients.raw_connection import RawConnection, await_that, resident_bytes, serves_others
from tests.support.clients.topics import Topics
from tests.support.samples import bad_batches as bad

pytestmark = barnabas_only

MIB = 1 << 20
TOO_MUCH = 4 * DECOMPRESSED_BATCH_BYTES
TOPICS: dict[str, dict[str, str]] = {
    "walked": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "uncompressed"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}
REFUSED = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD)


@pytest.fixture(scope="module")
def strict(make_broker: Callable[..., AnyBroker]) -> AnyBroker:
    broker = make_broker({"barnabas.record.validation": "full", "max.message.bytes": "20000000"})
    topics = Topics(broker.bootstrap_servers)
    for name, config in TOPICS.items():
        topics.create(name, config=config | {"max.message.bytes": "20000000"})
    return broker


@pytest.fixture(scope="module")
def bombs() -> dict[int, bytearray]:
    """Half a gigabyte as each codec packs it; snappy packs at most 21 to 1, so that one is large itself."""
    sizes = {GZIP: TOO_MUCH, SNAPPY: DECOMPRESSED_BATCH_BYTES + 64 * MIB, LZ4: TOO_MUCH, ZSTD: TOO_MUCH}
    return {codec: bad.bomb(codec, size) for codec, size in sizes.items()}


class HighestMemory:
    """The most that a process occupied while the block ran, seen a thousand times a second."""

    def __init__(self, pid: int) -> None:
        self.size_bytes = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.001):
            self.size_bytes = max(self.size_bytes, resident_bytes(self._pid))

    def __enter__(self) -> HighestMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("topic", TOPICS)
def test_a_bomb(strict: AnyBroker, bombs: dict[int, bytearray], topic: str, codec: int) -> None:
    with RawConnection(strict.bootstrap_servers) as client, HighestMemory(strict.pid) as highest:
        answer = produce(client, topic, bombs[codec])
        assert ErrorCode.of(answer.error_code) in REFUSED
        assert list_offset(client, topic, -1).offset == 0
    assert highest.size_bytes < DECOMPRESSED_BATCH_BYTES + 96 * MIB
    serves_others(strict.bootstrap_servers)


def test_the_largest_batch_that_is_accepted(strict: AnyBroker) -> None:
    with RawConnection(strict.bootstrap_servers) as client, HighestMemory(strict.pid) as highest:
        largest = bad.bomb(ZSTD, DECOMPRESSED_BATCH_BYTES - MIB)
        assert produce(client, "walked", largest).error_code == ErrorCode.NONE
    assert highest.size_bytes < 3 * DECOMPRESSED_BATCH_BYTES


def test_others_are_served_while_a_record_of_millions_of_headers_is_walked(strict: AnyBroker) -> None:
    """Who asks again and again gets many answers before the one to the record, and not just the first."""
    batch = bad.many_headers(ZSTD, 8 * MIB)
    assert len(batch) < 4096
    answers: list[int] = []
    with RawConnection(strict.bootstrap_servers) as client:
        walked = threading.Thread(target=lambda: answers.append(produce(client, "walked", batch).error_code))
        walked.start()
        served = 0
        while walked.is_alive():
            serves_others(strict.bootstrap_servers)
            served += 1
        walked.join()
    assert answers == [ErrorCode.NONE]
    assert served > 20


@pytest.mark.parametrize(
    ("topic", "flaw"), [("walked", {"offset_delta": 1}), ("compacted", {"has_key": False})]
)
def test_a_flaw_in_a_record_of_millions_of_headers(
    strict: AnyBroker, topic: str, flaw: dict[str, Any]
) -> None:
    with RawConnection(strict.bootstrap_servers) as client, HighestMemory(strict.pid) as highest:
        answer = produce(client, topic, bad.many_headers(ZSTD, 8 * MIB, **flaw))
        assert (answer.error_code == ErrorCode.NONE) == (topic == "walked"), "offsets are put right"
    assert highest.size_bytes < 3 * DECOMPRESSED_BATCH_BYTES


def test_memory_comes_back(strict: AnyBroker) -> None:
    """130 to 131 MiB are resident here, of which the allocator keeps what was taken at most at one time."""
    await_that("memory comes back", lambda: resident_bytes(strict.pid) < 140 * MIB)
