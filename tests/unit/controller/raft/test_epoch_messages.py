"""BeginQuorumEpoch and EndQuorumEpoch: who leads, and who is to lead next."""

from __future__ import annotations

import pytest

from controller.raft.effects import HardState
from controller.raft.identity import EARLY_EPOCHS, LARGEST_LEAP, LeaderAndEpoch, ReplicaKey
from controller.raft.transitions import Role
from protocol.errors import ErrorCode
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.vote import VoteRequest, VoteResponse
from tests.support.rigs.raft_messages import begin, end, end_answer, fetch, fetch_answer, fetched, vote
from tests.support.rigs.raft_rig import RaftRig, address, directory, elected, key, win_election


def begun(answer: object) -> BeginQuorumEpochResponse.PartitionData:
    assert isinstance(answer, BeginQuorumEpochResponse)
    assert not answer.error_code
    return answer.topics[0].partitions[0]


def test_who_hears_of_the_leader_follows_it_and_fetches_from_where_it_listens() -> None:
    rig = RaftRig()
    request = begin(9, 5)  # no voter that this replica knows: its address is in the request
    answer = begun(rig.ask(request))
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (ErrorCode.NONE, 9, 5)
    assert (rig.node.role, rig.node.leader) == (Role.FOLLOWER, LeaderAndEpoch(9, 5))
    assert rig.hard_state == HardState(epoch=5, leader_id=9)
    assert rig.announced[-1] == LeaderAndEpoch(9, 5)
    sent, message = rig.take_one(FetchRequest)
    assert (sent.to.id, sent.to.host, sent.to.port) == (9, *address(9))
    assert message.topics[0].partitions[0].current_leader_epoch == 5


def test_a_leader_without_addresses_in_its_request_is_found_among_the_voters() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5, named=False))
    assert rig.take_one(FetchRequest)[0].to.host == "host2"


def test_a_leader_that_has_moved_is_fetched_from_where_it_says_that_it_listens() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5, named=False))
    request, _ = rig.take_one(FetchRequest)
    assert request.to == (2, "host2", 9002)  # as the voters say
    moved = begin(2, 5)
    moved.leader_endpoints = [BeginQuorumEpochRequest.LeaderEndpoint("CONTROLLER", "elsewhere", 9999)]
    deadline_ms = rig.wake_at_ms
    rig.ask(moved)
    assert rig.take(FetchRequest) == []  # the one under way is waited for, as long as before
    assert rig.wake_at_ms == deadline_ms
    rig.fail(request)
    rig.tick(20)
    rig.fail(rig.take_one(FetchRequest)[0])  # to another voter, while the leader rests
    assert rig.take_one(FetchRequest)[0].to == (2, "elsewhere", 9999)
    other = begin(2, 5)
    other.leader_endpoints = [BeginQuorumEpochRequest.LeaderEndpoint("EXTERNAL", "outside", 9999)]
    rig.ask(other)
    assert rig.node.leader_peer == (2, "elsewhere", 9999)


def test_a_leader_that_can_nowhere_be_reached_is_known_by_its_epoch_alone() -> None:
    rig = RaftRig()
    rig.ask(begin(9, 5, named=False))
    assert (rig.node.role, rig.node.leader) == (Role.UNATTACHED, LeaderAndEpoch(-1, 5))


def test_a_leader_of_the_past_is_told_the_present() -> None:
    rig = RaftRig(hard_state=HardState(epoch=9))
    answer = begun(rig.ask(begin(2, 8)))
    assert (answer.error_code, answer.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 9)
    assert rig.node.role is Role.UNATTACHED


def test_a_second_leader_of_an_epoch_is_not_believed() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5))
    assert begun(rig.ask(begin(3, 5))).error_code == ErrorCode.INVALID_REQUEST
    assert rig.node.leader == LeaderAndEpoch(2, 5)
    leader = elected()
    assert begun(leader.ask(begin(3, 1))).error_code == ErrorCode.INVALID_REQUEST
    assert leader.node.role is Role.LEADER


def test_a_leader_is_followed_even_if_it_took_us_for_another_life_and_is_told() -> None:
    rig = RaftRig()
    meant = ReplicaKey(1, directory(1, life=1))
    assert begun(rig.ask(begin(2, 5, to=meant))).error_code == ErrorCode.INVALID_VOTER_KEY
    assert rig.node.leader == LeaderAndEpoch(2, 5)


def test_a_leader_hears_that_another_leads_a_later_epoch() -> None:
    rig = elected()
    rig.ask(begin(2, 2))
    assert (rig.node.role, rig.node.leader) == (Role.FOLLOWER, LeaderAndEpoch(2, 2))


def test_a_leader_tells_those_who_do_not_fetch_again_and_again() -> None:
    rig = elected()
    first = rig.take(BeginQuorumEpochRequest)
    assert [request.to.id for request, _ in first] == [2, 3]
    for request, message in first:
        assert message.topics[0].partitions[0].voter_directory_id == directory(request.to.id)
        assert [(e.name, e.host, e.port) for e in message.leader_endpoints] == [("CONTROLLER", "host1", 9001)]
        rig.fail(request)
    rig.tick(600)
    rig.ask(fetch(2, 1, 0, 0))
    rig.tick(400)
    assert [request.to.id for request, _ in rig.take(BeginQuorumEpochRequest)] == [3]


