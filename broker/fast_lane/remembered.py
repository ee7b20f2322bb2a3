"""The requests that a connection remembers, and how the bytes of another one are compared with theirs.

A request on the lane consists of bytes that are the same each time, and of fields between and behind them
that change. Where those fields lie depends on the lengths of names alone, so requests that are laid out alike
share a `Shape`, and one `struct` call reads what is there::

    size │ API key, version │ correlation id │ the bytes that tell requests apart │ what changes
    int32      4 bytes            int32                   `key`                       `more`

All requests of one shape lie in one dictionary by their key. So a producer of a hundred partitions finds each
of them as fast as a producer of one. No key may be the beginning of a key of another shape; encoded requests
never are, because each field of them tells how long it is.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from broker.fast_lane.epoch import LaneEpoch
from config.limits import LANE_REQUESTS_REMEMBERED, LANE_SHAPES

E = TypeVar("E")

BEFORE_KEY_BYTES: Final = 12
"""Size, API key, version and correlation id."""

CLIENT_ID_LENGTH: Final = slice(8, 10)
"""The length of the client id, in a frame without the size."""

_PATIENCE: Final = 16
"""A connection that cycles through more requests than it may remember would only ever remember in vain. So
when all places or layouts are taken nothing more is remembered, until so many times as many requests were
turned away; then the places are given to others."""


class Shape(Generic[E]):
    """Where the fields of some requests lie.

    head: API key and version. size_bytes: from the size field to the end of `more`. unpack: of a buffer and
    a position; gives size, head, correlation id (unsigned), key, and the fields of `more`. known: what is
    remembered, by key.
    """

    __slots__ = ("head", "key_bytes", "known", "more", "size_bytes", "unpack")

    def __init__(self, head: bytes, key_bytes: int, more: str) -> None:
        layout = Struct(f">i4sI{key_bytes}s{more}")
        self.head = head
        self.key_bytes = key_bytes
        self.more = more
        self.size_bytes = layout.size
        self.unpack: Callable[[memoryview, int], tuple[Any, ...]] = layout.unpack_from
        self.known: dict[bytes, E] = {}


class RememberedRequests(Generic[E]):
    """What one connection remembers of one API, for one epoch of the lane.

    Each thing that is remembered takes the place of one request, and of more where `take_places` says so.
    """

    __slots__ = ("_count", "_epoch", "_is_crowded", "_number", "_shapes", "_turned_away")

    def __init__(self, epoch: LaneEpoch) -> None:
        self._epoch = epoch
        self._number = epoch.number
        self._shapes: list[Shape[E]] = []
        self._count = 0
        self._turned_away = 0
        self._is_crowded = False
        """There were more layouts than there may be."""

    def __len__(self) -> int:
        return self._count

    def find(self, view: memoryview, at: int, end: int) -> tuple[Shape[E], E] | None:
        """What is remembered of a request like the one at `at`, with its shape. Its size field, and all that
        changes, are for the caller to look at."""
        if self._number != self._epoch.number:
            self._forget()
            return None
        for shape in self._shapes:
            if at + shape.size_bytes <= end:
                fields = shape.unpack(view, at)
                if fields[1] == shape.head and (known := shape.known.get(fields[3])) is not None:
                    return shape, known
        return None

    def known(self, head: bytes, key: bytes) -> E | None:
        """What is remembered of requests that begin like this."""
        if self._number == self._epoch.number:
            for shape in self._shapes:
                if shape.head == head and key in shape.known:
                    return shape.known[key]
        return None

    def has_room(self) -> bool:
        """Whether `add` would remember a request. To be asked before much is made for it."""
        if self._number != self._epoch.number:
            self._forget()
        if self._count < LANE_REQUESTS_REMEMBERED and not self._is_crowded:
            return True
        self._turned_away += 1
        if self._turned_away < _PATIENCE * LANE_REQUESTS_REMEMBERED:
            return False
        self._forget()
        return True

    def add(self, head: bytes, key: bytes, more: str, remembered: E) -> bool:
        """Remembers a request; whether there was a place for it. more: a `struct` format without byte order.

        An earlier one with these bytes gives its place.
        """
        if not self.has_room():
            return False
        shape = self._shape(head, len(key), more)
        if shape is None:
            self._is_crowded = True
            return False
        self._count += key not in shape.known
        shape.known[key] = remembered
        return True

    @property
    def is_full(self) -> bool:
        return self._count >= LANE_REQUESTS_REMEMBERED

    def take_places(self, count: int) -> None:
        """Notes that something that is remembered stands for so many requests more; fewer, if negative."""
        self._count += count

    def give_back(self, unused: Callable[[E], int]) -> None:
        """Forgets what is of no more use. unused: the requests that it stands for; 0 for what is in use."""
        for shape in self._shapes:
            for key, known in list(shape.known.items()):
                if places := unused(known):
                    del shape.known[key]
                    self._count -= places

    def _shape(self, head: bytes, key_bytes: int, more: str) -> Shape[E] | None:
        for shape in self._shapes:
            if shape.key_bytes == key_bytes and shape.more == more and shape.head == head:
                return shape
        if len(self._shapes) >= LANE_SHAPES:
            return None
        self._shapes.append(Shape(head, key_bytes, more))
        return self._shapes[-1]

    def _forget(self) -> None:
        self._number = self._epoch.number
        self._shapes = []
        self._count = self._turned_away = 0
        self._is_crowded = False
