"""Three controllers of ours: a leader that dies, stops, pauses; followers that come back far behind."""

from __future__ import annotations

import signal

import pytest

from tests.quorum.conftest import NewQuorum
from tests.support.brokers.quorum import OURS, STATIC, Leader, Quorum

NEVER_SILENT = {"controller_quorum_fetch_timeout_ms": "600000"}
"""So long that an election can only be the consequence of a leader's resignation."""


def others(quorum: Quorum, leader: Leader) -> list[int]:
    return [node_id for node_id in quorum.members if node_id != leader.node_id]


@pytest.mark.parametrize("voters", ["initial controllers", STATIC])
def test_each_leader_may_die_and_nothing_that_was_committed_is_lost(
    new_quorum: NewQuorum, voters: str
) -> None:
    quorum = new_quorum(OURS, OURS, OURS, voters=voters)
    first = quorum.commit(1_000_001)
    assert first.voters == [1, 2, 3]
    quorum.members[first.node_id].kill()
    second = quorum.await_leader(after_epoch=first.epoch)
    assert second.view.high_watermark > first.view.high_watermark
    second = quorum.commit(1_000_002)
    quorum.members[second.node_id].kill()  # one of three is left: it must not lead
    last = next(node_id for node_id in quorum.members if quorum.members[node_id].is_running)
    quorum.members[first.node_id].start()
    third = quorum.await_leader(after_epoch=second.epoch)
    assert third.node_id == last  # who has missed a commit cannot be elected
    quorum.commit(1_000_003)
    quorum.members[second.node_id].start()
    assert quorum.await_caught_up(1, 2, 3).epoch == third.epoch


def test_a_leader_that_stops_hands_over_without_a_timeout(new_quorum: NewQuorum) -> None:
    quorum = new_quorum(OURS, OURS, OURS, **NEVER_SILENT)
    leader = quorum.await_leader()
    for _ in range(3):
        member = quorum.members[leader.node_id]
        member.ask_to_stop()
        staying = others(quorum, leader)
        quorum.await_leader(staying, after_epoch=leader.epoch)
        assert member.stop() == 0
        following = quorum.await_caught_up(*staying)  # who was asked second may have stood, too
        member.start()
        leader = quorum.await_caught_up(1, 2, 3)
        assert leader.epoch == following.epoch  # coming back disturbs nobody


def test_a_paused_leader_finds_another_in_its_place_and_follows(new_quorum: NewQuorum) -> None:
    quorum = new_quorum(OURS, OURS, OURS)
    first = quorum.commit(1_000_001)
    paused = quorum.members[first.node_id]
    paused.signal(signal.SIGSTOP)
    try:
        second = quorum.await_leader(others(quorum, first), after_epoch=first.epoch)
    finally:
        paused.signal(signal.SIGCONT)
    quorum.forget_client(first.node_id)
    quorum.commit(1_000_002)
    third = quorum.await_caught_up(1, 2, 3)
    assert (third.node_id, third.epoch) == (second.node_id, second.epoch)


def test_a_follower_far_behind_gets_a_snapshot_in_pieces(new_quorum: NewQuorum) -> None:
    quorum = new_quorum(
        OURS, OURS, OURS,
        metadata_log_max_record_bytes_between_snapshots="4000",
        metadata_max_retention_bytes="2000",
        controller_quorum_fetch_snapshot_max_bytes="300",
    )  # fmt: skip
    first = quorum.commit(1_000_000)
    behind = quorum.members[others(quorum, first)[0]]
    end_when_it_died = quorum.await_caught_up(1, 2, 3).view.high_watermark
    behind.kill()
    for value in range(1_000_001, 1_000_120):
        quorum.commit(value)
    for member in quorum.members.values():
        if member is not behind:
            member.await_snapshots(2)
            member.stop()
            member.start()  # the first commit of a life cuts the log at its snapshots, then one a minute
            quorum.commit(2_000_000)
    leader = quorum.await_leader()
    snapshots = quorum.members[leader.node_id]
    quorum.wait(
        lambda: snapshots.first_snapshot_end() > end_when_it_died or None, "log that begins later than that"
    )
    start = snapshots.first_snapshot_end()
    behind.start()
    leader = quorum.await_caught_up(1, 2, 3)
    assert behind.first_snapshot_end() >= start
    quorum.members[others(quorum, leader)[0]].stop()
    quorum.commit(3_000_000)
