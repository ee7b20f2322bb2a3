"""A vote is given once in an epoch, to a log that is at least as long, and is durable before it is told."""

from __future__ import annotations

import pytest

from controller.raft.effects import HardState
from controller.raft.identity import LeaderAndEpoch, ReplicaKey, SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.transitions import Role
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.vote import VoteRequest, VoteResponse
from tests.support.rigs.raft_messages import begin, fetch_answer, vote, vote_answer
from tests.support.rigs.raft_rig import (
    MemoryLog,
    RaftRig,
    data_batch,
    directory,
    elected,
    key,
    voters_record,
)


def partition(answer: object) -> VoteResponse.PartitionData:
    assert isinstance(answer, VoteResponse)
    assert not answer.error_code
    return answer.topics[0].partitions[0]


def with_records(*epochs: int) -> RaftRig:
    """A voter whose log has one record of each of these epochs."""
    log = MemoryLog({SnapshotId(0, 0): SnapshotControl(1, voters_record(1, 2, 3))})
    for epoch in epochs:
        log.append(bytes(data_batch(base_offset=log.end_offset, epoch=epoch)))
    return RaftRig(log=log, hard_state=HardState(epoch=max(epochs)))


def test_the_first_candidate_of_an_epoch_gets_the_vote_and_it_is_durable_with_the_answer() -> None:
    rig = RaftRig()
    answer = partition(rig.ask(vote(2, 5)))
    assert (answer.vote_granted, answer.leader_epoch, answer.leader_id) == (True, 5, -1)
    assert rig.hard_state == HardState(epoch=5, leader_id=-1, voted=key(2))


def test_another_candidate_of_the_same_epoch_is_refused_and_the_same_one_gets_the_vote_again() -> None:
    rig = RaftRig()
    rig.ask(vote(2, 5))
    assert not partition(rig.ask(vote(3, 5))).vote_granted
    assert partition(rig.ask(vote(2, 5))).vote_granted
    assert rig.hard_state == HardState(epoch=5, leader_id=-1, voted=key(2))


def test_the_same_id_with_another_disk_is_another_candidate() -> None:
    rig = RaftRig()
    rig.ask(vote(2, 5))
    assert not partition(rig.ask(vote(2, 5, directory_id=directory(2, life=1)))).vote_granted


def test_a_repeated_request_with_a_shorter_log_than_ours_does_not_get_the_vote_again() -> None:
    rig = with_records(1, 1)
    assert partition(rig.ask(vote(2, 5, last_epoch=1, last_offset=2))).vote_granted
    assert not partition(rig.ask(vote(2, 5, last_epoch=1, last_offset=1))).vote_granted


def test_the_vote_survives_a_crash() -> None:
    rig = RaftRig()
    rig.ask(vote(2, 5))
    again = RaftRig(hard_state=rig.hard_state)
    assert again.node.epoch == 5
    assert not partition(again.ask(vote(3, 5))).vote_granted
    assert partition(again.ask(vote(2, 5))).vote_granted


@pytest.mark.parametrize(
    ("last_epoch", "last_offset", "granted"),
    [(3, 2, True), (2, 9, False), (3, 1, False), (3, 3, True), (4, 1, True)],
)
def test_the_candidates_log_must_end_in_a_later_epoch_or_be_as_long(
    last_epoch: int, last_offset: int, granted: bool
) -> None:
    rig = with_records(2, 3)
    answer = partition(rig.ask(vote(2, 7, last_epoch=last_epoch, last_offset=last_offset)))
    assert answer.vote_granted is granted
    assert rig.node.epoch == 7  # the later epoch counts, whoever gets the vote


def test_a_candidate_of_a_past_epoch_learns_the_present_one() -> None:
    rig = RaftRig(hard_state=HardState(epoch=9))
    answer = partition(rig.ask(vote(2, 8)))
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (answer.leader_epoch, answer.vote_granted) == (9, False)


@pytest.mark.parametrize(
    "request_",
    [
        vote(-1, 5),
        vote(2, 5, last_epoch=5, last_offset=1),
        vote(2, 5, last_offset=-1),
        vote(2, 5, last_epoch=-1),
        vote(2, 5, last_epoch=6, pre_vote=True),
    ],
    ids=["no id", "a record of its own new epoch", "offset", "epoch", "pre-vote of the future"],
)
def test_impossible_numbers_are_an_invalid_request(request_: VoteRequest) -> None:
    rig = RaftRig()
    answer = partition(rig.ask(request_))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert rig.node.epoch == 0


def test_a_pre_vote_may_be_of_an_epoch_with_records() -> None:
    rig = RaftRig()
    answer = partition(rig.ask(vote(2, 5, last_epoch=5, last_offset=1, pre_vote=True)))
    assert (answer.error_code, answer.vote_granted) == (ErrorCode.NONE, True)


