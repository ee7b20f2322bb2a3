"""Produce requests with one batch for one partition, like an earlier one of their connection.

::

    Produce 13   size │ key, version │ correlation id │ client id … topic, partition │ length │ batch │ 3 × 00
                 int32     4 bytes          int32                  the key             varint           tags

The requests of one read that are like each other, one after the other, are one run: their batches are judged
where they lie, put into the log by one write, and answered by one piece of output. A run ends at the first
request that is not plain; if that is the very first, nothing has happened. So requests with acks=0, of
versions before 5, of transactional producers, with several batches or for several partitions, with acks=all
while too few replicas are in sync, and those of the first batches of a connection, which are walked, take the
long way.

With acks=all the batches of a run that other replicas do not have yet are answered later, each request for
itself (`waiting_produce`). Where an answer waits already, those behind it wait in line.

The length of the batch follows from the size of the request, so its bytes are compared, too, and not decoded.
As a varint it takes one to five bytes: where the batch begins depends on how large it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from broker.fast_lane.epoch import LaneEpoch
from broker.fast_lane.remembered import BEFORE_KEY_BYTES, CLIENT_ID_LENGTH, RememberedRequests
from broker.fast_lane.waiting_produce import take_waiting
from broker.replication.appending import ACKS_ALL, PartitionAppends
from broker.replication.partition import Partition
from config.limits import LANE_KEY_BYTES, TURN_REQUESTS, WAITING_PRODUCE_PER_CONNECTION
from protocol.codec.writing import uvarint_bytes
from protocol.errors import invariant
from protocol.framing import SIZE_PREFIX_BYTES, encode_request_frame
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.produce_frames import FIRST_VERSION, appended_frame
from protocol.records.header import HEADER_BYTES
from protocol.registry import ApiKey
from protocol.serving.pending import Pending
from storage.append import NO_LOG_APPEND_TIME
from storage.plain_appends import append_plain

if TYPE_CHECKING:
    from broker.dispatch.dispatcher import Dispatcher
    from broker.dispatch.routes import Route
    from broker.network.connection import Connection
    from broker.network.response_pieces import Piece
    from broker.replication.replica_manager import ReplicaManager
    from protocol.serving.request_context import RequestContext

__all__ = ["PlainProduce", "ProduceLane", "ProduceLanes"]

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_PRODUCE: Final = int(ApiKey.PRODUCE)

_EMPTY_RECORDS_AND_BEHIND: Final = 4
"""How many bytes of a request follow the key if it has records of no bytes: a length, and what comes behind;
the one is a varint and three empty tag sections, the other an int32 and nothing."""
_TAGS: Final = b"\0\0\0"

_LENGTH_BYTES: Final = (1, 2, 3, 4, 5)
"""Of a varint; an int32 takes four."""

_pack_int32: Final = Struct(">i").pack
_pack_partition: Final = Struct(">ih").pack
"""Its index and an error code, as answers have them."""
_read_int32: Final = Struct(">i").unpack_from

_Layout = tuple[Callable[[memoryview, int], tuple[Any, ...]], bytes, int, int]
"""Of a request of some size: `PlainProduce.unpack`, its length field, where its batch lies, and the batch's
size."""

_Run = tuple[list[int], list[tuple[int, int]]]
"""The correlation ids of some requests, and where their batches lie, with their sizes."""


class PlainProduce:
    """One request that is remembered: what was decided for it, and how it is answered.

    begin, fixed, tags: the bytes that a request like the one that came last consists of, beside correlation
    id and batch; `unpack` gives them from such a request, with the correlation id after `begin`. frame_bytes,
    batch_at, batch_bytes: its size, and where its batch lies in it. pack: of the answer's size, correlation
    id, `before`, base offset, append time, log start, `behind`.
    """

    __slots__ = (
        "acks_all",
        "answer_bytes",
        "at_once",
        "batch_at",
        "batch_bytes",
        "before",
        "begin",
        "behind",
        "context",
        "fixed",
        "frame_bytes",
        "head",
        "key",
        "pack",
        "partition",
        "route",
        "tags",
        "timeout_ms",
        "unpack",
    )

    def __init__(
        self,
        route: Route,
        context: RequestContext,
        partition: Partition,
        head: bytes,
        key: bytes,
        request: ProduceRequest,
    ) -> None:
        self.route = route
        self.context = context
        self.partition = partition
        self.head = head
        self.key = key
        self.acks_all = request.acks == ACKS_ALL
        self.timeout_ms = request.timeout_ms
        self.tags = _TAGS if route.flexible else b""
        self.at_once = TURN_REQUESTS
        """So many like requests are looked at together: one, as long as none is plain."""
        self.begin = self.fixed = b""
        self.unpack: Callable[[memoryview, int], tuple[Any, ...]] = _no_fields
        self.frame_bytes = self.batch_at = self.batch_bytes = 0
        frame = appended_frame(route.version, partition.topic, partition.topic_id)
        self.before, self.behind = frame.before + _pack_partition(partition.index, 0), frame.behind
        self.answer_bytes = frame.size_bytes
        self.pack = Struct(f">iI{len(self.before)}sqqq{len(self.behind)}s").pack

    def answers(self, correlation_ids: Sequence[int], offsets: Sequence[int]) -> list[bytes]:
        """The answers to the first of these requests, with the base offsets of their batches."""
        pack, before, behind = self.pack, self.before, self.behind
        size, log_start = self.answer_bytes, self.partition.log.log_start_offset
        return [
            pack(size, correlation_id, before, offset, NO_LOG_APPEND_TIME, log_start, behind)
            for correlation_id, offset in zip(correlation_ids, offsets, strict=False)
        ]

    def response(self, base_offset: int, log_start_offset: int) -> ProduceResponse:
        """The answer without error as the handler makes it."""
        partition = self.partition
        answer = ProduceResponse.PartitionProduceResponse(
            partition.index, 0, base_offset, NO_LOG_APPEND_TIME, log_start_offset
        )
        topic = ProduceResponse.TopicProduceResponse(partition.topic, partition.topic_id, [answer])
        return ProduceResponse([topic])

    def resize(self, size: int) -> bool:
        """A request comes with another size field than the one before. Whether there is room in it for a
        batch."""
        layout = _layout(len(self.key), size, self.route.flexible)
        if layout is None:
            return False
        self.unpack, length, self.batch_at, self.batch_bytes = layout
        self.begin = _pack_int32(size) + self.head
        self.fixed = self.key + length
        self.frame_bytes = SIZE_PREFIX_BYTES + size
        return True

    def fits(self, view: memoryview, at: int, end: int, max_frame_bytes: int) -> bool:
        """Whether there is a whole request of another size at `at`, like this one up to its length field; if
        so, it is the one that came last."""
        key_at = at + BEFORE_KEY_BYTES
        if key_at > end:
            return False
        size = _read_int32(view, at)[0]
        return (
            size + SIZE_PREFIX_BYTES != self.frame_bytes
            and size <= max_frame_bytes
            and at + SIZE_PREFIX_BYTES + size <= end
            and view[key_at : key_at + len(self.key)] == self.key
            and self.resize(size)
        )


@lru_cache(maxsize=1024)
def _layout(key_bytes: int, size: int, flexible: bool) -> _Layout | None:
    """How a request with this size field is laid out; None if it has no room for a batch."""
    tag_bytes = len(_TAGS) if flexible else 0
    left = size + SIZE_PREFIX_BYTES - BEFORE_KEY_BYTES - key_bytes - tag_bytes
    for length_bytes in _LENGTH_BYTES:
        batch_bytes = left - length_bytes
        if batch_bytes < HEADER_BYTES:
            return None
        length = _length_field(batch_bytes, flexible=flexible)
        if len(length) == length_bytes:
            break
    else:
        return None
    layout = Struct(f">8sI{key_bytes + length_bytes}s{batch_bytes}x{tag_bytes}s")
    return layout.unpack_from, length, BEFORE_KEY_BYTES + key_bytes + length_bytes, batch_bytes


class ProduceLane:
    """The lane of one connection, see `broker.network.interfaces.FastLane`."""

    __slots__ = (
        "_appends",
        "_dispatcher",
        "_epoch",
        "_last",
        "_number",
        "_rotates",
        "has_declined",
        "remembered",
        "sent_bytes",
        "taken",
    )

    def __init__(self, dispatcher: Dispatcher, appends: PartitionAppends, epoch: LaneEpoch) -> None:
        self._dispatcher = dispatcher
        self._appends = appends
        self._epoch = epoch
        self.remembered: RememberedRequests[PlainProduce] = RememberedRequests(epoch)
        self._last: PlainProduce | None = None
        """What the last requests were like; it holds for `_number` of the epoch."""
        self._number = -1
        self._rotates = False
        """The producer goes from partition to partition with each request. So the next one is not like the
        last, and the one after it is not like it either: neither is tried."""
        self.has_declined = False
        """The request that takes the long way now is remembered already."""
        self.taken = 0
        self.sent_bytes = 0

    def take(
        self, connection: Connection, view: memoryview, at: int, end: int, left: int, out: list[Piece]
    ) -> int:
        last = plain = self._last if self._number == self._epoch.number else None
        most = connection.max_frame_bytes
        if plain is None or self._rotates or not (run := _like_requests(plain, view, at, end, left, most))[0]:
            plain = self._find(view, at, end)
            self.has_declined = plain is not None
            self._rotates = last is not None and plain is not last and self.taken == 1
            if self._rotates:
                left = 1
            if plain is None or not (run := _like_requests(plain, view, at, end, left, most))[0]:
                return at
        self.has_declined = True
        return self._append(connection, plain, view, at, run, out)

    def _find(self, view: memoryview, at: int, end: int) -> PlainProduce | None:
        found = self.remembered.find(view, at, end)
        if found is None:
            return None
        self._last, self._number = found[1], self._epoch.number
        return found[1]

    def _append(
        self,
        connection: Connection,
        plain: PlainProduce,
        view: memoryview,
        at: int,
        run: _Run,
        out: list[Piece],
    ) -> int:
        """Appends the batches of like requests and answers them; returns the position behind the last one."""
        correlation_ids, batches = run
        partition, waiting = plain.partition, connection.waiting
        is_replicated = partition.is_alone or not plain.acks_all
        if partition in self._appends.failing or not (is_replicated or _may_be_replicated(partition)):
            return at
        is_awaited = waiting or not is_replicated
        if is_awaited:
            del batches[max(WAITING_PRODUCE_PER_CONNECTION - waiting, 0) :]
        dispatcher, began_ns, log = self._dispatcher, connection.now_ns, partition.log
        now_ms = dispatcher.begin_remembered(plain.context, began_ns)
        plain.at_once = 1
        offsets, size_bytes = append_plain(
            log, view, batches, partition.leader_epoch, now_ms, plain.route.version
        )
        if not offsets:
            return at
        plain.at_once = TURN_REQUESTS
        self.taken = requests = len(offsets)
        self._appends.appended_plain(
            partition, requests, log.segments.log_end_offset - offsets[0], size_bytes
        )
        answers = plain.answers(correlation_ids, offsets)
        last_at, last_bytes = batches[requests - 1]
        reached = last_at + last_bytes + len(plain.tags)
        received_bytes = reached - at - SIZE_PREFIX_BYTES * requests
        if is_awaited:
            self.sent_bytes = take_waiting(
                dispatcher, connection, plain, correlation_ids, offsets, answers, out,
                began_ns=began_ns, received_bytes=received_bytes,
            )  # fmt: skip
            return reached
        answer = b"".join(answers)
        self.sent_bytes = len(answer)
        out.append(answer)
        dispatcher.count_remembered(connection, plain.route.counts, requests, received_bytes, began_ns)
        return reached


def _may_be_replicated(partition: Partition) -> bool:
    """Whether a batch with acks=all is taken by the partition, which has other replicas."""
    return partition.is_leader and not partition.is_under_min_isr


def _like_requests(
    plain: PlainProduce, view: memoryview, at: int, end: int, left: int, max_frame_bytes: int
) -> _Run:
    """All like requests that lie next to each other from `at` on."""
    correlation_ids: list[int] = []
    batches: list[tuple[int, int]] = []
    if left > plain.at_once:
        left = plain.at_once
    tags = plain.tags
    while left:
        unpack, begin, fixed, frame_bytes = plain.unpack, plain.begin, plain.fixed, plain.frame_bytes
        batch_at, batch_bytes = plain.batch_at, plain.batch_bytes
        while left and at + frame_bytes <= end:
            found_begin, correlation_id, found, found_tags = unpack(view, at)
            if found != fixed or found_tags != tags or found_begin != begin:
                break
            correlation_ids.append(correlation_id)
            batches.append((at + batch_at, batch_bytes))
            at += frame_bytes
            left -= 1
        if not left or at == end or not plain.fits(view, at, end, max_frame_bytes):
            break
    return correlation_ids, batches


class ProduceLanes:
    """Makes the lanes, see `broker.dispatch.routes.RemembersRequests`."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def wants(self, request: ProduceRequest) -> bool:
        """See `broker.dispatch.routes.RemembersRequests`: its records are not there any more by then."""
        return False

    def remember(
        self,
        dispatcher: Dispatcher,
        connection: Connection,
        route: Route,
        frame: memoryview,
        context: RequestContext,
        request: ProduceRequest,
        response: ProduceResponse | Pending[Any] | None,
    ) -> None:
        """See `broker.dispatch.routes.RemembersRequests`. If the answer comes later the request was allowed,
        and its batch was not refused at once; that is all that is remembered of it."""
        topics = request.topic_data
        if len(topics) != 1 or len(topics[0].partition_data) != 1 or not request.acks:
            return
        if connection.session.authentication is not None:
            return  # the session ends, which is looked at with each request
        if request.transactional_id is not None:
            return  # its batches belong to transactions, which the long way looks after
        lane = connection.fast_lane(_PRODUCE)
        if isinstance(lane, ProduceLane):
            if lane.has_declined:
                lane.has_declined = False
                return
            if not lane.remembered.has_room():
                return
        if isinstance(response, ProduceResponse) and not _is_plain(response):
            return
        partition = self._plain_partition(route, context, topics[0])
        if partition is None:
            return
        asked: Any = topics[0].partition_data[0].records
        key = _key(route, frame, request, len(asked))
        if not key:
            return
        if not isinstance(lane, ProduceLane):
            lane = ProduceLane(dispatcher, self._replicas.appends, self._replicas.lane_epoch)
            connection.use_fast_lane(_PRODUCE, lane)
        head = bytes(frame[:4])
        plain = PlainProduce(route, context, partition, head, key, request)
        if plain.resize(len(frame)):
            lane.remembered.add(head, key, "", plain)

    def _plain_partition(
        self,
        route: Route,
        context: RequestContext,
        topic: ProduceRequest.TopicProduceData,
    ) -> Partition | None:
        """Where the batch went, if batches of the connection are taken there on the word of their headers."""
        if route.version < FIRST_VERSION:
            return None
        by_id = route.version >= _FIRST_VERSION_WITH_TOPIC_IDS
        hosted: Mapping[Any, Partition] = self._replicas.by_id if by_id else self._replicas.by_name
        partition = hosted.get((topic.topic_id if by_id else topic.name, topic.partition_data[0].index))
        if partition is None or not self._replicas.appends.trusts(partition, context.session.walked_bytes):
            return None
        return partition


