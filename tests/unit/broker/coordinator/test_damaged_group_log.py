"""A partition whose log is damaged is given up alone, or loses a batch, and loading always ends."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.runtime.result import UndoLog
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import patch_offset_and_epoch, seal
from tests.support.rigs.group_world import DamagedLog, GroupWorld, now

LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, DELTA_AT, COUNT_AT = 8, 16, 17, 21, 23, 57
GIVEN_UP = ErrorCode.NOT_COORDINATOR


def world_with_offsets(count: int = 6) -> tuple[GroupWorld, tuple[str, int], str]:
    """`count` commits of group g, a batch each; the place of its log, and a group of another partition."""
    world = GroupWorld(log=DamagedLog())
    for offset in range(count):
        world.commit_error(offset, partition=offset)
    other = next(f"o{n}" for n in range(99) if world.groups.partition_for(f"o{n}") != partition(world))
    world.commit_error(77, group_id=other)
    return world, (GROUP_TOPIC, partition(world)), other


def partition(world: GroupWorld) -> int:
    return world.groups.partition_for("g")


def found(world: GroupWorld) -> dict[int, int]:
    offsets = world.shard("g").offset_metadata.committed.topics("g").get("t", {})
    return {index: kept.offset for index, kept in offsets.items()}


def change(world: GroupWorld, place: tuple[str, int], number: int, edit: Callable[[bytearray], None]) -> None:
    batch = bytearray(world.log.batches[place][number])
    edit(batch)
    damaged(world).setdefault(place, {})[number] = bytes(batch)


def damaged(world: GroupWorld) -> dict[tuple[str, int], dict[int, bytes]]:
    assert isinstance(world.log, DamagedLog)
    return world.log.damaged


def flip(at: int, mask: int = 0xFF) -> Callable[[bytearray], None]:
    def edit(batch: bytearray) -> None:
        batch[at] ^= mask

    return edit


def resealed(at: int, value: bytes) -> Callable[[bytearray], None]:
    """Other bytes under a right checksum."""

    def edit(batch: bytearray) -> None:
        batch[at : at + len(value)] = value
        seal(batch, 0, len(batch))

    return edit


def zeros(batch: bytearray) -> None:
    batch[:] = bytes(len(batch))


def cut(at: int) -> Callable[[bytearray], None]:
    def edit(batch: bytearray) -> None:
        del batch[at:]

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(flip(MAGIC_AT), id="magic"),
        pytest.param(flip(MAGIC_AT, 3), id="a magic of 1"),
        pytest.param(flip(LENGTH_AT), id="a negative length"),
        pytest.param(flip(LENGTH_AT + 3, 0x40), id="another length"),
        pytest.param(flip(0), id="a negative offset"),
        pytest.param(flip(4, 0x40), id="an offset far ahead"),
        pytest.param(flip(DELTA_AT), id="a negative last offset"),
        pytest.param(flip(DELTA_AT + 3, 1), id="another last offset"),
        pytest.param(resealed(DELTA_AT, b"\xff\xff\xff\xff"), id="no offset at all under a right checksum"),
        pytest.param(zeros, id="zeros"),
        pytest.param(cut(40), id="a hole"),
    ],
)
def test_a_partition_without_sense_is_given_up_alone(
    edit: Callable[[bytearray], None], caplog: pytest.LogCaptureFixture
) -> None:
    world, place, other = world_with_offsets()
    change(world, place, 2, edit)
    with caplog.at_level(logging.ERROR):
        world.restart()
        world.timers.advance(600_000)
    told = [record for record in caplog.records if "cannot be loaded" in record.getMessage()]
    assert len(told) == 1, "the log says it once"
    assert now(world.groups.fetch_offsets("g", None, require_stable=False)).error is GIVEN_UP
    assert now(world.join("g")).error_code == GIVEN_UP
    assert now(world.sync("m", 1)).error_code == GIVEN_UP
    assert world.heartbeat("m", 1) is GIVEN_UP
    assert world.commit_error(1) is GIVEN_UP
    assert now(world.groups.leave("g", [LeaveGroupRequest.MemberIdentity("m")])).error_code == GIVEN_UP
    assert world.groups.describe("g", 6).error_code == GIVEN_UP
    assert now(world.groups.delete_group("g")) is GIVEN_UP
    assert now(world.groups.delete_offsets(OffsetDeleteRequest("g", []))).error_code == GIVEN_UP
    listed = world.groups.list_groups([], [])
    assert (listed.error_code, [each.group_id for each in listed.groups]) == (0, [other])
    assert world.committed(group_id=other).offset == 77
    world.groups.topics_changed({"t": bytes(16)})
    world.groups.close()


def test_a_later_election_loads_it_again() -> None:
    world, place, _ = world_with_offsets()
    change(world, place, 2, flip(MAGIC_AT))
    world.restart()
    world.groups.elected(partition(world), 1)
    world.timers.run_soon()
    assert world.commit_error(1) is GIVEN_UP
    damaged(world).clear()
    world.groups.elected(partition(world), 1)  # nothing new
    world.timers.run_soon()
    assert world.commit_error(1) is GIVEN_UP
    world.groups.elected(partition(world), 2)
    world.timers.run_soon()
    assert found(world) == {number: number for number in range(6)}
    world.groups.resigned(partition(world), 3)
    world.groups.elected(partition(world), 4)
    world.timers.run_soon()
    assert world.commit_error(1) is ErrorCode.NONE


def test_a_given_up_partition_is_resigned_like_any_other() -> None:
    world, place, _ = world_with_offsets()
    change(world, place, 2, flip(MAGIC_AT))
    world.restart()
    world.groups.resigned(partition(world), 1)
    assert world.commit_error(1) is GIVEN_UP
    damaged(world).clear()
    world.groups.elected(partition(world), 2)
    world.timers.run_soon()
    assert world.commit_error(1) is ErrorCode.NONE


@pytest.mark.parametrize("number", [0, 2, 5])
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(flip(-1), id="a record"),
        pytest.param(flip(CRC_AT), id="the checksum"),
        pytest.param(flip(COUNT_AT + 3, 4), id="the count"),
        pytest.param(resealed(COUNT_AT, b"\0\0\0\x07"), id="another count under a right checksum"),
        pytest.param(resealed(COUNT_AT, b"\xff\xff\xff\xff"), id="a negative count"),
        pytest.param(resealed(ATTRIBUTES_AT, b"\0\x04"), id="bytes that no codec has made"),
        pytest.param(resealed(ATTRIBUTES_AT, b"\0\x07"), id="a codec that does not exist"),
    ],
)
def test_content_that_cannot_be_read_loses_its_batch_alone(
    number: int, edit: Callable[[bytearray], None], caplog: pytest.LogCaptureFixture
) -> None:
    world, place, _ = world_with_offsets()
    change(world, place, number, edit)
    world.restart()
    assert found(world) == {each: each for each in range(6) if each != number}
    assert "passed over a batch" in caplog.text


def test_a_batch_of_another_broker_that_is_cut_within_its_compression() -> None:
    world, place, _ = world_with_offsets()
    squeezed = bytearray(build_batch([SimpleRecord(b"\0\1" + b"k" * 90, b"v" * 900, 1)], codec=4))
    del squeezed[-20:]
    squeezed[LENGTH_AT : LENGTH_AT + 4] = (len(squeezed) - 12).to_bytes(4, "big")
    patch_offset_and_epoch(squeezed, 0, 2, 0)
    seal(squeezed, 0, len(squeezed))
    damaged(world)[place] = {2: bytes(squeezed)}
    world.restart()
    assert found(world) == {0: 0, 1: 1, 3: 3, 4: 4, 5: 5}


def test_a_tail_that_was_torn_off() -> None:
    """Recovery cuts it away before anybody loads; should it be there all the same, nothing is made up."""
    world, place, _ = world_with_offsets()
    change(world, place, 5, cut(-9))
    world.restart()
    assert world.commit_error(1) is GIVEN_UP


def test_offsets_that_go_backwards() -> None:
    world, place, _ = world_with_offsets()
    batches = world.log.batches[place]
    damaged(world)[place] = {2: batches[3], 3: batches[2]}
    world.restart()
    assert world.commit_error(1) is GIVEN_UP


def test_an_error_of_ours_while_loading_gives_up_the_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _, other = world_with_offsets()
    original = world.shard("g").__class__.replay

    def fails_for_g(self: object, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        if key.startswith(b"\0\1\0\1g"):
            raise KeyError("a fault of ours")
        original(self, key, value, undo)  # type: ignore[arg-type]

    monkeypatch.setattr("broker.coordinator.group_shard.GroupShard.replay", fails_for_g)
    world.restart()
    assert world.commit_error(1) is GIVEN_UP
    assert world.committed(group_id=other).offset == 77


def test_a_disk_that_fails_is_said_once_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    world, _, _ = world_with_offsets()
    world.log.unreadable = True
    world.restart()
    world.timers.advance(60_000)
    assert world.commit_error(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    told = [each for each in caplog.records if f"-{partition(world)}, trying again" in each.getMessage()]
    assert len(told) == 1
    world.log.unreadable = False
    world.timers.advance(1_000)
    assert found(world) == {number: number for number in range(6)}
