"""What arrives over TLS reaches the session in order and complete, a few records at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.network.tls.records import RecordQueue


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2, "big") + b"r" * size


def headers_in(pieces: list[bytes]) -> list[int]:
    """How many records begin in each piece."""
    whole, at, starts = b"".join(pieces), 0, []
    while at < len(whole):
        starts.append(at)
        at += 5 + int.from_bytes(whole[at + 3 : at + 5], "big")
    counts, end = [], 0
    for piece in pieces:
        begin, end = end, end + len(piece)
        counts.append(sum(begin <= each < end for each in starts))
    return counts


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=60),
    st.lists(st.integers(1, 900), min_size=1, max_size=20),
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.booleans(),
)
def test_all_arrives_in_order_a_few_records_at_a_time(
    sizes: list[int], arrivals: list[int], bounds: list[int], is_shared: bool
) -> None:
    """The buffer in which it arrives is used again once the queue has kept what it needs."""
    wire = b"".join(map(record, sizes))
    queue, scratch = RecordQueue(), memoryview(bytearray(900))
    pieces: list[bytes] = []
    at = turn = 0
    while at < len(wire) or queue.has_more:
        bound = bounds[turn % len(bounds)]
        arrived = None
        if not queue.has_more:
            count = min(arrivals[turn % len(arrivals)], len(wire) - at)
            scratch[:count] = wire[at : at + count]
            arrived, at = scratch[:count], at + count
        pieces.append(bytes(queue.take(bound, arrived)))
        assert queue.taken_records <= bound
        assert queue.taken_records == headers_in(pieces)[-1]
        queue.keep()
        if is_shared:
            scratch[:] = b"?" * len(scratch)
        turn += 1
    assert b"".join(pieces) == wire


def test_a_part_of_a_header_waits_for_the_rest() -> None:
    queue = RecordQueue()
    wire = record(10) + record(7)
    assert queue.take(9, memoryview(wire[:18])) == wire[:15]
    assert not queue.has_more
    assert queue.take(9, memoryview(wire[18:])) == wire[15:]
    assert not queue.has_more
