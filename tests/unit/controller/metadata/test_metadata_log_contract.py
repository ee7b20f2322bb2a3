"""What the port of the metadata log promises, for each of its sides.

A side is a function that gives a fixture with a leading log; `sync` lets happen what a commit waits for. The
one-voter side is the only one so far.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.replayer import MetadataBatch
from controller.metadata.log import LeaderAndEpoch, MetadataLog, NotLeader, SnapshotId
from controller.metadata.records import read_metadata_batches
from controller.metadata.replicated_log import ReplicatedMetadataLog
from controller.raft.log_failure import MetadataLogFailed
from protocol.codec.message import Message
from protocol.metadata_log.cluster import ConfigRecord, FeatureLevelRecord
from protocol.primitives import RecordsSlice
from storage.memory_files import MemoryFiles
from tests.support.rigs.controllers import CLUSTER_ID, METADATA_LOG, ControllerFixture
from tests.support.rigs.raft_messages import fetch


class Follower:
    """A listener that remembers the order of what it was told."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.records: list[Message] = []
        self.offsets: list[tuple[int, int]] = []
        self.image: ClusterImage | None = None

    def load_snapshot(self, snapshot: SnapshotId, image: ClusterImage) -> None:
        self.heard.append(f"snapshot {snapshot.end_offset}")
        self.image = image

    def commit(self, batch: MetadataBatch) -> None:
        self.heard.append("commit")
        self.records += batch.records
        self.offsets.append((batch.base_offset, batch.last_offset))

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        self.heard.append(f"leader {leader.leader_id} {leader.epoch}")


