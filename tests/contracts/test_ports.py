"""Ports that tests give to nodes: nobody else gets them, whether a node listens there or not."""

from __future__ import annotations

import socket

import pytest

from broker.network.acceptor import open_listening_socket
from broker.network.interfaces import ListenerSettings
from tests.support.brokers.ports import free_ports


def test_a_node_may_listen_stop_and_come_again() -> None:
    (port,) = free_ports(1)
    for _ in range(2):
        listening = open_listening_socket(ListenerSettings("PLAINTEXT", "127.0.0.1", port))
        with socket.create_connection(("127.0.0.1", port), 5):
            listening.accept()[0].close()
        listening.close()


def test_a_port_is_nobody_elses_while_no_node_listens() -> None:
    ports = free_ports(50)
    assert len({*ports}) == 50
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ports[0]), 5)
    for port in ports:
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", port))
