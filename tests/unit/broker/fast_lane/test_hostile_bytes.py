"""What is hostile to the long way comes behind plain requests, on a connection whose lane is warm.

Each time a broker without the lane gets the same bytes, and must have sent and stored the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from config.limits import TURN_REQUESTS
from protocol.errors import ErrorCode
from protocol.framing import encode_request_frame
from protocol.messages.produce import ProduceRequest
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, LZ4, ZSTD
from protocol.records.header import HEADER_BYTES
from protocol.records.single_batch import FIRST_VERSION_WITH_ZSTD
from tests.hostile.test_bad_batches import CASES, TOPICS
from tests.support.rigs.produce_world import WALKED, ProduceWorld
from tests.support.samples import bad_batches as bad
from tests.support.samples.mutated_batches import TOPICS as MUTATED_TOPICS
from tests.support.samples.mutated_batches import mutated_batches

VERSIONS = (7, 12, 13)
CODECS = {"gzip": GZIP, "lz4": LZ4, "zstd": ZSTD}
TAKEN = ("plain", "bare", "gz", "small")
"""The topics whose batches may take the lane. Those of all others are walked, or get another timestamp."""


class Pair:
    """Two brokers, of which one has the lane; their connections are warm for one topic."""

    def __init__(
        self, version: int = 12, topic: str = "plain", configs: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.slow, self.fast = ProduceWorld(fast=False), ProduceWorld(fast=True)
        self.version = version
        self.topic = topic
        now_ms = bad.now_ms()
        for world in (self.slow, self.fast):
            world.rig.clock.move(now_ms - world.rig.clock.wall_ms())
            world.topic(topic, **configs)
        codec = CODECS.get(configs.get("compression.type", ""), 0)
        if codec == ZSTD and version < FIRST_VERSION_WITH_ZSTD:
            codec = 0
        self.plain = self.request(bytes(self.slow.rig.batch(2, 60, codec=codec)))
        for world in (self.slow, self.fast):
            self._warm(world)

    def _warm(self, world: ProduceWorld) -> None:
        for _ in range(WALKED + 1):
            world.send(self.plain)

    def request(self, batch: bytes) -> bytes:
        return self.slow.request(self.topic, batch, version=self.version)

    def send(self, data: bytes, *cuts: int) -> int:
        """How many requests the lane has taken of it."""
        before = self.fast.taken_by_lane
        for world in (self.slow, self.fast):
            if world.wires[0].closed is not None:
                world.reconnect(0)
                self._warm(world)
                before = self.fast.taken_by_lane
            world.send(data, cuts=cuts)
        return self.fast.taken_by_lane - before

    def compare(self) -> None:
        assert self.fast.wires[0].sent == self.slow.wires[0].sent
        assert self.fast.wires[0].closed == self.slow.wires[0].closed
        assert self.fast.content() == self.slow.content()
        assert self.fast.counted() == self.slow.counted()


@pytest.mark.parametrize("version", VERSIONS)
def test_plain_requests_take_the_lane(version: int) -> None:
    pair = Pair(version)
    assert pair.send(pair.plain * 5) == 5
    pair.compare()


@pytest.mark.parametrize("name", CASES)
def test_a_bad_batch_between_good_ones(name: str) -> None:
    case = CASES[name]
    pair = Pair(case.version, case.topic, TOPICS[case.topic])
    made = pair.request(bytes(case.make()))
    taken = pair.send(pair.plain * 2 + made + pair.plain * 2)
    assert taken >= 3 if case.topic in TAKEN else not taken
    pair.compare()


def test_mutated_batches_between_good_ones() -> None:
    pairs: dict[tuple[str, int], Pair] = {}
    taken: Counter[str] = Counter()
    for mutated in mutated_batches(600):
        topic, version = mutated.topic, mutated.version
        if (topic, version) not in pairs:
            pairs[topic, version] = Pair(version, topic, MUTATED_TOPICS[topic])
        pair = pairs[topic, version]
        taken[topic] += pair.send(pair.plain + pair.request(mutated.records) + pair.plain)
        if mutated.number % 20 == 0:
            pair.compare()
    for pair in pairs.values():
        pair.compare()
    assert {topic for topic, requests in taken.items() if requests} == set(TAKEN)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_differs_in_one_byte(version: int) -> None:
    """Of the size not the byte that makes it larger than the read: then it waits for more, which is another
    test."""
    for place in [*range(2, len(pair_frame(version))), -1, -2, -3]:
        for flip in (0x01, 0x80):
            pair = Pair(version)
            changed = bytearray(pair.plain)
            changed[place] ^= flip
            pair.send(pair.plain + changed + pair.plain)
            pair.compare()


def pair_frame(version: int) -> bytes:
    """The bytes of a request up to the end of its batch's header."""
    pair = Pair(version)
    batch = bytes(pair.slow.rig.batch(2, 60))
    return pair.plain[: pair.plain.index(batch[:HEADER_BYTES]) + HEADER_BYTES]


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_that_are_cut_anywhere(version: int) -> None:
    pair = Pair(version)
    for place in range(len(pair.plain) + 1):
        assert pair.send(pair.plain * 3, len(pair.plain) + place) == 3
    pair.compare()


