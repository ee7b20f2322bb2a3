"""With the fast lane and without it consumers are answered the same bytes.

A conversation is a row of reads of several connections, each with some Fetch requests in it, among them bad
ones and half ones, and of appends and changes in the cluster between the reads, and between two requests of
one read. It is held with two brokers at once, one of which has the lane. After each step all that they sent
and counted is compared, and what they know of their sessions.

`BARNABAS_LANE_SEEDS=N` holds N conversations instead.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any, Final, Literal, NamedTuple

import pytest

from broker.fast_lane import plain_fetches
from broker.fast_lane.fetch_lane import FetchLane
from broker.fast_lane.plain_fetches import PlainFetch, PlainSession
from broker.replication.fetch_sessions import FetchSession
from protocol.errors import ProtocolError
from protocol.framing import decode_response
from protocol.messages.fetch import FetchRequest, FetchResponse
from storage.faulty_files import Fault
from storage.slices import LogSlice
from tests.support.rigs.fetch_world import FetchWorld

CONVERSATIONS: Final = int(os.environ.get("BARNABAS_LANE_SEEDS", "1000"))
FIRST: Final = int(os.environ.get("BARNABAS_LANE_FIRST_SEED", "0"))
AT_A_TIME: Final = 50
FOR_A_MUTANT: Final = 150
STEPS: Final = 40
CONNECTIONS: Final = 2
VERSIONS: Final = (4, 5, 7, 9, 11, 12, 12, 13, 15, 16, 17, 17, 17, 18)
TOPICS: Final = (("t", 3), ("another", 1))
PRODUCERS: Final = (0, 1)
SHORT_SEGMENTS: Final[dict[str, Any]] = {"segment.ms": "100", "index.interval.bytes": "100"}


@dataclass
class Reader:
    """What a client of one connection knows, which goes by its habits but for now and then."""

    version: int
    isolation_level: int
    uses_session: bool
    max_bytes: int
    min_bytes: int
    hesitation: float
    """How often it changes its isolation level."""
    session_id: int = 0
    epoch: int = 0
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    named: dict[tuple[str, int], int] = field(default_factory=dict)
    """What its session was told of each partition."""


class Talk:
    """One conversation, with the broker that has the lane and the one that has not."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.told: list[str] = []
        self.slow = FetchWorld(fast=False, connections=CONNECTIONS)
        self.fast = FetchWorld(fast=True, connections=CONNECTIONS)
        self.is_calm = seed % 2 == 0
        """Consumers do hardly anything but to go on reading."""
        self.correlation_id = 0
        options: dict[str, Any] = SHORT_SEGMENTS if self.random.random() < 0.3 else {}
        for name, partitions in TOPICS:
            self.both(f"make {name}", partial(FetchWorld.topic, name=name, partitions=partitions, **options))
        self.readers = [self.reader() for _ in range(CONNECTIONS)]
        for _ in range(60):
            self.append()
            if self.random.random() < 0.2:
                self.hold_transaction()
            if self.random.random() < 0.2:
                self.both("50 ms go by", lambda world: world.advance(50))
        for name, partitions in TOPICS:
            for index, producer_id in product(range(partitions), PRODUCERS):
                if self.next_sequence(name, index, producer_id)[1]:
                    self.decide(name, index, producer_id)

    def reader(self) -> Reader:
        random = self.random
        version = random.choice(VERSIONS)
        return Reader(
            version,
            random.choice((0, 0, 0, 1)),
            version >= 7 and random.random() < 0.6,
            random.choice((1, 1, 100, 200, 500, 4000)),
            random.choice((1, 1, 1, 600)),
            random.choice((0, 0, 0, 0.3)),
        )

    def both(self, what: str, step: Callable[[FetchWorld], object]) -> None:
        """Does one step with both, and compares them."""
        self.told.append(what)
        for world in (self.slow, self.fast):
            step(world)
        for number in range(CONNECTIONS):
            slow, fast = self.slow.received(number), self.fast.received(number)
            assert fast == slow, self.story()
            self.learn(number, slow)
        assert self.fast.state() == self.slow.state(), self.story()
        assert not self.slow.dispatcher.metrics.failures, self.story()

    def story(self) -> str:
        return "\n".join(self.told[-60:])

    # What the client learns.

    def learn(self, number: int, sent: bytes) -> None:
        reader = self.readers[number] if hasattr(self, "readers") else None
        while sent and reader is not None:
            size = int.from_bytes(sent[:4], "big")
            frame, sent = sent[4 : 4 + size], sent[4 + size :]
            if frame[:4] == b"\0\0\0\1":
                continue  # of an interlude
            try:
                _, response = decode_response(FetchResponse, reader.version, frame)
            except ProtocolError:  # of a request in a version that is not the reader's
                continue
            self.learn_of(reader, response)

    @staticmethod
    def learn_of(reader: Reader, response: FetchResponse) -> None:
        if response.error_code or response.session_id != reader.session_id:
            reader.session_id, reader.epoch = response.session_id, 1 if response.session_id else 0
            reader.named.clear()
        elif reader.session_id:
            reader.epoch += 1
        for topic in response.responses:
            name = topic.topic or ("t" if topic.topic_id[-1] % 2 else "another")
            for data in topic.partitions:
                key, records = (name, data.partition_index), bytes(data.records or b"")  # type: ignore[arg-type]
                if data.error_code:
                    reader.offsets[key] = max(data.log_start_offset, 0)
                if len(records) > 61:
                    base = int.from_bytes(records[:8], "big")
                    reader.offsets[key] = base + int.from_bytes(records[23:27], "big") + 1

    # What may happen.

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.62 or (self.is_calm and chance < 0.72) or (self.is_calm and chance > 0.88):
            self.fetch()
        elif chance < 0.75:
            self.append()
        elif chance < 0.82:
            pause = self.random.choice((1, 50, 150, 1000))
            self.both(f"{pause} ms go by", lambda world: world.advance(pause))
        elif chance < 0.86:
            self.hold_transaction()
        elif chance < 0.97:
            what, change = self.change()
            self.both(what, change)
        else:
            number = self.random.randrange(CONNECTIONS)
            self.readers[number] = self.reader()

    def somewhere(self) -> tuple[str, int]:
        name, partitions = self.random.choice(TOPICS)
        return name, self.random.randrange(partitions)

    def append(self) -> None:
        (name, index), size = self.somewhere(), self.random.choice((1, 30, 30, 200, 900))
        if self.is_led(name, index):
            self.both(f"append {size} to {name}-{index}", lambda world: world.write(name, index, size))

    def is_led(self, name: str, index: int) -> bool:
        partition = self.slow.rig.replicas.by_name.get((name, index))
        return partition is not None and partition.is_leader

    def next_sequence(self, name: str, index: int, producer_id: int) -> tuple[int, bool]:
        """That of a producer's next batch, and whether a transaction is open. The log knows, since a change
        that a request has brought may have come late, or twice."""
        entry = self.slow.rig.log(name, index).producer_state.get(producer_id)
        if entry is None or not entry.batches:
            return 0, False
        return entry.batches[-1].last_sequence + 1, entry.has_open_transaction(0)

    def hold_transaction(self) -> None:
        (name, index), producer_id = self.somewhere(), self.random.choice(PRODUCERS)
        if not self.is_led(name, index):
            return
        sequence, is_open = self.next_sequence(name, index, producer_id)
        if is_open and self.random.random() < 0.6:
            self.decide(name, index, producer_id)
            return
        self.both(
            f"a record of {producer_id} in {name}-{index}",
            lambda world: world.write_open(name, index, producer_id, sequence),
        )

    def decide(self, name: str, index: int, producer_id: int) -> None:
        commit = self.random.random() < 0.5
        self.both(
            f"{'commit' if commit else 'abort'} {producer_id} in {name}-{index}",
            lambda world: world.decide(name, index, producer_id, commit=commit),
        )

    def change(self) -> tuple[str, Callable[[FetchWorld], object]]:
        """Something that could alter an answer."""
        random = self.random
        name, index = self.somewhere()
        led = self.is_led(name, index)
        kind = random.randrange(9)
        if kind == 0:
            return f"make {name} anew", lambda world: made_anew(world, name)
        if kind == 1:
            return f"deny {name}", lambda world: world.deny(name)
        if kind in (2, 3):
            return f"allow {name}", lambda world: world.allow(name)
        if kind == 4 and led:
            log = self.slow.rig.replicas.by_name[name, index].log
            start = random.randint(log.log_start_offset, log.high_watermark)
            return f"{name}-{index} starts at {start}", lambda world: world.raise_log_start(
                name, index, start
            )
        if kind == 5:
            return f"{name}-{index} follows", lambda world: world.move(name, index, leader=2, isr=[2])
        if kind == 6:
            return f"{name}-{index} leads", lambda world: world.move(name, index, leader=1, isr=[1])
        if kind == 7:
            value = random.choice(("60000", "70000", None))
            return f"{name} flush.ms={value}", lambda world: world.configure(name, "flush.ms", value)
        is_broken = random.random() < 0.3
        return f"the disk fails: {is_broken}", lambda world: fail_reads(world, is_broken)

    # Requests.

    def fetch(self) -> None:
        number = self.random.randrange(CONNECTIONS)
        reader = self.readers[number]
        frames = [self.frame(reader)]
        in_session, ahead = bool(reader.session_id), 0
        while self.random.random() < (0.35 if in_session else 0.5):
            if self.random.random() < 0.25:
                what, change = self.change()
                self.told.append(f"between the next two: {what}")
                self.slow.between = self.fast.between = change
                frames.append(self.slow.interlude())
            if self.random.random() < (0.05 if in_session else 0.3):
                frames.append(frames[0])  # in a session with an epoch that is over
                continue
            if in_session and reader.offsets and self.random.random() < 0.5:
                reader.offsets[self.random.choice(list(reader.offsets))] += 1
            ahead += in_session
            frames.append(self.frame(reader, ahead))
        data = b"".join(frames)
        if self.random.random() < 0.05:
            flipped = bytearray(data)
            flipped[self.random.randrange(4, len(data))] ^= 1 << self.random.randrange(8)
            data = bytes(flipped)
        cuts = sorted(self.random.randrange(len(data)) for _ in range(self.random.choice((0, 0, 0, 1, 3))))
        self.both(f"connection {number} sends {data.hex(' ')}", lambda world: world.send(data, number, cuts))

    def frame(self, reader: Reader, ahead: int = 0) -> bytes:
        """A request. ahead: so many of its session are in the same read before it."""
        random = self.random
        self.correlation_id += 1
        if random.random() < reader.hesitation:
            reader.isolation_level ^= 1
        session_id, epoch = (reader.session_id, reader.epoch + ahead) if reader.uses_session else (0, -1)
        fields: dict[str, Any] = {
            "session_id": session_id,
            "session_epoch": epoch,
            "isolation_level": reader.isolation_level,
            "min_bytes": reader.min_bytes,
            "max_bytes": 300 if random.random() < 0.03 else 2000,
        }
        wanted = self.wanted(reader)
        if reader.uses_session and epoch > 0:
            wanted = {
                key: offset
                for key, offset in wanted.items()
                if reader.named.get(key) != offset or random.random() < 0.05
            }
        topics = self.topics(reader, wanted)
        reader.named |= wanted
        if random.random() < (0.01 if self.is_calm else 0.06):
            fields |= self.oddity(reader)
        return self.slow.request(
            *topics,
            version=reader.version,
            correlation_id=self.correlation_id,
            **fields,
        )

    def wanted(self, reader: Reader) -> dict[tuple[str, int], int]:
        """Partitions and offsets, mostly one and where the reader is."""
        random = self.random
        count = random.choice((1, 1, 1, 1, 2, 3)) if not reader.offsets or random.random() < 0.1 else 0
        if self.is_calm:
            count = 0 if reader.offsets else random.choice((1, 2))
        for _ in range(count):
            reader.offsets.setdefault(self.somewhere(), 0)
        keys = list(reader.offsets)
        if not reader.uses_session:
            keys = keys[:1] if random.random() < 0.9 else keys[:2]
        if random.random() < 0.03:
            return {key: random.choice((-1, 0, 1, 5, 10**9)) for key in keys}
        return {key: reader.offsets[key] for key in keys}

    def topics(self, reader: Reader, wanted: dict[tuple[str, int], int]) -> list[FetchRequest.FetchTopic]:
        more: dict[str, Any] = {}
        if self.random.random() < 0.05:
            more["current_leader_epoch"] = self.random.choice((-2, 0, 1, 5))
        if self.random.random() < 0.03 and reader.version >= 12:
            more["last_fetched_epoch"] = 0
        return [
            self.slow.asked(name, offset, index=index, max_bytes=reader.max_bytes, **more)
            for (name, index), offset in wanted.items()
        ]

    def oddity(self, reader: Reader) -> dict[str, Any]:
        """Something that the lane leaves alone."""
        choices: list[dict[str, Any]] = [
            {"min_bytes": 10**6},
            {"max_wait_ms": 0},
            {"min_bytes": 0},
            {"max_bytes": -1},
            {"session_epoch": 7} if reader.version >= 7 else {},
            {"session_epoch": -1} if reader.version >= 7 else {},
            {"session_epoch": 0} if reader.version >= 7 else {},
            {"session_id": 99} if reader.version >= 7 else {},
            {"rack_id": "r"} if reader.version >= 11 else {},
            {"isolation_level": 5},
        ]
        if reader.version < 15:
            choices.append({"replica_id": 2})
        if reader.version >= 7:
            name, index = self.somewhere()
            made = self.slow.asked(name, 0).topic_id
            choices.append({"forgotten_topics_data": [FetchRequest.ForgottenTopic(name, made, [index])]})
        return self.random.choice(choices)


