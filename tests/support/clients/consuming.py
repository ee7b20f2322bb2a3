"""A process of consumers, one in each of several groups, that may be killed at any moment.

    python -m tests.support.clients.consuming ADDRESS TOPIC FILE SLOT GROUP...

Each record is first written down (one line in FILE: group, partition, offset, value) and then counts as
processed, so that what is committed was processed before, whatever happens. A group's name says what its
members are: ``eager-…``, ``cooperative-…``, or ``static-…``, whose members keep the instance id ``SLOT``.
SIGTERM has all leave their groups in order.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Event
from types import FrameType
from typing import Final

from confluent_kafka import Consumer

from tests.support.clients.librdkafka import settings

STRATEGIES: Final = {
    "eager": "range,roundrobin",
    "cooperative": "cooperative-sticky",
    "static": "roundrobin",
}
RECORDS_OF_A_TURN: Final = 100


def consumer(address: str, topic: str, slot: str, group: str) -> Consumer:
    kind = group.partition("-")[0]
    named: dict[str, object] = {"group_instance_id": slot} if kind == "static" else {}
    made = Consumer(
        settings(
            address,
            group_id=group,
            client_id=f"{group}-{slot}",
            partition_assignment_strategy=STRATEGIES[kind],
            auto_offset_reset="earliest",
            enable_auto_offset_store=False,
            auto_commit_interval_ms=250,
            session_timeout_ms=3000,
            heartbeat_interval_ms=500,
            **named,
        )
    )
    made.subscribe([topic])
    return made


def main(address: str, topic: str, file: str, slot: str, *groups: str) -> None:
    leaving = Event()

    def leave(_: int, __: FrameType | None) -> None:
        leaving.set()

    signal.signal(signal.SIGTERM, leave)
    consumers = {group: consumer(address, topic, slot, group) for group in groups}
    written = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while not leaving.is_set():
        idle = True
        for group, each in consumers.items():
            for message in each.consume(RECORDS_OF_A_TURN, 0):
                if message.error() is not None:
                    os.write(sys.stderr.fileno(), f"{group} {slot}: {message.error()}\n".encode())
                    continue
                idle = False
                value = (message.value() or b"").decode()
                line = f"{group} {message.partition()} {message.offset()} {value}\n"
                os.write(written, line.encode())
                each.store_offsets(message)
        if idle:
            leaving.wait(0.02)
    for each in consumers.values():
        each.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
