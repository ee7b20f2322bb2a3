"""What the kernel says of a file's pages: written ones are in memory, a hole that nobody read is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.network import page_cache
from broker.network.page_cache import PageCache
from tests.support.rigs.sans_io import MIB


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    """A file of 4 MiB that were written and 8 MiB that never were."""
    path = tmp_path / "file"
    path.write_bytes(bytes(4 * MIB))
    opened = os.open(path, os.O_RDWR)
    os.ftruncate(opened, 12 * MIB)
    os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_RANDOM)
    yield opened
    os.close(opened)


@pytest.fixture
def cache(descriptor: int) -> PageCache:
    cache = PageCache()
    cache.lacks(descriptor, 0, 1)
    if not cache.is_told:
        pytest.skip("this kernel does not know cachestat (Linux 6.5)")
    return cache


def test_what_was_written_is_there_and_a_hole_is_not(cache: PageCache, descriptor: int) -> None:
    assert not cache.lacks(descriptor, 0, 4 * MIB)
    assert not cache.lacks(descriptor, 100, 1)
    assert cache.lacks(descriptor, 8 * MIB, 1)
    assert cache.lacks(descriptor, 3 * MIB, 2 * MIB), "its beginning alone tells nothing of the rest"
    assert cache.lacks(descriptor, 4 * MIB - 1, 2), "one byte of the hole is enough"
    assert cache.lacks(descriptor, 20 * MIB, 100), "behind the end is nothing"


def test_to_ask_reads_nothing(cache: PageCache, descriptor: int) -> None:
    for _ in range(100):
        assert cache.lacks(descriptor, 8 * MIB, MIB)
    os.pwrite(descriptor, b"x", 8 * MIB)
    assert not cache.lacks(descriptor, 8 * MIB, 1)
    assert cache.lacks(descriptor, 8 * MIB, MIB)


def test_a_kernel_that_does_not_tell_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refused(descriptor: int, position: int, size_bytes: int) -> int:
        asked.append(descriptor)
        return -1

    monkeypatch.setattr(page_cache, "_cachestat", lambda: refused)
    cache = PageCache()
    assert not cache.lacks(3, 0, 1)
    assert not cache.lacks(3, 0, 1)
    assert not cache.is_told
    assert asked == [3]