def _is_plain(response: ProduceResponse) -> bool:
    answer = response.responses[0].partition_responses[0]
    return not answer.error_code and answer.log_append_time_ms == NO_LOG_APPEND_TIME


def _key(route: Route, frame: memoryview, request: ProduceRequest, batch_bytes: int) -> bytes:
    """The bytes of a request that come before the length of its batch. None, if the frame is not what an
    encoder would have made of the request, byte for byte: then its bytes may have another meaning than they
    seem to have."""
    topic = request.topic_data[0]
    index = topic.partition_data[0].index
    empty = ProduceRequest.TopicProduceData(
        topic.name, topic.topic_id, [ProduceRequest.PartitionProduceData(index, b"")]
    )
    client_id = _client_id(frame)
    if client_id is not None and len(client_id) > LANE_KEY_BYTES:
        return b""
    like = ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, [empty])
    encoded = encode_request_frame(like, route.version, 0, client_id)
    before = encoded[BEFORE_KEY_BYTES:-_EMPTY_RECORDS_AND_BEHIND]
    length = _length_field(batch_bytes, flexible=route.flexible)
    behind = _TAGS if route.flexible else b""
    begin = BEFORE_KEY_BYTES - SIZE_PREFIX_BYTES
    end = begin + len(before) + len(length)
    if (
        len(before) > LANE_KEY_BYTES
        or len(frame) != end + batch_bytes + len(behind)
        or frame[begin:end] != before + length
        or frame[end + batch_bytes :] != behind
    ):
        return b""
    return before


def _client_id(frame: memoryview) -> str | None:
    length = int.from_bytes(frame[CLIENT_ID_LENGTH], "big", signed=True)
    if length < 0:
        return None
    begin = CLIENT_ID_LENGTH.stop
    return frame[begin : begin + length].tobytes().decode("utf-8", "replace")


def _length_field(batch_bytes: int, *, flexible: bool) -> bytes:
    """As the length of records is encoded: one more as a varint, or an int32."""
    if not flexible:
        return _pack_int32(batch_bytes)
    return uvarint_bytes(batch_bytes + 1)


def _no_fields(*_: object) -> tuple[Any, ...]:
    invariant(False, "a remembered request knows its layout")
    return ()
