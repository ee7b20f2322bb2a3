"""When a directory counts as slow: what a long write waited for decides, and how long it rests."""

from __future__ import annotations

import pytest

from config.limits import (
    SLOW_DIRECTORY_LONGEST_REST_MS,
    SLOW_DIRECTORY_MS,
    SLOW_DIRECTORY_RELAPSE_MS,
    SLOW_DIRECTORY_REST_MS,
    WATCHED_DIRECTORY_MS,
    WATCHED_WRITES,
)
from storage.log_disk import LogDisk
from tests.support.rigs.storage_world import RunsLater

MS = 1_000_000
LONG_MS = SLOW_DIRECTORY_MS + 10


class Machine:
    """Time that passes in writes: waiting for the disk, or for a processor."""

    def __init__(self) -> None:
        self.wall_ms = 1_000
        self.stalled_ms = 0
        self.questions = 0
        self.disk = LogDisk("/data", RunsLater(), lambda: self.wall_ms * MS, self.stalls)

    def stalls(self) -> int:
        self.questions += 1
        return self.stalled_ms * MS

    def wait(self, milliseconds: int) -> None:
        self.wall_ms += milliseconds

    def write(self, *, disk_ms: int = 0, processor_ms: int = 0) -> None:
        """One on the loop, as a log times it."""
        now_ns = self.disk.now_ns
        began_ns = now_ns()
        self.wall_ms += disk_ms + processor_ms
        self.stalled_ms += disk_ms
        self.disk.took(now_ns() - began_ns)

    def write_in_thread(self, *, disk_ms: int = 0, processor_ms: int = 0) -> None:
        began_ns = self.disk.stalled_ns()
        self.wall_ms += disk_ms + processor_ms
        self.stalled_ms += disk_ms
        self.disk.stalled(self.disk.stalled_ns() - began_ns)

    def become_slow(self) -> None:
        self.write(disk_ms=LONG_MS)
        self.write(disk_ms=LONG_MS)
        assert self.disk.is_slow


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_quick_directory_asks_nothing_of_the_machine(machine: Machine) -> None:
    for _ in range(1000):
        machine.write(disk_ms=1)
        machine.write(processor_ms=SLOW_DIRECTORY_MS)
    assert (machine.questions, machine.disk.is_watched) == (0, False)


def test_a_disk_that_keeps_writes_waiting_is_slow_with_the_second(machine: Machine) -> None:
    machine.write(disk_ms=LONG_MS)
    assert (machine.disk.is_watched, machine.disk.still_slow()) == (True, False)
    machine.write(disk_ms=LONG_MS)
    assert machine.disk.still_slow()


def test_a_processor_that_keeps_writes_waiting_is_no_slow_disk(machine: Machine) -> None:
    for _ in range(1000):
        machine.write(processor_ms=10 * LONG_MS)
        machine.write(disk_ms=SLOW_DIRECTORY_MS, processor_ms=LONG_MS)
    assert machine.disk.slow_writes == 0
    assert not machine.disk.is_slow


def test_a_slow_disk_is_found_among_busy_processors(machine: Machine) -> None:
    for _ in range(5):
        machine.write(processor_ms=LONG_MS)
    machine.write(disk_ms=LONG_MS, processor_ms=LONG_MS)
    assert machine.disk.is_slow


def test_where_the_machine_does_not_tell_two_long_writes_in_a_row_decide() -> None:
    wall_ms = 1_000
    disk = LogDisk("/data", RunsLater(), lambda: wall_ms * MS)

    def write(milliseconds: int) -> None:
        nonlocal wall_ms
        now_ns = disk.now_ns
        began_ns = now_ns()
        wall_ms += milliseconds
        disk.took(now_ns() - began_ns)

    write(LONG_MS)
    for _ in range(WATCHED_WRITES + 1):
        wall_ms += WATCHED_DIRECTORY_MS
        write(1)
    write(LONG_MS)
    assert (disk.is_watched, disk.is_slow) == (True, False)
    write(LONG_MS)
    assert disk.is_slow


def test_it_is_watched_for_a_while_and_for_some_writes(machine: Machine) -> None:
    machine.write(processor_ms=LONG_MS)
    for _ in range(10 * WATCHED_WRITES):
        machine.write()
    assert machine.disk.is_watched, "no second has passed"
    machine.wait(WATCHED_DIRECTORY_MS)
    machine.write()
    assert not machine.disk.is_watched
    machine.write(processor_ms=LONG_MS)
    for number in range(WATCHED_WRITES):
        assert machine.disk.is_watched, number
        machine.wait(WATCHED_DIRECTORY_MS)
        machine.write()
    machine.write()
    assert not machine.disk.is_watched
    before = machine.questions
    machine.write()
    assert machine.questions == before


def test_a_log_that_writes_seldom_finds_its_slow_disk_too(machine: Machine) -> None:
    machine.write(disk_ms=LONG_MS)
    machine.wait(60_000)
    machine.write(disk_ms=LONG_MS)
    assert machine.disk.is_slow


def test_writes_in_threads_prolong_it_if_they_wait_for_the_disk(machine: Machine) -> None:
    machine.become_slow()
    for _ in range(10):
        machine.wait(SLOW_DIRECTORY_REST_MS - 1)
        assert machine.disk.still_slow()
        machine.write_in_thread(disk_ms=LONG_MS)
    for _ in range(2):
        machine.wait(SLOW_DIRECTORY_REST_MS // 2 - LONG_MS)
        machine.write_in_thread(processor_ms=LONG_MS)
    machine.wait(LONG_MS)
    assert not machine.disk.still_slow()


def test_a_stalled_write_in_a_thread_makes_a_quick_directory_slow(machine: Machine) -> None:
    machine.write_in_thread(disk_ms=LONG_MS)
    assert machine.disk.is_slow


def test_after_the_rest_the_first_slow_write_is_enough(machine: Machine) -> None:
    machine.become_slow()
    machine.wait(SLOW_DIRECTORY_REST_MS)
    assert not machine.disk.still_slow()
    assert machine.disk.is_watched
    machine.write(disk_ms=LONG_MS)
    assert machine.disk.is_slow


def rest_ms(machine: Machine) -> int:
    """How long it takes from now on."""
    waited_ms = 0
    while machine.disk.still_slow():
        machine.wait(10)
        waited_ms += 10
    return waited_ms


def test_the_rest_grows_with_each_relapse_and_is_forgotten_in_time(machine: Machine) -> None:
    machine.become_slow()
    rests = []
    for _ in range(6):
        rests.append(rest_ms(machine))
        machine.write(disk_ms=LONG_MS)
    assert rests == [500, 1000, 2000, 4000, 8000, 8000]
    assert max(rests) == SLOW_DIRECTORY_LONGEST_REST_MS
    rest_ms(machine)
    machine.wait(SLOW_DIRECTORY_RELAPSE_MS)
    machine.write(disk_ms=LONG_MS)
    assert rest_ms(machine) == SLOW_DIRECTORY_REST_MS


def test_without_threads_to_turn_to_no_directory_is_slow() -> None:
    disk = LogDisk("/data")
    disk.took(10**12)
    disk.stalled(10**12)
    assert (disk.is_watched, disk.is_slow, disk.still_slow()) == (False, False, False)
