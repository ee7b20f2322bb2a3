"""The leader's answers to Fetch and FetchSnapshot."""

from __future__ import annotations

import pytest

from controller.raft.identity import SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.transitions import Role
from protocol.codec.compiler import decode, encode
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotResponse
from protocol.records.header import headers
from protocol.values import ZERO_UUID
from tests.support.rigs.raft_messages import begin, fetch, fetch_snapshot, fetched, vote
from tests.support.rigs.raft_rig import RaftRig, elected


def established() -> RaftRig:
    """Leads epoch 1, three control records and two others, all committed."""
    rig = elected()
    rig.append(b"a")
    rig.append(b"b")
    rig.ask(fetch(2, 1, 5, 1))
    rig.answers.clear()
    return rig


def bases(answer: object) -> list[int]:
    records = fetched(answer).records
    assert isinstance(records, bytes)
    return [header.base_offset for _, header in headers(records)]


def test_a_fetch_gets_what_follows_committed_or_not() -> None:
    rig = elected()
    rig.append(b"a")
    answer = rig.ask(fetch(2, 1, 0, 0))
    assert bases(answer) == [0, 3]
    assert fetched(answer).current_leader == FetchResponse.LeaderIdAndEpoch(1, 1)
    assert fetched(answer).log_start_offset == 0


def test_a_fetch_gets_at_least_one_batch_and_then_as_many_as_it_wants() -> None:
    rig = established()
    assert bases(rig.ask(fetch(3, 1, 3, 1, max_bytes=1))) == [3]
    assert bases(rig.ask(fetch(3, 1, 3, 1, max_bytes=10_000))) == [3, 4]


def test_the_limit_that_counts_is_the_request_s() -> None:
    """As in Apache Kafka: a negative one fails where there is something to read."""
    rig = established()
    for limit, expected in ((-1, [3, 4]), (1, [3, 4]), (0, [3, 4])):
        request = fetch(3, 1, 3, 1)
        request.topics[0].partitions[0].partition_max_bytes = limit
        assert bases(rig.ask(request)) == expected
    for limit in (-1, -(1 << 31)):
        answer = fetched(rig.ask(fetch(3, 1, 3, 1, max_bytes=limit)))
        assert (answer.error_code, answer.high_watermark) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
        assert rig.ask(fetch(3, 1, 5, 1, max_bytes=limit)) is None, "at the end it waits"
    assert bases(rig.ask(fetch(3, 1, 3, 1, max_bytes=0))) == [3]


@pytest.mark.parametrize("version", [4, 6, 7, 11, 12])
def test_versions_that_cannot_name_a_topic_by_its_id_are_refused(version: int) -> None:
    """With the whole answer's code, which versions 4 to 6 do not have: they get no topic and no error."""
    rig = established()
    request = fetch(3, 1, 3, 1)
    request.topics[0].topic_id = ZERO_UUID  # what every such version is decoded to
    answer = rig.ask(request, version=version)
    assert isinstance(answer, FetchResponse)
    assert (answer.error_code, answer.responses) == (ErrorCode.INVALID_REQUEST, [])
    seen = decode(FetchResponse, version, encode(answer, version))
    assert (seen.error_code, seen.responses) == (ErrorCode.INVALID_REQUEST if version >= 7 else 0, [])


def test_a_fetch_at_the_end_waits_for_the_next_record() -> None:
    rig = established()
    assert rig.ask(fetch(3, 1, 5, 1)) is None
    token = rig.last_token
    rig.append(b"c")
    assert bases(rig.answers[token]) == [5]


def test_a_fetch_at_the_end_waits_for_what_is_committed() -> None:
    rig = elected()
    rig.append(b"a")
    assert rig.ask(fetch(3, 1, 4, 1)) is not None or rig.node.high_watermark == 4
    rig.append(b"b")
    assert rig.ask(fetch(2, 1, 5, 1, high_watermark=4)) is not None  # it made the high watermark rise
    assert rig.ask(fetch(2, 1, 5, 1, high_watermark=5)) is None
    token = rig.last_token
    rig.ask(fetch(3, 1, 5, 1, high_watermark=5))
    assert token not in rig.answers
    rig.tick(500)
    assert fetched(rig.answers[token]).high_watermark == 5


