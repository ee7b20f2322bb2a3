"""The driver and the disk of a replica: what is promised is durable first, and every life goes on."""

from __future__ import annotations

from typing import Any

import pytest

from controller.metadata.log import NotLeader, SnapshotId
from controller.metadata.supported_features import UnsupportedCluster
from controller.raft.node import VersionChangeRefused
from controller.raft.quorum_state import read as read_quorum_state
from controller.raft.snapshot_files import (
    MalformedMetadataSnapshot,
    check_snapshot,
    list_snapshots,
    snapshot_name,
)
from protocol.errors import InvariantViolated
from protocol.serving.pending import CloseConnection
from tests.support.rigs.controllers import CLUSTER_ID, METADATA_LOG
from tests.support.rigs.raft_messages import fetch, vote
from tests.support.rigs.replica_rig import ReplicaRig, ReplicaWorld


def three() -> tuple[ReplicaWorld, ReplicaRig]:
    world = ReplicaWorld(1, 2, 3)
    leader = world.leader()
    world.run(600)
    return world, leader


def numbers(world: ReplicaWorld) -> list[list[int]]:
    return [rig.heard.numbers for rig in world.rigs.values() if rig.is_up]


def test_what_one_appends_all_commit_in_order() -> None:
    world, leader = three()
    for number in range(30):
        leader.append(number)
    assert leader.heard.numbers == []
    world.run(100)
    assert numbers(world) == [list(range(30))] * 3
    assert len({rig.heard.leaders[-1] for rig in world.rigs.values()}) == 1


def test_nothing_is_committed_while_only_the_leader_s_disk_has_it() -> None:
    world, leader = three()
    world.cut |= {frozenset((leader.node_id, rig.node_id)) for rig in world.followers()}
    leader.append(1)
    world.run(200)
    assert leader.log.high_watermark < leader.log.end_offset
    assert numbers(world) == [[], [], []]


def test_a_follower_acknowledges_only_what_its_disk_has() -> None:
    world, leader = three()
    leader.append(1)
    leader.offload.run()
    world.timers.run_soon()
    for follower in world.followers():
        assert follower.log.end_offset == leader.log.end_offset
        assert len(follower.offload) > 0
    assert leader.heard.numbers == []
    world.settle()
    assert leader.heard.numbers == [1]


def test_the_vote_is_on_the_disk_before_it_is_told() -> None:
    world = ReplicaWorld(1, 2, 3)
    world.timers.advance(1_500)
    candidate = next(rig for rig in world.rigs.values() if len(rig.offload))
    state = read_quorum_state(candidate.files, METADATA_LOG)
    assert state is None or state.leader_epoch == 0
    candidate.offload.run()
    state = read_quorum_state(candidate.files, METADATA_LOG)
    assert state is not None
    assert (state.leader_epoch, state.voted_id) == (1, candidate.node_id)


def test_power_cuts_lose_nothing_that_was_committed() -> None:
    world, leader = three()
    for committed in range(4):
        leader.append(committed)
        world.settle()
        leader.append(1_000)  # on its way when the lights go out
        leader.cut_power()
        leader.begin()
        leader = world.leader()
        world.run(1_000)
        for seen in numbers(world):
            assert [number for number in seen if number < 1_000] == list(range(committed + 1))
    assert len({tuple(seen) for seen in numbers(world)}) == 1


def test_all_of_them_at_once() -> None:
    world, leader = three()
    leader.append(1, 2)
    world.settle()
    for rig in world.rigs.values():
        rig.cut_power()
    for rig in world.rigs.values():
        rig.begin()
    world.leader()
    world.run(600)
    assert numbers(world) == [[1, 2]] * 3


def test_what_a_deposed_leader_wrote_alone_is_cut_off() -> None:
    world, old = three()
    world.cut |= {frozenset((old.node_id, rig.node_id)) for rig in world.followers()}
    world.run(600)  # the fetches that wait at it are answered
    old.append(7)
    world.settle()
    longest = old.log.end_offset
    world.run(6_000)
    new = world.leader()
    assert new is not old
    new.append(8)
    world.run(200)
    world.cut.clear()
    world.run(3_000)
    assert numbers(world) == [[8]] * 3
    assert old.log.end_offset >= longest
    with pytest.raises(NotLeader):
        old.log.append(old.log.leader.epoch, [])


