"""The pure parts of a fetcher: the session's rules, where to cut, and what the next fetch asks for."""

from __future__ import annotations

import pytest

from broker.replication.fetcher.fetch_plan import PARTITIONS_PER_FETCH, FetchPlan
from broker.replication.fetcher.fetch_transitions import STARTING_STATES, TRANSITIONS, FetchCause, FetchState
from broker.replication.fetcher.fetcher_surroundings import FetcherSettings
from broker.replication.fetcher.followed_log import truncation_offset
from broker.replication.fetcher.leader_requests import fetch_request
from broker.replication.fetcher.partition_fetch import PartitionFetch
from broker.replication.fetcher.session import EPOCH_MAX, FollowerSession
from broker.replication.partition_state import TopicIdPartition
from config.limits import FETCH_MEMORY_BYTES
from protocol.codec.compiler import encode, stepping_decoder
from protocol.errors import ErrorCode, InvariantViolated
from protocol.messages.fetch import FetchRequest
from protocol.serving.turns import run_through
from storage.leader_epochs import LeaderEpochs

A: TopicIdPartition = (bytes(16), 0)
B: TopicIdPartition = (bytes(16), 1)
C: TopicIdPartition = (bytes(16), 2)


def asked(offset: int = 0) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(fetch_offset=offset)


def fetch(index: int = 0, leader_epoch: int = 1) -> PartitionFetch:
    return PartitionFetch(
        "t",
        bytes(16),
        index,
        leader_epoch=leader_epoch,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=0,
    )


# The table.


def test_every_state_is_reached_and_all_but_failed_are_left() -> None:
    reached = {new for (old, new), causes in TRANSITIONS.items() if causes and old is not new}
    assert reached | STARTING_STATES == set(FetchState)
    assert {old for old, _ in TRANSITIONS} == set(FetchState) - {FetchState.FAILED}
    assert {cause for causes in TRANSITIONS.values() for cause in causes} == set(FetchCause)


def test_a_change_that_is_not_in_the_table_is_our_bug() -> None:
    with pytest.raises(InvariantViolated, match="as the table says"):
        fetch().truncated(0, -1, 0)


# The session.


def test_the_first_request_names_all_and_the_next_what_has_changed() -> None:
    session = FollowerSession()
    first = session.build({A: asked(), B: asked(), C: None})
    assert (first.session_id, first.session_epoch, first.asked, first.forgotten) == (
        0,
        0,
        [(A, asked()), (B, asked())],
        [],
    )
    assert session.answered(0, 9, [A, B]) == ""
    second = session.build({A: asked(5), B: None, C: asked()})
    assert (second.session_id, second.session_epoch) == (9, 1)
    assert second.asked == [(A, asked(5)), (C, asked())]
    assert second.forgotten == [B]
    assert session.answered(0, 9, []) == ""
    third = session.build({A: asked(5)})
    assert (third.session_epoch, third.asked, third.forgotten) == (2, [], [])


def test_what_has_changed_goes_to_the_end_of_the_session() -> None:
    session = FollowerSession()
    session.build({A: asked(), B: asked()})
    session.answered(0, 9, [A, B])
    session.build({A: asked(5)})
    assert list(session.partitions) == [B, A]


def test_a_leader_without_room_for_a_session_is_told_all_each_time() -> None:
    session = FollowerSession()
    for _ in range(2):
        assert session.build({A: asked()}).session_epoch == 0
        assert session.answered(0, 0, [A]) == ""


def test_an_epoch_after_the_largest_is_one() -> None:
    session = FollowerSession()
    session.build({A: asked()})
    session.answered(0, 9, [A])
    session._epoch = EPOCH_MAX
    session.answered(0, 9, [])
    assert session.build({}).session_epoch == 1


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9)],
)
def test_after_an_error_all_is_told_again(error: ErrorCode, session_id: int) -> None:
    session = FollowerSession()
    session.build({A: asked()})
    session.answered(0, 9, [A])
    session.build({})
    assert session.answered(error, 0, []) != ""
    again = session.build({A: asked()})
    assert (again.session_id, again.session_epoch, again.asked) == (session_id, 0, [(A, asked())])


def test_answers_with_other_partitions_than_asked_are_not_used() -> None:
    session = FollowerSession()
    session.build({A: asked(), B: asked()})
    assert "1 partitions that were not asked for and 2 missing" in session.answered(0, 9, [C])
    session.build({A: asked()})
    assert session.answered(0, 9, [A]) == ""
    session.build({})
    assert "1 partitions that are not in the session" in session.answered(0, 9, [B])
    assert session.is_full


def test_a_session_that_the_leader_has_closed_begins_anew() -> None:
    session = FollowerSession()
    session.build({A: asked()})
    session.answered(0, 9, [A])
    session.build({})
    assert session.answered(0, 0, [A]) == ""
    assert session.build({A: asked()})[:2] == (0, 0)


# Where to cut.


