"""Adding, removing and updating voters, one at a time (KIP-853, KIP-1186)."""

from __future__ import annotations

from typing import Any

import pytest

from controller.raft.identity import Address
from controller.raft.node import VersionChangeRefused
from controller.raft.transitions import Role
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from protocol.values import ZERO_UUID
from tests.support.rigs.raft_messages import (
    add_voter,
    begin,
    fetch,
    fetch_answer,
    remove_voter,
    update_voter,
    vote,
)
from tests.support.rigs.raft_rig import RaftRig, address, directory, elected, key, quorum_of


def established(voters: tuple[int, ...] = (1, 2, 3), **settings: Any) -> RaftRig:
    """Leads epoch 1, whose first three records are committed; observer 4 is caught up."""
    rig = elected(1, voters, **settings)
    for other in voters[1:]:
        rig.ask(fetch(other, 1, 3, 1))
    rig.ask(fetch(4, 1, 3, 1))
    for request, _ in rig.take(BeginQuorumEpochRequest):
        rig.fail(request)
    rig.answers.clear()
    assert rig.node.high_watermark == 3
    return rig


def versions(lowest: int = 0, highest: int = 1) -> ApiVersionsResponse:
    feature = ApiVersionsResponse.SupportedFeatureKey("kraft.version", lowest, highest)
    return ApiVersionsResponse(supported_features=[feature])


def ask_to_add(rig: RaftRig, **how: Any) -> object:
    assert rig.ask(add_voter(4, **how)) is None
    token = rig.last_token
    request, _ = rig.take_one(ApiVersionsRequest)
    assert request.to == (4, *address(4))
    rig.respond(request, versions())
    return token


def outcome(answer: object) -> tuple[ErrorCode, str | None]:
    assert isinstance(answer, AddRaftVoterResponse | RemoveRaftVoterResponse)
    return ErrorCode(answer.error_code), answer.error_message


def test_a_new_voter_counts_from_its_record_on_and_is_told_when_that_is_committed() -> None:
    rig = established()
    token = ask_to_add(rig)
    assert list(rig.node.voters.by_id) == [1, 2, 3, 4]
    assert rig.node.voters.by_id[4].endpoints == {"CONTROLLER": address(4)}
    assert rig.node.end_offset == 4
    assert token not in rig.answers
    rig.ask(fetch(2, 1, 4, 1))
    assert rig.node.high_watermark == 3  # two of four are no majority any more
    rig.ask(fetch(4, 1, 4, 1))
    assert rig.node.high_watermark == 4
    assert outcome(rig.answers[token]) == (ErrorCode.NONE, None)


