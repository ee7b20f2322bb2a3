"""What is remembered of a consumer's Fetch requests: their bytes, what they read, and how they are answered.

::

    without a session   size │ key, version │ correlation id │ client id … partition │ offset │ the rest
                                                               the key

    in a session        size │ key, version │ correlation id │ client id … session id │ its epoch │
                                                               the key
                        one partition:  topic, partition │ offset │ the rest
                        none:           the rest

The answers that the lane gives name one partition, and tell of no error::

    size │ correlation id │ … │ high watermark, last stable offset, log start │ … │ length │ records │ …
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Literal

from broker.fast_lane.remembered import BEFORE_KEY_BYTES, CLIENT_ID_LENGTH
from broker.replication.fetch_sessions import FetchSession, WantedPartition
from broker.replication.partition import Partition
from broker.replication.reading import FetchParams, aborted_transactions, fetch_records
from config.limits import LANE_KEY_BYTES
from protocol.codec.compiler import encoder
from protocol.codec.writing import uvarint_bytes
from protocol.errors import invariant
from protocol.framing import SIZE_PREFIX_BYTES
from protocol.messages.fetch import FetchRequest, FetchResponse
from storage.slices import LogSlice

if TYPE_CHECKING:
    from broker.dispatch.routes import Route
    from protocol.serving.request_context import RequestContext

__all__ = ["AnswerFrame", "PlainFetch", "PlainSession", "parts_of", "parts_of_session"]

_OFFSET_BYTES: Final = 8
_EPOCH_BYTES: Final = 4
_NUMBERS: Final = b"\xff" * 24

_pack_int32: Final = Struct(">i").pack


class _OneByte:
    """Stands for the records of an answer that is only made to see how it is laid out."""

    size_bytes = 1


class AnswerFrame:
    """The bytes around the records of an answer.

    behind: what follows the records. fixed_bytes: of the frame without records and their length.
    """

    __slots__ = (
        "_before",
        "_between",
        "_flexible",
        "_length",
        "_length_of",
        "_pack",
        "behind",
        "fixed_bytes",
    )

    def __init__(self, route: Route, told: FetchResponse) -> None:
        """told: an answer that the long way gave, of which this one is to differ in nothing but its
        numbers."""
        topic = told.responses[0]
        data = topic.partitions[0]

        def encoded(number: int) -> list[Any]:
            made = FetchResponse.PartitionData(
                data.partition_index, 0, number, number, number,
                aborted_transactions=data.aborted_transactions, records=_OneByte(),
            )  # fmt: skip
            like = FetchResponse.FetchableTopicResponse(topic.topic, topic.topic_id, [made])
            pieces: list[Any] = route.encode(FetchResponse(0, 0, told.session_id, [like]), route.version, 0)
            return pieces

        zeros, ones = encoded(0), encoded(-1)
        head = zeros[0]
        begin = next(place for place, byte in enumerate(head) if byte != ones[0][place])
        end = begin + len(_NUMBERS)
        invariant(
            ones[0][begin:end] == _NUMBERS and head[end:] == ones[0][end:],
            "an answer to Fetch has its three offsets side by side",
        )
        self._flexible = route.flexible
        length_bytes = 1 if route.flexible else 4
        self._before, self._between = head[2 * SIZE_PREFIX_BYTES : begin], head[end:-length_bytes]
        self._pack = Struct(f">iI{len(self._before)}sqqq{len(self._between)}s").pack
        self._length_of = -1
        self._length = b""
        self.behind = b"".join(zeros[2:])
        self.fixed_bytes = len(head) - length_bytes + len(self.behind) - SIZE_PREFIX_BYTES

    def head(
        self, correlation_id: int, high_watermark: int, last_stable: int, log_start: int, records_bytes: int
    ) -> bytes:
        """What comes before records of so many bytes."""
        if records_bytes != self._length_of:
            self._length_of = records_bytes
            self._length = uvarint_bytes(records_bytes + 1) if self._flexible else _pack_int32(records_bytes)
        length = self._length
        size = self.fixed_bytes + len(length) + records_bytes
        return (
            self._pack(
                size, correlation_id, self._before, high_watermark, last_stable, log_start, self._between
            )
            + length
        )


class PlainFetch:
    """A request that names one partition.

    before: what tells it apart from others, up to the offset. rest: the bytes behind the offset.
    """

    __slots__ = (
        "_least_bytes",
        "_like",
        "answer",
        "before",
        "context",
        "params",
        "partition",
        "rest",
        "route",
        "wanted",
    )

    def __init__(
        self,
        route: Route,
        context: RequestContext,
        params: FetchParams,
        wanted: WantedPartition,
        partition: Partition,
        answer: AnswerFrame,
        before: bytes,
        rest: bytes,
    ) -> None:
        """wanted: as the request has left it."""
        self.route = route
        self.context = context
        self.wanted = wanted
        self.partition = partition
        self.answer = answer
        self.before = before
        self.rest = rest
        self.params = params
        self._least_bytes = params.min_bytes if params.max_wait_ms > 0 else 0
        self._like = (
            wanted.max_bytes,
            wanted.current_leader_epoch,
            wanted.last_fetched_epoch,
            wanted.replica_log_start_offset,
        )

    def update(self, offset: int) -> None:
        """Takes over what a request with this offset says of its partition. To do it again changes
        nothing."""
        wanted = self.wanted
        wanted.fetch_offset = offset
        (
            wanted.max_bytes,
            wanted.current_leader_epoch,
            wanted.last_fetched_epoch,
            wanted.replica_log_start_offset,
        ) = self._like

    def session_of_its_own(self) -> FetchSession:
        """What a request without a session has in place of one, until it is answered."""
        wanted = self.wanted
        by_id = isinstance(wanted.key[0], bytes)
        session = FetchSession(uses_topic_ids=by_id, privileged=False, may_stay=False, now_ms=0)
        wanted.partition = self.partition
        session.wanted[wanted.key] = session.active[wanted.key] = wanted
        return session

    def read(self) -> LogSlice | Literal[False] | None:
        """The records that are answered at once. None if there is nothing to read yet, and the request may
        wait for it; False if the long way has to see what is the case."""
        params = self.params
        records = fetch_records(params, self.partition, self.wanted, params.max_bytes, True)
        if not isinstance(records, LogSlice):
            return None if records is None and self._least_bytes > 0 else False
        if records.size_bytes < self._least_bytes:
            return False
        if params.read_committed and aborted_transactions(self.partition, self.wanted.fetch_offset, records):
            return False
        return records


class PlainSession:
    """The requests of one session, by its id, on one isolation level.

    named: requests that name one partition, by the bytes between epoch and offset; all of them are laid out
    alike. none: the bytes of one that names nothing.
    """

    __slots__ = ("_before_bytes", "_rest_bytes", "_unpack", "id", "isolation_level", "named", "none")

    def __init__(self, session_id: int, isolation_level: int) -> None:
        self.id = session_id
        self.isolation_level = isolation_level
        self.named: dict[bytes, PlainFetch] = {}
        self.none: bytes | None = None
        self._before_bytes = self._rest_bytes = 0
        self._unpack: Callable[[memoryview, int], tuple[Any, ...]] | None = None

    @property
    def places(self) -> int:
        """How many requests are remembered; one is counted in any case."""
        return max(1, len(self.named))

    def add(self, plain: PlainFetch, *, is_full: bool) -> None:
        """Remembers a request that names a partition. is_full: there is no place for one more; then it takes
        that of all others of this session."""
        before_bytes, rest_bytes = len(plain.before), len(plain.rest)
        if (before_bytes, rest_bytes) != (self._before_bytes, self._rest_bytes) or (
            is_full and plain.before not in self.named
        ):
            self.named.clear()
            self._before_bytes, self._rest_bytes = before_bytes, rest_bytes
            self._unpack = Struct(f">{before_bytes}sq{rest_bytes}s").unpack_from
        self.named[plain.before] = plain

    def find(self, session: FetchSession, view: memoryview, at: int, end: int) -> PlainFetch | None:
        """The remembered request that has these bytes behind its epoch, if no other partition of its session
        may have something to tell. The session takes over what it says of its partition."""
        if self._unpack is None:
            return None
        if end - at != self._before_bytes + _OFFSET_BYTES + self._rest_bytes:
            return self._find_unnamed(session, view[at:end].tobytes())
        before, offset, rest = self._unpack(view, at)
        plain = self.named.get(before)
        if plain is None or plain.rest != rest:
            return None
        wanted, active = plain.wanted, session.active
        if session.wanted.get(wanted.key) is not wanted or wanted.partition is not plain.partition:
            return None
        plain.update(offset)
        if wanted.key not in active:
            active[wanted.key] = wanted
        return plain if len(active) == 1 else None

    def _find_unnamed(self, session: FetchSession, behind: bytes) -> PlainFetch | None:
        if behind != self.none or len(session.active) != 1:
            return None
        (wanted,) = session.active.values()
        for plain in self.named.values():
            if plain.wanted is wanted and plain.partition is wanted.partition:
                return plain
        return None


def parts_of(route: Route, frame: memoryview, request: FetchRequest) -> tuple[bytes, bytes] | None:
    """The bytes of a request between its correlation id and its offset, and those behind the offset. None if
    the frame is not what an encoder would have made of the request, byte for byte: then its bytes may have
    another meaning than they seem to have."""
    body = _body(route, frame, request)
    if body is None:
        return None
    at = _offset_position(route, frame, body, request)
    begin = BEFORE_KEY_BYTES - SIZE_PREFIX_BYTES
    return bytes(frame[begin:at]), bytes(frame[at + _OFFSET_BYTES :])


def parts_of_session(
    route: Route, frame: memoryview, request: FetchRequest
) -> tuple[bytes, bytes, bytes | None] | None:
    """The same in a session: the bytes up to the epoch, those between epoch and offset, and those behind the
    offset, None if the request names nothing."""
    body = _body(route, frame, request)
    if body is None:
        return None
    epoch, request.session_epoch = request.session_epoch, ~request.session_epoch
    at = _first_difference(route, frame, body, request)
    request.session_epoch = epoch
    key, behind = bytes(frame[BEFORE_KEY_BYTES - SIZE_PREFIX_BYTES : at]), at + _EPOCH_BYTES
    if not request.topics:
        return key, bytes(frame[behind:]), None
    at = _offset_position(route, frame, body, request)
    return key, bytes(frame[behind:at]), bytes(frame[at + _OFFSET_BYTES :])


def _body(route: Route, frame: memoryview, request: FetchRequest) -> int | None:
    """Where the request begins in its frame, if it may be remembered."""
    body = CLIENT_ID_LENGTH.stop + max(0, int.from_bytes(frame[CLIENT_ID_LENGTH], "big", signed=True))
    if route.flexible:
        if frame[body]:
            return None  # the header has tagged fields
        body += 1
    if len(frame) > LANE_KEY_BYTES or frame[body:] != encoder(FetchRequest, route.version)(request):
        return None
    return body


def _offset_position(route: Route, frame: memoryview, body: int, request: FetchRequest) -> int:
    asked = request.topics[0].partitions[0]
    offset, asked.fetch_offset = asked.fetch_offset, ~asked.fetch_offset
    at = _first_difference(route, frame, body, request)
    asked.fetch_offset = offset
    return at


def _first_difference(route: Route, frame: memoryview, body: int, request: FetchRequest) -> int:
    changed: bytes = encoder(FetchRequest, route.version)(request)
    return next(body + place for place, byte in enumerate(changed) if byte != frame[body + place])
