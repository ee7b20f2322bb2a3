"""Finding records by their time: the first one at or after a timestamp, the one with the largest of all.

    time index     ─► an offset below which no record is that late
    offset index   ─► a place in the file at or before it
    headers        ─► batches whose largest timestamp is late enough
    records        ─► which of them, and whether there is one after all

Nearly always that is a few small reads. But a log may hold batches whose headers promise what their records
do not keep, batches of millions of records, and compressed ones that unfold into a hundred megabytes. So a
look-up is written down as steps (`LookupSteps`): it pauses where others should have their turn, has helper
threads do what takes long, and says how much memory it is about to need. Whoever drives it may take its time,
and may drop it at any pause. Meanwhile the log goes on, so after each pause it is asked whether what is being
searched is still there; if not, the search goes on with what there is.

Records are read only as far as it takes. A batch whose records cannot be read (produce takes most on the word
of their header) is answered with what its header says, and reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import suppress
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from protocol.errors import InvariantViolated
from protocol.records.compression import NONE, ZSTD_LARGEST_WINDOW_BYTES, decompress
from protocol.records.errors import BatchTooLarge, RecordsError
from protocol.records.header import HEADER_BYTES, BatchHeader
from protocol.records.reader import DEFAULT_LIMIT_BYTES
from protocol.records.record_validation import Steps, finish
from protocol.records.time_walk import FoundRecord, first_at_or_after
from protocol.records.unfolding import SMALL_AT_ONCE_BYTES, Pieces, Source, TooMuchAtOnce, unfold
from storage.errors import LogStorageError
from storage.lookup import unreadable
from storage.segment import Segment
from storage.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog

AT_ONCE_BYTES: Final = 64 * 1024
"""A batch that takes no more bytes than this, compressed and decompressed, is searched without a pause, in a
millisecond."""

_HEADERS_PER_STEP: Final = 64
_SEGMENTS_PER_STEP: Final = 16

_logger: Final = logging.getLogger("barnabas.storage")

T = TypeVar("T")


class Room(IntEnum):
    """How much memory a look-up needs from here on. It holds that much until it asks for another amount, or
    has ended."""

    NONE = 0
    """The look-up needs next to no memory."""
    SOME = 1
    """The look-up needs some megabytes, because a large batch is decompressed piece by piece."""
    MUCH = 2
    """The look-up needs up to 128 MiB and the compressed bytes of these: the codec cannot do with less."""


LookupStep: TypeAlias = Callable[[], Any] | Room | None
"""A function for a helper thread, whose result is sent back; a `Room` that is needed before the look-up can
go on; or None for a pause."""

LookupSteps: TypeAlias = Generator[LookupStep, Any, T]

FoundOffset: TypeAlias = tuple[int, int, int] | None
"""Timestamp, offset and leader epoch of a record, or None if there is none."""


def first_since(log: PartitionLog, timestamp: int) -> LookupSteps[FoundOffset]:
    """The first record at or after `timestamp`. Raises LogStorageError."""
    least_offset = log.log_start_offset
    while True:
        search = _Search(log, timestamp, least_offset)
        try:
            return (yield from search.first())
        except _LogChanged:
            least_offset = max(log.log_start_offset, search.reached(log.log_end_offset))


def with_largest_timestamp(log: PartitionLog) -> LookupSteps[FoundOffset]:
    """The first record with the largest timestamp of all. Raises LogStorageError."""
    while True:
        try:
            return (yield from _Search(log, NO_TIMESTAMP, log.log_start_offset).largest())
        except _LogChanged:
            continue


class _LogChanged(Exception):
    """During a pause the segment that is searched has left the log, or the log was truncated."""


class _Search:
    """Searches through a log once. It ends with `_LogChanged` if the log has changed in a pause."""

    def __init__(self, log: PartitionLog, timestamp: int, least_offset: int) -> None:
        self._log = log
        self._timestamp = timestamp
        self._least_offset = least_offset
        self._truncations = log.truncations
        self._reached = least_offset

    def reached(self, log_end_offset: int) -> int:
        """No record below this offset is late enough. 0 if the log was truncated below it."""
        return self._reached if self._reached <= log_end_offset else 0

    def first(self) -> LookupSteps[FoundOffset]:
        log = self._log
        number = log.segments.number_of(self._least_offset)
        try:
            while number < len(log.segments):
                segment = log.segments[number]
                if segment.size_bytes and segment.largest_timestamp() >= self._timestamp:
                    found = yield from self._first_in(segment)
                    if found is not None:
                        return found
                yield from self._pause(segment)
                number = log.segments.number_of(segment.base_offset) + 1
                if number < len(log.segments):
                    self._reached = max(self._reached, log.segments[number].base_offset)
        except OSError as error:
            raise unreadable(log, error) from error
        return None

    def largest(self) -> LookupSteps[FoundOffset]:
        log = self._log
        try:
            best = log.segments[0]
            for number, segment in enumerate(tuple(log.segments)):
                if segment.largest_timestamp() > best.largest_timestamp():
                    best = segment
                if number % _SEGMENTS_PER_STEP == _SEGMENTS_PER_STEP - 1:
                    yield from self._pause(segment)
            yield from self._pause(best)
            in_memory = best.max_timestamp, best.max_timestamp_offset
            self._timestamp, offset = max(best.last_time_entry(), in_memory, key=lambda each: each[0])
            if self._timestamp == NO_TIMESTAMP:
                return None
            found = best.locate(offset)
            if found is None:
                return None
            header = next(best.headers(found.position))[1]
            if header.last_offset < self._least_offset:
                return None
            return (yield from self._record(best, found.position, header))
        except OSError as error:
            raise unreadable(log, error) from error

    def _first_in(self, segment: Segment) -> LookupSteps[FoundOffset]:
        position = segment.position_before(self._timestamp, self._least_offset)
        while position < segment.size_bytes:
            for place, header in islice(segment.headers(position), _HEADERS_PER_STEP):
                position = place + header.size_bytes
                if header.max_timestamp >= self._timestamp and header.last_offset >= self._least_offset:
                    self._reached = max(self._reached, header.base_offset)
                    found = yield from self._record(segment, place, header)
                    if found is not None:
                        return found
                    break  # in a pause the file may have been closed: it is asked for anew
            else:
                yield from self._pause(segment)
        return None

    def _record(self, segment: Segment, position: int, header: BatchHeader) -> LookupSteps[FoundOffset]:
        """The first record of the batch that is late enough and not below the least offset."""
        epoch = header.partition_leader_epoch
        if header.timestamp_type == 1 and header.record_count == header.last_offset_delta + 1:
            return header.max_timestamp, max(header.base_offset, self._least_offset), epoch
        path = segment.log.path
        try:
            plain = _plain_records(segment, position, header)
            if plain is None:
                found = yield from self._walk(segment, position, header)
            else:
                found = finish(
                    first_at_or_after(_one_piece(plain), header, self._timestamp, self._least_offset)
                )
        except RecordsError as error:
            _logger.error(
                "%s: the records of the batch at byte %d (offset %d) cannot be read: %s; its header is "
                "believed",
                path, position, header.base_offset, error.message,
            )  # fmt: skip
            return header.max_timestamp, header.last_offset, epoch
        return None if found is None else (found.timestamp, found.offset, epoch)

    def _walk(self, segment: Segment, position: int, header: BatchHeader) -> LookupSteps[FoundRecord | None]:
        """Searches through a large batch in pieces, with as little memory as possible."""
        outcome: FoundRecord | RecordsError | None = None
        for room, at_once_bytes in _ROOMS:
            yield room
            self._check(segment)
            source = _source(segment, position, header)
            pieces = unfold(header.codec, source, DEFAULT_LIMIT_BYTES, at_once_bytes)
            steps = first_at_or_after(pieces, header, self._timestamp, self._least_offset)
            try:
                with suppress(TooMuchAtOnce):
                    outcome = yield from self._watched(segment, steps)
                    break
            except RecordsError as error:
                error.__traceback__ = None  # its frames hold what was unfolded
                outcome = error
                break
        else:
            raise InvariantViolated("a batch has all the room that a codec may take, and wants more")
        del pieces, steps
        yield Room.NONE
        self._check(segment)
        if isinstance(outcome, RecordsError):
            raise outcome
        return outcome

    def _watched(self, segment: Segment, steps: Steps[T]) -> LookupSteps[T]:
        """Yields the steps while what they read belongs to the log."""
        result: Any = None
        while True:
            try:
                call = steps.send(result)
            except StopIteration as stop:
                outcome: T = stop.value
                return outcome
            result = yield call
            self._check(segment)

    def _pause(self, segment: Segment) -> LookupSteps[None]:
        yield None
        self._check(segment)

    def _check(self, segment: Segment) -> None:
        """Checks whether the search may go on in this segment. Raises LogStorageError and _LogChanged."""
        log = self._log
        if log.is_abandoned:
            raise LogStorageError(f"{log.name} is not in use any more")
        if (
            log.truncations != self._truncations
            or log.segments[log.segments.number_of(segment.base_offset)] is not segment
        ):
            raise _LogChanged


_ROOMS: Final = (
    (Room.SOME, SMALL_AT_ONCE_BYTES),
    (Room.MUCH, max(ZSTD_LARGEST_WINDOW_BYTES, DEFAULT_LIMIT_BYTES)),
)


def _plain_records(segment: Segment, position: int, header: BatchHeader) -> bytes | None:
    """All records of a small batch. None if it is large, or is when it is decompressed. Raises
    RecordsError."""
    if header.size_bytes > AT_ONCE_BYTES:
        return None
    section = segment.read(position + HEADER_BYTES, header.size_bytes - HEADER_BYTES)
    if header.codec == NONE:
        return section
    try:
        return decompress(header.codec, section, AT_ONCE_BYTES)
    except BatchTooLarge:
        return None


def _one_piece(plain: bytes) -> Pieces:
    yield plain


def _source(segment: Segment, position: int, header: BatchHeader) -> Source:
    """Reads the records of a batch from the file, which may be closed and opened again meanwhile."""
    at, end = position + HEADER_BYTES, position + header.size_bytes

    def read(at_most: int) -> bytes:
        nonlocal at
        data = segment.read(at, min(at_most, end - at))
        at += len(data)
        return data

    return read