def test_a_request_of_another_cluster_or_partition_is_refused_as_a_whole() -> None:
    rig = RaftRig()
    stranger = rig.ask(vote(2, 5, cluster_id="somebody-elses-cluster"))
    assert isinstance(stranger, VoteResponse)
    assert stranger.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    request = vote(2, 5)
    request.topics[0].topic_name = "orders"
    other = rig.ask(request)
    assert isinstance(other, VoteResponse)
    assert other.error_code == ErrorCode.INVALID_REQUEST
    assert rig.node.epoch == 0
    assert partition(rig.ask(vote(2, 5, cluster_id=None))).vote_granted  # who names none is believed


def test_a_request_meant_for_another_replica_is_refused_and_its_epoch_counts() -> None:
    rig = RaftRig()
    for meant in (ReplicaKey(2), ReplicaKey(1, directory(1, life=1))):
        answer = partition(rig.ask(vote(3, 5, to=meant)))
        assert answer.error_code == ErrorCode.INVALID_VOTER_KEY
        assert rig.node.epoch == 5
    assert partition(rig.ask(vote(3, 5, to=key(1)))).vote_granted


def test_who_follows_a_leader_does_not_vote_in_its_epoch() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5))
    answer = partition(rig.ask(vote(3, 5)))
    assert (answer.vote_granted, answer.leader_id) == (False, 2)
    assert partition(rig.ask(vote(3, 6))).vote_granted


def test_a_leader_is_no_voter_and_gives_way_to_a_later_epoch() -> None:
    rig = elected()
    assert not partition(rig.ask(vote(2, 1, last_offset=99))).vote_granted
    answer = partition(rig.ask(vote(2, 2, last_epoch=1, last_offset=99)))
    assert answer.vote_granted
    assert rig.node.role is Role.UNATTACHED
    assert rig.announced[-1] == LeaderAndEpoch(-1, 2)


def test_a_candidate_votes_for_itself_alone() -> None:
    rig = RaftRig()
    rig.take(FetchRequest)
    rig.wake()
    for request, _ in rig.take(VoteRequest):
        rig.respond(request, vote_answer(0, True))
    assert rig.node.role is Role.CANDIDATE
    assert rig.hard_state == HardState(epoch=1, leader_id=-1, voted=key(1))
    assert not partition(rig.ask(vote(2, 1))).vote_granted


def test_a_vote_gives_the_candidate_the_time_of_an_election() -> None:
    rig = RaftRig()
    deadline_ms = rig.wake_at_ms
    rig.tick(900)
    rig.ask(vote(2, 5))
    assert rig.wake_at_ms >= rig.now_ms
    rig.fail(rig.take(FetchRequest)[-1][0])
    rig.tick(150)
    assert rig.now_ms > deadline_ms
    assert rig.node.role is Role.UNATTACHED


def test_an_observer_may_be_a_voter_in_a_log_that_it_has_not_seen_yet_so_it_votes() -> None:
    rig = RaftRig(node_id=4, voters=(1, 2, 3))
    assert rig.node.is_observer
    assert partition(rig.ask(vote(2, 5))).vote_granted


def test_the_answer_names_the_leader_by_the_listener_of_the_request_from_version_1_on() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5))
    request = rig.take_one(FetchRequest)[0]
    rig.respond(request, fetch_answer(2, 5))
    newest = rig.ask(vote(3, 5), version=2)
    oldest = rig.ask(vote(3, 5), version=0)
    unknown = rig.ask(vote(3, 5), version=2, listener="OTHER")
    assert isinstance(newest, VoteResponse)
    assert isinstance(oldest, VoteResponse)
    assert isinstance(unknown, VoteResponse)
    assert newest.node_endpoints == [VoteResponse.NodeEndpoint(2, "host2", 9002)]
    assert oldest.node_endpoints == []
    assert unknown.node_endpoints == []


def test_a_voter_of_another_life_is_not_asked_again_at_once() -> None:
    """One voter is down and one has lost its disk: the time between is for who mends it, not for asking."""
    rig = RaftRig()
    while not (asked := rig.take(VoteRequest)):
        rig.wake()
    began_ms, answers = rig.now_ms, 0
    while asked and answers < 10:
        for request, _ in asked:
            if request.to.id == 3:
                rig.fail(request)
                continue
            refused = VoteResponse.PartitionData(
                error_code=ErrorCode.INVALID_VOTER_KEY, leader_id=-1, leader_epoch=rig.node.epoch
            )
            topic = VoteResponse.TopicData(topic_name="__cluster_metadata", partitions=[refused])
            rig.respond(request, VoteResponse(topics=[topic]))
            answers += 1
        asked = rig.take(VoteRequest)
    assert (answers, rig.now_ms) == (1, began_ms)
