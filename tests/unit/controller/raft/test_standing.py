"""How a replica stands for election: pre-votes, votes, losing, backing off (KIP-996, KIP-595)."""

from __future__ import annotations

from controller.raft.effects import HardState
from controller.raft.identity import LeaderAndEpoch
from controller.raft.transitions import Role
from protocol.errors import ErrorCode
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.vote import VoteRequest, VoteResponse
from tests.support.rigs.raft_messages import begin, fetch_answer, vote, vote_answer
from tests.support.rigs.raft_rig import RaftQuorum, RaftRig, Stubborn, elected, key


def standing(**settings: object) -> RaftRig:
    rig = RaftRig(**settings)  # type: ignore[arg-type]
    rig.take(FetchRequest)
    rig.wake()
    return rig


def candidate(**settings: object) -> RaftRig:
    rig = standing(**settings)
    request, _ = rig.take(VoteRequest)[0]
    rig.respond(request, vote_answer(rig.node.epoch, True))
    assert rig.node.role is Role.CANDIDATE
    return rig


def test_a_voter_without_a_leader_asks_before_it_begins_an_epoch() -> None:
    rig = standing()
    assert (rig.node.role, rig.node.epoch) == (Role.PROSPECTIVE, 0)
    asked = rig.take(VoteRequest)
    assert [request.to.id for request, _ in asked] == [2, 3]
    for request, message in asked:
        partition = message.topics[0].partitions[0]
        assert partition.pre_vote
        assert partition.replica_epoch == 0
        assert (partition.replica_id, partition.replica_directory_id) == key(1)
        assert (message.voter_id, partition.voter_directory_id) == key(request.to.id)
    assert rig.hard_state is None  # nothing has happened that must be remembered


def test_with_a_majority_of_pre_votes_it_begins_the_next_epoch_and_asks_in_earnest() -> None:
    rig = candidate()
    assert rig.hard_state == HardState(epoch=1, leader_id=-1, voted=key(1))
    asked = rig.take(VoteRequest)
    assert [request.to.id for request, _ in asked] == [2, 3]
    assert not any(message.topics[0].partitions[0].pre_vote for _, message in asked)
    assert {message.topics[0].partitions[0].replica_epoch for _, message in asked} == {1}


def test_with_a_majority_of_votes_it_leads_and_says_so_to_the_voters() -> None:
    rig = candidate()
    rig.respond(rig.take(VoteRequest)[0][0], vote_answer(1, True))
    assert rig.node.role is Role.LEADER
    assert rig.hard_state == HardState(epoch=1, leader_id=1, voted=key(1))
    begun = rig.take(BeginQuorumEpochRequest)
    assert [request.to.id for request, _ in begun] == [2, 3]
    assert rig.announced[-1] == LeaderAndEpoch(-1, 1)  # itself not before its first record is committed


def test_a_vote_that_comes_twice_counts_once() -> None:
    rig = RaftRig(voters=(1, 2, 3, 4, 5))
    rig.take(FetchRequest)
    rig.wake()
    request, _ = rig.take(VoteRequest)[0]
    rig.respond(request, vote_answer(0, True))
    rig.respond(request, vote_answer(0, True))
    assert rig.node.role is Role.PROSPECTIVE


def test_without_a_majority_for_it_the_epoch_stays() -> None:
    rig = standing()
    for request, _ in rig.take(VoteRequest):
        rig.respond(request, vote_answer(0, False))
    assert (rig.node.role, rig.node.epoch, rig.hard_state) == (Role.UNATTACHED, 0, None)


def test_a_partitioned_voter_never_raises_its_epoch() -> None:
    rig = RaftRig()
    for _ in range(200):
        for request in list(rig.sent):
            rig.sent.remove(request)
            rig.fail(request)
        rig.wake()
    assert rig.node.epoch == 0


def test_pre_votes_that_do_not_come_in_time_are_refused() -> None:
    rig = standing()
    rig.tick(2_000)
    assert (rig.node.role, rig.node.epoch) == (Role.PROSPECTIVE, 0)  # its election timeout is over: again
    rounds = [message.topics[0].partitions[0].pre_vote for _, message in rig.take(VoteRequest)]
    assert rounds
    assert all(rounds)


def test_a_peer_that_knows_no_pre_vote_is_asked_in_earnest_at_once() -> None:
    rig = standing()
    rig.fail(rig.take(VoteRequest)[0][0], ErrorCode.UNSUPPORTED_VERSION)
    assert (rig.node.role, rig.node.epoch) == (Role.CANDIDATE, 1)