def test_appends_of_one_turn_are_written_and_synced_together() -> None:
    world = ReplicaWorld(1)
    leader = world.rigs[1]
    before = leader.log._disk.end_offset
    for number in range(20):
        leader.append(number)
    assert (leader.log._disk.end_offset, leader.log.end_offset) == (before, before + 20)
    world.timers.run_soon()
    assert leader.log._disk.end_offset == before + 20
    assert len(leader.offload) == 1
    world.settle()
    assert leader.heard.numbers == list(range(20))


def test_appends_while_the_disk_is_busy_share_the_next_sync() -> None:
    world = ReplicaWorld(1)
    leader = world.rigs[1]
    leader.append(0)
    world.timers.run_soon()
    written = leader.log._disk.end_offset
    for number in range(1, 20):
        leader.append(number)
        world.timers.run_soon()
    assert (leader.log._disk.end_offset, leader.log.end_offset) == (written, written + 19)
    leader.offload.run()
    world.timers.run_soon()
    assert leader.heard.numbers == [0]
    assert leader.log._disk.end_offset == written + 19
    assert len(leader.offload) == 1
    world.settle()
    assert leader.heard.numbers == list(range(20))


def test_a_fetch_takes_along_what_is_gathered() -> None:
    world, leader = three()
    leader.append(1)
    world.timers.run_soon()
    leader.append(2)
    written = leader.log._disk.end_offset
    world.timers.run_soon()
    assert leader.log._disk.end_offset == written, "the leader's disk is busy"
    follower = world.followers()[0]
    follower.offload.run()
    world.timers.run_soon()
    assert follower.log._disk.end_offset == written + 1, "the answer to its acknowledgement has both"
    assert leader.heard.numbers == []


def test_the_linger_bounds_how_long_an_append_waits_for_a_busy_disk() -> None:
    world, leader = three()
    leader.append(1)
    world.timers.run_soon()
    leader.append(2)
    written = leader.log._disk.end_offset
    assert leader.log.end_offset == written + 1
    world.timers.advance(24)
    assert leader.log._disk.end_offset == written
    world.timers.advance(1)
    assert leader.log._disk.end_offset == written + 1


def test_without_a_linger_nothing_waits_for_the_disk() -> None:
    world = ReplicaWorld(1, 2, 3, controller__quorum__append__linger__ms="0")
    leader = world.leader()
    world.run(600)
    leader.append(1)
    world.timers.run_soon()
    written = leader.log._disk.end_offset
    leader.append(2)
    world.timers.run_soon()
    assert leader.log._disk.end_offset == written + 1


def snapshot_of(rig: ReplicaRig) -> SnapshotId:
    snapshot = rig.log.write_snapshot(rig.heard.image)
    rig.offload.run()
    return snapshot


def test_a_replica_that_is_far_behind_loads_the_snapshot() -> None:
    world = ReplicaWorld(1, 2, 3, metadata__max__retention__bytes="1")
    leader = world.leader()
    lost = world.followers()[0]
    lost.kill()
    for number in range(50):
        leader.append(number)
        world.run(10)
    first = snapshot_of(leader)
    leader.append(50)
    world.run(61_000)
    leader.append(51)
    world.run(100)
    snapshot = snapshot_of(leader)
    leader.append(52)
    world.run(61_000)
    leader.append(53)
    world.run(100)
    assert leader.log.log_start_offset == snapshot.end_offset > first.end_offset
    lost.begin()
    world.run(1_000)
    assert lost.heard.snapshots == [snapshot]
    assert lost.heard.numbers == [52, 53]
    assert lost.heard.image.configs == leader.heard.image.configs
    assert [SnapshotId(*each) for each in list_snapshots(lost.files, METADATA_LOG)][-1] == snapshot
    assert (lost.log.log_start_offset, lost.log.latest_snapshot()) == (snapshot.end_offset, snapshot)
    lost.cut_power()
    lost.begin()
    world.run(1_000)
    assert lost.heard.image.configs == leader.heard.image.configs
    path = f"{METADATA_LOG}/{snapshot_name(snapshot)}"
    assert lost.files.read_bytes(path) == leader.files.read_bytes(path)


