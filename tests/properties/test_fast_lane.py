"""With the fast lane and without it the same bytes come out, and the same bytes lie on the disk.

A conversation is a row of reads of several connections, each with some Produce requests in it, among them bad
ones and half ones, and of changes in the cluster between the reads. It is held with two brokers at once, one
of which has the lane. After each step all that they sent and counted is compared, and now and then the files.

A producer writes to one partition, to two, or to eight by turns; in every tenth conversation eight are more
than a connection remembers. In every third conversation the partitions have followers, so acks=all waits;
what a follower fetches is played by hand between the reads. In a third, half of which have
followers, some appends wait for helper threads: of large batches, on a slow disk, or with `flush.messages`.

`BARNABAS_LANE_SEEDS=N` holds N conversations instead.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from broker.dispatch.dispatcher import Dispatcher
from broker.fast_lane import produce_lane, remembered, waiting_produce
from broker.fast_lane.epoch import LaneEpoch
from broker.fast_lane.produce_lane import PlainProduce, ProduceLane
from broker.fast_lane.waiting_produce import RememberedAnswer
from broker.metrics.requests import RequestCounts
from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer
from broker.replication import watched_batches
from broker.replication.appending import PartitionAppends
from protocol.framing import encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import HEADER, HEADER_BYTES, seal
from protocol.records.validation import plain_headers
from storage import plain_appends
from storage.faulty_files import Fault
from storage.segment import Segment
from tests.support.rigs.produce_world import WALKED, ProduceWorld
from tests.support.samples import bad_batches as bad

CONVERSATIONS: Final = int(os.environ.get("BARNABAS_LANE_SEEDS", "600"))
FOR_A_MUTANT: Final = 180
FIRST: Final = int(os.environ.get("BARNABAS_LANE_FIRST_SEED", "0"))
STEPS: Final = 25
MANY: Final = 8
"""Partitions to which a producer may write."""
REMEMBERED: Final = 4
"""Requests that a connection remembers in every tenth conversation."""
WALKED_ON: Final = 6
"""Partitions on which batches of a connection are walked in those conversations."""
CONNECTIONS: Final = 2
VERSIONS: Final = (3, 5, 7, 8, 9, 11, 12, 12, 12, 13, 13)
SETTINGS: Final = (
    ("max.message.bytes", ("150", "2000", None)),
    ("message.timestamp.type", ("LogAppendTime", None)),
    ("compression.type", ("gzip", "producer", None)),
    ("cleanup.policy", ("compact", None)),
    ("min.insync.replicas", ("2", None)),
    ("segment.bytes", ("1048576", "2000", None)),
    ("segment.index.bytes", ("100", None)),
    ("index.interval.bytes", ("100", "0", None)),
    ("flush.messages", ("1", "3", None)),
    ("message.timestamp.before.max.ms", ("1000", None)),
    ("message.timestamp.after.max.ms", ("1000", None)),
)


def _broken_inside(good: bytearray) -> bytearray:
    """Only who walks its records sees that the first one is longer than it says."""
    good[HEADER_BYTES] -= 2
    return good


BAD: Final[tuple[Callable[[bytearray], bytes | bytearray], ...]] = (
    lambda good: b"",
    lambda good: b"\0",
    lambda good: good[:30],
    lambda good: good[:-1],
    lambda good: good + good,
    lambda good: good + b"rubbish",
    lambda good: bad.lying(good, crc=1),
    lambda good: bad.lying(good, magic=1),
    lambda good: bad.lying(good, magic=3),
    lambda good: bad.lying(good, batch_length=20, sealed=False),
    lambda good: bad.lying(good, base_offset=7),
    lambda good: bad.lying(good, leader_epoch=9),
    lambda good: bad.lying(good, record_count=4),
    lambda good: bad.lying(good, last_offset_delta=-1),
    lambda good: bad.lying(good, attributes=0x10),
    lambda good: bad.lying(good, attributes=0x20),
    lambda good: bad.lying(good, attributes=0x08),
    lambda good: bad.lying(good, attributes=0x05),
    lambda good: bad.lying(good, producer_id=3, base_sequence=-1),
    lambda good: bad.lying(_broken_inside(good)),
    lambda good: bad.lying(_broken_inside(good)),
)


@dataclass
class Producer:
    """How the requests of a connection look unless something else is drawn."""

    topic: str
    version: int
    acks: int
    client_id: str | None
    producer_id: int
    indexes: range
    """The partitions to which it writes."""
    index: int = 0
    """The one to which it wrote last."""


class Talk:
    """One conversation, with the broker that has the lane and the one that has not."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = draw = Random(seed)
        self.told: list[str] = []
        self.has_threads = seed % 6 < 2
        self.slow, self.fast = (
            ProduceWorld(fast=fast, connections=CONNECTIONS, threads=self.has_threads)
            for fast in (False, True)
        )
        self.worlds = (self.slow, self.fast)
        self.correlation_id = 0
        self.sequences: dict[tuple[int, str, int], int] = {}
        self.has_followers = seed % 3 == 0
        self.partitions = MANY if remembers_few(seed) else draw.choice((2, 2, MANY))
        self.usual = [self._usual() for _ in range(CONNECTIONS)]
        replicas = [1, 2] if self.has_followers else [1]
        for world in self.worlds:
            world.topic("t", self.partitions, replicas=replicas)
            world.topic("long-name", 1, replicas=replicas)
        if seed % 7 == 0:  # an index is full after seven batches
            for world, name in product(self.worlds, ("t", "long-name")):
                world.configure(name, "segment.index.bytes", "100")
                world.configure(name, "index.interval.bytes", "0")
        for number in range(CONNECTIONS):
            self._warm(number)

    def _usual(self) -> Producer:
        draw = self.random
        topic = draw.choice(("t", "t", "long-name"))
        return Producer(
            topic,
            draw.choice(VERSIONS),
            draw.choice((1, 1, -1, -1, 0)),
            draw.choice(("client", "", None, "c\u00e4")),
            draw.choice((-1, -1, 7, 8)),
            range(draw.choice((1, 2, self.partitions)) if topic == "t" else 1),
        )

    def _warm(self, number: int) -> None:
        for index in self.usual[number].indexes:
            data = b"".join(self._plain(number, index=index) for _ in range(WALKED + 2))
            for world in self.worlds:
                world.send(data, number)
                world.end_threads()
                _follower_fetches(world, 1.0)
                world.end_threads()

    def _request(self, number: int, batch: bytes, **changed: Any) -> bytes:
        self.correlation_id += 1
        usual = self.usual[number]
        if "index" not in changed:
            changed["index"] = self._index(usual)
        fields: dict[str, Any] = {
            "version": usual.version,
            "acks": usual.acks,
            "client_id": usual.client_id,
            "correlation_id": self.correlation_id,
        }
        return self.slow.request(usual.topic, batch, **(fields | changed))

    def _index(self, usual: Producer) -> int:
        """A partition of the producer: often the one before, so that some requests are a run."""
        if self.random.random() < 0.5:
            usual.index = self.random.choice(usual.indexes)
        return usual.index

    def _plain(self, number: int, **changed: Any) -> bytes:
        draw, usual = self.random, self.usual[number]
        if "index" not in changed:
            changed["index"] = self._index(usual)
        producer = draw.choice((-1, 7)) if draw.random() < 0.03 else usual.producer_id
        sequence, count = -1, draw.choice((1, 1, 2, 5))
        if producer >= 0:
            key = (producer, usual.topic, changed["index"])
            sequence = self.sequences.get(key, 0)
            self.sequences[key] = sequence + count
            if draw.random() < 0.06:
                sequence = max(0, sequence + draw.choice((-5, -1, 1)))
        size = draw.choice((1, 10, 10, 100, 100, 200, 2000, 17_000))
        at = self.slow.rig.clock.wall_ms() + draw.choice((0, 0, 0, 0, -5000, 5000))
        codec = draw.choice((0,) * 12 + (1, 2, 3, 4))
        if self.has_threads and draw.random() < 0.03:  # too much to be unpacked on the loop
            size, count, codec = 70_000, 1, draw.choice((1, 2, 3, 4))
        records = [SimpleRecord(b"k", b"v" * size, at + each) for each in range(count)]
        epoch = draw.choice((0,) * 30 + (1,)) if producer >= 0 else -1
        batch = build_batch(
            records, codec=codec, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
        )
        return self._request(number, bytes(batch), **changed)

    # What a read consists of.

    def _frame(self, number: int) -> bytes:
        draw = self.random
        kind = draw.random()
        if kind < 0.85:
            return self._plain(number)
        if kind < 0.88:
            return self._plain(number, index=draw.choice((0, 0, 1, 9)))
        if kind < 0.89:
            return self._plain(number, version=draw.choice(VERSIONS), acks=draw.choice((0, 1, -1, 2)))
        if kind < 0.92:
            return self._request(number, bytes(draw.choice(BAD)(self._good())))
        if kind < 0.93:
            return self._request(number, bytes(self._good()), transactional_id="tx")
        if kind < 0.94:
            return self._two_partitions()
        if kind < 0.95:
            return encode_request_frame(ApiVersionsRequest("me", "1"), 3, self.correlation_id, "client")
        if kind < 0.96:
            return encode_request_frame(MetadataRequest([]), 12, self.correlation_id, "client")
        if kind < 0.98:
            return self._with_bytes_behind(self._plain(number))
        return self._flipped(self._plain(number))

    def _good(self) -> bytearray:
        return self.slow.rig.batch(3)

    def _two_partitions(self) -> bytes:
        parts = [ProduceRequest.PartitionProduceData(index, bytes(self._good())) for index in (0, 1)]
        request = ProduceRequest(
            None, 1, 30_000, [ProduceRequest.TopicProduceData("t", partition_data=parts)]
        )
        return encode_request_frame(request, 12, self.correlation_id, "client")

    def _with_bytes_behind(self, frame: bytes) -> bytes:
        behind = self.random.choice((b"\0", b"\0\0\0", b"rubbish", frame[12:90]))
        return (len(frame) - 4 + len(behind)).to_bytes(4, "big") + frame[4:] + behind

    def _flipped(self, frame: bytes) -> bytes:
        """One byte before the records is another one; not of the size, which would only cut elsewhere."""
        changed = bytearray(frame)
        place = self.random.choice((self.random.randrange(4, 80), -1, -2, -3)) % len(frame)
        changed[place] ^= self.random.choice((1, 2, 0x10, 0x80, 0xFF))
        return bytes(changed)

    # The steps.

    def step(self) -> None:
        draw = self.random
        for number in range(CONNECTIONS):
            if self.slow.wires[number].closed is not None:
                self.usual[number] = self._usual()
                self._tell(f"{number} comes again", lambda world, which=number: world.reconnect(which))  # type: ignore[misc]
                self._warm(number)
        kind = draw.random()
        if self.has_followers and draw.random() < 0.4:
            part = draw.choice((0.0, 0.3, 0.7, 1.0, 1.0, 1.0))
            self._tell(f"a follower has {part} more", lambda world: _follower_fetches(world, part))
        elif kind < 0.76:
            self._read()
        elif kind < 0.80:
            self._configure()
        elif kind < 0.82:
            milliseconds = draw.choice((1, 3, 3, 7_200_000))
            self._tell("the clock moves", lambda world: world.rig.clock.move(milliseconds))
        elif kind < 0.83:
            milliseconds = draw.choice((29_999, 30_000))
            self._tell("time goes by", lambda world: world.rig.timers.advance(milliseconds))
        elif kind < 0.86:
            self._fail_or_mend()
        elif kind < 0.88:
            action = draw.choice(("deny", "allow"))
            self._tell(action, lambda world: getattr(world, action)("t"))
        elif kind < 0.90:
            self._remake()
        elif kind < 0.95:
            self._move()
        elif kind < 0.97:
            index = draw.randrange(self.partitions)
            self._tell(f"the log start of t-{index} rises", lambda world: _raise_log_start(world, index))
        elif kind < 0.98:
            self._tell("t-1 fails", lambda world: world.rig.replicas.log_went_offline("t", 1))
        else:
            number = draw.randrange(CONNECTIONS)
            self._tell(f"{number} goes", lambda world: world.connections[number].peer_gone("it goes"))
        self._compare()

    def _read(self) -> None:
        draw = self.random
        number = draw.randrange(CONNECTIONS)
        frames = [self._frame(number) for _ in range(draw.choice((1, 2, 5, 5, 8, 70)))]
        data = b"".join(frames)
        if draw.random() < 0.03:
            data = data[: draw.randrange(len(data))]
        cuts = sorted(draw.randrange(len(data) + 1) for _ in range(draw.choice((0, 0, 0, 1, 3))))
        self._tell(f"{number} sends {len(frames)} requests", lambda world: world.send(data, number, cuts))

    def _configure(self) -> None:
        key, values = self.random.choice(SETTINGS)
        value = self.random.choice((None, *values))
        name = self.random.choice(("t", "long-name"))
        self._tell(f"{name} {key}={value}", lambda world: world.configure(name, key, value))

    def _fail_or_mend(self) -> None:
        if self.has_threads and self.random.random() < 0.5:
            self._tell("the disk becomes slow", ProduceWorld.slow_down)
            return
        if self.fast.files.faults:
            self._tell("the disk works", lambda world: world.files.faults.clear())
            return
        partial = self.random.choice((0, 0, 5))
        self._tell(
            "the disk fails",
            lambda world: world.files.faults.append(
                Fault("write", count=10**9, path_part=".log", error=errno.ENOSPC, partial_bytes=partial)
            ),
        )

    def _remake(self) -> None:
        def remake(world: ProduceWorld) -> None:
            world.remove("t")
            world.topic("t", self.partitions)

        self._tell("t is made anew", remake)

    def _move(self) -> None:
        changes = self.random.choice(
            (
                {"leader": 2, "isr": [2], "replicas": [1, 2]},
                {"leader": 1, "isr": [1]},
                {"leader": 1, "isr": [1, 2], "replicas": [1, 2]},
                {"isr": [1], "replicas": [1]},
                {"leader": -1},
                {"leader": 1},
            )
        )
        index = self.random.randrange(self.partitions)
        self._tell(f"t-{index} {changes}", lambda world: world.move("t", index, **changes))

    def _tell(self, what: str, change: Callable[[ProduceWorld], object]) -> None:
        are_kept = self.has_threads and self.random.random() < 0.3
        self.told.append(f"{what}, helper threads are kept" if are_kept else what)
        for world in self.worlds:
            change(world)
            if are_kept:
                world.run()
            else:
                world.end_threads()

    def _compare(self) -> None:
        for slow, fast in zip(self.slow.wires, self.fast.wires, strict=True):
            assert fast.sent == slow.sent
            assert fast.closed == slow.closed
        assert self.fast.counted() == self.slow.counted()
        assert not self.slow.dispatcher.metrics.failures, "something is our fault, with the lane or without"

    def end(self) -> None:
        """Compares all once more when no helper thread has anything to do."""
        for world in self.worlds:
            world.end_threads()
        self._compare()
        self.compare_files()

    def compare_files(self) -> None:
        assert self.fast.content() == self.slow.content()


