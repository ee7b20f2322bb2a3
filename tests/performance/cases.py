"""What is measured, as data: one `Case` is one row of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

KIB: Final = 1 << 10
MIB: Final = 1 << 20


class Case(NamedTuple):
    """A row. kind: produce, fetch, or consume: fetches in a session of all partitions that a connection has,
    as a consumer makes them. ``full``: the Barnabas that walks every record, as Kafka does; acks: -1 for all,
    as Kafka writes it; in_session: fetches that name their session, one at a time."""

    kind: str
    request_bytes: int
    record_bytes: int = 1000
    connections: int = 1
    idempotent: bool = False
    full: bool = False
    partitions: int = 1
    acks: int = -1
    in_session: bool = False

    @property
    def title(self) -> str:
        words = [f"{'fetch' if self.kind == 'consume' else self.kind} {_size(self.request_bytes)}"]
        if self.kind == "produce":
            words.append(f"records of {self.record_bytes} B")
        if self.partitions > 1:
            words.append(f"{self.partitions} partitions")
        who = "consumer" if self.kind == "consume" else "connection"
        words.append(f"{self.connections} {who}{'s' if self.connections > 1 else ''}")
        words += ["idempotent"] * self.idempotent + ["every record walked"] * self.full
        words += ["acks=1"] * (self.acks == 1) + ["in a session"] * self.in_session
        return ", ".join(words)


def _size(size_bytes: int) -> str:
    size_bytes += _room(MIB) if MIB - _room(MIB) == size_bytes else 0
    return f"{size_bytes // MIB} MB" if size_bytes >= MIB else f"{size_bytes // KIB} KB"


PRODUCED: Final = (KIB, 16 * KIB, 64 * KIB, MIB)
FETCHED: Final = (16 * KIB, 64 * KIB, MIB, 10 * MIB)
CROWD: Final = 50
CROWD_PARTITIONS: Final = 500


def cases() -> Iterator[Case]:
    """Every row, in the order of the table. Half of the produce rows are idempotent."""
    for connections in (1, 8):
        for number, size in enumerate(PRODUCED):
            for other, record_bytes in enumerate((100, 1000)):
                is_idempotent = bool((number + other) % 2)
                yield Case("produce", size - _room(size), record_bytes, connections, is_idempotent)
    for size in (KIB, 64 * KIB):
        for connections in (1, 8):
            yield Case("produce", size, 1000, connections, acks=1)
    for size in PRODUCED:
        yield Case("produce", size - _room(size), 100, 1, full=True)
    yield Case("produce", KIB, 100, CROWD, partitions=CROWD_PARTITIONS)
    for connections in (1, 8):
        yield from (Case("fetch", size, connections=connections) for size in FETCHED)
    yield from (Case("fetch", size, in_session=True) for size in FETCHED[:2])
    yield Case("consume", MIB, 1000, CROWD, partitions=CROWD_PARTITIONS)


def short_cases() -> dict[str, Case]:
    """By a short name, the rows of every day: those that a change to the path of a request is measured with,
    the crowds last."""
    words = {KIB: "1k", 16 * KIB: "16k", 64 * KIB: "64k", MIB: "1m", 10 * MIB: "10m"}
    found = {}
    for connections, end in ((1, ""), (8, "-x8")):
        for size in PRODUCED:
            found[f"produce-{words[size]}{end}"] = Case(
                "produce", size - _room(size), connections=connections
            )
        for size in FETCHED:
            found[f"fetch-{words[size]}{end}"] = Case("fetch", size, connections=connections)
    found["produce-crowd"] = Case("produce", KIB, 100, CROWD, partitions=CROWD_PARTITIONS)
    found["consume-crowd"] = Case("consume", MIB, 1000, CROWD, partitions=CROWD_PARTITIONS)
    return found


def _room(size_bytes: int) -> int:
    """A batch of one MiB must stay under max.message.bytes with its own header."""
    return 4 * KIB if size_bytes >= MIB else 0
