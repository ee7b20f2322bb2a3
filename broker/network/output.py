"""The queue of bytes and file slices in front of one socket.

One queue holds both, because headers must leave in front of the records that they announce: bytes go by
`send` with MSG_MORE when a slice follows, so that both share packets; slices go by `sendfile` and are never
seen by Python. A transport that has to see every byte (TLS) is given the slices' bytes in parts instead.

A slice that is not in memory is sent, or read, by a helper thread (`cold_reads`). Until it has come back the
queue is busy: nothing else is written, the slice stays first, and the socket must not be closed, because a
descriptor that the thread still uses would be somebody else's by then.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from broker.network.cold_reads import ColdReads, read_cold, send_cold
from broker.network.response_pieces import BYTES_LIKE, FileSlice, Piece, release_pieces
from config.limits import COLD_PART_BYTES

_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_JOIN_BYTES: Final = 64 * 1024
"""Pieces of bytes are joined up to this size, and larger ones sent by themselves: a copy of a small piece is
cheaper than a system call, a copy of a large one is not."""

_READ_BYTES: Final = 256 * 1024
"""The bytes of a slice that are read at once for a transport that cannot send files."""

_PUSHED_SLICE_BYTES: Final = 48 * 1024
"""From this size on a slice does not wait to share a packet with the bytes before it."""

SLICE_COST_BYTES: Final = 64 * 1024
"""The cost of an unsent slice in the queue's length: it takes no memory, but keeps a file open."""


BytesLike: TypeAlias = bytes | bytearray | memoryview


class Transport(NamedTuple):
    """What stands between a socket and its connection: nothing for plaintext, a filter for everything else.

    It looks like the socket's own `recv_into` and `send`, non-blocking and raising what a socket raises. For
    plaintext these *are* the socket's methods, bound once, so the way through costs nothing. A filter (TLS
    over `ssl.MemoryBIO`) puts functions of its own there, reads and writes the socket underneath, and says
    that files cannot be sent past it. It must raise BlockingIOError while it can give no plaintext, and
    return 0 at the end.

    receive: fills a buffer, 0 at the end of the stream. send: (data, flags) to the bytes taken.
    """

    descriptor: int
    receive: Callable[[memoryview], int]
    send: Callable[[BytesLike, int], int]
    sends_files: bool


def plain(sock: socket.socket) -> Transport:
    """The transport of a plaintext connection: the methods of the socket itself."""
    return Transport(sock.fileno(), sock.recv_into, sock.send, True)


class FileShrank(ConnectionError):
    """A file has fewer bytes than the answer announced; the connection cannot go on."""


class _SliceInFlight:
    """A slice of which a part may have been sent."""

    __slots__ = ("descriptor", "is_cold", "left_bytes", "position", "slice")

    def __init__(self, piece: FileSlice, descriptor: int, sent_bytes: int) -> None:
        self.slice = piece
        self.descriptor = descriptor
        self.position = piece.position + sent_bytes
        self.left_bytes = piece.size_bytes - sent_bytes
        self.is_cold = False
        """Whether a part was not in memory. Helper threads then send the rest too, without asking again."""


