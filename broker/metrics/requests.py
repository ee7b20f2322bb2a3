"""Counts and times of requests: plain integers that dispatch adds to, some five additions per request.

A request's time has these parts, as in Kafka:

    queue   from the turn in which its bytes were there to its beginning (0 for the first of a turn)
    local   decoding, handling, encoding
    remote  waiting for something else: other replicas, new records, other members
    send    handing the answer to the kernel; one sample per turn of a connection, for its last request
    total   from its bytes to its encoded answer

Fetches of followers are counted under a name of their own, so `Fetch` stands for those of consumers here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.metrics.histogram import RecentBuckets, new_buckets

FETCH: Final = "Fetch"
FETCH_FOLLOWER: Final = "FetchFollower"

_PARTS: Final = ("queue", "local", "remote", "send", "throttle", "total")


class ApiTimes:
    """The histograms of one API, over all its versions."""

    __slots__ = ("_recent", "local", "name", "queue", "remote", "send", "throttle", "total")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue = new_buckets()
        self.local = new_buckets()
        self.remote = new_buckets()
        self.send = new_buckets()
        self.throttle = new_buckets()
        self.total = new_buckets()
        self._recent = {part: RecentBuckets(getattr(self, part)) for part in _PARTS}

    def recent(self, part: str) -> list[int]:
        """The histogram of this part of the time, of the last minutes."""
        return self._recent[part].buckets()

    def end_window(self) -> None:
        for each in self._recent.values():
            each.end_window()


class RequestCounts:
    """The counters of one API at one version. errors: how often each error code was answered; each
    partition's code counts."""

    __slots__ = ("errors", "name", "received_bytes", "requests", "times", "version")

    def __init__(self, name: str, version: int, times: ApiTimes) -> None:
        self.name = name
        self.version = version
        self.times = times
        self.requests = 0
        self.received_bytes = 0
        self.errors: dict[int, int] = {}


class RequestMetrics:
    """All requests of one dispatch.

    waiting: requests whose answer comes later, now. malformed: connections that were closed for what they
    sent. failures: handlers that raised what they must not.
    """

    def __init__(self) -> None:
        self._times: dict[str, ApiTimes] = {}
        self._counts: dict[tuple[str, int], RequestCounts] = {}
        self.waiting = 0
        self.malformed = 0
        self.failures = 0

    def counts(self, name: str, version: int) -> RequestCounts:
        found = self._counts.get((name, version))
        if found is None:
            times = self._times.setdefault(name, ApiTimes(name))
            found = self._counts[name, version] = RequestCounts(name, version, times)
        return found

    def all_counts(self) -> Iterator[RequestCounts]:
        return iter(self._counts.values())

    def all_times(self) -> Iterator[ApiTimes]:
        return iter(self._times.values())

    def end_window(self) -> None:
        """Called once a minute, so that the times of the last minutes can be told."""
        for times in self._times.values():
            times.end_window()