def _raise_log_start(world: ProduceWorld, index: int) -> None:
    partition = world.rig.replicas.by_name.get(("t", index))
    if partition is not None:
        partition.raise_log_start(partition.log.high_watermark)


def _follower_fetches(world: ProduceWorld, part: float) -> None:
    """A follower of all partitions has this part of what is not replicated yet."""
    now_ms = world.rig.clock.monotonic_ms()
    for partition in world.rig.replicas.by_name.values():
        log = partition.log
        behind = log.log_end_offset - log.high_watermark
        partition.follower_fetched(2, log.high_watermark + int(behind * part), now_ms=now_ms)


def remembers_few(seed: int) -> bool:
    return seed % 10 == 9


@contextmanager
def conversation(seed: int) -> Iterator[Talk]:
    """One that has begun; its connections may remember fewer requests than a producer has partitions, and be
    trusted before they have written to all of them."""
    with pytest.MonkeyPatch.context() as patch:
        if remembers_few(seed):
            patch.setattr(remembered, "LANE_REQUESTS_REMEMBERED", REMEMBERED)
            patch.setattr(watched_batches, "WALKED_PARTITIONS_PER_CONNECTION", WALKED_ON)
        yield Talk(seed)


def hold(talk: Talk) -> tuple[int, int]:
    """One conversation; how many requests there were, and how many the lane took."""
    try:
        for number in range(STEPS):
            talk.step()
            if number % 8 == 0:
                talk.compare_files()
        talk.end()
    except AssertionError as error:
        raise AssertionError(f"seed {talk.seed}: " + "; ".join(talk.told[-12:])) from error
    requests = sum(each.requests for each in talk.fast.dispatcher.metrics.all_counts())
    return requests, talk.fast.taken_by_lane


