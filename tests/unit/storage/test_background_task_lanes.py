"""Background tasks beside the loop: one of a lane at a time, room for others, and nothing forgotten at the
end."""

from __future__ import annotations

from functools import partial

from broker.ports.offload import run_side_by_side
from storage.background_task_lanes import LANES_AT_ONCE, BackgroundTaskLanes, finish, one_after_the_other
from storage.background_tasks import BackgroundTask, BackgroundTasks, TaskKind
from tests.support.rigs.controllers import HandOffload


def test_a_lane_keeps_its_order_and_lanes_leave_threads_to_others() -> None:
    offload, told = HandOffload(), []
    lanes = BackgroundTaskLanes(offload)
    for number in range(3):
        for lane in range(2 * LANES_AT_ONCE):
            name = f"{lane}.{number}"
            lanes.submit(BackgroundTask(TaskKind.WRITE, name, str(lane), lambda name=name: told.append(name)))  # type: ignore[misc]
    assert len(offload) == LANES_AT_ONCE
    assert lanes.is_busy("0")
    assert lanes.is_busy(str(2 * LANES_AT_ONCE - 1)), "it waits for its turn"
    offload.run()
    assert len(told) == 6 * LANES_AT_ONCE
    for lane in range(2 * LANES_AT_ONCE):
        assert [name for name in told if name.startswith(f"{lane}.")] == [f"{lane}.{n}" for n in range(3)]
    assert not lanes.is_busy("0")


def test_what_did_not_come_to_its_end_is_done_again_at_the_end() -> None:
    lanes = BackgroundTaskLanes(HandOffload())
    told: list[int] = []
    for number in range(3 * LANES_AT_ONCE):
        lanes.submit(
            BackgroundTask(TaskKind.WRITE, str(number), str(number % 5), partial(told.append, number))
        )
    left = lanes.take_unfinished()
    assert sorted(int(task.path) for task in left) == list(range(3 * LANES_AT_ONCE))
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
        BackgroundTask(TaskKind.WRITE, "good", "a", lambda: None, lambda: ended.append("good")),
        BackgroundTask(TaskKind.WRITE, "bad", "a", refuse, lambda: ended.append("bad")),
        BackgroundTask(TaskKind.WRITE, "gone", "b", missing, lambda: ended.append("gone")),
        BackgroundTask(TaskKind.WRITE, "behind", "a", lambda: None, lambda: ended.append("behind")),
    ]
    assert [task.path for task in finish(background_tasks, one_after_the_other)] == ["bad"]
    assert sorted(ended) == ["behind", "gone", "good"]


def test_background_tasks_of_a_lane_are_dropped_without_a_look_at_others() -> None:
    background_tasks = BackgroundTasks()
    for lane in ("/a", "/b"):
        background_tasks.add(TaskKind.WRITE, f"{lane}/x", lane, lambda: None)
        background_tasks.add(TaskKind.SYNC, lane, lane, lambda: None)
        background_tasks.add(TaskKind.REMOVE, f"{lane}/y", lane, lambda: None, due_ms=1000)
    background_tasks.drop("/a", TaskKind.WRITE)
    background_tasks.drop("/b", TaskKind.SYNC, TaskKind.WRITE, path="/b")
    assert [str(task) for task in background_tasks.take_due(0)] == ["sync /a", "write /b/x"]
    assert len(background_tasks) == 2
    assert [str(task) for task in background_tasks.take_due(1000)] == ["remove /a/y", "remove /b/y"]


def test_dropped_tasks_of_a_lane_are_not_begun_though_a_thread_was_given_one() -> None:
    offload = HandOffload()
    lanes = BackgroundTaskLanes(offload)
    told: list[str] = []

    def submit(kind: TaskKind, lane: str, name: str) -> None:
        lanes.submit(
            BackgroundTask(kind, name, lane, partial(told.append, name), partial(told.append, f"{name} done"))
        )

    for lane in ("/a", "/b"):
        submit(TaskKind.WRITE, lane, f"{lane}/given")
        submit(TaskKind.WRITE, lane, f"{lane}/queued")
        submit(TaskKind.REMOVE, lane, f"{lane}/old")
    lanes.drop("/a", TaskKind.WRITE)
    submit(TaskKind.WRITE, "/a", "/a/next")
    offload.run()
    names = ["/a/old", "/a/next", "/b/given", "/b/queued", "/b/old"]
    assert sorted(told) == sorted([*names, *(f"{name} done" for name in names)])
    assert not lanes.is_busy("/a")
