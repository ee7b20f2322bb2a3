"""Records as clients make them, and fetched ones as clients must read them.

A value in a history is a short name, `writer-1:17`; in the record it is followed by a bar and by as many
bytes as make the record as large as it is to be.

A broker gives whole batches from the one that holds the fetch offset on, the last of them perhaps cut off,
with control batches among them; and for readers of what is committed a list of the aborted transactions that
reach into them. What is visible of that the client finds out by itself, as Kafka's consumer does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

from broker.simulation.seeded_random import SeededRandom
from protocol.messages.fetch import FetchResponse
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from protocol.records.control import ControlRecordType, control_type
from protocol.records.header import HEADER_BYTES, read_header
from protocol.records.reader import records

__all__ = ["BatchMaker", "Fetched", "FetchedRecord", "read_fetched", "value_of"]

LARGE_BYTES: Final = 20_000
_BAR: Final = b"|"
_FILLING: Final = b"All human errors are impatience, a premature breaking off of methodical procedure. "
_CODECS: Final = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
_CODEC_WEIGHTS: Final = (6, 1, 1, 1, 1)


class BatchMaker:
    """Batches whose sizes and codecs are drawn. codecs: whether they may be compressed. keys: how many keys
    the records have in all, for topics that are compacted; 0 for one of its own for each record, None for
    none."""

    def __init__(self, random: SeededRandom, *, codecs: bool = True, keys: int | None = None) -> None:
        self._random = random
        self._codecs = codecs
        self._keys = keys

    def key_of(self, value: str) -> str:
        """Of the record with this value; empty if records have no keys."""
        if self._keys is None:
            return ""
        return f"key-{crc32(value.encode()) % self._keys}" if self._keys else value

    def make(
        self,
        values: Sequence[str],
        timestamp_ms: int,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        codec = _CODECS[self._random.weighted(_CODEC_WEIGHTS)] if self._codecs else NONE
        return bytes(
            build_batch(
                [
                    SimpleRecord(
                        key=self.key_of(value).encode() or None,
                        value=self._stuffed(value),
                        timestamp=timestamp_ms,
                    )
                    for value in values
                ],
                codec=codec,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                transactional=transactional,
            )
        )

    def _stuffed(self, value: str) -> bytes:
        """Most are small, some are up to some 20 KB."""
        kind = self._random.weighted((12, 6, 1))
        size = self._random.below((1, 300, LARGE_BYTES)[kind])
        return value.encode() + _BAR + (_FILLING * (size // len(_FILLING) + 1))[:size]


def value_of(data: bytes | None) -> str:
    """The value that a record's bytes begin with."""
    return bytes(data or b"").partition(_BAR)[0].decode("utf-8", "replace")


class FetchedRecord(NamedTuple):
    """A record that the reader may see."""

    offset: int
    value: str


class Fetched(NamedTuple):
    """next_offset: from which to fetch next. last_epoch: of the last batch that was read; -1 for none."""

    records: list[FetchedRecord]
    next_offset: int
    last_epoch: int


def read_fetched(
    data: FetchResponse.PartitionData, position: int, *, last_epoch: int = -1, is_committed: bool
) -> Fetched:
    """What a reader at `position` may see of an answer. Raises RecordsError for what cannot be read."""
    fetched: list[FetchedRecord] = []
    buffer = data.records if isinstance(data.records, bytes | memoryview) else b""
    aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    under_abortion: set[int] = set()
    place, next_offset = 0, position
    while len(buffer) - place >= HEADER_BYTES:
        header = read_header(buffer, place)
        if place + header.size_bytes > len(buffer):
            break
        while is_committed and aborted and aborted[0][0] <= header.last_offset:
            under_abortion.add(aborted.pop(0)[1])
        if header.is_control:
            marker = next(records(buffer, place, check_crc=True), None)
            if marker is not None and control_type(marker.key) is ControlRecordType.ABORT:
                under_abortion.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in under_abortion):
            fetched += [
                FetchedRecord(record.offset, value_of(record.value))
                for record in records(buffer, place, check_crc=True)
                if record.offset >= position
            ]
        next_offset = max(next_offset, header.next_offset)
        last_epoch = header.partition_leader_epoch
        place += header.size_bytes
    return Fetched(fetched, next_offset, last_epoch)