class Side:
    """A log that leads, and the hands that move it."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.fixture = ControllerFixture(files)
        self.fixture.settle()

    @property
    def log(self) -> ReplicatedMetadataLog:
        return self.fixture.log

    def sync(self) -> None:
        self.fixture.settle()

    def kill(self) -> Side:
        """The process dies; what was written is there."""
        self.fixture.files.kill_process()
        return Side(self.fixture.files)

    def cut_power(self) -> Side:
        """The machine dies; what was not synced is lost."""
        self.fixture.files.cut_power()
        return Side(self.fixture.files)


@pytest.fixture(params=[Side], ids=["one voter"])
def side(request: pytest.FixtureRequest) -> Side:
    make: Callable[[], Side] = request.param
    return make()


def config(number: int) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=f"key{number}", value=str(number))


def append(log: MetadataLog, *numbers: int) -> MetadataBatch:
    return log.append(log.leader.epoch, [config(number) for number in numbers])


def test_an_append_is_committed_only_when_it_is_synced(side: Side) -> None:
    follower = Follower()
    side.log.register(follower)
    before, heard = side.log.high_watermark, len(follower.heard)
    batch = append(side.log, 1, 2)
    assert (batch.base_offset, batch.last_offset) == (before, before + 1)
    assert side.log.end_offset == before + 2
    assert side.log.high_watermark == before
    assert len(follower.heard) == heard
    side.sync()
    assert side.log.high_watermark == before + 2
    assert follower.records[-2:] == [config(1), config(2)]


def test_batches_are_committed_in_order_and_share_a_sync(side: Side) -> None:
    follower = Follower()
    side.log.register(follower)
    first = append(side.log, 1)
    others = [append(side.log, number) for number in range(2, 20)]
    side.sync()
    expected = [(batch.base_offset, batch.last_offset) for batch in (first, *others)]
    assert follower.offsets[-19:] == expected


def test_who_registers_late_hears_all_of_it_and_then_who_leads(side: Side) -> None:
    append(side.log, 1)
    side.sync()
    append(side.log, 2)
    follower = Follower()
    side.log.register(follower)
    assert config(1) in follower.records
    assert config(2) not in follower.records
    assert follower.heard[-1] == f"leader {side.log.leader.leader_id} {side.log.leader.epoch}"
    assert follower.offsets[0][0] == 0
    side.sync()
    assert follower.records[-1] == config(2)


def test_nobody_appends_in_another_epoch(side: Side) -> None:
    epoch = side.log.leader.epoch
    for wrong in (epoch - 1, epoch + 1):
        with pytest.raises(NotLeader):
            side.log.append(wrong, [config(1)])
    side.log.shut_down()
    with pytest.raises(NotLeader):
        side.log.append(epoch, [config(1)])


def test_readers_get_whole_batches_and_only_committed_ones(side: Side) -> None:
    start = side.log.high_watermark
    append(side.log, 1)
    side.sync()
    append(side.log, 2)
    outcome = side.log.read(start, side.log.leader.epoch, 1 << 20)
    assert isinstance(outcome.records, RecordsSlice)
    (batch,) = read_metadata_batches(outcome.records.read())  # type: ignore[attr-defined]
    assert batch.records == [config(1)]
    nothing = side.log.read(start + 1, side.log.leader.epoch, 1 << 20)
    assert nothing == (b"", None, None)
    tiny = side.log.read(0, 0, 1)
    assert isinstance(tiny.records, RecordsSlice)


def test_a_reader_with_another_history_learns_where_to_cut(side: Side) -> None:
    epoch = side.log.leader.epoch
    assert side.log.read(side.log.end_offset + 5, epoch, 1000).diverging == (epoch, side.log.end_offset)
    assert side.log.read(3, 0, 1000).diverging == (0, 0)


def test_an_advance_is_told_once_unless_it_was_taken_back(side: Side) -> None:
    told: list[str] = []
    side.log.on_advance(lambda: told.append("kept"))
    side.log.on_advance(lambda: told.append("forgotten"))()
    append(side.log, 1)
    assert told == []
    side.sync()
    append(side.log, 2)
    side.sync()
    assert told == ["kept"]


def test_the_next_life_has_a_higher_epoch_and_all_that_was_committed(side: Side) -> None:
    epoch = side.log.leader.epoch
    for number in range(1, 50):
        append(side.log, number)
        side.sync()
    for end in (Side.kill, Side.cut_power):
        side = end(side)
        follower = Follower()
        side.log.register(follower)
        assert [record for record in follower.records if isinstance(record, ConfigRecord)] == [
            config(number) for number in range(1, 50)
        ]
        assert side.log.leader.epoch > epoch
        epoch = side.log.leader.epoch


def test_what_was_not_synced_may_be_lost_but_is_never_half_there(side: Side) -> None:
    append(side.log, 1)
    side.sync()
    append(side.log, 2, 3, 4)
    side = side.cut_power()
    follower = Follower()
    side.log.register(follower)
    kept = [record for record in follower.records if isinstance(record, ConfigRecord)]
    assert kept in ([config(1)], [config(number) for number in (1, 2, 3, 4)])


def test_a_sync_that_fails_commits_nothing_and_is_not_swallowed(side: Side) -> None:
    before = side.log.high_watermark
    append(side.log, 1)
    side.fixture.timers.run_soon()
    with pytest.raises(MetadataLogFailed, match=r"cannot be written: .*Input/output error"):
        side.fixture.offload.fail(OSError(5, "Input/output error"))
    assert side.log.high_watermark == before


def test_the_quorum_says_how_far_everybody_is(side: Side) -> None:
    end = side.log.end_offset
    for replica, offset in ((7, end), (8, end - 1)):
        request = fetch(replica, side.log.leader.epoch, offset, side.log.leader.epoch)
        request.cluster_id = CLUSTER_ID
        side.log.ask(request, version=18, listener="CONTROLLER")
    now_ms = side.fixture.clock.wall_ms()
    view = side.log.quorum(now_ms)
    assert view.leader == side.log.leader
    assert [(voter.replica_id, voter.log_end_offset) for voter in view.voters] == [(1, end)]
    assert [(o.replica_id, o.log_end_offset, o.last_caught_up_ms) for o in view.observers] == [
        (7, end, now_ms),
        (8, end - 1, -1),
    ]
    side.fixture.timers.advance(300_000)
    assert list(side.log.quorum(now_ms + 300_000).observers) == []


def test_a_snapshot_stands_for_what_it_holds(side: Side) -> None:
    append(side.log, 1, 2)
    side.sync()
    image = side.fixture.controller.image
    snapshot = side.log.write_snapshot(image)
    side.sync()
    assert side.log.latest_snapshot() == snapshot == SnapshotId(image.offset + 1, image.epoch)
    append(side.log, 3)
    side.sync()
    side = side.kill()
    follower = Follower()
    side.log.register(follower)
    assert follower.heard[0] == f"snapshot {snapshot.end_offset}"
    assert follower.image == image
    assert [record for record in follower.records if isinstance(record, ConfigRecord)] == [config(3)]
    piece = side.log.read_snapshot(snapshot, 0, 10)
    assert piece is not None
    whole = side.log.read_snapshot(snapshot, 0, 1 << 20)
    assert whole is not None
    assert (piece[0], piece[1]) == (whole[0][:10], len(whole[0]))
    assert side.log.read_snapshot(SnapshotId(999, 1), 0, 10) is None


def test_a_half_written_snapshot_is_not_one(side: Side) -> None:
    files = side.fixture.files
    part = files.open(f"{METADATA_LOG}/00000000000000000009-0000000001.checkpoint.part", create=True)
    part.write((b"half",), 0)
    side = side.kill()
    assert side.log.latest_snapshot() is None


def test_a_torn_tail_is_cut_off(side: Side) -> None:
    append(side.log, 1)
    side.sync()
    end = side.log.end_offset
    path = f"{METADATA_LOG}/00000000000000000000.log"
    file = side.fixture.files.open(path, write=True)
    file.write((b"\x00" * 40,), file.size())
    side = side.kill()
    follower = Follower()
    side.log.register(follower)
    assert follower.offsets[-1][0] >= end
    assert config(1) in follower.records
    assert FeatureLevelRecord(name="metadata.version", feature_level=30) in follower.records
