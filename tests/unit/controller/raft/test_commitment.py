"""What is committed: what a majority has on the disk, from the first record of the leader's own epoch on."""

from __future__ import annotations

import pytest

from controller.raft.effects import HardState
from controller.raft.identity import Address, LeaderAndEpoch, SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.node import NotLeading
from controller.raft.transitions import Role
from protocol.codec.compiler import decode
from protocol.errors import ErrorCode
from protocol.quorum import LeaderChangeMessage
from protocol.records.control import ControlRecordType, control_type
from protocol.records.reader import records as read_records
from tests.support.rigs.raft_messages import fetch, fetched
from tests.support.rigs.raft_rig import (
    MemoryLog,
    RaftRig,
    data_batch,
    directory,
    elected,
    quorum_of,
    voters_record,
    win_election,
)


def leader_of_old_records() -> RaftRig:
    """Leads epoch 6 with two records of epoch 3 before its own first one, which is at offset 2."""
    log = MemoryLog({SnapshotId(0, 0): SnapshotControl(1, voters_record(1, 2, 3))})
    log.append(bytes(data_batch(b"a", b"b", epoch=3)))
    rig = RaftRig(log=log, hard_state=HardState(epoch=5))
    win_election(rig)
    assert rig.node.end_offset == 5  # LeaderChange, version and voters behind the two
    return rig


def test_the_first_batch_of_an_epoch_says_who_leads_and_who_voted_and_with_new_voters_who_they_are() -> None:
    rig = elected()
    (base_offset, end_offset, epoch, batch) = rig.log.batches[0]
    assert (base_offset, end_offset, epoch) == (0, 3, 1)
    found = list(read_records(batch, 0, check_crc=True))
    assert [control_type(record.key) for record in found] == [
        ControlRecordType.LEADER_CHANGE,
        ControlRecordType.KRAFT_VERSION,
        ControlRecordType.KRAFT_VOTERS,
    ]
    change = decode(LeaderChangeMessage, 0, found[0].value or b"")
    assert change.leader_id == 1
    assert [voter.voter_id for voter in change.voters] == [1, 2, 3]
    assert [voter.voter_id for voter in change.granting_voters] == [1, 2]


def test_voters_that_are_in_the_log_already_are_not_written_again() -> None:
    rig = elected()
    again = RaftRig(log=rig.log, hard_state=rig.hard_state)
    win_election(again)
    assert again.node.end_offset == 4


def test_a_leader_that_listens_elsewhere_now_writes_that() -> None:
    rig = elected()
    moved = RaftRig(log=rig.log, hard_state=rig.hard_state, endpoints={"CONTROLLER": Address("elsewhere", 1)})
    win_election(moved)
    assert moved.node.end_offset == 6
    assert moved.node.voters.by_id[1].endpoints["CONTROLLER"] == ("elsewhere", 1)


def test_a_majority_commits_and_the_leader_is_one_of_it() -> None:
    rig = elected()
    assert rig.node.high_watermark == 0
    rig.ask(fetch(2, 1, 0, 0))
    assert rig.node.high_watermark == 0
    rig.ask(fetch(2, 1, 3, 1))
    assert rig.node.high_watermark == 3
    assert rig.announced[-1] == LeaderAndEpoch(1, 1)


def test_an_entry_of_an_old_epoch_is_not_committed_by_counting() -> None:
    rig = leader_of_old_records()
    rig.ask(fetch(2, 6, 2, 3))
    assert rig.node.high_watermark == 0
    assert rig.announced[-1] == LeaderAndEpoch(-1, 6)
    rig.ask(fetch(2, 6, 5, 6))
    assert rig.node.high_watermark == 5
    assert rig.announced[-1] == LeaderAndEpoch(1, 6)


def test_a_new_leader_says_no_high_watermark_before_it_knows_one_of_its_own() -> None:
    rig = leader_of_old_records()
    assert fetched(rig.ask(fetch(2, 6, 0, 0))).high_watermark == -1
    rig.ask(fetch(2, 6, 5, 6))
    assert fetched(rig.ask(fetch(3, 6, 0, 0))).high_watermark == 5


def test_observers_and_strangers_commit_nothing() -> None:
    rig = elected()
    for replica in (4, 5, -1):
        rig.ask(fetch(replica, 1, 3, 1))
    rig.ask(fetch(2, 1, 3, 1, directory_id=directory(2, life=1)))
    assert rig.node.high_watermark == 0
    voters, observers = rig.node.progress()
    assert [(each.key.id, each.end_offset) for each in voters] == [(1, 3), (2, -1), (3, -1)]
    assert sorted(each.key.id for each in observers) == [2, 4, 5]