def test_a_follower_that_does_not_know_the_high_watermark_is_told_at_once() -> None:
    rig = established()
    answer = rig.ask(fetch(2, 1, 5, 1, high_watermark=4))
    assert fetched(answer).high_watermark == 5
    assert fetched(answer).records == b""


def test_waiting_ends_with_the_time_of_the_request() -> None:
    rig = established()
    assert rig.ask(fetch(3, 1, 5, 1, max_wait_ms=300)) is None
    token = rig.last_token
    assert rig.wake_at_ms <= rig.now_ms + 300
    rig.tick(299)
    assert token not in rig.answers
    rig.tick(1)
    assert fetched(rig.answers[token]).records == b""


def test_who_does_not_want_to_wait_does_not() -> None:
    rig = established()
    assert fetched(rig.ask(fetch(3, 1, 5, 1, max_wait_ms=0))).records == b""


def test_waiting_fetches_are_sent_away_when_the_leader_is_one_no_more() -> None:
    rig = established()
    rig.ask(fetch(3, 1, 5, 1))
    token = rig.last_token
    rig.ask(begin(2, 4))
    answer = fetched(rig.answers[token])
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader == FetchResponse.LeaderIdAndEpoch(2, 4)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_of_another_epoch_learns_the_right_one(epoch: int, error: ErrorCode) -> None:
    rig = established()
    answer = fetched(rig.ask(fetch(2, epoch, 0, 0)))
    assert answer.error_code == error
    assert answer.current_leader == FetchResponse.LeaderIdAndEpoch(1, 1)
    assert rig.node.epoch == 1