def test_a_snapshot_that_the_leader_s_has_overtaken_goes() -> None:
    world = ReplicaWorld(1, 2, 3, metadata__max__retention__bytes="1")
    leader = world.leader()
    leader.append(1)
    world.run(100)
    slow = world.followers()[0]
    writing = slow.log.snapshot_steps(slow.heard.image)
    next(writing)
    world.cut = {frozenset({slow.node_id, each}) for each in world.rigs}
    for number in (2, 3):
        leader.append(number)
        world.run(100)
        snapshot = snapshot_of(leader)
        world.run(61_000)
    leader.append(4)
    world.run(61_000)
    assert leader.log.log_start_offset == snapshot.end_offset
    world.cut = set()
    world.run(3_000)
    assert slow.log.latest_snapshot() == snapshot
    for _ in writing:
        pass
    world.settle()
    assert list_snapshots(slow.files, METADATA_LOG) == [snapshot]
    leader.append(5)
    world.run(61_000)
    leader.append(6)
    world.run(100)
    assert slow.heard.image.configs == leader.heard.image.configs


def test_a_clean_up_leaves_alone_what_the_node_was_not_told_of_yet() -> None:
    world = ReplicaWorld(1, metadata__max__retention__bytes="1")
    world.settle()
    log, driver = world.rigs[1].log, world.rigs[1].log._driver
    world.rigs[1].append(1)
    world.settle()
    driver._is_executing = True  # the disk is at something, what follows waits
    driver.feed(log._clean_up)
    snapshot = snapshot_of(world.rigs[1])
    driver._is_executing = False
    driver._run()
    assert log.log_start_offset == 0
    assert log.latest_snapshot() == snapshot
    driver.feed(log._clean_up)
    assert log.log_start_offset == snapshot.end_offset


def test_a_crash_between_the_snapshot_s_name_and_the_new_log_is_made_good() -> None:
    world, leader = three()
    leader.append(1, 2, 3)
    world.run(100)
    snapshot = snapshot_of(leader)
    path = f"{METADATA_LOG}/{snapshot_name(snapshot)}"
    content = leader.files.read_bytes(path)
    lost = world.followers()[0]
    lost.kill()
    for name in lost.files.listdir(METADATA_LOG):
        if name.endswith((".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")):
            lost.files.unlink(f"{METADATA_LOG}/{name}")
    lost.files.write_atomically(path, content)
    lost.begin()
    assert lost.log.log_start_offset == lost.log.end_offset == snapshot.end_offset
    world.run(1_000)
    assert lost.heard.image.configs == leader.heard.image.configs


def test_an_observer_joins_by_itself_and_a_clean_stop_hands_over() -> None:
    world = ReplicaWorld(1, 2, 3, 4, voters=(1, 2, 3), controller__quorum__auto__join__enable="true")
    leader = world.leader()
    world.run(6_000)
    assert sorted(leader.log.quorum(0).endpoints) == [1, 2, 3, 4]
    stopped: list[bool] = []
    leader.log.resign_and_stop(5_000, lambda: stopped.append(True))
    world.run(300)
    assert stopped == [True]
    assert world.leader() is not leader


def test_a_replica_that_has_ended_closes_the_connections_of_those_who_ask_it() -> None:
    world, leader = three()
    stopped: list[bool] = []
    leader.log.resign_and_stop(5_000, lambda: stopped.append(True))
    world.run(300)
    assert stopped == [True]
    pending = leader.log.ask(fetch(2, leader.log.leader.epoch, 0, 0), version=17, listener="")
    world.settle()
    assert isinstance(pending.response, CloseConnection)


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_snapshot_that_is_not_whole_is_none(cut: int) -> None:
    world, leader = three()
    leader.append(1)
    world.run(100)
    snapshot = snapshot_of(leader)
    content = leader.files.read_bytes(f"{METADATA_LOG}/{snapshot_name(snapshot)}")
    assert check_snapshot(content, "whole").kraft_version == 1
    with pytest.raises(MalformedMetadataSnapshot):
        check_snapshot(content[:-cut], "short")
    damaged = bytearray(content)
    damaged[-cut] ^= 1
    with pytest.raises(MalformedMetadataSnapshot):
        check_snapshot(bytes(damaged), "damaged")


def test_voters_of_the_config_can_go_into_the_log_when_all_have_told_their_directories() -> None:
    voters = ",".join(f"{each}@host{each}:{9000 + each}" for each in (1, 2, 3))
    world = ReplicaWorld(1, 2, 3, formatted=False, controller__quorum__voters=voters)
    leader = world.leader()
    epoch = leader.log.leader.epoch
    assert leader.log.kraft_version == 0
    with pytest.raises(VersionChangeRefused):
        leader.log.raise_kraft_version(epoch, 1)
    world.run(5_000)
    batch = leader.log.raise_kraft_version(epoch, 1)
    world.run(600)
    assert leader.log.high_watermark > batch.last_offset
    assert {rig.log.kraft_version for rig in world.rigs.values()} == {1}
    state = read_quorum_state(leader.files, METADATA_LOG)
    assert state is not None
    assert (state.data_version, state.voters) == (0, (1, 2, 3))  # until the next election


