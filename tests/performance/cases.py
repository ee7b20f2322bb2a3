"""What is measured, as data: one `Case` is one row of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

KIB: Final = 1 << 10
MIB: Final = 1 << 20


class Case(NamedTuple):
    """A row. kind: produce or fetch; ``full``: the Barnabas that walks every record, as Kafka does."""

    kind: str
    request_bytes: int
    record_bytes: int = 1000
    connections: int = 1
    idempotent: bool = False
    full: bool = False
    partitions: int = 1

    @property
    def title(self) -> str:
        words = [f"{self.kind} {_size(self.request_bytes)}"]
        if self.kind != "fetch":
            words.append(f"records of {self.record_bytes} B")
        if self.partitions > 1:
            words.append(f"{self.partitions} partitions")
        words.append(f"{self.connections} connection{'s' if self.connections > 1 else ''}")
        words += ["idempotent"] * self.idempotent + ["every record walked"] * self.full
        return ", ".join(words)


def _size(size_bytes: int) -> str:
    return f"{size_bytes // MIB} MB" if size_bytes >= MIB else f"{size_bytes // KIB} KB"


def cases() -> Iterator[Case]:
    """Every row, in the order of the table. Half of the produce rows are idempotent."""
    sizes = (KIB, 16 * KIB, 64 * KIB, MIB)
    for connections in (1, 8):
        for number, size in enumerate(sizes):
            for other, record_bytes in enumerate((100, 1000)):
                yield Case(
                    "produce", size - _room(size), record_bytes, connections, bool((number + other) % 2)
                )
    for size in sizes:
        yield Case("produce", size - _room(size), 100, 1, full=True)
    yield Case("produce", KIB, 100, 50, partitions=500)
    for size in (64 * KIB, MIB, 10 * MIB):
        yield Case("fetch", size)


def _room(size_bytes: int) -> int:
    """A batch of one MiB must stay under max.message.bytes with its own header."""
    return 4 * KIB if size_bytes >= MIB else 0
