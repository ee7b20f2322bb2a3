"""What a connection remembers of its requests: found by the same bytes alone, bounded, and soon forgotten."""

from __future__ import annotations

import struct

from broker.fast_lane.epoch import LaneEpoch
from broker.fast_lane.remembered import RememberedRequests
from config.limits import LANE_REQUESTS_REMEMBERED, LANE_SHAPES

HEAD = b"\0\0\0\x0c"


def frame(
    key: bytes, *, head: bytes = HEAD, correlation_id: int = 7, more: bytes = b"\0\0\0\x05"
) -> memoryview:
    rest = head + struct.pack(">I", correlation_id) + key + more
    return memoryview(bytearray(struct.pack(">i", len(rest)) + rest))


def found(remembered: RememberedRequests[str], view: memoryview) -> str | None:
    hit = remembered.find(view, 0, len(view))
    return None if hit is None else hit[1]


def test_only_the_same_bytes_are_found() -> None:
    remembered: RememberedRequests[str] = RememberedRequests(LaneEpoch())
    assert remembered.add(HEAD, b"topic-a", "i", "a")
    assert remembered.add(HEAD, b"topic-b", "i", "b")
    assert found(remembered, frame(b"topic-a", correlation_id=1)) == "a"
    assert found(remembered, frame(b"topic-b", correlation_id=2, more=b"\xff\0\0\1")) == "b"
    whole = bytes(frame(b"topic-a"))
    same = range(8, 12), range(4), range(len(whole) - 4, len(whole))
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 0x10
        is_same = any(position in each for each in same)
        assert (found(remembered, memoryview(changed)) == "a") is is_same, position
    assert found(remembered, frame(b"topic-a")[:-1]) is None


def test_a_frame_is_found_anywhere_in_the_buffer() -> None:
    remembered: RememberedRequests[str] = RememberedRequests(LaneEpoch())
    remembered.add(HEAD, b"topic", "i", "it")
    view = memoryview(bytearray(b"before" + bytes(frame(b"topic")) + b"behind"))
    hit = remembered.find(view, 6, len(view))
    assert hit is not None
    shape, known = hit
    assert known == "it"
    assert shape.unpack(view, 6) == (len(view) - 12 - 4, HEAD, 7, b"topic", 5)


def test_everything_is_forgotten_with_the_epoch() -> None:
    epoch = LaneEpoch()
    remembered: RememberedRequests[str] = RememberedRequests(epoch)
    remembered.add(HEAD, b"topic", "i", "before")
    epoch.bump()
    assert found(remembered, frame(b"topic")) is None
    assert len(remembered) == 0
    remembered.add(HEAD, b"topic", "i", "after")
    assert found(remembered, frame(b"topic")) == "after"


def test_what_was_decided_before_the_epoch_is_not_mixed_with_what_comes_after_it() -> None:
    epoch = LaneEpoch()
    remembered: RememberedRequests[str] = RememberedRequests(epoch)
    remembered.add(HEAD, b"topic-a", "i", "a")
    epoch.bump()
    remembered.add(HEAD, b"topic-b", "i", "b")
    assert found(remembered, frame(b"topic-a")) is None
    assert found(remembered, frame(b"topic-b")) == "b"


def test_a_request_that_is_remembered_again_takes_no_further_place() -> None:
    remembered: RememberedRequests[str] = RememberedRequests(LaneEpoch())
    for number in range(3 * LANE_REQUESTS_REMEMBERED):
        assert remembered.add(HEAD, b"topic", "i", str(number))
    assert len(remembered) == 1
    assert found(remembered, frame(b"topic")) == str(3 * LANE_REQUESTS_REMEMBERED - 1)


def test_who_has_more_requests_than_places_keeps_the_first_ones_for_a_while() -> None:
    remembered: RememberedRequests[str] = RememberedRequests(LaneEpoch())
    for number in range(LANE_REQUESTS_REMEMBERED):
        assert remembered.add(HEAD, b"%05d" % number, "i", "first")
    turned_away = 0
    while not remembered.add(HEAD, b"later", "i", "later"):
        turned_away += 1
        assert len(remembered) in (0, LANE_REQUESTS_REMEMBERED)
        assert turned_away <= 64 * LANE_REQUESTS_REMEMBERED
    assert turned_away >= 4 * LANE_REQUESTS_REMEMBERED
    assert len(remembered) == 1


def test_there_are_few_layouts_at_a_time() -> None:
    remembered: RememberedRequests[str] = RememberedRequests(LaneEpoch())
    for length in range(1, LANE_SHAPES + 1):
        assert remembered.add(HEAD, bytes([length]) * length, "i", str(length))
    assert not remembered.add(HEAD, b"k" * 20, "i", "one more")
    assert not remembered.has_room()
    for length in range(1, LANE_SHAPES + 1):
        assert found(remembered, frame(bytes([length]) * length)) == str(length)
    while not remembered.has_room():
        pass
    assert remembered.add(HEAD, b"k" * 20, "i", "one more")
    assert len(remembered) == 1


def test_what_stands_for_several_requests_takes_their_places_until_it_is_given_back() -> None:
    remembered: RememberedRequests[str] = RememberedRequests(LaneEpoch())
    assert remembered.add(HEAD, b"topic-a", "i", "a")
    assert remembered.add(HEAD, b"topic-b", "i", "b")
    remembered.take_places(LANE_REQUESTS_REMEMBERED - 3)
    assert not remembered.is_full
    assert remembered.add(HEAD, b"topic-c", "i", "c")
    assert remembered.is_full
    assert not remembered.add(HEAD, b"topic-d", "i", "d")
    remembered.give_back(lambda each: LANE_REQUESTS_REMEMBERED - 2 if each == "a" else 0)
    assert len(remembered) == 2
    assert found(remembered, frame(b"topic-a")) is None
    assert found(remembered, frame(b"topic-b")) == "b"
    assert remembered.add(HEAD, b"topic-d", "i", "d")