@pytest.mark.parametrize(
    ("epochs", "end", "answer", "expected"),
    [
        ([(1, 0), (2, 13)], 16, (1, 10), 10),
        ([(1, 0), (2, 8)], 16, (1, 10), 8),
        ([(1, 0), (3, 5)], 16, (2, 9), 5),
        ([(4, 0)], 16, (2, 9), 0),
        ([(1, 0)], 16, (3, 20), 16),
        ([(1, 0)], 16, (3, 9), 9),
        ([(1, 0)], 16, (1, -1), 12),
        ([(1, 0)], 16, (-1, 7), 7),
        ([], 16, (1, 3), 3),
    ],
)
def test_where_a_log_is_cut(
    epochs: list[tuple[int, int]], end: int, answer: tuple[int, int], expected: int
) -> None:
    epoch, end_offset = answer
    offset = truncation_offset(LeaderEpochs(epochs), end, 12, leader_epoch=epoch, end_offset=end_offset)
    assert offset == expected


# The plan.


def test_a_delayed_partition_comes_back_when_its_time_has_come() -> None:
    plan = FetchPlan(100)
    for index in range(2):
        assert plan.add(fetch(index))
    first = plan.build(0)
    assert first is not None
    assert [key[1] for key, _ in first.asked] == [0, 1]
    plan.session.answered(0, 9, [A, B])
    plan.delay(plan.partitions[A], 50)
    second = plan.build(10)
    assert second is not None
    assert (second.asked, second.forgotten, plan.next_due_ms()) == ([], [A], 50)
    third = plan.build(50)
    assert third is not None
    assert [key for key, _ in third.asked] == [A]


def test_with_all_delayed_there_is_nothing_to_fetch() -> None:
    plan = FetchPlan(100)
    plan.add(fetch())
    plan.delay_all(70)
    assert (plan.build(10), plan.next_due_ms()) == (None, 70)
    assert plan.build(70) is not None


def test_the_same_epoch_goes_on_and_a_later_one_begins_anew() -> None:
    plan = FetchPlan(100)
    first = fetch()
    assert plan.add(first)
    assert not plan.add(fetch())
    assert plan.has(first)
    assert plan.add(fetch(leader_epoch=2))
    assert not plan.has(first)


def test_the_last_partition_is_forgotten_with_a_request_of_its_own() -> None:
    plan = FetchPlan(100)
    plan.add(fetch())
    plan.build(0)
    plan.session.answered(0, 9, [A])
    plan.remove(A)
    last = plan.build(0)
    assert last is not None
    assert last.forgotten == [A]
    plan.session.answered(0, 0, [])
    assert plan.build(0) is None


# Very many partitions.


MANY = 30_000


def very_many() -> FetchPlan:
    """A plan of partitions of as many topics, whose requests take the most memory."""
    plan = FetchPlan(100)
    for number in range(MANY):
        plan.add(PartitionFetch(
            f"t{number}", number.to_bytes(16), 0,
            leader_epoch=1, fetch_offset=0, last_fetched_epoch=-1, log_start_offset=0,
        ))  # fmt: skip
    return plan


def sent(plan: FetchPlan, now_ms: int = 0) -> FetchRequest:
    """The next fetch, as its leader decodes it."""
    built = plan.build(now_ms)
    assert built is not None
    request = fetch_request(2, 9, FetcherSettings(), built, may_wait=plan.may_wait)
    frame = encode(request, 17)
    steps = stepping_decoder(FetchRequest, 17)(memoryview(frame), 0, FETCH_MEMORY_BYTES)
    decoded, _ = run_through(steps)
    assert isinstance(decoded, FetchRequest)
    return decoded


def named(request: FetchRequest) -> set[bytes]:
    return {topic.topic_id for topic in request.topics}


def test_a_session_of_very_many_partitions_grows_by_requests_that_the_leader_takes() -> None:
    plan = very_many()
    seen: list[set[bytes]] = []
    waits: list[int] = []
    for epoch in range(4):
        request = sent(plan)
        assert request.session_epoch == epoch
        seen.append(named(request))
        waits.append(request.max_wait_ms)
        plan.session.answered(0, 9, plan.session.partitions if epoch == 0 else [])
    assert [len(each) for each in seen] == [PARTITIONS_PER_FETCH] * 3 + [0]
    assert len(set.union(*seen)) == len(plan.session.partitions) == MANY
    wait_ms = FetcherSettings().wait_max_ms
    assert waits == [wait_ms, 0, wait_ms, wait_ms], "the second leaves others out"


def test_very_many_that_are_not_fetched_any_more_are_forgotten_in_parts() -> None:
    plan = very_many()
    for epoch in range(3):
        sent(plan)
        plan.session.answered(0, 9, plan.session.partitions if epoch == 0 else [])
    plan.delay_all(50)
    forgotten = [len(sent(plan, 10).forgotten_topics_data) for _ in range(3)]
    assert forgotten == [PARTITIONS_PER_FETCH] * 3
    assert plan.session.partitions == {}


def test_a_leader_that_gives_no_session_is_asked_for_all_by_turns() -> None:
    plan = very_many()
    seen: set[bytes] = set()
    for _ in range(3):
        request = sent(plan)
        assert (request.session_epoch, request.max_wait_ms) == (0, FetcherSettings().wait_max_ms)
        seen |= named(request)
        plan.session.answered(0, 0, plan.session.partitions)
    assert len(seen) == MANY


def test_after_a_lost_answer_very_many_are_asked_for_from_the_beginning() -> None:
    plan = very_many()
    sent(plan)
    plan.session.failed()
    first = sent(plan)
    plan.session.answered(0, 9, plan.session.partitions)
    rest = named(sent(plan)) | named(sent(plan))
    assert len(named(first) | rest) == MANY
