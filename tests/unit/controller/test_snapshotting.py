"""Snapshots come by themselves, beside serving, and a restart or a new observer begins with them."""

from __future__ import annotations

import pytest

from broker.metadata_loader import MetadataLoader
from controller.snapshots import list_snapshots
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.registry import ApiKey
from tests.support.controllers import CLUSTER_ID, METADATA_LOG, ControllerFixture, one_node_config
from tests.support.peer_channels import ControllerPeer


def create(fixture: ControllerFixture, name: str, partitions: int = 1) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == 0


def settle(fixture: ControllerFixture) -> None:
    ControllerPeer(fixture).settle()


def test_many_records_bring_a_snapshot_in_small_steps() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    create(fixture, "large", 6000)
    assert fixture.log.latest_snapshot() is None
    turns = 0
    while fixture.timers.run_once():
        turns += 1
    assert turns > 50, "a hundred records a turn"
    fixture.offload.run()
    snapshot = fixture.log.latest_snapshot()
    assert snapshot is not None
    assert snapshot.end_offset == fixture.controller.image.offset + 1
    fixture.files.kill_process()
    restarted = fixture.restart()
    assert restarted.controller.image.topics == fixture.controller.image.topics


def test_time_brings_a_snapshot_if_there_is_anything_new() -> None:
    fixture = ControllerFixture(config=one_node_config(metadata__log__max__snapshot__interval__ms="60000"))
    epoch = fixture.bring_up(1)[1]
    for _ in range(70):
        fixture.heartbeat(1, epoch)
        fixture.timers.advance(1000)
    settle(fixture)
    assert fixture.log.latest_snapshot() is None, "nothing was committed since"
    create(fixture, "one")
    settle(fixture)
    first = fixture.log.latest_snapshot()
    assert first is not None
    fixture.timers.advance(5_000)
    create(fixture, "two")
    settle(fixture)
    assert fixture.log.latest_snapshot() == first


def test_bytes_bring_a_snapshot_and_the_older_one_goes() -> None:
    config = one_node_config(metadata__log__max__record__bytes__between__snapshots="1500")
    fixture = ControllerFixture(config=config)
    fixture.bring_up(1)
    for number in range(40):
        create(fixture, f"t{number}")
        settle(fixture)
    kept = list_snapshots(fixture.files, METADATA_LOG)
    assert kept[0].end_offset == 0, "the first voters' file stays"
    assert len(kept) == 2
    assert fixture.log.size_since_snapshot_bytes < 2_000


@pytest.mark.parametrize("partitions", [1, 3000])
def test_a_new_observer_begins_with_the_snapshot(partitions: int) -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    create(fixture, "before", partitions)
    fixture.log.write_snapshot(fixture.controller.image)
    fixture.offload.run()
    create(fixture, "after")
    peer = ControllerPeer(fixture)
    loader = MetadataLoader(
        node_id=7,
        cluster_id=CLUSTER_ID,
        directory_id=b"d" * 16,
        channel=peer,
        clock=fixture.clock,
        timers=fixture.timers,
        publishers=[],
    )
    loader.start()
    peer.settle()
    assert loader.caught_up
    assert loader.image.topics == fixture.controller.image.topics
    assert loader.image.brokers == fixture.controller.image.brokers
    assert any(isinstance(request, FetchSnapshotRequest) for request in peer.sent)
    (observer,) = fixture.log.quorum(fixture.clock.wall_ms()).observers
    assert (observer.replica_id, observer.log_end_offset) == (7, fixture.log.end_offset)