def made_anew(world: FetchWorld, name: str) -> None:
    world.remove(name)
    world.topic(name, dict(TOPICS)[name])
    if world.made % 2 != (name == "t"):
        world.made += 1


def fail_reads(world: FetchWorld, is_broken: bool) -> None:
    fault = Fault("pread", count=10**9, path_part=".log", error=errno.EIO)
    world.files.faults[:] = [fault] if is_broken else []


@pytest.mark.parametrize("first", range(FIRST, FIRST + CONVERSATIONS, AT_A_TIME))
def test_the_same_is_answered_with_the_lane_and_without(first: int) -> None:
    taken = served = 0
    for seed in range(first, min(first + AT_A_TIME, FIRST + CONVERSATIONS)):
        talk = Talk(seed)
        for _ in range(STEPS):
            talk.step()
        taken += talk.fast.taken
        served += talk.fast.served
        assert talk.slow.taken == 0
    assert taken * 10 > taken + served, "the lane has hardly anything to do in these conversations"


class _AsOne:
    """The active partitions of a session, counted as one, however many they are."""

    def __init__(self, active: dict[Any, Any]) -> None:
        self._active = active

    def __len__(self) -> int:
        return min(1, len(self._active))

    def __contains__(self, key: object) -> bool:
        return key in self._active

    def __setitem__(self, key: Any, wanted: Any) -> None:
        self._active[key] = wanted

    def values(self) -> list[Any]:
        return list(self._active.values())[:1]


