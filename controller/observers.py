"""Who follows the metadata log without a vote, and how far each is: what DescribeQuorum tells (KIP-836).

A replica is caught up at a moment when its fetch asks for the end of the log; one that asks for what was
the end at its fetch before was caught up then. Who has not fetched for five minutes is forgotten.
"""

from __future__ import annotations

from typing import Final

import msgspec

from controller.metadata_log import ReplicaProgress

__all__ = ["Observers"]

SESSION_TIMEOUT_MS: Final = 300_000
LARGEST_NUMBER: Final = 10_000
"""Beyond so many, newcomers are served but not listed."""

NEVER: Final = -1


class _Observer(msgspec.Struct):
    fetch_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    end_offset_at_last_fetch: int


class Observers:
    """By replica id and directory id. Times are wall milliseconds."""

    def __init__(self) -> None:
        self._observers: dict[tuple[int, bytes], _Observer] = {}

    def fetched(
        self, replica_id: int, directory_id: bytes, fetch_offset: int, end_offset: int, now_ms: int
    ) -> None:
        key = (replica_id, directory_id)
        observer = self._observers.get(key)
        if observer is None:
            if len(self._observers) >= LARGEST_NUMBER:
                return
            observer = self._observers[key] = _Observer(fetch_offset, now_ms, NEVER, end_offset)
        if fetch_offset >= end_offset:
            observer.last_caught_up_ms = now_ms
        elif fetch_offset >= observer.end_offset_at_last_fetch:
            observer.last_caught_up_ms = max(observer.last_caught_up_ms, observer.last_fetch_ms)
        observer.fetch_offset = fetch_offset
        observer.last_fetch_ms = now_ms
        observer.end_offset_at_last_fetch = end_offset

    def present(self, now_ms: int) -> list[ReplicaProgress]:
        """Those of the last five minutes, by id; the others are forgotten."""
        for key in [k for k, o in self._observers.items() if now_ms - o.last_fetch_ms >= SESSION_TIMEOUT_MS]:
            del self._observers[key]
        return [
            ReplicaProgress(key[0], key[1], o.fetch_offset, o.last_fetch_ms, o.last_caught_up_ms)
            for key, o in sorted(self._observers.items())
        ]
