"""Snapshots come by themselves, beside serving, and a restart or a new observer begins with them."""

from __future__ import annotations

import errno

import pytest

from broker.metadata.loader import MetadataLoader
from controller.raft.log_failure import MetadataLogFailed
from controller.raft.snapshot_files import list_snapshots
from controller.snapshotting import BYTES_PER_RECORD, SnapshotSchedule
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.registry import ApiKey
from tests.support.rigs.controllers import CLUSTER_ID, METADATA_LOG, ControllerFixture, one_node_config
from tests.support.rigs.peer_channels import ControllerPeer

NEVER = "100000000"


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
    fixture.settle()
    snapshot = fixture.log.latest_snapshot()
    assert snapshot is not None
    assert snapshot.end_offset == fixture.controller.image.offset + 1
    fixture.files.kill_process()
    restarted = fixture.restart()
    assert restarted.controller.image.topics == fixture.controller.image.topics


def test_a_large_image_is_written_again_only_after_as_many_records() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    create(fixture, "large", 9_000)
    settle(fixture)
    first = fixture.log.latest_snapshot()
    assert first is not None
    assert 6_100 < fixture.log.latest_snapshot_bytes // BYTES_PER_RECORD < 11_000
    create(fixture, "more", 6_000)
    settle(fixture)
    assert fixture.log.latest_snapshot() == first
    create(fixture, "again", 5_000)
    settle(fixture)
    latest = fixture.log.latest_snapshot()
    assert latest is not None
    assert latest.end_offset > first.end_offset + 11_000
    size_bytes = fixture.log.latest_snapshot_bytes
    fixture.files.kill_process()
    assert fixture.restart().log.latest_snapshot_bytes == size_bytes


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


def many_topics(fixture: ControllerFixture, first: int = 0) -> None:
    for number in range(first, first + 40):
        create(fixture, f"t{number}")
        settle(fixture)


def kept(fixture: ControllerFixture) -> list[int]:
    """Where the snapshots end, the first voters' file of the formatting among them."""
    return [snapshot.end_offset for snapshot in list_snapshots(fixture.files, METADATA_LOG)]


def test_bytes_bring_snapshots_and_the_older_ones_stay_within_their_bounds() -> None:
    config = one_node_config(metadata__log__max__record__bytes__between__snapshots="1500")
    fixture = ControllerFixture(config=config)
    fixture.bring_up(1)
    many_topics(fixture)
    assert kept(fixture)[0] == 0
    assert len(kept(fixture)) > 3
    assert fixture.log.size_since_snapshot_bytes < 2_000
    assert fixture.log.log_start_offset == 0


def test_the_next_snapshot_waits_until_the_one_before_is_durable() -> None:
    """Two helper threads may finish in any order, and an older snapshot is none after a newer one."""
    config = one_node_config(metadata__log__max__record__bytes__between__snapshots="100000")
    fixture = ControllerFixture(config=config)
    fixture.bring_up(1)
    create(fixture, "first")
    settle(fixture)
    each_time = one_node_config(metadata__log__max__record__bytes__between__snapshots="1")
    schedule = SnapshotSchedule(fixture.log, each_time, fixture.clock, fixture.timers)
    for _ in range(2):
        schedule.committed(fixture.controller.image)
        while fixture.timers.run_once():
            pass
        assert len(fixture.offload) == 1
        assert fixture.log.is_writing_snapshot
    fixture.settle()
    assert not fixture.log.is_writing_snapshot
    assert fixture.log.latest_snapshot() is not None


def test_a_snapshot_that_the_disk_refuses_ends_the_node_with_a_sentence() -> None:
    config = one_node_config(metadata__log__max__record__bytes__between__snapshots="1")
    fixture = ControllerFixture(config=config)
    fixture.bring_up(1)
    SnapshotSchedule(fixture.log, config, fixture.clock, fixture.timers).committed(fixture.controller.image)
    while fixture.timers.run_once():
        pass
    with pytest.raises(MetadataLogFailed, match=r"cannot be written: .*No space left.* Make room"):
        fixture.offload.fail(OSError(errno.ENOSPC, "No space left on device"))