def test_a_voter_who_has_just_heard_the_leader_refuses_pre_votes() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5))
    fresh = rig.ask(vote(3, 5, last_epoch=5, last_offset=9, pre_vote=True))
    assert isinstance(fresh, VoteResponse)
    assert fresh.topics[0].partitions[0].vote_granted  # the leader has not answered it yet
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5))
    later = rig.ask(vote(3, 5, last_epoch=5, last_offset=9, pre_vote=True))
    assert isinstance(later, VoteResponse)
    assert not later.topics[0].partitions[0].vote_granted
    assert rig.hard_state == HardState(epoch=5, leader_id=2)


def test_pre_votes_are_no_votes() -> None:
    rig = RaftRig()
    for each in (2, 3, 2):
        answer = rig.ask(vote(each, 5, pre_vote=True))
        assert isinstance(answer, VoteResponse)
        assert answer.topics[0].partitions[0].vote_granted
    assert rig.node.voted is None


def test_a_leader_refuses_pre_votes() -> None:
    rig = elected()
    answer = rig.ask(vote(2, 1, last_epoch=1, last_offset=99, pre_vote=True))
    assert isinstance(answer, VoteResponse)
    assert not answer.topics[0].partitions[0].vote_granted
    assert answer.topics[0].partitions[0].leader_id == 1


def test_a_lost_election_is_followed_by_a_pause_by_chance_and_another_pre_vote() -> None:
    rig = candidate()
    for request, _ in rig.take(VoteRequest):
        rig.respond(request, vote_answer(1, False))
    rig.wake()  # chance says: no pause at all
    assert (rig.node.role, rig.node.epoch) == (Role.PROSPECTIVE, 1)
    assert all(message.topics[0].partitions[0].pre_vote for _, message in rig.take(VoteRequest))


def test_an_answer_of_a_later_epoch_ends_a_candidacy() -> None:
    rig = candidate()
    rig.respond(rig.take(VoteRequest)[0][0], vote_answer(7, False, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert (rig.node.role, rig.node.epoch, rig.node.voted) == (Role.UNATTACHED, 7, None)


def test_an_answer_that_names_the_leader_ends_it_too() -> None:
    rig = candidate()
    rig.respond(rig.take(VoteRequest)[0][0], vote_answer(1, False, leader=3))
    assert (rig.node.role, rig.node.leader) == (Role.FOLLOWER, LeaderAndEpoch(3, 1))
    assert rig.hard_state == HardState(epoch=1, leader_id=3, voted=key(1))  # the vote is kept


def test_an_old_answer_counts_in_no_later_election() -> None:
    rig = standing()
    stale, _ = rig.take(VoteRequest)[0]
    rig.ask(vote(2, 4))
    rig.respond(stale, vote_answer(0, True))
    assert rig.node.role is Role.UNATTACHED


def test_one_without_the_vote_of_a_majority_of_all_voters_does_not_lead() -> None:
    rigs = [RaftRig(node_id, (1, 2, 3, 4, 5)) for node_id in (1, 2)]
    quorum = RaftQuorum(rigs)
    quorum.run(20_000)
    assert all(rig.node.role is not Role.LEADER and rig.node.epoch == 0 for rig in rigs)


def test_a_follower_whose_leader_is_silent_stands_and_goes_back_when_refused() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5))
    rig.tick(2_000)
    assert (rig.node.role, rig.node.leader) == (Role.PROSPECTIVE, LeaderAndEpoch(2, 5))
    for request, _ in rig.take(VoteRequest):
        rig.respond(request, vote_answer(5, False, leader=2))
    assert (rig.node.role, rig.node.leader) == (Role.FOLLOWER, LeaderAndEpoch(2, 5))


def test_an_only_voter_leads_at_once_in_the_next_epoch() -> None:
    rig = RaftRig(1, (1,), hard_state=HardState(epoch=4, leader_id=1))
    assert (rig.node.role, rig.node.epoch) == (Role.LEADER, 5)
    assert rig.announced[-1] == LeaderAndEpoch(1, 5)
    assert rig.sent == []


def test_who_backs_off_sleeps_until_the_pause_is_over() -> None:
    rig = RaftRig(random_source=Stubborn(9))
    rig.take(FetchRequest)
    rig.wake()
    rig.respond(rig.take(VoteRequest)[0][0], vote_answer(0, True))
    rig.take(VoteRequest)
    rig.wake()  # nobody has answered in the time of an election
    assert rig.node.role is Role.CANDIDATE
    assert rig.wake_at_ms == rig.now_ms + 100