class OutputQueue:
    """The bytes and file slices that one socket must still send.

    cost_bytes: the unsent bytes in memory, and SLICE_COST_BYTES for each slice. sent_bytes: all bytes that
    ever left. `on_helped` is called when a helper thread is done, with its error or None.

    The queue is a plain list: it is short, and an empty deque costs 0.7 KiB for each idle connection.
    """

    __slots__ = ("_busy", "_cold", "_items", "_on_helped", "_transport", "cost_bytes", "sent_bytes")

    def __init__(
        self,
        transport: Transport,
        cold: ColdReads | None = None,
        on_helped: Callable[[BaseException | None], None] | None = None,
    ) -> None:
        """Without `cold` the loop sends slices itself, whether they are in memory or not."""
        self._transport = transport
        self._cold = cold
        self._on_helped = on_helped
        self._busy: _SliceInFlight | None = None
        self._items: list[memoryview | _SliceInFlight] = []
        self.cost_bytes = 0
        self.sent_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def is_busy(self) -> bool:
        """Whether a helper thread is using the socket or the file of the first slice."""
        return self._busy is not None

    def send(self, pieces: list[Piece], budget_bytes: int) -> bool:
        """Sends the pieces of answers while nothing else waits, and queues only what does not leave at once.

        It does what `append` and `write` do together, and returns and raises what they do, without making
        items of pieces that leave in this call.
        """
        transport = self._transport
        head: list[BytesLike] = []
        number, is_full = 0, False
        try:
            for number, piece in enumerate(pieces):
                if isinstance(piece, BYTES_LIKE):
                    if len(piece) > _JOIN_BYTES:
                        break
                    head.append(piece)
                    continue
                size, descriptor = piece.size_bytes, piece.fileno()
                if descriptor is None or budget_bytes <= 0 or not self._is_at_hand(piece, descriptor, size):
                    break
                if head:
                    head = self._send_head(head, _MSG_MORE if size < _PUSHED_SLICE_BYTES else 0)
                    if head:
                        is_full = transport.sends_files
                        break
                wanted = min(size, budget_bytes)
                sent = os.sendfile(transport.descriptor, descriptor, piece.position, wanted)
                self.sent_bytes += sent
                budget_bytes -= sent
                if sent < size:
                    self._append_slice(piece, sent)
                    number += 1
                    is_full = 0 < sent < wanted
                    break
                piece.release()
            else:
                number = len(pieces)
                head = self._send_head(head, 0)
                is_full = bool(head) and transport.sends_files
        except (BlockingIOError, InterruptedError):
            is_full = True
        except BaseException:
            release_pieces(pieces[number:])
            raise
        if head or number < len(pieces):
            self.append([*head, *pieces[number:]])
        return not is_full and self.write(budget_bytes)

    def _send_head(self, parts: list[BytesLike], flags: int) -> list[BytesLike]:
        """Sends bytes as one; what did not leave, which is nothing if all did."""
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if not data:
            return []
        sent = self._transport.send(data, flags)
        self.sent_bytes += sent
        return [] if sent == len(data) else [memoryview(data)[sent:]]

    def _is_at_hand(self, piece: FileSlice, descriptor: int, size_bytes: int) -> bool:
        """Whether the loop may send the whole slice: it is not empty, and all of it in memory."""
        if not size_bytes or not self._transport.sends_files:
            return False
        cold = self._cold
        return (
            cold is None
            or piece.is_recent
            or cold.is_warm(piece.shared, descriptor, piece.position, size_bytes)
        )

    def append(self, pieces: list[Piece]) -> None:
        """Takes over the pieces of an answer; small pieces next to each other are joined. Raises OSError if
        the file of a slice cannot be opened."""
        joined: list[bytes | bytearray | memoryview] = []
        joined_bytes = 0
        for number, piece in enumerate(pieces):
            if not isinstance(piece, BYTES_LIKE):
                self._append_bytes(joined)
                joined, joined_bytes = [], 0
                try:
                    self._append_slice(piece)
                except BaseException:
                    release_pieces(pieces[number:])
                    raise
                continue
            if joined and joined_bytes + len(piece) > _JOIN_BYTES:
                self._append_bytes(joined)
                joined, joined_bytes = [], 0
            joined.append(piece)
            joined_bytes += len(piece)
        self._append_bytes(joined)

    def _append_bytes(self, parts: list[bytes | bytearray | memoryview]) -> None:
        if parts:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            if len(data):
                self._items.append(memoryview(data))
                self.cost_bytes += len(data)

    def _append_slice(self, piece: FileSlice, sent_bytes: int = 0) -> None:
        descriptor = piece.fileno()
        if descriptor is None:
            data = piece.read()
            if len(data) != piece.size_bytes:
                raise FileShrank(f"a slice of {piece.size_bytes} bytes has only {len(data)}")
            piece.release()
            self._append_bytes([data])
        elif piece.size_bytes == 0:
            piece.release()
        else:
            self._items.append(_SliceInFlight(piece, descriptor, sent_bytes))
            self.cost_bytes += SLICE_COST_BYTES

    def write(self, budget_bytes: int) -> bool:
        """Sends until all has left (returns True), the peer takes no more, the budget is spent, or a helper
        thread has to.

        Raises OSError when the connection is broken, and FileShrank when it cannot go on.
        """
        items = self._items
        try:
            while items and budget_bytes > 0 and self._busy is None:
                item = items[0]
                if isinstance(item, memoryview):
                    wanted = len(item)
                    sent = self._send(item, len(items) > 1)
                elif self._transport.sends_files:
                    wanted = self._bytes_in_memory(item, min(item.left_bytes, budget_bytes))
                    if wanted == 0:
                        self._send_by_helper(item)
                        return False
                    sent = os.sendfile(self._transport.descriptor, item.descriptor, item.position, wanted)
                    self._advance(item, sent)
                else:
                    self._load(item)
                    continue
                budget_bytes -= sent
                self.sent_bytes += sent
                if sent < wanted and self._transport.sends_files:
                    return False  # the socket is full, and would only say so if it were asked again
        except (BlockingIOError, InterruptedError):
            return False
        return not items

    def _send(self, data: memoryview, more: bool) -> int:
        sent = self._transport.send(data, _MSG_MORE if more else 0)
        self.cost_bytes -= sent
        if sent == len(data):
            self._items.pop(0)
        else:
            self._items[0] = data[sent:]
        return sent

    def _load(self, item: _SliceInFlight) -> None:
        """Reads the next part of the slice and puts it in front of the slice, as bytes."""
        count = self._bytes_in_memory(item, min(item.left_bytes, _READ_BYTES))
        if count == 0:
            self._read_by_helper(item)
        else:
            self._loaded(item, os.pread(item.descriptor, count, item.position))

    def _loaded(self, item: _SliceInFlight, data: bytes) -> None:
        self._advance(item, len(data))
        self._items.insert(0, memoryview(data))
        self.cost_bytes += len(data)

    def _advance(self, item: _SliceInFlight, count: int) -> None:
        if count == 0:
            raise FileShrank(f"a file ended {item.left_bytes} bytes before the slice that was to be sent")
        item.position += count
        item.left_bytes -= count
        if item.left_bytes == 0:
            self._finish_slice(item)

    # Cold slices

    def _bytes_in_memory(self, item: _SliceInFlight, count: int) -> int:
        """The number of the next `count` bytes that the loop may send itself."""
        if self._cold is None or item.slice.is_recent:
            return count
        if item.is_cold:
            return 0
        if not self._cold.is_warm(item.slice.shared, item.descriptor, item.position, count):
            item.is_cold = True
            return 0
        return count

    def _send_by_helper(self, item: _SliceInFlight) -> None:
        count = min(item.left_bytes, COLD_PART_BYTES)
        self._submit(
            item,
            count,
            partial(send_cold, self._transport.descriptor, item.descriptor, item.position, count),
        )

    def _read_by_helper(self, item: _SliceInFlight) -> None:
        count = min(item.left_bytes, _READ_BYTES)
        self._submit(item, count, partial(read_cold, item.descriptor, count, item.position))

    def _submit(self, item: _SliceInFlight, count: int, call: Callable[[], int | bytes]) -> None:
        if self._cold is not None:
            self._busy = item
            self._cold.submit(count, call, self._on_helper_done)

    def _on_helper_done(self, result: int | bytes | BaseException) -> None:
        item, self._busy = self._busy, None
        if item is None or not self._items or self._items[0] is not item:  # `clear` was called meanwhile
            if item is not None:
                item.slice.release()
            error = None
        else:
            error = self._count_sent(item, result)
        if self._on_helped is not None:
            self._on_helped(error)

    def _count_sent(self, item: _SliceInFlight, result: int | bytes | BaseException) -> BaseException | None:
        if isinstance(result, BaseException):
            return result
        try:
            if isinstance(result, bytes):
                self._loaded(item, result)
            else:
                self._advance(item, result)
                self.sent_bytes += result
        except FileShrank as error:
            return error
        return None

    # The end of a slice, and of the queue

    def _finish_slice(self, item: _SliceInFlight) -> None:
        self._items.pop(0)
        self.cost_bytes -= SLICE_COST_BYTES
        item.slice.release()

    def clear(self) -> None:
        """Throws away what was not sent, and releases the files."""
        items, self._items = self._items, []
        self.cost_bytes = 0
        release_pieces(
            item.slice for item in items if isinstance(item, _SliceInFlight) and item is not self._busy
        )