def test_what_is_too_large_together_goes_from_the_oldest_on_and_the_log_with_it() -> None:
    config = one_node_config(
        metadata__log__max__record__bytes__between__snapshots="1500",
        metadata__max__retention__bytes="1",
        broker__session__timeout__ms=NEVER,
    )
    fixture = ControllerFixture(config=config)
    fixture.bring_up(1)
    many_topics(fixture)
    fixture.timers.advance(61_000)
    create(fixture, "later")
    settle(fixture)
    newest = fixture.log.latest_snapshot()
    assert newest is not None
    assert kept(fixture) == [newest.end_offset], "the newest always stays"
    assert fixture.log.log_start_offset == newest.end_offset
    assert not any("deleted" in name for name in fixture.files.listdir(METADATA_LOG))
    fixture.files.kill_process()
    restarted = fixture.restart()
    assert restarted.controller.image.topics == fixture.controller.image.topics


def test_what_is_too_old_goes_when_something_newer_stands_for_it() -> None:
    config = one_node_config(
        metadata__log__max__record__bytes__between__snapshots="1500",
        metadata__max__retention__ms="600000",
        broker__session__timeout__ms=NEVER,
    )
    fixture = ControllerFixture(config=config)
    fixture.bring_up(1)
    many_topics(fixture)
    old = kept(fixture)
    fixture.timers.advance(601_000)
    create(fixture, "later")
    settle(fixture)
    newest = fixture.log.latest_snapshot()
    assert newest is not None
    assert kept(fixture) == [newest.end_offset]
    many_topics(fixture, 100)
    assert len(kept(fixture)) > 2
    assert not set(old[:-1]) & set(kept(fixture))


def test_segments_below_the_log_s_start_are_removed() -> None:
    config = one_node_config(
        metadata__log__max__record__bytes__between__snapshots="1500",
        metadata__log__segment__bytes="8388608",
        metadata__log__segment__ms="120000",
        metadata__max__retention__bytes="4000",
        broker__session__timeout__ms=NEVER,
    )
    fixture = ControllerFixture(config=config)
    fixture.bring_up(1)
    for hour in range(5):
        many_topics(fixture, 100 * hour)
        fixture.timers.advance(180_000)
        create(fixture, f"hour-{hour}")
        settle(fixture)
    fixture.timers.advance(180_000)
    create(fixture, "last")
    settle(fixture)
    for topic in ("after-the-delay", "after-the-next", "and-the-one-after"):
        fixture.timers.advance(61_000)
        create(fixture, topic)
        settle(fixture)
    logs = [name for name in fixture.files.listdir(METADATA_LOG) if name.endswith(".log")]
    assert len(logs) < 4, logs
    starts = [int(name[:20]) for name in logs]
    assert starts[0] <= fixture.log.log_start_offset
    assert all(fixture.log.log_start_offset < start for start in starts[1:])
    assert not any(name.endswith(".deleted") for name in fixture.files.listdir(METADATA_LOG))


def test_a_crash_between_leaves_nothing_that_looks_whole() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    fixture.log.write_snapshot(fixture.controller.image)
    fixture.settle()
    (name,) = [name for name in fixture.files.listdir(METADATA_LOG) if name.endswith(".checkpoint")][1:]
    for leftover in (f"{name}.part", f"{name}.deleted"):
        fixture.files.write_atomically(f"{METADATA_LOG}/{leftover}", b"torn")
    fixture.files.kill_process()
    restarted = fixture.restart()
    assert [name for name in fixture.files.listdir(METADATA_LOG) if "checkpoint." in name] == []
    assert restarted.controller.image.brokers == fixture.controller.image.brokers


@pytest.mark.parametrize("partitions", [1, 3000])
def test_a_new_observer_begins_with_the_snapshot(partitions: int) -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    create(fixture, "before", partitions)
    fixture.log.write_snapshot(fixture.controller.image)
    fixture.settle()
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
