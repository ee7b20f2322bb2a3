"""How a life begins, after a crash or not, and how it ends cleanly."""

from __future__ import annotations

import pytest

from controller.raft.effects import HardState
from controller.raft.identity import LeaderAndEpoch, SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.node import NotLeading
from controller.raft.transitions import STARTING_ROLES, TRANSITIONS, Role, RoleCause
from protocol.errors import ErrorCode, InvariantViolated
from protocol.messages.add_raft_voter import AddRaftVoterResponse
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.vote import VoteRequest
from tests.support.rigs.raft_messages import add_voter, begin, fetch, fetch_answer, fetched
from tests.support.rigs.raft_rig import MemoryLog, RaftRig, data_batch, elected, key, quorum_of, voters_record


def test_a_former_leader_resigns_from_its_epoch_before_it_does_anything_else() -> None:
    rig = RaftRig(hard_state=HardState(epoch=4, leader_id=1))
    assert rig.node.role is Role.RESIGNED
    assert rig.announced == [LeaderAndEpoch(-1, 4)]
    assert [request.to.id for request, _ in rig.take(EndQuorumEpochRequest)] == [2, 3]
    with pytest.raises(NotLeading):
        rig.node.append(4, data_batch(), rig.now_ms)


def test_a_former_candidate_does_not_go_on_with_its_election() -> None:
    rig = RaftRig(hard_state=HardState(epoch=4, voted=key(1)))
    assert rig.node.role is Role.UNATTACHED
    assert rig.take(VoteRequest) == []
    assert rig.node.voted == key(1)


def test_a_former_follower_goes_on_following() -> None:
    rig = RaftRig(hard_state=HardState(epoch=4, leader_id=3))
    assert (rig.node.role, rig.node.leader) == (Role.FOLLOWER, LeaderAndEpoch(3, 4))
    assert rig.take_one(FetchRequest)[0].to.id == 3


def test_a_former_follower_of_somebody_without_address_looks_for_the_leader() -> None:
    rig = RaftRig(hard_state=HardState(epoch=4, leader_id=9))
    assert rig.node.role is Role.UNATTACHED
    assert rig.take(FetchRequest)


def test_without_the_file_the_log_says_the_epoch() -> None:
    log = MemoryLog({SnapshotId(0, 0): SnapshotControl(1, voters_record(1, 2, 3))})
    log.append(bytes(data_batch(epoch=6)))
    rig = RaftRig(log=log)
    assert rig.hard_state == HardState(epoch=6)
    assert rig.node.leader == LeaderAndEpoch(-1, 6)


def test_a_leader_that_shuts_down_stays_until_another_leads() -> None:
    quorum = quorum_of(1, 2, 3)
    quorum.run(3_000)
    leader = quorum.leader()
    epoch = leader.node.epoch
    start_ms = leader.now_ms
    leader.execute(leader.node.shut_down(5_000, leader.now_ms))
    assert leader.node.role is Role.RESIGNED
    assert not leader.node.is_shut_down
    quorum.run(200)
    assert leader.node.is_shut_down
    assert quorum.leader() is not leader
    assert quorum.leader().node.epoch == epoch + 1
    assert leader.now_ms - start_ms <= 300
    leader.sent.clear()
    leader.tick(100_000)
    assert leader.sent == []


def test_a_leader_whose_others_are_gone_ends_with_the_time() -> None:
    rig = elected()
    rig.execute(rig.node.shut_down(5_000, rig.now_ms))
    rig.tick(4_999)
    assert not rig.node.is_shut_down
    rig.tick(1)
    assert rig.node.is_shut_down


def test_while_it_shuts_down_it_takes_on_nothing() -> None:
    rig = elected()
    rig.ask(fetch(2, 1, 3, 1))
    rig.execute(rig.node.shut_down(5_000, rig.now_ms))
    with pytest.raises(NotLeading):
        rig.node.append(1, data_batch(), rig.now_ms)
    answer = rig.ask(add_voter(4))
    assert isinstance(answer, AddRaftVoterResponse)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(rig.ask(fetch(3, 1, 0, 0))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_followers_observers_and_only_voters_end_at_once() -> None:
    follower = RaftRig()
    follower.ask(begin(2, 5))
    for rig in (follower, RaftRig(4, (1, 2, 3)), RaftRig(1, (1,))):
        rig.execute(rig.node.shut_down(5_000, rig.now_ms))
        assert rig.node.is_shut_down


def test_a_change_of_role_that_is_in_no_table_is_our_bug() -> None:
    rig = RaftRig()
    replica = rig.node._replica
    with pytest.raises(InvariantViolated):
        replica.enter(Role.LEADER, replica.state, RoleCause.VOTES_GRANTED)


def test_every_role_can_be_reached_and_left_in_the_table() -> None:
    reached = STARTING_ROLES | {new for _, new in TRANSITIONS}
    left = {old for old, _ in TRANSITIONS}
    assert reached == left == set(Role)
    causes = {cause for each in TRANSITIONS.values() for cause in each}
    assert causes == set(RoleCause)
    assert all(
        RoleCause.HIGHER_EPOCH in TRANSITIONS[role, Role.UNATTACHED] for role in Role
    )  # a later epoch ends everything


def test_a_request_that_is_not_the_quorums_is_our_bug() -> None:
    with pytest.raises(InvariantViolated):
        RaftRig().ask(MetadataRequest())


def test_a_snapshot_of_what_is_not_committed_is_our_bug() -> None:
    rig = elected()
    rig.append(b"a")
    with pytest.raises(InvariantViolated):
        rig.node.snapshot_taken(SnapshotId(4, 1), rig.now_ms)


def test_a_snapshot_tells_the_voters_of_its_place() -> None:
    rig = elected()
    rig.ask(fetch(2, 1, 3, 1))
    control = rig.node.control_at(3)
    assert control.kraft_version == 1
    assert control.voters is not None
    assert [voter.voter_id for voter in control.voters.voters] == [1, 2, 3]


def test_a_leader_known_without_its_address_is_followed_when_it_answers_itself() -> None:
    rig = RaftRig(hard_state=HardState(epoch=4, leader_id=9))
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(9, 4, bytes(data_batch(epoch=4)), named=True))
    assert (rig.node.role, rig.node.end_offset) == (Role.FOLLOWER, 1)
    assert rig.take_one(FetchRequest)[0].to.host == "host9"