def _find_whatever_others_tell(
    self: PlainSession, session: FetchSession, view: memoryview, at: int, end: int
) -> PlainFetch | None:
    like: Any = SimpleNamespace(wanted=session.wanted, active=_AsOne(session.active))
    return _FIND(self, like, view, at, end)


class _AnyLevel:
    """Equal to every isolation level."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__


def _take_untold(self: FetchLane, *arguments: Any) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FetchSession, "told_records", lambda *_: None)
        return _TAKE_OF_SESSION(self, *arguments)


def _read_however_few(self: PlainFetch) -> LogSlice | Literal[False] | None:
    self._least_bytes = min(self._least_bytes, 1)
    return _READ(self)


_FIND: Final = PlainSession.find
_TAKE_OF_SESSION: Final = FetchLane._take_of_session
_READ: Final = PlainFetch.read


class Mutant(NamedTuple):
    """A fault in the lane: what is put in the place of what."""

    where: object
    name: str
    instead: object


MUTANTS: Final = {
    "others may have something to tell": Mutant(PlainSession, "find", _find_whatever_others_tell),
    "another isolation level may show more": Mutant(
        PlainSession, "isolation_level", property(lambda self: _AnyLevel(), lambda self, level: None)
    ),
    "a session was told of records": Mutant(FetchLane, "_take_of_session", _take_untold),
    "there are fewer bytes than are wanted": Mutant(PlainFetch, "read", _read_however_few),
    "transactions were aborted": Mutant(plain_fetches, "aborted_transactions", lambda *_: []),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_lane_that_does_not_know_it_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, attribute, instead = MUTANTS[name]
    monkeypatch.setattr(where, attribute, instead)
    for seed in range(FOR_A_MUTANT):
        talk = Talk(seed)
        try:
            for _ in range(STEPS):
                talk.step()
        except AssertionError:
            slow, fast = (world.dispatcher.metrics.failures for world in (talk.slow, talk.fast))
            assert fast == slow, "what raises would be noticed anyway"
            return
    pytest.fail(f"{FOR_A_MUTANT} conversations have not noticed a lane that does not know that {name}")
