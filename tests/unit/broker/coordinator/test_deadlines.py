"""Deadlines in a lazy heap: moved away for free, never missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.deadlines import DeadlineQueue


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
def test_it_says_what_a_plain_dictionary_says(steps: list[tuple[str, str, int]]) -> None:
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