@pytest.fixture(autouse=True)
def _nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """pytest keeps each line of a test's log, with all that the error in it holds: half a megabyte for a
    conversation."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.timeout(600 + CONVERSATIONS)
def test_the_lane_changes_nothing() -> None:
    requests = taken = 0
    for seed in range(FIRST, FIRST + CONVERSATIONS):
        with conversation(seed) as talk:
            found = hold(talk)
        requests += found[0]
        taken += found[1]
    print(f"seeds {FIRST} to {FIRST + CONVERSATIONS - 1}: {requests} requests, {taken} on the lane")
    assert taken > requests // 10


def _appended_without_index(self: Segment, end: int, since: int, newest: Any, indexed: object) -> None:
    _APPENDED_IN_ROW(self, end, since, newest, [])


def _count_without_bytes(
    self: Dispatcher, connection: Connection, counts: RequestCounts, requests: int, size: int, began_ns: int
) -> None:
    counts.requests += requests


def _headers_without_checksum(
    buffer: memoryview, batches: Sequence[tuple[int, int]], *_: object
) -> list[tuple[int, ...]]:
    headers = [HEADER.unpack_from(buffer, position) for position, _ in batches]
    return [header for header in headers if header[3] == 2]


def _headers_whatever_the_attributes(
    buffer: memoryview, batches: Sequence[tuple[int, int]], *arguments: Any
) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for position, size_bytes in batches:
        copy = bytearray(buffer[position : position + size_bytes])
        copy[ATTRIBUTES] = bytes(2)
        seal(copy, 0, size_bytes)
        found += _PLAIN_HEADERS(copy, [(0, size_bytes)], *arguments)
    return found


def _like_requests_of_any_end(plain: Any, *arguments: Any) -> Any:
    return _LIKE_REQUESTS(_Untagged(plain), *arguments)  # type: ignore[arg-type]


class _AnyBytes(bytes):
    """Equal to all others."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = bytes.__hash__


