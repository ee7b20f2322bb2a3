"""Many consumers in fetch sessions, and a producer at a fixed rate to follow (``consumers_client.c``).

The plan that the client reads; all numbers are int64 of the machine::

    magic, port, duration in ns, max bytes
    offset at which a partition is read from its start again, or 0; requests a second of the producer, or 0
    bytes that an answer may have; bytes that a fetch wants of a partition
    position of the session's id in the head, size of the head, the head: a FetchRequest v17 up to its topics
    the topic's id (16 bytes), partitions, consumers
    with a producer for each partition: records of its request, size of it, the whole request
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from tests.performance.contenders import Topic
from tests.performance.frames import fetch_frame, produce_frame
from tests.performance.load import Outcome, run_planned

MAGIC: Final = 0x66657463
SESSION_BYTES: Final = 8
"""The session's id and epoch, which end the head."""
ANSWER_MARGIN_BYTES: Final = 1 << 20
PRODUCED_BYTES: Final = 100


@dataclass
class Consuming:
    """What to do. Sizes in bytes. The partitions are dealt out to the consumers in turn.

    end_offset: of every partition, which is read again and again; 0: the consumers follow the producer, which
    sends ``per_second`` requests of one record of 100 bytes to the partitions in turn.
    """

    port: int
    topic: Topic
    consumers: int
    seconds: float
    end_offset: int = 0
    per_second: int = 0
    max_bytes: int = 1 << 62
    fetch_bytes: int = 1 << 20
    partition_bytes: int = 1 << 20


def consume(consuming: Consuming) -> Outcome:
    """Of the requests: the consumers' fetches; with a producer its requests, and the latency of each record.

    Raises RuntimeError if an answer was wrong, or where no C compiler is.
    """
    return run_planned("consumers_client", _plan(consuming), consuming.seconds)


def _plan(wanted: Consuming) -> bytes:
    topic = wanted.topic
    frame = fetch_frame(bytes.fromhex(topic.id_hex), 0, wanted.fetch_bytes)
    head = bytes(frame.buffer[: frame.session_position + SESSION_BYTES])
    numbers = (MAGIC, wanted.port, int(wanted.seconds * 1e9), wanted.max_bytes, wanted.end_offset)
    sizes = (wanted.fetch_bytes + wanted.partition_bytes + ANSWER_MARGIN_BYTES, wanted.partition_bytes)
    plan = [_integers(*numbers, wanted.per_second, *sizes, frame.session_position, len(head)), head]
    plan += [bytes.fromhex(topic.id_hex), _integers(topic.partitions, wanted.consumers)]
    for partition in range(topic.partitions if wanted.per_second else 0):
        produced = produce_frame(topic.name, partition, PRODUCED_BYTES, PRODUCED_BYTES, acks=1)
        plan += [_integers(produced.records, len(produced.buffer)), bytes(produced.buffer)]
    return b"".join(plan)


def _integers(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}q", *numbers)
