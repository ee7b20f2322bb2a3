"""Followers whose appends wait for helper threads: each is told to the leader when it is in the log."""

from __future__ import annotations

import pytest

from broker.replication.fetcher.fetch_transitions import FetchState
from storage.faulty_files import Fault
from tests.support.rigs.fetcher_rig import FetcherRig, diverging, records
from tests.support.rigs.lane_rig import LaneRig
from tests.support.rigs.log_rig import client_batch, leader_batch

SYNCED = {"flush_messages": 1}
"""Each append waits until it is on the disk."""


def run(rig: FetcherRig, lane: LaneRig) -> None:
    while lane.turns or lane.codecs.waiting or lane.disks.waiting:
        lane.run()
        rig.timers.run_soon()


def test_what_waits_for_the_disk_is_not_fetched_again_and_does_not_stop_the_others() -> None:
    rig = FetcherRig()
    lane = LaneRig(**SYNCED)
    rig.host(0, rig=lane)
    other = rig.host(1)
    rig.follow(0)
    rig.follow(1)
    rig.answer()
    rig.answer()
    batch = leader_batch(0, b"a", epoch=1)
    rig.answer(records(batch, index=0, high_watermark=1), records(batch, index=1))
    assert rig.state(0) is FetchState.APPENDING
    assert (lane.log.log_end_offset, other.log.log_end_offset) == (0, 1)
    assert set(rig.asked()) == {1}
    run(rig, lane)
    assert rig.state(0) is FetchState.FETCHING
    assert (lane.log.log_end_offset, lane.log.high_watermark) == (1, 1)
    rig.answer()
    assert rig.asked()[0].fetch_offset == 1


def test_what_waits_while_the_epoch_changes_is_given_up_and_fetched_again() -> None:
    rig = FetcherRig()
    lane = LaneRig(**SYNCED)
    rig.host(rig=lane)
    rig.follow(leader_epoch=1)
    rig.answer(records(leader_batch(0, b"a", epoch=1)))
    rig.follow(leader_epoch=2)
    run(rig, lane)
    assert lane.log.log_end_offset == 0
    assert rig.state() is FetchState.FETCHING
    assert rig.asked() == {}, "the fetch without the partition that waited"
    rig.answer(session_id=0)
    assert (rig.asked()[0].current_leader_epoch, rig.asked()[0].fetch_offset) == (2, 0)


def test_a_write_of_a_thread_that_fails_is_tried_again() -> None:
    rig = FetcherRig()
    lane = LaneRig(**SYNCED)
    rig.host(rig=lane)
    rig.follow()
    lane.faulty.faults = [Fault("write", path_part=".log")]
    rig.answer(records(leader_batch(0, b"a", epoch=1)))
    run(rig, lane)
    assert (rig.state(), lane.log.log_end_offset) == (FetchState.FETCHING, 0)
    assert rig.suspected == ["/data/orders-0"]
    rig.answer(session_id=0)
    rig.timers.advance(1_000)
    rig.timers.run_soon()
    rig.answer(records(leader_batch(0, b"a", epoch=1)))
    run(rig, lane)
    assert lane.log.log_end_offset == 1


def test_a_partition_that_is_gone_meanwhile_is_not_touched() -> None:
    rig = FetcherRig()
    lane = LaneRig(**SYNCED)
    rig.host(rig=lane)
    fetch = rig.follow()
    rig.answer(records(leader_batch(0, b"a", epoch=1), high_watermark=1))
    rig.fetcher.leave(fetch.key)
    run(rig, lane)
    assert lane.log.high_watermark == 0


@pytest.mark.parametrize("ends_first", [True, False])
def test_a_cut_waits_for_the_thread_that_writes_what_an_old_leader_took(ends_first: bool) -> None:
    """This broker led, and a thread writes a batch of that time: it is rolled back before the log is cut."""
    rig = FetcherRig()
    lane = LaneRig()
    rig.host(rig=lane)
    lane.append(b"a", epoch=1)
    lane.append(b"lost", epoch=1)
    lane.configure(**SYNCED)
    lane.send(client_batch(b"waits"), epoch=1)
    lane.turn()
    assert lane.disks.waiting
    rig.follow(leader_epoch=2)
    if ends_first:
        run(rig, lane)
    rig.answer(diverging(1, 1))
    run(rig, lane)
    assert lane.log.log_end_offset == 1
    if not ends_first:
        rig.answer(session_id=0)
    assert rig.asked()[0].fetch_offset == 1