def test_who_does_not_want_to_wait_is_answered_when_the_record_is_written() -> None:
    rig = established()
    token = ask_to_add(rig, ack=False)
    assert outcome(rig.answers[token]) == (ErrorCode.NONE, None)
    assert outcome(rig.ask(remove_voter(2)))[0] is ErrorCode.REQUEST_TIMED_OUT  # not committed yet
    rig.ask(fetch(2, 1, 4, 1))
    rig.ask(fetch(3, 1, 4, 1))
    assert rig.ask(remove_voter(2)) is None


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (add_voter(2, directory_id=directory(2, life=1)), ErrorCode.DUPLICATE_VOTER),
        (add_voter(-1), ErrorCode.INVALID_REQUEST),
        (add_voter(4, directory_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (
            AddRaftVoterRequest(voter_id=4, voter_directory_id=directory(4), cluster_id=None),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            AddRaftVoterRequest(voter_id=4, voter_directory_id=directory(4), cluster_id="another"),
            ErrorCode.INCONSISTENT_CLUSTER_ID,
        ),
        (remove_voter(7), ErrorCode.VOTER_NOT_FOUND),
        (remove_voter(2, directory_id=directory(2, life=1)), ErrorCode.VOTER_NOT_FOUND),
        (remove_voter(2, directory_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (RemoveRaftVoterRequest("another", 2, directory(2)), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ],
)
def test_changes_that_make_no_sense(
    request_: AddRaftVoterRequest | RemoveRaftVoterRequest, error: ErrorCode
) -> None:
    rig = established()
    code, text = outcome(rig.ask(request_))
    assert code is error
    assert text
    assert rig.node.end_offset == 3


def test_only_the_leader_changes_voters() -> None:
    rig = RaftRig()
    for request in (add_voter(4), remove_voter(2)):
        assert outcome(rig.ask(request)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def test_a_leader_that_has_committed_nothing_of_its_epoch_changes_nothing() -> None:
    rig = elected()
    for request in (add_voter(4), remove_voter(2)):
        code, text = outcome(rig.ask(request))
        assert code is ErrorCode.REQUEST_TIMED_OUT
        assert text is not None
        assert "HWM" in text
    assert rig.node.end_offset == 3


def test_one_change_at_a_time() -> None:
    rig = established()
    assert rig.ask(remove_voter(3)) is None
    for request in (add_voter(4), remove_voter(2)):
        assert outcome(rig.ask(request))[0] is ErrorCode.REQUEST_TIMED_OUT
    answer = rig.ask(update_voter(2, 1))
    assert isinstance(answer, UpdateRaftVoterResponse)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert list(rig.node.voters.by_id) == [1, 2]


def test_a_voter_that_lags_is_not_added() -> None:
    rig = established()
    assert rig.ask(add_voter(5)) is None
    token = rig.last_token
    rig.respond(rig.take_one(ApiVersionsRequest)[0], versions())
    code, text = outcome(rig.answers[token])
    assert code is ErrorCode.REQUEST_TIMED_OUT
    assert text is not None
    assert "lagging" in text
    assert list(rig.node.voters.by_id) == [1, 2, 3]


def test_a_voter_that_does_not_run_the_kraft_version_is_not_added() -> None:
    rig = established()
    assert rig.ask(add_voter(4)) is None
    token = rig.last_token
    rig.respond(rig.take_one(ApiVersionsRequest)[0], versions(0, 0))
    assert outcome(rig.answers[token])[0] is ErrorCode.INVALID_REQUEST


def test_a_voter_that_cannot_be_reached_is_not_added() -> None:
    rig = established()
    assert rig.ask(add_voter(4)) is None
    token = rig.last_token
    rig.fail(rig.take_one(ApiVersionsRequest)[0])
    assert outcome(rig.answers[token])[0] is ErrorCode.REQUEST_TIMED_OUT
    rig.tick(20)
    assert rig.ask(add_voter(4)) is None  # another attempt may follow


def test_a_change_that_is_not_committed_in_time_is_answered_so_and_holds_on() -> None:
    rig = established()
    assert rig.ask(remove_voter(3)) is None
    token = rig.last_token
    for _ in range(2):
        rig.tick(1_000)
        rig.ask(fetch(2, 1, 3, 1))
    assert outcome(rig.answers[token])[0] is ErrorCode.REQUEST_TIMED_OUT
    assert list(rig.node.voters.by_id) == [1, 2]
    assert outcome(rig.ask(add_voter(4)))[0] is ErrorCode.REQUEST_TIMED_OUT


def test_a_leader_that_steps_back_does_not_know_how_the_change_ends() -> None:
    rig = established()
    assert rig.ask(remove_voter(3)) is None
    token = rig.last_token
    rig.ask(begin(2, 4))
    assert outcome(rig.answers[token]) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def test_a_removed_voter_counts_no_more() -> None:
    rig = established()
    assert rig.ask(remove_voter(3)) is None
    rig.ask(fetch(3, 1, 4, 1))
    assert rig.node.high_watermark == 3
    rig.ask(fetch(2, 1, 4, 1))
    assert rig.node.high_watermark == 4
    voters, observers = rig.node.progress()
    assert [each.key.id for each in voters] == [1, 2]
    assert sorted(each.key.id for each in observers) == [3, 4]


def test_a_leader_that_removes_itself_leads_until_that_is_committed_and_is_not_counted() -> None:
    rig = established()
    assert rig.ask(remove_voter(1)) is None
    token = rig.last_token
    rig.ask(fetch(2, 1, 4, 1))
    assert (rig.node.role, rig.node.high_watermark) == (Role.LEADER, 3)
    rig.ask(fetch(3, 1, 4, 1))
    assert outcome(rig.answers[token]) == (ErrorCode.NONE, None)
    assert rig.node.role is Role.RESIGNED
    assert [request.to.id for request, _ in rig.take(EndQuorumEpochRequest)] == [2, 3]
    rig.tick(2_000)
    assert (rig.node.role, rig.node.epoch) == (Role.UNATTACHED, 2)
    rig.tick(100_000)
    assert rig.node.epoch == 2  # an observer now


def test_the_last_voter_cannot_be_removed() -> None:
    rig = RaftRig(1, (1,))
    assert outcome(rig.ask(remove_voter(1)))[0] is ErrorCode.VOTER_NOT_FOUND


def test_a_removed_dead_voter_lets_the_others_commit() -> None:
    rig = established((1, 2, 3, 5))
    rig.append(b"x")
    rig.ask(fetch(2, 1, 4, 1))
    assert rig.node.high_watermark == 3
    assert rig.ask(remove_voter(5)) is None
    assert rig.node.high_watermark == 4  # two of three


# UpdateRaftVoter


def test_a_voter_that_moved_is_written_down() -> None:
    rig = established()
    answer = rig.ask(update_voter(2, 1, host="elsewhere"))
    assert isinstance(answer, UpdateRaftVoterResponse)
    assert answer.error_code == ErrorCode.NONE
    assert answer.current_leader == UpdateRaftVoterResponse.CurrentLeader(1, 1, *address(1))
    assert rig.node.voters.by_id[2].endpoints == {"CONTROLLER": Address("elsewhere", 1)}
    assert rig.node.end_offset == 4


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (update_voter(7, 1), ErrorCode.VOTER_NOT_FOUND),
        (update_voter(2, 0), ErrorCode.FENCED_LEADER_EPOCH),
        (update_voter(2, 2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (update_voter(2, 1, versions=(1, 0)), ErrorCode.INVALID_REQUEST),
        (update_voter(2, 1, versions=(0, 0)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_updates_that_make_no_sense(request_: UpdateRaftVoterRequest, error: ErrorCode) -> None:
    rig = established()
    answer = rig.ask(request_)
    assert isinstance(answer, UpdateRaftVoterResponse)
    assert answer.error_code == error
    assert rig.node.end_offset == 3


def test_a_voter_tells_when_it_is_not_where_the_voters_say() -> None:
    rig = RaftRig(endpoints={"CONTROLLER": Address("elsewhere", 7)})
    rig.ask(begin(2, 5))
    rig.tick(1_990)
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5))
    rig.tick(50)
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5))
    request, message = rig.take_one(UpdateRaftVoterRequest)
    assert request.to.id == 2
    assert (message.voter_id, message.voter_directory_id) == key(1)
    assert (message.current_leader_epoch, message.listeners[0].host) == (5, "elsewhere")
    rig.respond(request, UpdateRaftVoterResponse())
    assert rig.take(FetchRequest)  # and it goes on fetching


def test_a_voter_that_is_where_the_voters_say_tells_nothing() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5))
    for _ in range(5):
        rig.tick(1_900)
        rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5))
    assert rig.take(UpdateRaftVoterRequest) == []