def test_bytes_behind_the_request_and_lengths_that_are_no_canonical_varints() -> None:
    pair = Pair()
    batch = bytes(pair.slow.rig.batch(2, 60))
    at = pair.plain.index(batch)
    for changed in (
        pair.plain[4:] + b"\0",
        pair.plain[4:] + b"rubbish",
        pair.plain[4:-3] + b"\1\0\0" + pair.plain[-3:],
        pair.plain[4 : at - 1] + bytes((pair.plain[at - 1] | 0x80, 0)) + pair.plain[at:],
        pair.plain[4 : at - 1] + bytes((pair.plain[at - 1] + 1,)) + pair.plain[at:],
        pair.plain[4 : at - 1] + b"\0\0\0\0",
        pair.plain[4 : at + 40],
        pair.plain[4:20],
        b"",
    ):
        pair.send(pair.plain + len(changed).to_bytes(4, "big") + changed + pair.plain)
        pair.compare()
        pair.send(len(changed).to_bytes(4, "big") + changed + pair.plain * 2)
        pair.compare()


def test_batches_of_very_different_sizes() -> None:
    pair = Pair()
    at = pair.slow.rig.clock.wall_ms()
    sizes = (1, 40, 50, 51, 60, 100, 120, 16_200, 16_300, 16_400, 40_000, 200_000)
    for size in sizes * 3:
        pair.send(pair.request(bytes(build_batch([SimpleRecord(None, b"v" * size, at)]))) * 2)
    pair.compare()
    assert pair.fast.taken_by_lane >= 5 * len(sizes)


def test_a_turn_ends_after_as_many_requests_as_without_the_lane() -> None:
    pair = Pair()
    before = len(pair.fast.wires[0].sends)
    pair.send(pair.plain * (TURN_REQUESTS + 3))
    assert len(pair.fast.wires[0].sends) == before + 2
    assert pair.fast.answers()[-1] == pair.slow.answers()[-1]
    pair.compare()


def test_a_frame_longer_than_allowed_is_refused_behind_plain_ones() -> None:
    pair = Pair()
    for world in (pair.slow, pair.fast):
        world.connections[0].max_frame_bytes = len(pair.plain) - 4
    larger = pair.request(bytes(pair.slow.rig.batch(2, 61)))
    pair.send(pair.plain + larger + pair.plain)
    assert pair.fast.wires[0].closed is not None
    assert "socket.request.max.bytes" in pair.fast.wires[0].closed
    pair.compare()


def test_a_producer_that_repeats_itself_within_a_read() -> None:
    pair = Pair()
    at = pair.slow.rig.clock.wall_ms()

    def batch(sequence: int, epoch: int = 0) -> bytes:
        records = [SimpleRecord(None, b"v", at)] * 2
        return pair.request(
            bytes(build_batch(records, producer_id=7, producer_epoch=epoch, base_sequence=sequence))
        )

    pair.send(batch(0) + batch(2) + batch(4) + batch(2) + batch(6) + batch(10) + batch(8) + batch(8))
    pair.compare()
    pair.send(batch(10) + batch(12) + batch(0, 1) + batch(2, 1) + batch(14) + batch(4, 1))
    pair.compare()
    assert pair.fast.taken_by_lane >= 6


def test_what_others_write_has_no_batch_of_a_trusted_connection_walked_again() -> None:
    """Its records are not looked at, with the lane or without, however many others have come since."""
    partitions = 1000
    answers = []
    for fast in (False, True):
        world = ProduceWorld(fast=fast, connections=2)
        world.topic("t")
        world.topic("wide", partitions)
        good = bytes(world.rig.batch())
        everywhere = ProduceRequest.TopicProduceData(
            "wide",
            partition_data=[ProduceRequest.PartitionProduceData(index, good) for index in range(partitions)],
        )
        world.warm("t", 0)
        world.warm("t", 1)
        for _ in range(17):
            world.reconnect(1)
            world.send(encode_request_frame(ProduceRequest(None, 1, 1000, [everywhere]), 12, 1, "b"), 1)
            assert world.wires[1].sent
        broken = bytearray(good)
        broken[HEADER_BYTES] -= 2
        taken = world.taken_by_lane
        world.send(world.request("t", bytes(bad.lying(broken))), 0)
        answers.append(world.answers())
        assert answers[-1][-1][0] == ErrorCode.NONE
        assert world.taken_by_lane - taken == fast
    assert answers[0] == answers[1]
