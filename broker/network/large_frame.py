"""A frame that is too long to be copied from turn to turn, arriving.

Its buffer follows the bytes that have arrived and never the length that was announced: whoever announces
100 MB and sends ten bytes costs 64 KiB. It grows fourfold, so each byte is moved about once, and each growth
asks the pool.
"""

from __future__ import annotations

from broker.network.memory import MemoryHolder, RequestMemory
from config.limits import LARGE_FRAME_FIRST_BYTES, LARGE_FRAME_GROWTH


class LargeFrame:
    """size_bytes: with the four bytes of the length. filled_bytes: what has arrived. The buffer may be longer
    than the frame."""

    __slots__ = ("_holder", "_memory", "buffer", "filled_bytes", "size_bytes")

    def __init__(
        self, memory: RequestMemory, holder: MemoryHolder, size_bytes: int, begun: memoryview
    ) -> None:
        self._memory = memory
        self._holder = holder
        self.size_bytes = size_bytes
        self.filled_bytes = filled = len(begun)
        capacity = self._allowed(filled)
        if not memory.may_grow(holder, capacity):
            capacity = filled  # it is in memory already; for more it has to wait
            memory.hold(holder, capacity)
        self.buffer = memory.take_buffer(capacity)
        self.buffer[:filled] = begun

    @property
    def complete(self) -> bool:
        return self.filled_bytes == self.size_bytes

    @property
    def frame(self) -> memoryview:
        """What has arrived."""
        return memoryview(self.buffer)[: self.filled_bytes]

    def _allowed(self, arrived_bytes: int) -> int:
        return min(self.size_bytes, max(LARGE_FRAME_FIRST_BYTES, LARGE_FRAME_GROWTH * arrived_bytes))

    def make_room(self) -> bool:
        """Whether there is room for another read; grows if need be, and if the pool allows it."""
        filled = self.filled_bytes
        if filled < len(self.buffer):
            return True
        wanted = self._allowed(filled)
        if not self._memory.may_grow(self._holder, wanted):
            return False
        larger = self._memory.take_buffer(wanted)  # not extended in place: the reader may still hold a view
        larger[:filled] = self.buffer
        self.buffer = larger
        return True

    def space(self) -> memoryview:
        """Never beyond the frame: what follows it is somebody else's request."""
        return memoryview(self.buffer)[self.filled_bytes : self.size_bytes]
