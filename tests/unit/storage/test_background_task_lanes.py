"""Background tasks beside the loop: one of a lane at a time, room for others, and nothing forgotten at the
end."""

from __future__ import annotations

from broker.ports.offload import run_side_by_side
from storage.background_task_lanes import LANES_AT_ONCE, BackgroundTaskLanes, finish, one_after_the_other
from storage.background_tasks import BackgroundTask, BackgroundTasks
from tests.support.controllers import HandOffload


def test_a_lane_keeps_its_order_and_lanes_leave_threads_to_others() -> None:
    offload, told = HandOffload(), []
    lanes = BackgroundTaskLanes(offload)
    for number in range(3):
        for lane in range(2 * LANES_AT_ONCE):
            name = f"{lane}.{number}"
            lanes.submit(BackgroundTask(name, str(lane), lambda name=name: told.append(name)))  # type: ignore[misc]
    assert len(offload) == LANES_AT_ONCE
    assert lanes.is_busy("0")
    assert lanes.is_busy(str(2 * LANES_AT_ONCE - 1)), "it waits for its turn"
    offload.run()
    assert len(told) == 6 * LANES_AT_ONCE
    for lane in range(2 * LANES_AT_ONCE):
        assert [name for name in told if name.startswith(f"{lane}.")] == [f"{lane}.{n}" for n in range(3)]
    assert not lanes.is_busy("0")


def test_what_did_not_come_to_its_end_is_done_again_at_the_end() -> None:
    lanes, told = BackgroundTaskLanes(HandOffload()), []
    for number in range(3 * LANES_AT_ONCE):
        lanes.submit(BackgroundTask(str(number), str(number % 5), lambda n=number: told.append(n)))  # type: ignore[misc]
    left = lanes.take_unfinished()
    assert sorted(int(task.what) for task in left) == list(range(3 * LANES_AT_ONCE))
    assert finish(left, run_side_by_side) == []
    assert sorted(told) == list(range(3 * LANES_AT_ONCE))
    for lane in range(5):
        assert [n for n in told if n % 5 == lane] == [n for n in range(3 * LANES_AT_ONCE) if n % 5 == lane]
    assert lanes.take_unfinished() == []


def test_a_failure_is_one_chore_s_and_its_end_is_not_told() -> None:
    ended: list[str] = []

    def refuse() -> None:
        raise OSError(28, "No space left on device")

    def missing() -> None:
        raise FileNotFoundError(2, "gone")

    background_tasks = [
        BackgroundTask("good", "a", lambda: None, lambda: ended.append("good")),
        BackgroundTask("bad", "a", refuse, lambda: ended.append("bad")),
        BackgroundTask("gone", "b", missing, lambda: ended.append("gone")),
        BackgroundTask("behind", "a", lambda: None, lambda: ended.append("behind")),
    ]
    assert [task.what for task in finish(background_tasks, one_after_the_other)] == ["bad"]
    assert sorted(ended) == ["behind", "gone", "good"]


def test_chores_of_a_lane_are_dropped_without_a_look_at_others() -> None:
    background_tasks = BackgroundTasks()
    for lane in ("/a", "/b"):
        background_tasks.add(f"write {lane}/x", lane, lambda: None)
        background_tasks.add(f"sync {lane}/", lane, lambda: None)
        background_tasks.add(f"remove {lane}/y", lane, lambda: None, due_ms=1000)
    background_tasks.drop("write /a/", "/a")
    background_tasks.drop("sync /b/")
    assert [task.what for task in background_tasks.take_due(0)] == ["sync /a/", "write /b/x"]
    assert len(background_tasks) == 2
    assert [task.what for task in background_tasks.take_due(1000)] == ["remove /a/y", "remove /b/y"]