def test_a_leader_that_resigns_names_its_successors_the_longest_log_first() -> None:
    rig = elected(voters=(1, 2, 3, 4))
    rig.take(BeginQuorumEpochRequest)
    rig.append(b"a")
    rig.ask(fetch(3, 1, 3, 1))
    rig.ask(fetch(4, 1, 4, 1))
    rig.ask(fetch(2, 1, 0, 0))
    rig.execute(rig.node.resign(1, rig.now_ms))
    assert rig.node.role is Role.RESIGNED
    ended = rig.take(EndQuorumEpochRequest)
    assert [request.to.id for request, _ in ended] == [4, 3, 2]
    partition = ended[0][1].topics[0].partitions[0]
    assert [(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates] == [
        key(4),
        key(3),
        key(2),
    ]
    assert partition.preferred_successors == [4, 3, 2]
    assert rig.announced[-1] == LeaderAndEpoch(-1, 1)


def test_resigning_is_told_until_it_is_heard() -> None:
    rig = elected()
    rig.take(BeginQuorumEpochRequest)
    rig.execute(rig.node.resign(1, rig.now_ms))
    (first, _), (second, _) = rig.take(EndQuorumEpochRequest)
    rig.respond(first, end_answer(1, 1))
    rig.fail(second)
    assert rig.take(EndQuorumEpochRequest) == []
    rig.tick(20)
    assert [request.to.id for request, _ in rig.take(EndQuorumEpochRequest)] == [3]


def test_who_resigned_serves_nobody_votes_for_nobody_and_begins_a_new_epoch_when_nobody_else_does() -> None:
    rig = elected()
    token = rig.ask(fetch(2, 1, 2, 1))
    rig.execute(rig.node.resign(1, rig.now_ms))
    assert token is None or fetched(token)
    answer = fetched(rig.ask(fetch(3, 1, 0, 0)))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.tick(2_000)
    assert rig.node.epoch == 2
    assert rig.node.role in (Role.UNATTACHED, Role.PROSPECTIVE)
    win_election(rig)
    assert rig.node.epoch == 3


def test_the_first_successor_stands_at_once_the_others_wait() -> None:
    first, second, third = (RaftRig(each, (1, 2, 3, 4)) for each in (1, 2, 3))
    for rig in (first, second, third):
        rig.ask(begin(4, 5))
        rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(4, 5))
        answer = rig.ask(end(4, 5, successors=(1, 2, 3)))
        assert isinstance(answer, EndQuorumEpochResponse)
    assert first.node.role is Role.PROSPECTIVE
    assert first.take(VoteRequest)
    assert second.wake_at_ms - second.now_ms == 250
    assert third.wake_at_ms - third.now_ms == 500


def test_who_is_not_among_the_successors_waits_longest() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5))
    rig.ask(end(2, 5, successors=(3,)))
    assert rig.wake_at_ms - rig.now_ms == 1_000


def test_an_end_of_a_past_epoch_or_of_another_leader_ends_nothing() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5))
    past = rig.ask(end(3, 4, successors=(1,)))
    assert isinstance(past, EndQuorumEpochResponse)
    assert past.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    other = rig.ask(end(3, 5, successors=(1,)))
    assert isinstance(other, EndQuorumEpochResponse)
    assert other.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert rig.node.role is Role.FOLLOWER


@pytest.mark.parametrize("request_", [begin(2, 5), end(2, 5)])
def test_messages_of_another_cluster_are_refused(
    request_: BeginQuorumEpochRequest | EndQuorumEpochRequest,
) -> None:
    rig = RaftRig()
    request_.cluster_id = "somebody-elses-cluster"
    answer = rig.ask(request_)
    assert isinstance(answer, BeginQuorumEpochResponse | EndQuorumEpochResponse)
    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert rig.node.epoch == 0
    request_.cluster_id = "4L6g3nShT-eMCtK--X86sw"


@pytest.mark.parametrize("epoch", [EARLY_EPOCHS + LARGEST_LEAP, 2**31 - 2, 2**31 - 1])
def test_a_leap_towards_the_last_epoch_is_believed_of_nobody(epoch: int) -> None:
    """Whoever believed it could not lead again: there is no epoch beyond 2^31 - 1, and it is on the disk."""
    rig = elected()
    before = rig.node.leader
    assert begun(rig.ask(begin(2, epoch))).error_code == ErrorCode.INVALID_REQUEST
    ended = rig.ask(end(2, epoch))
    assert isinstance(ended, EndQuorumEpochResponse)
    assert ended.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    voted = rig.ask(vote(2, epoch))
    assert isinstance(voted, VoteResponse)
    assert voted.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert (rig.node.role, rig.node.leader) == (Role.LEADER, before)


def test_late_epochs_go_on_election_by_election() -> None:
    rig = elected()
    for epoch in (EARLY_EPOCHS - 1, EARLY_EPOCHS, EARLY_EPOCHS + LARGEST_LEAP):
        rig.ask(begin(2, epoch))
        assert rig.node.leader == LeaderAndEpoch(2, epoch)
