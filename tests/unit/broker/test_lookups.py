"""Long look-ups on one loop: what is quick is answered at once, the rest takes turns, and who goes stops."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from broker.scheduling.long_work import LongWork
from broker.scheduling.lookups import Lookups
from config.limits import LARGE_LOOKUPS, LARGEST_LOOKUPS, LONG_WORK_TURN_MS, LOOKUP_INLINE_MS
from protocol.errors import InvariantViolated
from protocol.serving.pending import Pending
from storage.time_lookup import LookupStep, Room
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.storage_world import RunsLater

STEP_MS = 0.25


class Rig:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.work = LongWork(self.clock, self.timers)
        self.threads = RunsLater()
        self.lookups = Lookups(clock=self.clock, work=self.work, threads=self.threads)
        self.done: list[str] = []
        self.steps_of: dict[str, int] = {}
        self.rooms: dict[str, Room] = {}
        self.most: dict[Room, int] = {Room.SOME: 0, Room.MUCH: 0}

    def search(self, name: str, count: int, *rooms: Room) -> Generator[LookupStep, Any, str]:
        """So many steps of a quarter of a millisecond in each of the rooms."""
        self.steps_of[name] = 0
        for room in rooms or (Room.NONE,):
            self.rooms.pop(name, None)
            yield room
            self.rooms[name] = room
            for each in self.most:
                self.most[each] = max(self.most[each], sum(found is each for found in self.rooms.values()))
            for _ in range(count):
                self.clock.move(STEP_MS)
                self.steps_of[name] += 1
                yield None
        self.rooms.pop(name, None)
        yield Room.NONE
        self.done.append(name)
        return name

    def start(self, name: str, count: int = 100, *rooms: Room) -> Any:
        return self.lookups.run(self.search(name, count, *rooms), lambda: "refused")

    def turn(self) -> float:
        """One turn of the loop: how long it took."""
        began = self.clock.monotonic_ns()
        self.timers.run_once()
        return (self.clock.monotonic_ns() - began) / 1e6

    def run(self) -> None:
        while self.timers.run_once() or self.threads.run():
            pass


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_what_is_quick_is_answered_at_once(rig: Rig) -> None:
    assert rig.start("quick", int(LOOKUP_INLINE_MS / STEP_MS) - 1) == "quick"
    assert rig.lookups.under_way == 0
    assert rig.turn() == 0


def test_what_is_long_takes_a_small_part_of_each_turn(rig: Rig) -> None:
    pending = rig.start("long", 1000)
    assert isinstance(pending, Pending)
    assert rig.steps_of["long"] <= LOOKUP_INLINE_MS / STEP_MS
    turns = 0
    while not pending.done:
        assert rig.turn() <= LONG_WORK_TURN_MS + STEP_MS
        turns += 1
    assert pending.response == "long"
    assert turns >= 1000 * STEP_MS / (LONG_WORK_TURN_MS + STEP_MS)
    assert (rig.lookups.under_way, len(rig.work)) == (0, 0)


def test_a_hundred_take_no_more_of_a_turn_than_one_and_all_go_on(rig: Rig) -> None:
    pendings = [rig.start(str(number)) for number in range(100)]
    assert rig.lookups.under_way == 100
    for _ in range(200):
        assert rig.turn() <= LONG_WORK_TURN_MS + STEP_MS
    steps = rig.steps_of.values()
    assert max(steps) - min(steps) <= 1, "each has had as many slices as any other"
    rig.run()
    assert all(pending.response == str(number) for number, pending in enumerate(pendings))


def test_a_short_one_does_not_wait_for_the_long_ones(rig: Rig) -> None:
    for number in range(10):
        rig.start(f"long {number}", 10_000)
    short = rig.start("short", 10)
    turns = 0
    while not short.done:
        rig.turn()
        turns += 1
    assert turns < 100
    assert rig.done == ["short"]


def test_so_many_have_room_and_the_others_wait_in_order(rig: Rig) -> None:
    count = 3 * LARGE_LOOKUPS
    for number in range(count):
        rig.start(f"{number:02}", 20, Room.SOME)
    rig.run()
    assert rig.most[Room.SOME] == LARGE_LOOKUPS
    assert sorted(rig.done) == [f"{number:02}" for number in range(count)]
    assert max(rig.done[:LARGE_LOOKUPS]) < min(rig.done[LARGE_LOOKUPS : 2 * LARGE_LOOKUPS])


def test_much_room_is_for_one_and_leaves_the_other_kind_free(rig: Rig) -> None:
    for number in range(2 * LARGE_LOOKUPS):
        rig.start(f"much {number}", 20, Room.SOME, Room.MUCH)
    rig.run()
    assert rig.most == {Room.SOME: LARGE_LOOKUPS, Room.MUCH: LARGEST_LOOKUPS}
    assert len(rig.done) == 2 * LARGE_LOOKUPS


def test_who_has_gone_gives_its_room_to_the_next(rig: Rig) -> None:
    first = [rig.start(f"first {number}", 1000, Room.SOME) for number in range(LARGE_LOOKUPS)]
    waiting = [rig.start(f"waiting {number}", 10, Room.SOME) for number in range(2)]
    assert rig.steps_of["waiting 0"] == 0
    waiting[0].cancel()
    first[3].cancel()
    before = rig.steps_of["first 3"]
    rig.run()
    assert rig.steps_of["first 3"] == before
    assert "waiting 0" not in rig.done
    assert waiting[1].response == "waiting 1"
    assert rig.lookups.under_way == 0


def test_all_that_have_gone_leave_nothing_to_do(rig: Rig) -> None:
    for pending in [rig.start(str(number), 1000, Room.SOME) for number in range(30)]:
        pending.cancel()
    rig.turn()
    rig.turn()
    assert (len(rig.work), rig.done) == (0, [])
    assert rig.start("quick", 2, Room.SOME) == "quick", "all rooms are free again"


def threaded(call: Any) -> Generator[LookupStep, Any, Any]:
    yield Room.MUCH
    result = yield call
    yield Room.NONE
    return result


def test_a_helper_thread_does_its_part(rig: Rig) -> None:
    pending: Any = rig.lookups.run(threaded(lambda: "unfolded"), lambda: "refused")
    assert not pending.done
    rig.run()
    assert pending.response == "unfolded"


def test_what_a_thread_unfolds_keeps_its_room_until_it_is_done(rig: Rig) -> None:
    gone: Any = rig.lookups.run(threaded(lambda: "unfolded"), lambda: "refused")
    following: Any = rig.start("following", 1, Room.MUCH)
    gone.cancel()
    rig.timers.run_soon()
    assert (rig.steps_of["following"], len(rig.threads.waiting)) == (0, 1)
    rig.run()
    assert following.response == "following"


def test_what_fails_is_refused_and_the_others_go_on(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def failing(at_once: bool) -> Generator[LookupStep, Any, str]:
        yield Room.SOME
        if not at_once:
            rig.clock.move(LOOKUP_INLINE_MS)
            yield None
        raise ValueError("our fault")

    def breaks() -> None:
        raise MemoryError

    other = rig.start("other")
    assert rig.lookups.run(failing(True), lambda: "refused") == "refused"
    late: Any = rig.lookups.run(failing(False), lambda: "refused")
    in_thread: Any = rig.lookups.run(threaded(breaks), lambda: "refused")
    rig.run()
    assert [late.response, in_thread.response, other.response] == ["refused", "refused", "other"]
    assert caplog.text.count("this is our fault") == 3
    assert rig.start("room is left", 1, Room.SOME, Room.MUCH) == "room is left"


def test_a_broken_invariant_goes_up_to_the_loop(rig: Rig) -> None:
    def broken() -> Generator[LookupStep, Any, str]:
        for _ in range(2):
            rig.clock.move(LOOKUP_INLINE_MS)
            yield None
        raise InvariantViolated("broken")

    other = rig.start("other", 20)
    rig.lookups.run(broken(), lambda: "refused")
    with pytest.raises(InvariantViolated):
        rig.run()
    rig.run()
    assert other.response == "other", "the queue goes on, if anybody lets it"
