"""Any damage to a stored partition of `__consumer_offsets`: loading ends, and nothing is lost without a word.

Bytes of some batches are flipped, set, cut out or doubled. Afterwards the partition is either given up as a
whole (its groups have no coordinator, which an operator notices), or all that lies in batches which were not
touched is there.
"""

from __future__ import annotations

from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.offsets.offset_records import OffsetAndMetadata, offset_record
from broker.coordinator.runtime.batches import coordinator_batch
from broker.coordinator.runtime.result import CoordinatorRecord
from protocol.errors import ErrorCode
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import patch_offset_and_epoch
from tests.support.rigs.group_world import DamagedLog, GroupWorld
from tests.support.rigs.hand_clock import HandTimers

BATCHES = 12
OFFSET_BYTES = 8
WHOLE = 1 << 20
"""So much is read at once that the whole log is in it."""
ROUNDS = 500
"""Turns of the loop in which so little must be loaded, however it looks."""


def _record(number: int) -> CoordinatorRecord:
    return offset_record("g", "t", number, OffsetAndMetadata(number, metadata="m" * (number % 3)))


@cache
def pristine() -> tuple[bytes, ...]:
    """Batches of one to three offsets, each of a partition of its own; some compressed, as others do."""
    batches: list[bytes] = []
    offset = 0
    for number in range(BATCHES):
        records = [_record(offset + place) for place in range(1 + number % 3)]
        if number % 4 == 3:
            built = build_batch([SimpleRecord(*record, 1) for record in records], codec=1 + number % 3)
        else:
            built = bytearray(coordinator_batch(records, timestamp_ms=1))
        patch_offset_and_epoch(built, 0, offset, 0)
        batches.append(bytes(built))
        offset += len(records)
    return tuple(batches)


def owners() -> dict[int, int]:
    """Which batch tells of which partition's offset."""
    places: dict[int, int] = {}
    for number in range(BATCHES):
        for _ in range(1 + number % 3):
            places[len(places)] = number
    return places


def loaded(changed: dict[int, bytes], buffer_bytes: int) -> dict[int, int] | None:
    """Offsets by partition; None if the partition was given up."""
    log = DamagedLog()
    world = GroupWorld(log=log)
    world.groups.close()
    partition = world.groups.partition_for("g")
    log.batches[GROUP_TOPIC, partition] = list(pristine())
    log.damaged[GROUP_TOPIC, partition] = changed
    world.settings = type(world.settings)(offsets_load_buffer_bytes=buffer_bytes)
    world.groups = world.coordinator()
    world.groups.elected(partition, 1)
    _let_it_load(world.timers)
    fetched = world.groups.fetch_offsets("g", None, require_stable=False)
    error = getattr(fetched, "error", None)
    if error is ErrorCode.NOT_COORDINATOR:
        return None
    assert error is ErrorCode.NONE, "it still loads"
    topics = world.shard("g").offset_metadata.committed.topics("g")
    return {index: kept.offset for index, kept in topics.get("t", {}).items()}


def _let_it_load(timers: HandTimers) -> None:
    for _ in range(ROUNDS):
        if not timers.run_once():
            return
    raise AssertionError("loading does not come to an end")


def check(changed: dict[int, bytes], buffer_bytes: int = WHOLE) -> None:
    result = loaded(changed, buffer_bytes)
    if result is None:
        return
    for index, number in owners().items():
        if number not in changed:
            assert result.get(index) == index, f"what batch {number} says is lost"
        else:
            assert result.get(index) in (None, index), "an offset that nobody committed"


def test_the_untouched_log_is_loaded_as_a_whole() -> None:
    for buffer_bytes in (1, 300, WHOLE):
        assert loaded({}, buffer_bytes) == {index: index for index in owners()}


def test_every_bit_of_three_batches() -> None:
    for number in (0, 6, BATCHES - 1):
        batch = pristine()[number]
        for at in range(len(batch)):
            for bit in range(8):
                flipped = bytearray(batch)
                flipped[at] ^= 1 << bit
                check({number: bytes(flipped)}, WHOLE if at < OFFSET_BYTES or bit % 2 else 200)


EDITS = st.tuples(
    st.integers(0, BATCHES - 1),
    st.sampled_from(("flip", "set", "cut", "double", "random", "swap")),
    st.integers(0, 200),
    st.binary(min_size=1, max_size=80),
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EDITS, min_size=1, max_size=4), st.sampled_from((1, 200, WHOLE)))
def test_any_damage(edits: list[tuple[int, str, int, bytes]], buffer_bytes: int) -> None:
    changed: dict[int, bytes] = {}
    for number, kind, at, data in edits:
        batch = bytearray(changed.get(number, pristine()[number]))
        at %= max(len(batch), 1)
        if buffer_bytes < WHOLE:
            # Nothing but its neighbours in one read shows that an offset is wrong: no checksum covers it.
            at = max(at, OFFSET_BYTES)
            kind = "flip" if kind == "swap" else kind
        if kind == "flip":
            batch[at : at + 1] = bytes(each ^ (data[0] or 1) for each in batch[at : at + 1])
        elif kind == "set":
            batch[at : at + len(data)] = data[: len(batch) - at]
        elif kind == "cut":
            del batch[at : at + len(data)]
        elif kind == "double":
            batch[at:at] = batch[at : at + len(data)]
        elif kind == "random":
            batch = bytearray(data)
        else:
            batch = bytearray(pristine()[at % BATCHES])
        changed[number] = bytes(batch)
    check({number: batch for number, batch in changed.items() if batch != pristine()[number]}, buffer_bytes)