class _Untagged:
    """A remembered request that looks at no tags; all else is the same."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    tags = _AnyBytes()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def _answered_at_once(dispatcher: Dispatcher, connection: Connection, *arguments: Any) -> DelayedAnswer:
    answer = RememberedAnswer(dispatcher, connection, *arguments)
    answer.complete([arguments[-2]])
    return answer


def _find_with_the_partition_before(
    self: ProduceLane, view: memoryview, at: int, end: int
) -> PlainProduce | None:
    before = self._last if self._number == self._epoch.number else None
    found = _FIND(self, view, at, end)
    if found is not None and before is not None:
        found.partition = before.partition
    return found


def _write_anyhow(*arguments: Any) -> bool:
    _WRITE(*arguments)
    return True


_LIKE_REQUESTS: Final = produce_lane._like_requests
_PLAIN_HEADERS: Final = plain_headers
ATTRIBUTES: Final = slice(21, 23)
_FIND: Final = ProduceLane._find
_WRITE: Final = plain_appends._write
_APPENDED_IN_ROW: Final = Segment.appended_in_row


class Mutant(NamedTuple):
    """A fault in the lane: what is put in the place of what."""

    where: object
    name: str
    instead: object


MUTANTS: Final = {
    "nothing is forgotten": Mutant(LaneEpoch, "bump", lambda self: None),
    "checksums are not looked at": Mutant(plain_appends, "plain_headers", _headers_without_checksum),
    "transactions are not looked at": Mutant(
        plain_appends, "plain_headers", _headers_whatever_the_attributes
    ),
    "an index may be overfull": Mutant(Segment, "index_entries_left", lambda self, size_bytes: 1 << 20),
    "no index is noted": Mutant(Segment, "appended_in_row", _appended_without_index),
    "requests are not counted": Mutant(Dispatcher, "count_remembered", _count_without_bytes),
    "nobody hears of the batches": Mutant(PartitionAppends, "appended_plain", lambda *_: None),
    "tags are not looked at": Mutant(produce_lane, "_like_requests", _like_requests_of_any_end),
    "the disk's refusal is not heard": Mutant(plain_appends, "_write", _write_anyhow),
    "nobody waits for replicas": Mutant(waiting_produce, "RememberedAnswer", _answered_at_once),
    "what was not replicated is not heard": Mutant(RememberedAnswer, "replicated", lambda *_: None),
    "the partition is that of the request before": Mutant(
        ProduceLane, "_find", _find_with_the_partition_before
    ),
    "any number waits": Mutant(produce_lane, "WAITING_PRODUCE_PER_CONNECTION", 1 << 20),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_in_the_lane_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, attribute, instead = MUTANTS[name]
    monkeypatch.setattr(where, attribute, instead)
    for seed in range(FOR_A_MUTANT):
        with conversation(seed) as talk:
            try:
                hold(talk)
            except AssertionError:
                slow, fast = (world.dispatcher.metrics.failures for world in talk.worlds)
                assert fast == slow, "what raises would be noticed anyway"
                return
    pytest.fail(f"{FOR_A_MUTANT} conversations have not noticed that {name}")