def test_the_leader_counts_itself_only_for_what_its_disk_has() -> None:
    rig = elected(auto_sync=False)
    rig.ask(fetch(2, 1, 3, 1))
    assert (rig.node.synced_offset, rig.node.high_watermark) == (0, 0)
    rig.sync()
    assert (rig.node.synced_offset, rig.node.high_watermark) == (3, 3)
    rig.append(b"x")
    rig.ask(fetch(2, 1, 4, 1))
    rig.ask(fetch(3, 1, 4, 1))
    assert rig.node.high_watermark == 4  # two others have it: the leader's own disk is not needed


def test_an_only_voter_commits_when_its_disk_has_it() -> None:
    rig = RaftRig(1, (1,), auto_sync=False)
    assert (rig.node.role, rig.node.high_watermark) == (Role.LEADER, 0)
    rig.sync()
    assert rig.node.high_watermark == 3
    rig.append(b"x")
    rig.append(b"y")
    assert rig.node.high_watermark == 3
    rig.sync()
    assert rig.node.high_watermark == 5


def test_a_later_sync_answers_for_the_earlier_ones() -> None:
    rig = elected(auto_sync=False)
    first = rig.unsynced
    rig.append(b"x")
    assert rig.unsynced == first + 1
    rig.execute(rig.node.log_synced(first + 1, rig.now_ms))
    assert rig.node.synced_offset == 4
    rig.execute(rig.node.log_synced(first, rig.now_ms))
    assert rig.node.synced_offset == 4


def test_with_four_voters_two_are_no_majority() -> None:
    rig = elected(voters=(1, 2, 3, 4))
    rig.ask(fetch(2, 1, 3, 1))
    assert rig.node.high_watermark == 0
    rig.ask(fetch(3, 1, 3, 1))
    assert rig.node.high_watermark == 3


def test_a_leader_without_a_majority_that_fetches_resigns_after_one_and_a_half_fetch_timeouts() -> None:
    rig = elected()
    rig.tick(2_999)
    assert rig.node.role is Role.LEADER
    rig.tick(1)
    assert rig.node.role.name == "RESIGNED"


def test_each_time_a_majority_has_fetched_the_check_begins_anew() -> None:
    rig = elected(voters=(1, 2, 3, 4, 5))
    rig.tick(2_000)
    rig.ask(fetch(2, 1, 0, 0))
    rig.ask(fetch(2, 1, 0, 0))  # one voter twice is one voter
    rig.ask(fetch(6, 1, 0, 0))  # an observer does not count
    rig.tick(500)
    rig.ask(fetch(3, 1, 0, 0))
    rig.tick(2_999)
    assert rig.node.role is Role.LEADER
    rig.tick(1)
    assert rig.node.role.name == "RESIGNED"


def test_an_only_voter_never_resigns_for_want_of_followers() -> None:
    rig = RaftRig(1, (1,))
    rig.tick(1_000_000)
    assert rig.node.role is Role.LEADER


def test_three_commit_and_lose_nothing_when_the_leader_goes() -> None:
    quorum = quorum_of(1, 2, 3)
    quorum.run(2_000)
    leader = quorum.leader()
    for number in range(20):
        leader.append(b"%d" % number)
        quorum.deliver()
    assert {rig.node.high_watermark for rig in quorum.rigs.values()} == {23}
    del quorum.rigs[leader.config.node.id]
    quorum.run(20_000)
    next_leader = quorum.leader()
    assert next_leader.node.high_watermark == next_leader.node.end_offset > 23
    contents = [[batch[3] for batch in rig.log.batches] for rig in quorum.rigs.values()]
    assert contents[0] == contents[1]
    assert contents[0][: len(leader.log.batches)] == [batch[3] for batch in leader.log.batches]


def test_an_append_for_another_epoch_is_refused() -> None:
    rig = elected()
    with pytest.raises(NotLeading):
        rig.node.append(2, data_batch(), rig.now_ms)
    assert rig.node.end_offset == 3


def test_an_error_is_none_for_a_leader_that_answers() -> None:
    rig = elected()
    assert fetched(rig.ask(fetch(2, 1, 0, 0))).error_code == ErrorCode.NONE
