"""Feature levels of another release, on a controller that follows."""

from __future__ import annotations

import pytest

from controller.metadata.metadata_version import LATEST_METADATA_VERSION
from controller.metadata.supported_features import UnsupportedCluster
from controller.quorum_controller import QuorumController
from protocol.codec.message import Message
from protocol.metadata_log.cluster import FeatureLevelRecord
from tests.support.rigs.controllers import CLUSTER_ID, SeededRandomSource
from tests.support.rigs.replica_rig import ReplicaRig, ReplicaWorld


def level(name: str, number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=number)


def write(leader: ReplicaRig, *records: Message) -> None:
    leader.log.append(leader.log.leader.epoch, records)


def controller_on(rig: ReplicaRig) -> QuorumController:
    """A controller on a replica that follows."""
    controller = QuorumController(
        node_id=rig.node_id,
        cluster_id=CLUSTER_ID,
        log=rig.log,
        config=rig.config,
        clock=rig.world.clock,
        timers=rig.world.timers,
        random_source=SeededRandomSource(1),
        bootstrap_records=(),
        endpoints={},
    )
    controller.start()
    return controller


def test_a_controller_that_follows_ends_when_a_level_is_not_supported_here() -> None:
    world = ReplicaWorld(1, 2, 3)
    leader = world.leader()
    write(leader, level("metadata.version", LATEST_METADATA_VERSION))
    world.run(600)
    controller = controller_on(world.followers()[0])
    world.run(600)
    write(leader, level("share.version", 1))
    with pytest.raises(UnsupportedCluster, match=r"^This cluster needs another release: share\.version is "):
        world.run(600)
    assert not controller.is_active


def test_a_level_that_was_lowered_meanwhile_does_not_stop_a_controller() -> None:
    world = ReplicaWorld(1, 2, 3, metadata__max__retention__bytes="1")
    leader = world.leader()
    write(leader, level("metadata.version", LATEST_METADATA_VERSION), level("share.version", 1))
    world.run(100)
    late, lost = world.followers()
    lost.kill()
    for number in range(2):
        leader.append(number)
        world.run(100)
        snapshot = leader.log.write_snapshot(leader.heard.image)
        world.run(61_000)
    leader.append(3)
    world.run(61_000)
    write(leader, level("share.version", 0))
    leader.append(4)
    world.run(100)
    assert leader.log.log_start_offset == snapshot.end_offset
    late.kill()
    for rig in (late, lost):  # from its own log, and from a snapshot in which the level is not supported
        rig.begin()
        controller = controller_on(rig)
        world.run(1_000)
        assert controller.image.features.levels == {"metadata.version": LATEST_METADATA_VERSION}
        assert rig.log.is_caught_up


def test_a_level_in_a_snapshot_of_the_leader_ends_a_controller_with_the_next_record() -> None:
    world = ReplicaWorld(1, 2, 3, metadata__max__retention__bytes="1")
    leader = world.leader()
    write(leader, level("metadata.version", LATEST_METADATA_VERSION), level("share.version", 1))
    world.run(100)
    lost = world.followers()[0]
    lost.kill()
    for number in range(2):
        leader.append(number)
        world.run(100)
        leader.log.write_snapshot(leader.heard.image)
        world.run(61_000)
    lost.begin()
    controller_on(lost)
    world.run(1_000)
    leader.append(3)
    with pytest.raises(UnsupportedCluster, match=r"share\.version is finalized at level 1"):
        world.run(1_000)
