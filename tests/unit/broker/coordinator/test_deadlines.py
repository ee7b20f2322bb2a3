"""Deadlines in a lazy heap: moved away for free, never missed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.runtime import deadlines
from broker.coordinator.runtime.deadlines import REBUILD_FROM, DeadlineQueue


def due(queue: DeadlineQueue[str], now_ms: int) -> list[str]:
    keys = []
    while (key := queue.pop_due(now_ms)) is not None:
        keys.append(key)
    return keys


def test_a_deadline_comes_when_its_time_has_come_and_not_before() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    queue.set("a", 100)
    assert due(queue, 99) == []
    assert due(queue, 100) == ["a"]
    assert due(queue, 1000) == []


def test_a_deadline_moved_away_is_looked_at_early_and_comes_late() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    queue.set("a", 100)
    queue.set("a", 300)
    assert queue.next_look_ms() == 100
    assert due(queue, 100) == []
    assert queue.next_look_ms() == 300
    assert due(queue, 300) == ["a"]


def test_a_deadline_moved_nearer_comes_once() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    queue.set("a", 300)
    queue.set("a", 100)
    assert due(queue, 100) == ["a"]
    assert due(queue, 300) == []


def test_a_cancelled_deadline_does_not_come_and_can_be_set_again() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    queue.set("a", 100)
    queue.cancel("a")
    assert "a" not in queue
    assert due(queue, 100) == []
    queue.set("a", 200)
    assert due(queue, 200) == ["a"]


def test_a_thousand_heartbeats_leave_one_entry() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    for deadline in range(1000):
        queue.set("a", deadline)
    assert len(queue._heap) == 1


def test_ten_thousand_joins_and_leaves_leave_little() -> None:
    queue: DeadlineQueue[int] = DeadlineQueue()
    for key in range(10):
        queue.set(-key, 1_800_000 + key)
    largest = 0
    for key in range(1, 10_001):
        queue.set(key, 1_800_000 + key)
        queue.cancel(key)
        largest = max(largest, len(queue._heap), len(queue._looks))
    assert largest <= REBUILD_FROM + 1
    assert len(queue) == 10


def test_deadlines_moved_nearer_leave_no_more_than_their_number() -> None:
    queue: DeadlineQueue[int] = DeadlineQueue()
    for deadline in range(2_000, 0, -1):
        for key in range(100):
            queue.set(key, deadline)
    assert len(queue._heap) <= 201


@pytest.mark.parametrize("rebuild_from", [0, 2, 64])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.sampled_from("abcde"), st.integers(0, 50)),
            st.tuples(st.just("cancel"), st.sampled_from("abcde"), st.just(0)),
            st.tuples(st.just("pass"), st.just(""), st.integers(0, 20)),
        ),
        max_size=60,
    )
)
def test_it_says_what_a_plain_dictionary_says(rebuild_from: int, steps: list[tuple[str, str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadlines, "REBUILD_FROM", rebuild_from)
        _compare(steps)


def _compare(steps: list[tuple[str, str, int]]) -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    model: dict[str, int] = {}
    now = 0
    for what, key, number in steps:
        if what == "set":
            queue.set(key, now + number)
            model[key] = now + number
        elif what == "cancel":
            queue.cancel(key)
            model.pop(key, None)
        else:
            now += number
            came = due(queue, now)
            assert sorted(came) == sorted(key for key, at in model.items() if at <= now)
            for key in came:
                del model[key]
        look = queue.next_look_ms()
        assert not model or (look is not None and look <= min(model.values()))
