"""A frame that does not fit the scratch buffer, arriving.

Its buffer follows the bytes that have arrived and never the length that was announced: whoever announces
100 MB and sends ten bytes costs 64 KiB. It doubles, so each byte is moved about once, and each doubling
asks the pool.
"""

from __future__ import annotations

from broker.network.memory import Holder, RequestMemory
from config.limits import LARGE_FRAME_FIRST_BYTES


class LargeFrame:
    """size_bytes: with the four bytes of the length. filled_bytes: what has arrived."""

    __slots__ = ("_holder", "_memory", "buffer", "filled_bytes", "size_bytes")

    def __init__(self, memory: RequestMemory, holder: Holder, size_bytes: int, begun: memoryview) -> None:
        self._memory = memory
        self._holder = holder
        self.size_bytes = size_bytes
        self.filled_bytes = len(begun)
        self.buffer = bytearray(begun)
        memory.hold(holder, len(begun))

    @property
    def complete(self) -> bool:
        return self.filled_bytes == self.size_bytes

    def make_room(self) -> bool:
        """Whether there is room for another read; grows if need be, and if the pool allows it."""
        capacity = len(self.buffer)
        if self.filled_bytes < capacity:
            return True
        wanted = min(self.size_bytes, max(LARGE_FRAME_FIRST_BYTES, 2 * capacity))
        if not self._memory.may_grow(self._holder, wanted):
            return False
        larger = bytearray(wanted)  # not extended in place: the reader may still hold a view of the old one
        larger[:capacity] = self.buffer
        self.buffer = larger
        return True

    def space(self) -> memoryview:
        return memoryview(self.buffer)[self.filled_bytes :]
