"""Which Fetch requests take the fast lane, and that a change between two requests of one read is seen.

What is answered on the lane is compared with the long way in `tests/properties/test_fetch_lane.py`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from broker.fast_lane.epoch import LaneEpoch
from broker.fast_lane.fetch_lane import FetchLane
from broker.fast_lane.plain_fetches import PlainSession
from broker.replication.fetch_sessions import FINAL_EPOCH
from broker.replication.replica_selector import RackAwareReplicaSelector
from config.limits import LANE_REQUESTS_REMEMBERED
from protocol.errors import ErrorCode
from protocol.framing import decode_response
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.registry import ApiKey
from storage.faulty_files import Fault
from tests.support.rigs.fetch_world import FetchWorld

SESSION: Final[dict[str, Any]] = {"session_id": 0, "session_epoch": 0}


def world_with_records(*, fast: bool = True, count: int = 20) -> FetchWorld:
    world = FetchWorld(fast=fast)
    world.topic("t", 2)
    for _ in range(count):
        world.write("t")
    return world


def told(world: FetchWorld, version: int) -> FetchResponse:
    """The last answer."""
    return last_of(world.received(), version)


def last_of(sent: bytes, version: int) -> FetchResponse:
    """The last of some answers."""
    frames = []
    while sent:
        size = int.from_bytes(sent[:4], "big")
        frames.append(sent[4 : 4 + size])
        sent = sent[4 + size :]
    return decode_response(FetchResponse, version, frames[-1])[1]


def open_session(world: FetchWorld, *topics: FetchRequest.FetchTopic, version: int = 13) -> int:
    world.send(world.request(*topics, version=version, **SESSION))
    return told(world, version).session_id


# What is taken.


@pytest.mark.parametrize("version", [5, 6, 7, 9, 11, 12, 13, 14, 15, 16, 17, 18])
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_consumer_without_a_session_takes_the_lane_from_its_second_request_on(
    version: int, isolation_level: int
) -> None:
    world = world_with_records()
    for offset in range(10):
        asked = world.asked("t", offset)
        world.send(world.request(asked, version=version, isolation_level=isolation_level))
    assert (world.served, world.taken) == (1, 9)


def test_requests_of_one_read_are_taken_together() -> None:
    world = world_with_records()
    world.send(b"".join(world.request(world.asked("t", offset, max_bytes=100)) for offset in range(10)))
    assert (world.served, world.taken) == (1, 9)
    assert world.rig.replicas.by_name["t", 0].counters.total_fetch_requests == 10


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17, 18])
def test_a_session_takes_the_lane_when_it_names_one_partition_or_none(version: int) -> None:
    world = world_with_records()
    session_id = open_session(world, world.asked("t", 0), version=version)
    epoch = 0

    def go_on(*topics: FetchRequest.FetchTopic) -> FetchResponse:
        nonlocal epoch
        epoch += 1
        fields: dict[str, Any] = {"session_id": session_id, "session_epoch": epoch}
        world.send(world.request(*topics, version=version, **fields))
        return told(world, version)

    for offset in range(1, 6):
        assert go_on(world.asked("t", offset)).responses[0].partitions[0].records
    assert (world.served, world.taken) == (2, 4)
    for _ in range(3):
        assert go_on().responses[0].partitions[0].records
    assert (world.served, world.taken) == (3, 6)
    assert go_on(world.asked("t", 9)).responses[0].partitions[0].records
    assert (world.served, world.taken) == (3, 7)


def test_in_a_session_nobody_is_forgotten_who_has_something_to_tell() -> None:
    world = world_with_records()
    session_id = open_session(world, world.asked("t", 0), world.asked("t", 0, index=1))
    for epoch in range(1, 4):
        fields: dict[str, Any] = {"session_id": session_id, "session_epoch": epoch}
        world.send(world.request(world.asked("t", epoch), version=13, **fields))
        told(world, 13)
    assert world.taken == 2
    world.write("t", 1)
    fields = {"session_id": session_id, "session_epoch": 4}
    world.send(world.request(world.asked("t", 4), version=13, **fields))
    assert len(told(world, 13).responses[0].partitions) == 2
    assert world.taken == 2


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (4, {}),
        (12, {"replica_id": 2}),
        (17, {"replica_state": FetchRequest.ReplicaState(2, 5)}),
        (12, {"max_bytes": 0, "min_bytes": -1, "max_wait_ms": 0, "isolation_level": 7}),
        (12, {"min_bytes": 10**6, "max_wait_ms": 100}),
        (12, SESSION),
    ],
)
def test_others_take_the_long_way(version: int, fields: dict[str, Any]) -> None:
    world = world_with_records()
    for offset in range(5):
        world.send(world.request(world.asked("t", offset), version=version, **fields))
        world.advance(200)
    assert (world.served, world.taken) == (5, 0)


def test_a_session_of_sasl_that_will_end_takes_the_long_way() -> None:
    world = world_with_records()
    world.connections[0].session.authentication = "that of a session with an end"
    for offset in range(5):
        world.send(world.request(world.asked("t", offset)))
    assert (world.served, world.taken) == (5, 0)


@pytest.mark.parametrize("may_be_sent_away", [True, False])
def test_a_rack_matters_only_where_replicas_are_chosen_by_it(may_be_sent_away: bool) -> None:
    world = world_with_records()
    if may_be_sent_away:
        world.rig.fetches.selector = RackAwareReplicaSelector()
    for offset in range(5):
        world.send(world.request(world.asked("t", offset), rack_id="there"))
    assert world.taken == (0 if may_be_sent_away else 4)


def test_who_has_to_leave_out_aborted_records_takes_the_long_way() -> None:
    world = world_with_records(count=3)
    for sequence in range(2):
        world.write_open("t", 0, 7, sequence)
    world.decide("t", 0, 7, commit=False)
    for _ in range(3):
        world.write("t")

    def taken(offset: int, isolation_level: int) -> bool:
        before = world.taken
        world.send(world.request(world.asked("t", offset, max_bytes=1), isolation_level=isolation_level))
        return world.taken > before

    before, behind = range(6), range(6, 9)
    assert not any(taken(offset, 1) for offset in before)
    assert [taken(offset, 1) for offset in behind] == [False, True, True]
    assert not any(taken(offset, 1) for offset in before), "although such a request is remembered now"
    assert [taken(offset, 0) for offset in before] == [False] + [True] * 5


# What changes between two requests.


class Change(NamedTuple):
    """What happens, and what the request behind it is told. needs_epoch: the lane would not see it by
    itself. is_told_to_sessions: but in a session it would, because the partition tells that it is gone."""

    happens: Callable[[FetchWorld], object]
    code: int
    needs_epoch: bool
    is_told_to_sessions: bool = False


def made_anew(world: FetchWorld) -> None:
    world.remove("t")
    world.topic("t", 2)
    world.write("t")


def disk_broken(world: FetchWorld) -> None:
    for _ in range(300):
        world.write("t")  # so that the first records are not among the last ones, whose places are known
    world.files.faults.append(Fault("pread", count=10**6, path_part=".log", error=errno.EIO))


CHANGES: Final = {
    "topic deleted": Change(lambda world: world.remove("t"), ErrorCode.UNKNOWN_TOPIC_ID, True, True),
    "topic made anew": Change(made_anew, ErrorCode.UNKNOWN_TOPIC_ID, True, True),
    "leader moved": Change(
        lambda world: world.move("t", leader=2, isr=[2]), ErrorCode.FENCED_LEADER_EPOCH, False
    ),
    "leader epoch raised": Change(
        lambda world: world.move("t", leader=1), ErrorCode.FENCED_LEADER_EPOCH, False
    ),
    "partition taken away": Change(
        lambda world: world.move("t", leader=2, isr=[2], replicas=[2]),
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        True,
        True,
    ),
    "ACL": Change(lambda world: world.deny("t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED, True),
    "ACL in the metadata log": Change(
        lambda world: world.deny_by_entry("t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED, True, True
    ),
    "log start": Change(lambda world: world.raise_log_start("t", 0, 9), ErrorCode.OFFSET_OUT_OF_RANGE, False),
    "disk": Change(disk_broken, ErrorCode.KAFKA_STORAGE_ERROR, False),
    "config": Change(lambda world: world.configure("t", "retention.ms", "7"), ErrorCode.NONE, False),
}


def answers_around(
    world: FetchWorld, change: Callable[[FetchWorld], object], *, in_session: bool = False
) -> bytes:
    """What one read of three requests is answered, if the change comes before the last one."""
    session_id = open_session(world, world.asked("t", 0)) if in_session else 0
    ask = [
        world.request(
            world.asked("t", offset, current_leader_epoch=0),
            version=13,
            session_id=session_id,
            session_epoch=offset if in_session else FINAL_EPOCH,
        )
        for offset in (1, 2, 3)
    ]
    world.send(ask[0])
    world.received()
    world.between = change
    world.send(ask[1] + world.interlude() + ask[2])
    world.advance(200)
    return world.received()


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_between_two_requests_of_one_read_is_seen(
    name: str, in_session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = CHANGES[name]

    def answers(world: FetchWorld) -> bytes:
        return answers_around(world, change.happens, in_session=in_session)

    fast, slow = world_with_records(), world_with_records(fast=False)
    expected = answers(slow)
    assert answers(fast) == expected
    assert fast.taken == 1
    assert fast.state() == slow.state()
    response = last_of(expected, 13)
    assert response.responses[0].partitions[0].error_code == change.code
    monkeypatch.setattr(LaneEpoch, "bump", lambda epoch: None)
    needs_epoch = change.needs_epoch and not (in_session and change.is_told_to_sessions)
    assert (answers(world_with_records()) != expected) is needs_epoch


def test_a_session_that_was_closed_is_not_gone_on_with() -> None:
    fast, slow = world_with_records(), world_with_records(fast=False)
    for world in (fast, slow):
        session_id = open_session(world, world.asked("t", 0))
        for epoch in (1, 2):
            fields: dict[str, Any] = {"session_id": session_id, "session_epoch": epoch}
            world.send(world.request(world.asked("t", epoch), version=13, **fields))
        world.rig.sessions.close(session_id)
        world.send(world.request(world.asked("t", 3), version=13, session_id=session_id, session_epoch=3))
    assert fast.taken == 1
    assert fast.received() == slow.received()
    assert fast.state() == slow.state()


def test_a_session_whose_isolation_level_changes_takes_the_long_way() -> None:
    """Of the partition that is not named more can be read then, though it rests."""
    told: dict[bool, bytes] = {}
    for is_fast in (True, False):
        world = world_with_records(fast=is_fast)
        session_id = open_session(world, world.asked("t", 0), world.asked("t", 0, index=1))
        for epoch, isolation_level in enumerate((1, 0, 1, 1, 1, 0), 1):
            world.send(
                world.request(
                    world.asked("t", epoch, max_bytes=1), version=13, isolation_level=isolation_level,
                    session_id=session_id, session_epoch=epoch,
                )
            )  # fmt: skip
            if epoch == 3:
                world.write_open("t", 1, 7, 0)
        told[is_fast] = world.received()
    assert [len(each.partitions) for each in last_of(told[False], 13).responses] == [2]
    assert told[True] == told[False]


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_connection_remembers_so_many_requests_in_all_its_sessions_together(is_closed: bool) -> None:
    world = world_with_records()
    for sessions in range(1, 5 if is_closed else 3):
        session_id = open_session(world, world.asked("t", 0))
        for epoch in range(1, 62):
            before = world.taken
            named_epoch = -min(epoch, 60)
            asked = world.asked("t", 1, current_leader_epoch=named_epoch)
            world.send(world.request(asked, version=13, session_id=session_id, session_epoch=epoch))
            assert world.taken - before == (epoch == 61), "each is another one, but for the last"
            remembered = remembered_sessions(world)
            requests = sum(len(each.named) for each in remembered)
            assert len(fetch_lane(world).remembered) == requests <= LANE_REQUESTS_REMEMBERED
            assert len(remembered) == (1 if is_closed else sessions)
        if is_closed:
            world.rig.sessions.close(session_id)


def fetch_lane(world: FetchWorld) -> FetchLane:
    lane = world.connections[0].fast_lane(ApiKey.FETCH)
    assert isinstance(lane, FetchLane)
    return lane


def remembered_sessions(world: FetchWorld) -> list[PlainSession]:
    remembered = [known for shape in fetch_lane(world).remembered._shapes for known in shape.known.values()]
    return [known for known in remembered if isinstance(known, PlainSession)]


# Hostile bytes.


@pytest.mark.parametrize("version", [5, 12, 17])
def test_a_request_that_differs_in_one_bit_is_answered_as_by_the_long_way(version: int) -> None:
    plain = FetchWorld.request(world_with_records().asked("t", 2), version=version)
    for position in range(4, len(plain)):
        for bit in (0, 3, 7):
            flipped = bytearray(plain)
            flipped[position] ^= 1 << bit
            fast, slow = world_with_records(count=5), world_with_records(fast=False, count=5)
            for world in (fast, slow):
                world.send(plain + plain + bytes(flipped))
                world.advance(200)
                world.send(plain)
            assert fast.received() == slow.received(), (position, bit)
            assert fast.state() == slow.state(), (position, bit)
            assert fast.taken >= 1


@pytest.mark.parametrize("version", [7, 12, 17])
def test_a_request_of_a_session_that_differs_in_one_bit_is_answered_as_by_the_long_way(version: int) -> None:
    def asked(world: FetchWorld, session_id: int, epoch: int) -> bytes:
        wanted = world.asked("t", 1 + epoch % 2)
        return world.request(wanted, version=version, session_id=session_id, session_epoch=epoch)

    for position in range(4, len(asked(world_with_records(), 1, 1))):
        for bit in (0, 3, 7):
            fast, slow = world_with_records(count=5), world_with_records(fast=False, count=5)
            for world in (fast, slow):
                session_id = open_session(world, world.asked("t", 0), version=version)
                one, two, three, four = (asked(world, session_id, epoch) for epoch in range(1, 5))
                flipped = bytearray(three)
                flipped[position] ^= 1 << bit
                world.send(one + two + bytes(flipped))
                world.advance(200)
                world.send(three + four)
                world.advance(200)
            assert fast.received() == slow.received(), (position, bit)
            assert fast.state() == slow.state(), (position, bit)
            assert fast.taken >= 1


def test_requests_that_are_cut_anywhere() -> None:
    fast, slow = world_with_records(), world_with_records(fast=False)
    requests = b"".join(FetchWorld.request(fast.asked("t", offset)) for offset in range(4))
    for cut in range(1, len(requests)):
        for world in (fast, slow):
            world.send(requests, cuts=[cut])
        assert fast.received() == slow.received(), cut
    assert fast.state() == slow.state()
    assert fast.taken > 3 * len(requests)


# Long polls.


@pytest.mark.parametrize("version", [5, 11, 13, 17])
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_who_waits_at_the_end_takes_the_lane_although_nothing_was_there_at_once(
    version: int, isolation_level: int
) -> None:
    world = world_with_records(count=5)
    for offset in range(5, 15):
        asked = world.asked("t", offset)
        world.send(world.request(asked, version=version, isolation_level=isolation_level))
        assert len(world.rig.fetches.waiting) == world.dispatcher.metrics.waiting == 1
        world.write("t")
        assert told(world, version).responses[0].partitions[0].records
        assert not world.rig.replicas.by_name["t", 0].watchers
    assert (world.served, world.taken) == (1, 9)


def test_a_session_waits_on_the_lane() -> None:
    world = world_with_records(count=5)
    session_id = open_session(world, world.asked("t", 0), world.asked("t", 0, index=1))
    for epoch in range(1, 10):
        asked = world.asked("t", epoch + 4)
        world.send(world.request(asked, version=13, session_id=session_id, session_epoch=epoch))
        assert len(world.rig.fetches.waiting) == 1
        world.write("t")
        (data,) = told(world, 13).responses[0].partitions
        assert data.records
    assert (world.served, world.taken) == (2, 8)
    asked = world.asked("t", 14)
    world.send(world.request(asked, version=13, session_id=session_id, session_epoch=10))
    world.write("t", 1)
    (data,) = told(world, 13).responses[0].partitions
    assert data.partition_index == 1, "the lane does not answer for a partition that was not named"


def test_a_session_that_is_closed_while_it_waits_answers_by_its_id() -> None:
    answers = []
    for is_fast in (True, False):
        world = world_with_records(fast=is_fast, count=5)
        session_id = open_session(world, world.asked("t", 0))
        for epoch in (1, 2):
            asked = world.asked("t", epoch + 4)
            world.send(world.request(asked, version=13, session_id=session_id, session_epoch=epoch))
            if epoch == 2:
                world.rig.sessions.close(session_id)
            world.write("t")
        answers.append(world.received())
        assert last_of(answers[-1], 13).session_id == session_id
        assert not world.rig.replicas.by_name["t", 0].watchers
        assert world.taken == is_fast
    assert answers[0] == answers[1]


def test_a_long_poll_on_the_lane_ends_with_its_time_or_with_its_client() -> None:
    world = world_with_records(count=5)
    for offset in (4, 5):
        world.send(world.request(world.asked("t", offset)))
    assert world.taken == 1
    assert len(world.rig.fetches.waiting) == 1
    world.received()
    world.advance(100)
    assert told(world, 12).responses[0].partitions[0].high_watermark == 5
    world.send(world.request(world.asked("t", 5)))
    assert world.taken == 2
    world.connections[0].peer_gone("it has gone")
    assert not world.rig.fetches.waiting
    assert not world.rig.replicas.by_name["t", 0].watchers
    assert world.dispatcher.metrics.waiting == 0


def test_a_long_poll_on_the_lane_ends_with_the_next_move_of_the_high_watermark() -> None:
    world = FetchWorld(fast=True)
    world.topic("t", replicas=(1, 2), isr=(1, 2))
    partition = world.rig.replicas.by_name["t", 0]
    for _ in range(10):
        world.write("t")
    for offset in range(9):
        partition.follower_fetched(2, offset + 1, now_ms=0)
        world.run()
        asked = world.asked("t", offset + 1)
        world.send(world.request(asked))
        assert len(world.rig.fetches.waiting) == 1
    assert world.taken == 8


@pytest.mark.parametrize("version", [12, 13])
def test_a_long_poll_on_the_lane_hears_that_it_may_not_read_any_more(version: int) -> None:
    answers = []
    for fast in (True, False):
        world = world_with_records(fast=fast, count=5)
        for offset in (4, 5):
            world.send(world.request(world.asked("t", offset), version=version))
        world.deny("t")
        world.write("t")
        world.advance(100)
        assert world.taken == fast
        answers.append(world.received())
        (data,) = last_of(answers[-1], version).responses[0].partitions
        assert data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert answers[0] == answers[1]