# Joining by itself


def joining(**settings: Any) -> RaftRig:
    rig = RaftRig(4, (1, 2, 3), auto_join=True, **settings)
    rig.ask(begin(2, 5))
    for _ in range(2):
        rig.tick(1_500)
        rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5))
    return rig


def test_a_controller_that_may_asks_to_become_a_voter() -> None:
    rig = joining()
    request, message = rig.take_one(AddRaftVoterRequest)
    assert request.to.id == 2
    assert (message.voter_id, message.voter_directory_id, message.ack_when_committed) == (*key(4), False)
    assert [(e.name, e.host, e.port) for e in message.listeners] == [("CONTROLLER", *address(4))]
    rig.respond(request, AddRaftVoterResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
    assert rig.take(FetchRequest)


def test_its_own_former_life_is_removed_first() -> None:
    rig = joining(node=key(3)._replace(directory_id=directory(3, life=1)))
    assert rig.node.is_observer
    _, message = rig.take_one(RemoveRaftVoterRequest)
    assert (message.voter_id, message.voter_directory_id) == key(3)


def test_brokers_and_those_who_may_not_do_not_ask() -> None:
    for rig in (joining(can_be_voter=False),):
        assert rig.take(AddRaftVoterRequest) == []
    rig = RaftRig(4, (1, 2, 3))
    rig.ask(begin(2, 5))
    for _ in range(3):
        rig.tick(1_500)
        rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5))
    assert rig.take(AddRaftVoterRequest) == []


