"""Requests to the other replicas, with a channel to each address, which is made when it is first needed.

Record bytes in an answer are views that are valid only in the callback. The node may use them later, so they
are copied here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from controller.raft.effects import Request
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotResponse
from protocol.peer_channel import PeerChannel, PeerError
from protocol.primitives import Records

__all__ = ["ClosablePeerChannel", "ReplicaPeers"]


class ClosablePeerChannel(PeerChannel, Protocol):
    def close_channel(self) -> None:
        """Closes the channel. Requests that are under way fail."""
        ...


class ReplicaPeers:
    """The channels to other replicas, by host and port."""

    def __init__(self, make_channel: Callable[[str, int], ClosablePeerChannel]) -> None:
        self._make_channel = make_channel
        self._channels: dict[tuple[str, int], ClosablePeerChannel] = {}

    def send(
        self,
        request: Request,
        on_answer: Callable[[int, Message], None],
        on_failure: Callable[[int, ErrorCode], None],
    ) -> None:
        """Sends a request. One of the two callbacks is called with its id, in a later turn of the loop."""
        address = (request.to.host, request.to.port)
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._make_channel(*address)

        def responded(response: Message | PeerError) -> None:
            if isinstance(response, PeerError):
                unsupported = ErrorCode.UNSUPPORTED_VERSION if response.is_unsupported else None
                on_failure(request.request_id, unsupported or ErrorCode.BROKER_NOT_AVAILABLE)
            else:
                _keep_records(response)
                on_answer(request.request_id, response)

        channel.send(request.message, responded, timeout_ms=request.timeout_ms)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close_channel()
        self._channels.clear()


def _keep_records(response: Message) -> None:
    if isinstance(response, FetchResponse):
        for topic in response.responses:
            for partition in topic.partitions:
                partition.records = None if partition.records is None else _kept(partition.records)
    elif isinstance(response, FetchSnapshotResponse):
        for snapshot in response.topics:
            for piece in snapshot.partitions:
                piece.unaligned_records = _kept(piece.unaligned_records)


def _kept(records: Records) -> bytes:
    return bytes(records) if isinstance(records, bytes | bytearray | memoryview) else b""
