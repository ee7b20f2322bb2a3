"""What is set for accepted sockets: the congestion control and the send buffer fit where the peer is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.network.socket_options import SHORT_SEND_BUFFER_BYTES, SocketOptions
from config.limits import KIB

HERE = "127.0.0.1"
ELSEWHERE = "10.0.0.7"
DOUBLED = 2
"""The kernel counts its own bookkeeping too."""


@contextmanager
def accepted(congestion_control: str, send_buffer_bytes: int | None, host: str) -> Iterator[socket.socket]:
    """A connection over the loopback, accepted as one from `host` by a listener with this control."""
    with socket.create_server((HERE, 0)) as listening:
        try:
            name = congestion_control.encode()
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
        except OSError:
            pytest.skip(f"this kernel does not offer {congestion_control}")
        options = SocketOptions(listening, send_buffer_bytes)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as sock:
            options.apply(sock, host)
            yield sock


def control_of(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def send_buffer_of(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


@pytest.mark.parametrize(
    ("kernels", "host", "expected"),
    [("bbr", HERE, "reno"), ("bbr", ELSEWHERE, "bbr"), ("reno", HERE, "reno")],
)
def test_only_a_connection_from_this_machine_is_not_paced(kernels: str, host: str, expected: str) -> None:
    with accepted(kernels, None, host) as sock:
        assert control_of(sock) == expected


def test_a_control_that_does_not_pace_stays() -> None:
    with accepted("cubic", None, HERE) as sock:
        assert control_of(sock) == "cubic"


@pytest.mark.parametrize(
    ("kernels", "host", "is_short"),
    [("bbr", HERE, True), ("bbr", ELSEWHERE, True), ("reno", HERE, True), ("reno", ELSEWHERE, False)],
)
def test_the_send_buffer_is_short_where_a_longer_one_does_no_good(
    kernels: str, host: str, is_short: bool
) -> None:
    with accepted(kernels, None, host) as sock:
        assert (send_buffer_of(sock) == DOUBLED * SHORT_SEND_BUFFER_BYTES) == is_short


@pytest.mark.parametrize("host", [HERE, ELSEWHERE])
@pytest.mark.parametrize("set_bytes", [-1, 30 * KIB])
def test_the_users_send_buffer_wins(set_bytes: int, host: str) -> None:
    with accepted("reno", set_bytes, host) as sock:
        if set_bytes > 0:
            assert send_buffer_of(sock) == DOUBLED * set_bytes
        else:
            assert send_buffer_of(sock) != DOUBLED * SHORT_SEND_BUFFER_BYTES


def test_a_kernel_that_allows_no_other_control_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.network.socket_options._UNPACED", b"no-such-control")
    with accepted("bbr", None, HERE) as sock:
        assert control_of(sock) == "bbr"
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_nothing_is_known_where_the_system_tells_no_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_CONGESTION")
    with socket.create_server((HERE, 0)) as listening:
        options = SocketOptions(listening, None)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as sock:
            options.apply(sock, ELSEWHERE)
            assert send_buffer_of(sock) != DOUBLED * SHORT_SEND_BUFFER_BYTES
