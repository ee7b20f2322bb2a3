"""A client without manners: any bytes, in any portions, and any way to leave.

Built on `WireClient`, so that a well-behaved request may stand beside a bad one on the same connection.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.clients.wire_client import ConnectionEnded, WireClient

METADATA_VERSION: Final = 12


class RawConnection(WireClient):
    """See the module. All waits end after `timeout_seconds`."""

    def send_bytes(self, data: bytes) -> None:
        """As far as the broker takes them: one that has hung up is no error."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def send_frame(self, payload: bytes, announced: int | None = None) -> None:
        """A frame with the size that it has, or with the one that is announced."""
        self.send_bytes(struct.pack(">i", len(payload) if announced is None else announced) + payload)

    def send_header(self, api_key: int, version: int, correlation_id: int = 1, body: bytes = b"") -> None:
        """A request header with client id null, and whatever follows it."""
        self.send_frame(struct.pack(">hhih", api_key, version, correlation_id, -1) + body)

    def half_close(self) -> None:
        """Nothing more will be sent; answers are still read."""
        with suppress(OSError):  # the broker may have gone already
            self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Leave with RST, as a process that dies with unread data does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def remaining(self) -> bytes:
        """All that comes until the broker closes the connection. Raises TimeoutError if it does not."""
        data = bytearray()
        while True:
            try:
                part = self.socket.recv(65536)
            except ConnectionResetError:
                return bytes(data)
            if not part:
                return bytes(data)
            data += part

    def answer_or_end(self) -> bytes | None:
        """The next frame, or None if the broker closed the connection instead."""
        try:
            return self.receive()
        except ConnectionEnded:
            return None


def serves_others(address: str) -> None:
    """What matters after all that: the next client gets its answers. Raises if it does not."""
    with WireClient(address, client_id="next") as client:
        offered = client.ask_for(ApiVersionsResponse, ApiVersionsRequest("next", "1"), 3)
        if offered.error_code or not offered.api_keys:
            raise AssertionError(f"ApiVersions: {offered.error_code}, {len(offered.api_keys)} APIs")
        served = {each.api_key for each in offered.api_keys}
        if MetadataRequest.declaration.key in served:
            client.ask_for(MetadataResponse, MetadataRequest([]), METADATA_VERSION)


def resident_bytes(pid: int) -> int:
    """Memory that a process occupies (RSS)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def processor_seconds(pid: int) -> float:
    """Processor time that a process has taken, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def await_that(what: str, holds: Callable[[], bool], timeout_seconds: float = 90) -> None:
    """Wait until the callable says yes; an AssertionError with `what` if it never does."""
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout_seconds} s")
        time.sleep(0.02)


def framed(payload: bytes) -> bytes:
    """A payload with its true size in front."""
    return struct.pack(">i", len(payload)) + payload
