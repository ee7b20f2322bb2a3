"""A frame that is still arriving and too long to be copied from turn to turn.

Its buffer grows with the bytes that have arrived and never with the length that was announced: a client that
announces 100 MB and sends ten bytes costs 64 KiB. The buffer grows fourfold each time, so each byte is moved
about once, and each growth asks the memory pool.
"""

from __future__ import annotations

from broker.network.memory import MemoryHolder, RequestMemory
from config.limits import LARGE_FRAME_FIRST_BYTES, LARGE_FRAME_GROWTH


class LargeFrame:
    """One incomplete frame.

    size_bytes: the length of the frame, with the four bytes of its size field. filled_bytes: the bytes that
    have arrived. The buffer may be longer than the frame.
    """

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
            capacity = filled  # these bytes are in memory already; for more the frame waits
            memory.hold(holder, capacity)
        self.buffer = memory.take_buffer(capacity)
        self.buffer[:filled] = begun

    @property
    def complete(self) -> bool:
        return self.filled_bytes == self.size_bytes

    @property
    def frame(self) -> memoryview:
        """The bytes of the frame that have arrived so far."""
        return memoryview(self.buffer)[: self.filled_bytes]

    def _allowed(self, arrived_bytes: int) -> int:
        return min(self.size_bytes, max(LARGE_FRAME_FIRST_BYTES, LARGE_FRAME_GROWTH * arrived_bytes))

    def make_room(self) -> bool:
        """Whether there is room for another read. The buffer grows if it is full and the pool has room."""
        filled = self.filled_bytes
        if filled < len(self.buffer):
            return True
        wanted = self._allowed(filled)
        if not self._memory.may_grow(self._holder, wanted):
            return False
        larger = self._memory.take_buffer(wanted)  # the reader may still hold a view of the old one
        larger[:filled] = self.buffer
        self.buffer = larger
        return True

    def space(self) -> memoryview:
        """The part of the buffer for the next read. It ends with the frame, because what follows is another
        request."""
        return memoryview(self.buffer)[self.filled_bytes : self.size_bytes]