def test_who_does_not_lead_says_who_does() -> None:
    rig = RaftRig()
    rig.ask(begin(2, 5))
    answer = rig.ask(fetch(3, 5, 0, 0), version=17)
    assert fetched(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(answer).current_leader == FetchResponse.LeaderIdAndEpoch(2, 5)
    assert isinstance(answer, FetchResponse)
    assert answer.node_endpoints == [FetchResponse.NodeEndpoint(2, "host2", 9002)]
    older = rig.ask(fetch(3, 5, 0, 0), version=15)
    assert isinstance(older, FetchResponse)
    assert older.node_endpoints == []


@pytest.mark.parametrize(
    "request_",
    [fetch(2, 1, -1, 0), fetch(2, 1, 0, -1), fetch(2, 1, 0, 2), fetch(2, 1, 0, 0, max_wait_ms=-1)],
    ids=["offset", "epoch", "epoch of the future", "wait"],
)
def test_impossible_fetches_are_invalid(request_: object) -> None:
    rig = established()
    assert fetched(rig.ask(request_)).error_code == ErrorCode.INVALID_REQUEST  # type: ignore[arg-type]


def test_a_fetch_of_another_cluster_or_topic_is_refused_as_a_whole() -> None:
    rig = established()
    stranger = fetch(2, 1, 5, 1)
    stranger.cluster_id = "somebody-elses-cluster"
    answer = rig.ask(stranger)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    other = fetch(2, 1, 5, 1)
    other.topics[0].topic_id = bytes(16)
    answer = rig.ask(other)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_log_that_went_another_way_is_told_where() -> None:
    rig = established()
    rig.ask(vote(2, 7, last_epoch=6, last_offset=9))  # gives way, leads again later
    again = RaftRig(log=rig.log, hard_state=rig.hard_state)
    from tests.support.rigs.raft_rig import win_election

    win_election(again)
    assert (again.node.epoch, again.node.end_offset) == (8, 6)
    longer = fetched(again.ask(fetch(2, 8, 7, 1)))
    assert longer.diverging_epoch == FetchResponse.EpochEndOffset(1, 5)
    unknown_epoch = fetched(again.ask(fetch(2, 8, 6, 5)))
    assert unknown_epoch.diverging_epoch == FetchResponse.EpochEndOffset(1, 5)
    assert unknown_epoch.records == b""
    assert again.node.progress()[0][1].end_offset == -1  # what differs is no progress


def with_snapshot() -> RaftRig:
    rig = established()
    snapshot = SnapshotId(4, 1)
    rig.log.contents[snapshot] = b"the state at offset 4"
    rig.log.controls[snapshot] = SnapshotControl(1, None)
    rig.execute(rig.node.snapshot_taken(snapshot, rig.now_ms))
    return rig


def test_an_empty_replica_is_sent_to_the_snapshot() -> None:
    rig = with_snapshot()
    answer = fetched(rig.ask(fetch(4, 1, 0, 0)))
    assert answer.snapshot_id == FetchResponse.SnapshotId(4, 1)
    assert bases(rig.ask(fetch(4, 1, 3, 1))) == [3, 4]  # the log is there still


def test_who_needs_what_is_gone_is_sent_to_the_snapshot() -> None:
    rig = with_snapshot()
    rig.execute(rig.node.advance_log_start(SnapshotId(4, 1), rig.now_ms))
    assert rig.node.log_start_offset == rig.log.start_offset == 4
    assert fetched(rig.ask(fetch(4, 1, 3, 1))).snapshot_id == FetchResponse.SnapshotId(4, 1)
    assert fetched(rig.ask(fetch(4, 1, 4, 0))).snapshot_id == FetchResponse.SnapshotId(4, 1)
    assert bases(rig.ask(fetch(4, 1, 4, 1))) == [4]


def piece(answer: object) -> FetchSnapshotResponse.PartitionSnapshot:
    assert isinstance(answer, FetchSnapshotResponse)
    return answer.topics[0].partitions[0]


def test_a_snapshot_is_given_piece_by_piece() -> None:
    rig = with_snapshot()
    first = piece(rig.ask(fetch_snapshot(4, 1, SnapshotId(4, 1), 0, max_bytes=9)))
    assert (first.size, first.position, first.unaligned_records) == (21, 0, b"the state")
    assert first.snapshot_id == FetchSnapshotResponse.SnapshotId(4, 1)
    rest = piece(rig.ask(fetch_snapshot(4, 1, SnapshotId(4, 1), 9)))
    assert (rest.size, rest.position, rest.unaligned_records) == (21, 9, b" at offset 4")


@pytest.mark.parametrize(
    ("snapshot", "position", "epoch", "error"),
    [
        (SnapshotId(4, 1), 21, 1, ErrorCode.POSITION_OUT_OF_RANGE),
        (SnapshotId(4, 1), -1, 1, ErrorCode.POSITION_OUT_OF_RANGE),
        (SnapshotId(3, 1), 0, 1, ErrorCode.SNAPSHOT_NOT_FOUND),
        (SnapshotId(0, 0), 0, 1, ErrorCode.SNAPSHOT_NOT_FOUND),
        (SnapshotId(4, 1), 0, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (SnapshotId(4, 1), 0, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_piece_that_cannot_be_given(
    snapshot: SnapshotId, position: int, epoch: int, error: ErrorCode
) -> None:
    rig = with_snapshot()
    answer = piece(rig.ask(fetch_snapshot(4, epoch, snapshot, position)))
    assert answer.error_code == error
    assert answer.unaligned_records == b""
    assert answer.current_leader == FetchSnapshotResponse.LeaderIdAndEpoch(1, 1)


def test_a_snapshot_of_another_partition_is_unknown() -> None:
    rig = with_snapshot()
    request = fetch_snapshot(4, 1, SnapshotId(4, 1), 0)
    request.topics[0].name = "orders"
    answer = piece(rig.ask(request))
    assert (answer.error_code, answer.current_leader) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def test_a_voter_that_loads_a_snapshot_follows() -> None:
    rig = with_snapshot()
    for _ in range(10):
        rig.tick(1_000)
        rig.ask(fetch_snapshot(2, 1, SnapshotId(4, 1), 0))
    assert rig.node.role is Role.LEADER


def test_a_fetch_that_waits_is_a_sign_of_life_when_it_comes_and_not_when_it_is_answered() -> None:
    rig = established()
    rig.ask(fetch(2, 1, 5, 1))
    fetched_at_ms = rig.now_ms
    rig.tick(500)
    assert rig.node.progress()[0][1].last_fetch_ms == fetched_at_ms
