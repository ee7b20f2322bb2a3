"""Produce requests of the lane beside appends that wait for helper threads, and a log that moves meanwhile.

Each time a broker without the lane gets the same bytes, and must have sent and stored the same.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from config.limits import SLOW_DIRECTORY_REST_MS
from protocol.errors import ErrorCode
from tests.support.rigs.log_rig import everything
from tests.support.rigs.produce_world import WALKED, ProduceWorld
from tests.unit.broker.handlers.test_log_dirs_handlers import Directories

Story = Callable[[ProduceWorld], int]
"""Returns how many requests the lane has taken, of those that matter."""


def told(story: Story) -> int:
    """What a story returns from the broker with the lane. It is played to one without it, too."""
    slow, fast = (ProduceWorld(fast=fast, threads=True) for fast in (False, True))
    taken = []
    for world in (slow, fast):
        world.topic("t", 2)
        taken.append(story(world))
        assert not world.connections[0].waiting
    compare(slow, fast)
    assert fast.content() == slow.content()
    assert taken[0] == 0
    return taken[1]


def compare(slow: ProduceWorld, fast: ProduceWorld) -> None:
    assert fast.wires[0].sent == slow.wires[0].sent
    assert fast.counted() == slow.counted()


def plain(world: ProduceWorld, topic: str = "t", index: int = 0) -> bytes:
    return world.request(topic, bytes(world.rig.batch()), index=index)


def test_what_the_lane_takes_behind_an_append_that_waits_is_answered_behind_it() -> None:
    def story(world: ProduceWorld) -> int:
        world.topic("synced", flush_messages="1")
        for topic in ("t", "synced"):
            world.warm(topic)
            world.end_threads()
        taken, answered = world.taken_by_lane, len(world.answers())
        world.send(plain(world, "synced") + plain(world) * 3 + plain(world, "synced") + plain(world))
        assert (world.connections[0].waiting, len(world.answers())) == (6, answered)
        taken = world.taken_by_lane - taken
        world.end_threads()
        assert [each[:2] for each in world.answers()[answered:]] == [
            (ErrorCode.NONE, WALKED + 1 + place) for place in (0, 0, 1, 2, 1, 3)
        ]
        return taken

    assert told(story) == 4


def test_a_request_whose_append_waits_is_remembered() -> None:
    def story(world: ProduceWorld) -> int:
        world.warm("t", index=1)
        world.slow_down()
        world.warm("t")
        assert world.connections[0].waiting == WALKED + 1
        world.end_threads()
        world.rig.clock.move(SLOW_DIRECTORY_REST_MS)
        taken = world.taken_by_lane
        world.send(plain(world) * 3)
        return world.taken_by_lane - taken

    assert told(story) == 3


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_what_the_lane_has_prepared_when_the_disk_turns_out_to_be_slow_is_taken_back(
    producer_id: int,
) -> None:
    def batch(world: ProduceWorld, sequence: int) -> bytes:
        if producer_id < 0:
            return plain(world)
        made = world.rig.batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        return world.request("t", bytes(made))

    def story(world: ProduceWorld) -> int:
        for sequence in range(WALKED + 1):
            world.send(batch(world, sequence))
        taken = world.taken_by_lane
        world.send(batch(world, WALKED + 1))
        world.slow_down()
        world.send(b"".join(batch(world, WALKED + 2 + place) for place in range(3)))
        assert world.connections[0].waiting == 3
        world.end_threads()
        assert [each[:2] for each in world.answers()[-4:]] == [
            (ErrorCode.NONE, WALKED + 1 + place) for place in range(4)
        ]
        return world.taken_by_lane - taken

    assert told(story) == 1


def test_a_log_that_moves_to_another_directory_between_two_requests_of_one_read() -> None:
    """KIP-113: what comes behind is written where the log lies now, and the lane goes on."""

    def move(world: ProduceWorld) -> None:
        manager = rigs[world].manager
        (home,) = (each for each in manager.directories if each is not manager.directory_of("t", 0))
        manager.moves.begin(("t", 0), home)

    rigs: dict[ProduceWorld, Directories] = {}
    worlds: list[ProduceWorld] = []
    for fast in (False, True):
        rig = Directories()
        world = ProduceWorld(fast=fast, rig=rig)
        rigs[world] = rig
        worlds.append(world)
        world.topic("t")
        world.warm("t")
        taken = world.taken_by_lane
        log = rig.log("t")
        old = log.directory
        world.between = move
        world.send(plain(world) * 2 + world.interlude() + plain(world) * 2)
        assert log.directory != old
        name = f"/{0:020}.log"
        assert rig.disk.read_bytes(log.directory + name) == everything(log)
        assert len(rig.disk.read_bytes(old + name)) == log.size_bytes * (WALKED + 3) // (WALKED + 5)
        assert world.taken_by_lane - taken == 4 * fast
    compare(*worlds)
    assert everything(rigs[worlds[0]].log("t")) == everything(rigs[worlds[1]].log("t"))