def test_a_quorum_grows_by_one_that_joins_and_shrinks_by_its_leader() -> None:
    quorum = quorum_of(1, 2, 3)
    newcomer = RaftRig(4, (), auto_join=True, bootstrap_servers=(address(2),))
    quorum.rigs[4] = newcomer
    quorum.run(10_000)
    assert not newcomer.node.is_observer
    assert {tuple(rig.node.voters.by_id) for rig in quorum.rigs.values()} == {(1, 2, 3, 4)}
    leader = quorum.leader()
    leader.ask(remove_voter(leader.config.node.id))
    quorum.run(10_000)
    assert leader.node.is_observer
    assert len(quorum.leader().node.voters) == 3
    assert quorum.leader() is not leader
    assert len({rig.node.high_watermark for rig in quorum.rigs.values()}) == 1


# kraft.version 0 and 1


def test_voters_of_the_config_go_into_the_log_once_all_have_told_their_directories() -> None:
    quorum = quorum_of(1, 2, 3, static=True)
    quorum.run(1_900)
    leader = quorum.leader()
    assert (leader.node.kraft_version, leader.node.end_offset) == (0, 1)
    assert outcome(leader.ask(add_voter(4)))[0] is ErrorCode.UNSUPPORTED_VERSION
    epoch = leader.node.epoch
    with pytest.raises(VersionChangeRefused) as refusal:
        leader.node.upgrade_kraft_version(epoch, 1, validate_only=False, now_ms=leader.now_ms)
    assert refusal.value.error is ErrorCode.INVALID_UPDATE_VERSION
    quorum.run(5_000)
    leader.execute(leader.node.upgrade_kraft_version(epoch, 1, validate_only=True, now_ms=leader.now_ms))
    assert leader.node.end_offset == 1
    leader.execute(leader.node.upgrade_kraft_version(epoch, 1, validate_only=False, now_ms=leader.now_ms))
    quorum.run(1_000)
    for rig in quorum.rigs.values():
        assert rig.node.kraft_version == 1
        assert [voter.key for voter in rig.node.voters.by_id.values()] == [key(1), key(2), key(3)]
    with pytest.raises(VersionChangeRefused):
        leader.node.upgrade_kraft_version(epoch, 0, validate_only=False, now_ms=leader.now_ms)


def test_static_voters_of_any_directory_are_counted() -> None:
    rig = elected(static=True)
    assert rig.node.end_offset == 1  # LeaderChange alone
    rig.ask(vote(2, 1))
    rig.ask(fetch(2, 1, 1, 1, directory_id=directory(2, life=9)))
    assert rig.node.high_watermark == 1


def test_a_leader_that_resigned_before_its_removal_was_committed_may_be_needed_once_more() -> None:
    quorum = quorum_of(1, 2)
    quorum.run(3_000)
    leader = quorum.leader()
    other = next(rig for rig in quorum.rigs.values() if rig is not leader)
    quorum.cut.add(frozenset((1, 2)))
    leader.ask(remove_voter(leader.config.node.id))
    quorum.run(5_000)
    assert leader.node.is_observer
    assert len(other.node.voters) == 2
    quorum.cut.clear()
    quorum.run(20_000)
    assert list(other.node.voters.by_id) == [other.config.node.id]
    assert quorum.leader() is other
    assert leader.node.role is Role.FOLLOWER
