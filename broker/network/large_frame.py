"""A frame that is still arriving and too long to be copied from turn to turn, and the one behind it.

Its buffer grows with the bytes that have arrived and never with the length that was announced: a client that
announces 100 MB and sends ten bytes costs 64 KiB. The buffer grows fourfold each time, so each byte is moved
about once, and each growth asks the memory pool.
"""

from __future__ import annotations

from broker.network.memory import GrowingHolder, RequestMemory
from config.limits import LARGE_FRAME_FIRST_BYTES, LARGE_FRAME_GROWTH
from protocol.errors import InvariantViolated


class LargeFrame:
    """One incomplete frame.

    size_bytes: the length of the frame, with the four bytes of its size field. filled_bytes: the bytes that
    have arrived. The buffer may be longer than the frame.
    """

    __slots__ = ("_holder", "_memory", "buffer", "filled_bytes", "size_bytes")

    def __init__(
        self, memory: RequestMemory, holder: GrowingHolder, size_bytes: int, begun: memoryview
    ) -> None:
        self._memory = memory
        self._holder = holder
        self.size_bytes = size_bytes
        self.filled_bytes = filled = len(begun)
        capacity = self._allowed(filled)
        if not memory.may_grow(holder, capacity, holder.now_ns):
            capacity = filled  # these bytes are in memory already; for more the frame waits
            memory.hold(holder, capacity)
        self.buffer = memory.take_buffer(holder, capacity)
        self.buffer[:filled] = begun

    @classmethod
    def in_place(cls, awaited: AwaitedFrame, size_bytes: int, filled_bytes: int) -> LargeFrame:
        """The frame that has begun to arrive where an awaited frame was read; it takes over the buffer."""
        frame = cls.__new__(cls)
        frame._memory, frame._holder, frame.buffer = awaited.hand_over()
        frame.size_bytes, frame.filled_bytes = size_bytes, filled_bytes
        return frame

    @property
    def complete(self) -> bool:
        return self.filled_bytes == self.size_bytes

    @property
    def frame(self) -> memoryview:
        """The bytes of the frame that have arrived so far."""
        return memoryview(self.buffer)[: self.filled_bytes]

    def _allowed(self, arrived_bytes: int) -> int:
        return min(self.size_bytes, max(LARGE_FRAME_FIRST_BYTES, LARGE_FRAME_GROWTH * arrived_bytes))

    def make_room(self, now_ns: int) -> bool:
        """Whether there is room for another read. The buffer grows if it is full and the pool has room."""
        filled = self.filled_bytes
        if filled < len(self.buffer):
            return True
        wanted = self._allowed(filled)
        if not self._memory.may_grow(self._holder, wanted, now_ns):
            return False
        larger = self._memory.take_buffer(
            self._holder, wanted
        )  # the reader may still hold a view of the old one
        larger[:filled] = self.buffer
        self.buffer = larger
        return True

    def space(self) -> memoryview:
        """The part of the buffer for the next read. It ends with the frame, because what follows is another
        request."""
        return memoryview(self.buffer)[self.filled_bytes : self.size_bytes]


class AwaitedFrame:
    """What a connection reads next whose last frame was large: straight into a buffer in which it can stay.

    A frame that is cut off in the scratch buffer is copied; here it is not. The buffer is one that an earlier
    frame has left. It is borrowed when the connection reads, within the pool's bound, and given back in the
    same turn unless a frame is cut off in it, so a connection that is silent has none.
    """

    __slots__ = ("_holder", "_memory", "buffer", "expected_bytes")

    def __init__(self, memory: RequestMemory, holder: GrowingHolder, expected_bytes: int) -> None:
        """expected_bytes: the size of the last frame. A read takes no more, so that it ends with the next one
        if that has the same size."""
        self._memory = memory
        self._holder = holder
        self.expected_bytes = expected_bytes
        self.buffer: bytearray | None = None

    def make_room(self, now_ns: int) -> bool:
        """There is room always, in the scratch buffer if nowhere else."""
        return True

    def space(self) -> memoryview:
        """Where the next read puts its bytes: in `buffer`, or in the scratch buffer if that is None."""
        if self.buffer is None:
            self.buffer = self._memory.borrow(self._holder, self.expected_bytes)
            if self.buffer is None:
                return self._memory.space
        return memoryview(self.buffer)[: self.expected_bytes]

    def give_back(self) -> None:
        """Ends the loan."""
        _, _, buffer = self.hand_over()
        self._memory.hold(self._holder, 0)
        self._memory.give_back(buffer)

    def hand_over(self) -> tuple[RequestMemory, GrowingHolder, bytearray]:
        """The buffer belongs to the caller from now on, and stays accounted to the holder."""
        buffer, self.buffer = self.buffer, None
        if buffer is None:
            raise InvariantViolated("no buffer was borrowed that could be handed over")
        return self._memory, self._holder, buffer