def test_an_append_while_the_loss_of_the_epoch_is_written_down_is_never_committed() -> None:
    world, leader = three()
    epoch = leader.log.leader.epoch
    other = world.followers()[0]
    request = vote(other.node_id, epoch + 1, last_epoch=epoch, last_offset=1 << 40)
    request.cluster_id = CLUSTER_ID
    leader.log.ask(request, version=2, listener="CONTROLLER")
    assert leader.is_leader  # its listeners do not know yet: the new epoch is on its way to the disk
    leader.append(99)
    world.run(6_000)
    assert all(99 not in rig.heard.numbers for rig in world.rigs.values())
    world.leader().append(1)
    world.run(600)
    assert numbers(world) == [[1]] * 3


# What a listener raises


def test_an_exception_in_the_turn_of_a_request_ends_the_process() -> None:
    world, leader = three()
    leader.append(1)
    world.timers.run_soon()
    leader.offload.run()
    leader.heard.commit = raising(KeyError("a bug of ours"))  # type: ignore[method-assign]
    epoch = leader.log.leader.epoch
    request = fetch(world.followers()[0].node_id, epoch, leader.log.end_offset, epoch)
    request.cluster_id = CLUSTER_ID
    with pytest.raises(InvariantViolated, match=r"done to its end .*KeyError: 'a bug of ours'") as ended:
        leader.log.ask(request, version=17, listener="CONTROLLER")
    assert isinstance(ended.value.__cause__, KeyError)


def test_an_exception_when_the_disk_is_done_ends_the_process() -> None:
    world = ReplicaWorld(1, 2, 3)
    world.timers.advance(1_500)
    candidate = next(rig for rig in world.rigs.values() if len(rig.offload))
    candidate.log._driver._peers.send = raising(KeyError("a bug of ours"))  # type: ignore[method-assign]
    with pytest.raises(InvariantViolated, match=r"done to its end .*KeyError: 'a bug of ours'"):
        candidate.offload.run()


def test_what_ends_the_process_anyway_stays_what_it_is() -> None:
    world = ReplicaWorld(1, 2, 3)
    for rig in world.rigs.values():
        rig.heard.leader_changed = raising(UnsupportedCluster("Another release."))  # type: ignore[method-assign]
    with pytest.raises(UnsupportedCluster, match=r"Another release\."):
        world.run(6_000)


def test_a_committed_record_that_is_not_known_here_ends_the_process_and_is_named() -> None:
    world, leader = three()
    leader.append(1)
    offset = leader.log.end_offset
    leader.log._driver.append(leader.log.leader.epoch, [b"\x01\x63\x00"], 0)
    with pytest.raises(UnsupportedCluster, match=rf"the record at offset {offset}: there is no .* type 99\."):
        world.run(100)
    heard = [rig for rig in world.rigs.values() if rig.heard.numbers == [1]]
    assert heard, "what comes before it is committed"


def test_a_record_that_is_not_known_here_does_no_harm_until_it_is_committed() -> None:
    world, old = three()
    world.cut |= {frozenset((old.node_id, rig.node_id)) for rig in world.followers()}
    world.run(600)
    old.log._driver.append(old.log.leader.epoch, [b"\x01\x63\x00"], 0)
    world.run(6_000)
    old.kill()
    old.begin()
    world.cut.clear()
    world.run(3_000)
    world.leader().append(1)
    world.run(600)
    assert numbers(world) == [[1]] * 3


def raising(error: Exception) -> Any:
    def function(*arguments: object) -> None:
        raise error

    return function


def test_the_kraft_version_stays_if_the_leadership_is_lost_before_its_turn() -> None:
    voters = ",".join(f"{each}@host{each}:{9000 + each}" for each in (1, 2, 3))
    world = ReplicaWorld(1, 2, 3, formatted=False, controller__quorum__voters=voters)
    leader = world.leader()
    world.run(5_000)
    driver, epoch = leader.log._driver, leader.log.leader.epoch
    driver._is_executing = True  # the disk is at something, what follows waits
    driver.feed(lambda now_ms: driver.node.resign(epoch, now_ms))
    leader.log.raise_kraft_version(epoch, 1)
    driver._is_executing = False
    driver._run()
    assert driver.node.kraft_version == 0
    world.run(6_000)
    world.leader().append(1)
    world.run(600)
    assert numbers(world) == [[1]] * 3
