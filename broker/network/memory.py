"""Memory for requests that are arriving: one receive buffer for the loop, one bounded pool for the rest.

Almost every request is read into the scratch buffer, handled there as a view and forgotten. Two things
outlive the turn: the cut-off tail of a small frame, and a cut-off frame that is larger than 128 KiB. Both are
accounted here, against `queued.max.request.bytes`. Beside that bound 16 MiB at most are kept in buffers that
large frames have left for the next ones.

* A tail is already in memory when its size is known, so it is entered without asking. What limits it is the
  size of a read: when the pool is full, a read takes 16 KiB at most.
* A large frame asks before it grows. When the pool is full it waits (its connection is not read) until others
  have given back. The eldest frame that grows never waits: of all frames that are half here, one at least can
  always be completed, so the pool cannot be locked by frames that wait for each other. Where its peer has
  sent nothing for a second, and may be gone, another frame takes its place; whoever waits asks once a second.
  At worst the pool is exceeded by one request, and where peers fall silent by as much again as it may hold.
"""

from __future__ import annotations

from typing import Final, Protocol

from config.limits import (
    LARGE_FRAME_FIRST_BYTES,
    LARGE_FRAME_POOL_FRACTION,
    LARGE_FRAME_POOL_MINIMUM_BYTES,
    SCRATCH_BUFFER_BYTES,
    SMALL_FRAME_BYTES,
    SPARE_FRAMES_BYTES,
)

SCARCE_READ_BYTES: Final = 16 * 1024
"""The most bytes that one read takes while the pool is full."""

SILENT_MS: Final = 1_000
"""A frame of which nothing has come for so long holds up no other one."""

_POISON: Final = 0xDD


class MemoryHolder(Protocol):
    """The user of a part of the pool; it may be waiting for more."""

    def memory_freed(self) -> None:
        """Called when the pool has room again; the holder asks for memory once more."""
        ...


class GrowingHolder(MemoryHolder, Protocol):
    """One whose frame is still arriving."""

    @property
    def now_ns(self) -> int:
        """When bytes of it came last, in monotonic nanoseconds."""
        ...


class RequestMemory:
    """The scratch buffer and the memory pool of one loop.

    space: where the next read puts its bytes; it shrinks while the pool is full. poison: the scratch buffer
    is overwritten after each turn, so that tests see a view that was kept too long.
    """

    def __init__(
        self, bound_bytes: int, *, scratch_bytes: int = SCRATCH_BUFFER_BYTES, poison: bool = False
    ) -> None:
        self.scratch_bytes = scratch_bytes
        self.view = memoryview(bytearray(scratch_bytes))
        self.space = self.view
        self.bound_bytes = bound_bytes
        self.used_bytes = 0
        self.poison = poison
        self.full = False
        self._held: dict[MemoryHolder, int] = {}
        self._growing: dict[MemoryHolder, GrowingHolder] = {}
        """Those of large frames, the eldest first."""
        self._waiting: dict[MemoryHolder, None] = {}
        self._spares: list[bytearray] = []
        self.spare_bytes = 0

    @property
    def largest_small_frame_bytes(self) -> int:
        """The size above which an incomplete frame gets a buffer of its own, with the pool's permission."""
        return min(LARGE_FRAME_FIRST_BYTES if self.full else SMALL_FRAME_BYTES, self.scratch_bytes)

    @property
    def waiting(self) -> int:
        """The number of holders that wait for room in the pool."""
        return len(self._waiting)

    def take_buffer(self, holder: MemoryHolder, size_bytes: int) -> bytearray:
        """A buffer of at least `size_bytes`, which the holder has been allowed; it may hold old bytes."""
        return self.borrow(holder, size_bytes) or bytearray(size_bytes)

    def borrow(self, holder: MemoryHolder, size_bytes: int) -> bytearray | None:
        """A buffer that an earlier frame has left, of at least `size_bytes`. The holder has all of it in
        memory from now on, and nothing else. None if there is none, or the pool has no room for it."""
        spares = self._spares
        before = self._held.get(holder, 0)
        for index in range(len(spares) - 1, -1, -1):
            size = len(spares[index])
            if size >= size_bytes and self.used_bytes - before + size <= self.bound_bytes:
                self.spare_bytes -= size
                self.hold(holder, size)
                return spares.pop(index)
        return None

    def give_back(self, buffer: bytearray) -> None:
        """Takes back a buffer that is no longer used; it may serve another large frame."""
        size = len(buffer)
        if SMALL_FRAME_BYTES < size <= SPARE_FRAMES_BYTES - self.spare_bytes:
            if self.poison:
                buffer[:] = bytes((_POISON,)) * size
            self._spares.append(buffer)
            self.spare_bytes += size

    def space_after(self, tail_bytes: int) -> memoryview:
        """Where the next read puts its bytes, after `tail_bytes` of an earlier read were copied to the
        buffer's beginning."""
        if self.full:
            return self.view[tail_bytes : tail_bytes + SCARCE_READ_BYTES]
        return self.view[tail_bytes:]

    def hold(self, holder: MemoryHolder, size_bytes: int) -> None:
        """Records how many bytes a holder has in memory, even beyond the bound; 0 gives everything back."""
        before = self._held.pop(holder, 0) if size_bytes == 0 else self._held.get(holder, 0)
        if size_bytes:
            self._held[holder] = size_bytes
        else:
            self._growing.pop(holder, None)
        self.used_bytes += size_bytes - before
        self._waiting.pop(holder, None)
        full = self.used_bytes >= self.bound_bytes
        if full is not self.full:
            self.full = full
            self.space = self.view[:SCARCE_READ_BYTES] if full else self.view
        if self._waiting and size_bytes < before:
            self._wake()

    def may_grow(self, holder: GrowingHolder, size_bytes: int, now_ns: int) -> bool:
        """Whether the holder may have `size_bytes` in all. If not, `memory_freed` tells it when to ask
        again, and it asks after SILENT_MS too."""
        before = self._held.get(holder, 0)
        fits = self.used_bytes - before + size_bytes <= self.bound_bytes
        if not fits and not self._may_exceed(holder, now_ns):
            self._waiting[holder] = None
            return False
        self.hold(holder, size_bytes)
        self._growing[holder] = holder
        return True

    def _may_exceed(self, holder: GrowingHolder, now_ns: int) -> bool:
        """Whether it is the eldest that grows, or takes the place of one that is silent."""
        eldest = next(iter(self._growing.values()), holder)
        if eldest is holder:
            return True
        is_silent = now_ns - eldest.now_ns >= SILENT_MS * 1_000_000
        if not is_silent or self.used_bytes >= 2 * self.bound_bytes:
            return False
        others = [each for each in self._growing.values() if each not in (eldest, holder)]
        self._growing = {each: each for each in (holder, *others, eldest)}
        return True

    def overwrite(self) -> None:
        """Fills the scratch buffer with the byte 0xDD."""
        self.view[:] = bytes((_POISON,)) * self.scratch_bytes

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for holder in waiting:
            holder.memory_freed()


def pool_bound_bytes(queued_max_request_bytes: int, available_bytes: int) -> int:
    """The pool's bound for `queued.max.request.bytes`: as set, or for -1 a quarter of what there is.

    available_bytes: memory of the machine or of its cgroup, whichever is less.
    """
    if queued_max_request_bytes > 0:
        return queued_max_request_bytes
    return max(LARGE_FRAME_POOL_MINIMUM_BYTES, int(available_bytes * LARGE_FRAME_POOL_FRACTION))
