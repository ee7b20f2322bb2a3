"""What arrives over TLS reaches the session in order and complete, a few records at a time."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from broker.network.tls.records import RecordQueue


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2, "big") + b"r" * size


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=60),
    st.lists(st.integers(1, 900), min_size=1, max_size=20),
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.integers(1, 5),
)
def test_all_arrives_in_order_a_few_records_at_a_time(
    sizes: list[int], arrivals: list[int], bounds: list[int], turn_takes: int
) -> None:
    """A turn ends after so many takes. The buffer in which it arrives is used by others between turns, and
    again in the same turn once there is no more in it."""
    wire = b"".join(map(record, sizes))
    headers = set(accumulate((5 + size for size in sizes), initial=0))
    queue, scratch = RecordQueue(), memoryview(bytearray(900))
    pieces: list[bytes] = []
    at = turn = given_out = 0
    while at < len(wire) or queue.has_more:
        bound = bounds[turn % len(bounds)]
        arrived = None
        if not queue.has_more:
            count = min(arrivals[turn % len(arrivals)], len(wire) - at)
            scratch[:count] = wire[at : at + count]
            arrived, at = scratch[:count], at + count
        pieces.append(bytes(queue.take(bound, arrived)))
        begin, given_out = given_out, given_out + len(pieces[-1])
        assert queue.taken_records == len(headers.intersection(range(begin, given_out))) <= bound
        turn += 1
        if turn % turn_takes == 0:
            queue.keep()
        if turn % turn_takes == 0 or not queue.has_more:
            scratch[:] = b"?" * len(scratch)
    assert b"".join(pieces) == wire


def test_a_part_of_a_header_waits_for_the_rest() -> None:
    queue = RecordQueue()
    wire = record(10) + record(7)
    assert queue.take(9, memoryview(wire[:18])) == wire[:15]
    assert not queue.has_more
    assert queue.take(9, memoryview(wire[18:])) == wire[15:]
    assert not queue.has_more
