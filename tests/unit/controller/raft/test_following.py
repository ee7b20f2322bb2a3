"""The follower's side: what it fetches, appends, cuts off and loads."""

from __future__ import annotations

import pytest

from controller.raft.effects import HardState
from controller.raft.identity import Address, LeaderAndEpoch, SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.transitions import Role
from protocol.errors import ErrorCode, InvariantViolated
from protocol.messages.fetch import FetchRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.records.control import ControlRecordType, build_control_batch
from tests.support.rigs.raft_messages import begin, fetch_answer, snapshot_piece, vote
from tests.support.rigs.raft_rig import MemoryLog, RaftRig, data_batch, elected, voters_record


def following(epoch: int = 5, *, node_id: int = 1, **settings: object) -> RaftRig:
    """A follower of node 2 that has just asked it."""
    rig = RaftRig(node_id, **settings)  # type: ignore[arg-type]
    rig.ask(begin(2, epoch))
    return rig


def give(rig: RaftRig, records: bytes = b"", *, epoch: int = 5, high_watermark: int = -1) -> None:
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(2, epoch, records, high_watermark=high_watermark))


def asked(rig: RaftRig) -> FetchRequest.FetchPartition:
    """Where the fetch under way reads from."""
    assert rig.sent
    message = rig.sent[-1].message
    assert isinstance(message, FetchRequest)
    return message.topics[0].partitions[0]


def batches(*epochs: int, base_offset: int = 0) -> bytes:
    return b"".join(
        bytes(data_batch(base_offset=base_offset + number, epoch=epoch))
        for number, epoch in enumerate(epochs)
    )


def test_a_fetch_says_where_the_log_ends_and_in_which_epoch() -> None:
    rig = following()
    give(rig, batches(3, 3, 5), high_watermark=2)
    request = rig.sent[-1].message
    assert isinstance(request, FetchRequest)
    assert request.replica_state == FetchRequest.ReplicaState(1)
    assert (request.cluster_id, request.max_wait_ms) == (rig.config.cluster_id, 500)
    partition = asked(rig)
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (3, 5)
    assert (partition.current_leader_epoch, partition.high_watermark) == (5, 2)
    assert partition.replica_directory_id == rig.config.node.directory_id


def test_what_is_fetched_is_appended_and_committed_as_far_as_the_leader_says() -> None:
    rig = following()
    give(rig, batches(3, 5, 5), high_watermark=2)
    assert (rig.node.end_offset, rig.node.high_watermark) == (3, 2)
    give(rig, batches(5, base_offset=3), high_watermark=9)
    assert (rig.node.end_offset, rig.node.high_watermark) == (4, 4)
    give(rig, high_watermark=3)
    assert rig.node.high_watermark == 4  # it never falls


def test_the_high_watermark_is_known_when_a_leader_has_told_it() -> None:
    rig = following()
    assert not rig.node.knows_high_watermark
    give(rig, batches(3, 5, 5))  # the leader of a new epoch does not know it yet
    assert not rig.node.knows_high_watermark
    give(rig, high_watermark=0)
    assert rig.node.knows_high_watermark


def test_the_next_fetch_acknowledges_only_what_is_synced() -> None:
    rig = following(auto_sync=False)
    give(rig, batches(5, 5))
    assert rig.sent == []
    rig.sync()
    assert asked(rig).fetch_offset == 2


def test_a_broker_acknowledges_nothing_and_need_not_wait_for_its_disk() -> None:
    rig = following(node_id=4, can_be_voter=False, auto_sync=False)
    give(rig, batches(5, 5))
    assert asked(rig).fetch_offset == 2


def test_one_request_at_a_time() -> None:
    rig = following()
    rig.take(FetchRequest)
    rig.tick(100)
    assert rig.sent == []


@pytest.mark.parametrize(
    ("records", "kept"),
    [
        (batches(5, 5)[:-1], 1),
        (batches(5) + batches(5, base_offset=2), 1),
        (batches(5, 4), 1),
        (batches(6), 0),
        (batches(5)[:-1] + b"\xff", 0),
        (batches(5) + bytes(80), 1),
        (b"\x00" * 61, 0),
    ],
    ids=["cut off", "a gap", "an older epoch", "a later epoch", "a bit turned", "zeros", "no batch"],
)
def test_only_whole_intact_batches_that_follow_are_taken(records: bytes, kept: int) -> None:
    rig = following()
    give(rig, records)
    assert rig.node.end_offset == rig.log.end_offset == kept
    rig.tick(20)
    assert asked(rig).fetch_offset == kept  # and the rest is asked for again


def test_a_log_that_went_another_way_is_cut_back() -> None:
    rig = following()
    give(rig, batches(1, 1, 3, 3), high_watermark=1)
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(2, 5, diverging=(2, 2)))
    assert rig.node.end_offset == 2  # epoch 2 is unknown here: to the end of the epoch before it
    assert (asked(rig).fetch_offset, asked(rig).last_fetched_epoch) == (2, 1)
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(2, 5, diverging=(1, 1)))
    assert (rig.node.end_offset, rig.log.end_offset) == (1, 1)
    assert rig.node.synced_offset == 1


def test_what_is_committed_is_never_cut_off() -> None:
    rig = following()
    give(rig, batches(1, 1), high_watermark=2)
    request, _ = rig.take_one(FetchRequest)
    with pytest.raises(InvariantViolated):
        rig.respond(request, fetch_answer(2, 5, diverging=(1, 1)))


def test_a_control_batch_that_cannot_be_read_is_named() -> None:
    rig = following()
    content = [(ControlRecordType.KRAFT_VOTERS, b"none")]
    batch = build_control_batch(content, timestamp_ms=0, base_offset=1, leader_epoch=5)
    with pytest.raises(InvariantViolated, match="the control batch at offset 1 can be read"):
        give(rig, batches(5) + bytes(batch))


def test_voters_that_are_cut_off_count_no_more() -> None:
    from controller.raft.voters import VoterSet

    rig = RaftRig()
    rig.ask(begin(2, 5))
    source = elected(2, (2,))
    give(rig, b"".join(batch[3] for batch in source.log.batches))  # an only voter's first batch
    assert list(rig.node.voters.by_id) == [2]
    assert rig.node.is_observer
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(2, 5, diverging=(0, 0)))
    assert rig.node.voters == VoterSet.from_record(voters_record(1, 2, 3))


def test_a_late_sync_of_what_was_cut_off_counts_for_nothing() -> None:
    rig = following(auto_sync=False)
    give(rig, batches(3, 3, 3))
    before = rig.unsynced
    rig.execute(rig.node.log_synced(before, rig.now_ms))
    give(rig, batches(4, base_offset=3))
    late = rig.unsynced
    rig.tick(2_000)  # prospective; then the leader of a later epoch is heard
    rig.ask(begin(3, 6))
    request, _ = rig.sent[-1], None
    assert rig.node.end_offset == 4
    rig.execute(rig.node.log_synced(late, rig.now_ms))
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(3, 6, diverging=(3, 2)))
    assert (rig.node.end_offset, rig.node.synced_offset) == (2, 2)
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(3, 6, batches(6, 6, base_offset=2)))
    rig.execute(rig.node.log_synced(late, rig.now_ms))
    assert rig.node.synced_offset == 2
    rig.sync()
    assert rig.node.synced_offset == 4


# Who is asked


def test_without_a_leader_anybody_is_asked_and_the_answer_tells() -> None:
    rig = RaftRig(4, (1, 2, 3))
    request, _ = rig.take_one(FetchRequest)
    assert request.to.id in (1, 2, 3)
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.respond(request, fetch_answer(3, 5, error=error, named=True))
    assert (rig.node.role, rig.node.leader) == (Role.FOLLOWER, LeaderAndEpoch(3, 5))
    assert rig.sent[-1].to == (3, "host3", 9003)


def test_an_answer_from_the_leader_itself_is_taken_with_its_records() -> None:
    rig = RaftRig(4, (1, 2, 3), hard_state=HardState(epoch=5))
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(3, 5, batches(5), named=True))
    assert (rig.node.leader.leader_id, rig.node.end_offset) == (3, 1)


def test_who_knows_no_better_is_left_alone_for_a_moment() -> None:
    rig = RaftRig(4, (2,))
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(-1, 0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert rig.sent == []
    rig.tick(20)
    assert len(rig.take(FetchRequest)) == 1


def test_bootstrap_servers_are_asked_before_any_voter_is_known() -> None:
    servers = (Address("first", 1), Address("second", 2))
    rig = RaftRig(4, (), bootstrap_servers=servers)
    request, _ = rig.take_one(FetchRequest)
    assert request.to == (-2, "first", 1)
    rig.fail(request)
    assert rig.take_one(FetchRequest)[0].to == (-3, "second", 2)
    assert rig.node.is_observer


def test_a_leader_that_cannot_be_reached_is_passed_over_for_a_moment() -> None:
    rig = following()
    rig.fail(rig.take_one(FetchRequest)[0])
    request, _ = rig.take_one(FetchRequest)
    assert request.to.id == 3
    rig.respond(request, fetch_answer(3, 6, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert rig.node.leader == LeaderAndEpoch(3, 6)


def test_a_fetch_that_nobody_answers_is_given_up() -> None:
    rig = following(node_id=4)
    first, _ = rig.take_one(FetchRequest)
    rig.tick(2_000)
    second, _ = rig.take_one(FetchRequest)
    assert second.request_id != first.request_id
    rig.respond(first, fetch_answer(2, 5, batches(5)))
    assert rig.node.end_offset == 0


def test_an_observer_never_stands() -> None:
    rig = following(node_id=4)
    for _ in range(50):
        for request in list(rig.sent):
            rig.sent.remove(request)
            rig.fail(request)
        rig.tick(1_000)
    assert (rig.node.role, rig.node.epoch) == (Role.FOLLOWER, 5)
    assert rig.take(VoteRequest) == []


def test_a_voter_whose_leader_answers_does_not_stand() -> None:
    rig = following()
    for _ in range(10):
        rig.tick(1_500)
        give(rig)
    assert rig.node.role is Role.FOLLOWER
    rig.tick(2_000)
    assert rig.node.role.name == "PROSPECTIVE"


# Snapshots


def test_a_snapshot_is_fetched_in_pieces_and_takes_the_place_of_the_log() -> None:
    control = SnapshotControl(1, voters_record(2, 3, 1, 7))
    rig = following(install=lambda content: control if content == b"whole" else None)
    give(rig, batches(1, 1))
    snapshot = SnapshotId(8, 4)
    request, _ = rig.take_one(FetchRequest)
    rig.respond(request, fetch_answer(2, 5, snapshot=snapshot))
    request, message = rig.take_one(FetchSnapshotRequest)
    partition = message.topics[0].partitions[0]
    assert (message.replica_id, message.max_bytes) == (1, 1 << 20)
    assert (partition.position, partition.current_leader_epoch) == (0, 5)
    assert partition.snapshot_id == FetchSnapshotRequest.SnapshotId(8, 4)
    rig.respond(request, snapshot_piece(2, 5, snapshot, 0, b"who", 5))
    request, message = rig.take_one(FetchSnapshotRequest)
    assert message.topics[0].partitions[0].position == 3
    assert rig.node.end_offset == 2
    rig.respond(request, snapshot_piece(2, 5, snapshot, 3, b"le", 5))
    assert (rig.node.log_start_offset, rig.node.end_offset, rig.node.high_watermark) == (8, 8, 8)
    assert (rig.node.last_epoch, rig.node.latest_snapshot) == (4, snapshot)
    assert list(rig.node.voters.by_id) == [2, 3, 1, 7]
    assert (asked(rig).fetch_offset, asked(rig).last_fetched_epoch) == (8, 4)
    give(rig, batches(5, base_offset=8))
    assert rig.node.end_offset == 9


def test_a_broken_snapshot_changes_nothing_and_is_fetched_again() -> None:
    rig = following(install=lambda content: None)
    give(rig, batches(1, 1))
    snapshot = SnapshotId(8, 4)
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5, snapshot=snapshot))
    rig.respond(rig.take_one(FetchSnapshotRequest)[0], snapshot_piece(2, 5, snapshot, 0, b"bad", 3))
    assert (rig.node.end_offset, rig.log.end_offset, rig.node.high_watermark) == (2, 2, 0)
    assert asked(rig).fetch_offset == 2


@pytest.mark.parametrize(
    ("snapshot", "position", "content", "error"),
    [
        (SnapshotId(8, 4), 1, b"abc", ErrorCode.NONE),
        (SnapshotId(9, 4), 0, b"abc", ErrorCode.NONE),
        (SnapshotId(8, 4), 0, b"", ErrorCode.NONE),
        (SnapshotId(8, 4), 0, b"abcdef", ErrorCode.NONE),
        (SnapshotId(8, 4), 0, b"", ErrorCode.SNAPSHOT_NOT_FOUND),
        (SnapshotId(8, 4), 0, b"", ErrorCode.POSITION_OUT_OF_RANGE),
    ],
    ids=["position", "another", "nothing", "too much", "gone", "out of range"],
)
def test_a_piece_that_does_not_fit_begins_the_search_anew(
    snapshot: SnapshotId, position: int, content: bytes, error: ErrorCode
) -> None:
    rig = following()
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5, snapshot=SnapshotId(8, 4)))
    request, _ = rig.take_one(FetchSnapshotRequest)
    rig.respond(request, snapshot_piece(2, 5, snapshot, position, content, 5, error))
    rig.tick(20)
    assert asked(rig).fetch_offset == 0
    assert rig.log.part == b""


def begun() -> RaftRig:
    """A follower that has received the first half of a snapshot, and asks for the rest."""
    snapshot = SnapshotId(8, 4)
    control = SnapshotControl(1, voters_record(1, 2, 3))
    rig = following(install=lambda content: control if content == b"whole" else None)
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5, snapshot=snapshot))
    rig.respond(rig.take_one(FetchSnapshotRequest)[0], snapshot_piece(2, 5, snapshot, 0, b"who", 5))
    return rig


def test_a_lost_request_for_a_piece_is_sent_again_and_nothing_else() -> None:
    rig = begun()
    for _ in range(2):
        request, message = rig.take_one(FetchSnapshotRequest)
        assert message.topics[0].partitions[0].position == 3
        rig.fail(request)
        rig.tick(20)
        other, _ = rig.take_one(FetchRequest)  # whether another one leads, while this one rests
        rig.respond(other, fetch_answer(2, 5, snapshot=SnapshotId(8, 4)))
    request, _ = rig.take_one(FetchSnapshotRequest)
    rig.respond(request, snapshot_piece(2, 5, SnapshotId(8, 4), 3, b"le", 5))
    assert (rig.node.end_offset, rig.node.latest_snapshot) == (8, (8, 4))


def test_what_was_received_of_a_snapshot_goes_with_the_leader() -> None:
    rig = begun()
    rig.ask(begin(3, 6))
    assert rig.log.part == b""
    assert asked(rig).fetch_offset == 0


def test_what_was_received_of_a_snapshot_goes_when_the_leader_has_another_one() -> None:
    rig = begun()
    rig.fail(rig.take_one(FetchSnapshotRequest)[0])
    rig.tick(20)
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5, snapshot=SnapshotId(9, 5)))
    assert rig.log.part == b""
    _, message = rig.take_one(FetchSnapshotRequest)
    partition = message.topics[0].partitions[0]
    assert (partition.position, partition.snapshot_id) == (0, FetchSnapshotRequest.SnapshotId(9, 5))


def test_what_was_received_of_a_snapshot_goes_when_the_leader_goes_on_from_the_log() -> None:
    rig = begun()
    rig.fail(rig.take_one(FetchSnapshotRequest)[0])
    give(rig, batches(4), high_watermark=1)
    assert rig.log.part == b""
    assert rig.node.end_offset == 1
    assert rig.take(FetchSnapshotRequest) == []


@pytest.mark.parametrize("error", [ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE])
def test_what_was_received_of_a_snapshot_goes_with_the_leader_s(error: ErrorCode) -> None:
    rig = begun()
    rig.respond(
        rig.take_one(FetchSnapshotRequest)[0], snapshot_piece(2, 5, SnapshotId(8, 4), 3, b"", 5, error)
    )
    assert rig.log.part == b""


@pytest.mark.parametrize("snapshot", [(2, 3), (2, 4), (3, 4)], ids=str)
def test_a_snapshot_that_holds_no_more_than_the_log_is_not_loaded(snapshot: tuple[int, int]) -> None:
    rig = following()
    give(rig, batches(4, 4, 4))
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5, snapshot=SnapshotId(*snapshot)))
    assert rig.take(FetchSnapshotRequest) == []


@pytest.mark.parametrize("snapshot", [(8, 5), (8, 2), (4, 3), (3, 2), (2, 5)], ids=str)
def test_a_log_whose_end_was_never_committed_gives_way_to_a_snapshot(snapshot: tuple[int, int]) -> None:
    """Also to one of an older epoch: ours ends in records of a leader that committed nothing."""
    rig = following(install=lambda content: SnapshotControl(1, voters_record(1, 2, 3)))
    give(rig, batches(4, 4, 4))
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5, snapshot=SnapshotId(*snapshot)))
    request, _ = rig.take_one(FetchSnapshotRequest)
    rig.respond(request, snapshot_piece(2, 5, SnapshotId(*snapshot), 0, b"whole", 5))
    assert (rig.node.end_offset, rig.node.last_epoch) == snapshot
    assert (asked(rig).fetch_offset, asked(rig).last_fetched_epoch) == snapshot


def test_a_new_leader_in_the_middle_of_a_snapshot_is_asked_for_its_own() -> None:
    rig = following()
    rig.respond(rig.take_one(FetchRequest)[0], fetch_answer(2, 5, snapshot=SnapshotId(8, 4)))
    request, _ = rig.take_one(FetchSnapshotRequest)
    rig.ask(begin(3, 6))
    rig.respond(request, snapshot_piece(2, 5, SnapshotId(8, 4), 0, b"abc", 3))
    assert rig.node.end_offset == 0
    assert asked(rig).current_leader_epoch == 6


def test_a_restart_finds_voters_and_offsets_in_log_and_snapshot() -> None:
    leader = elected(2, (2, 4))
    log = MemoryLog({SnapshotId(0, 0): SnapshotControl(1, voters_record(1, 2, 3))})
    log.append(leader.log.batches[0][3])
    rig = RaftRig(log=log)
    assert list(rig.node.voters.by_id) == [2, 4]
    log.controls[SnapshotId(3, 1)] = SnapshotControl(1, voters_record(1, 2, 3))
    log.contents[SnapshotId(3, 1)] = b"state"
    rig = RaftRig(log=log)
    assert list(rig.node.voters.by_id) == [1, 2, 3]  # the snapshot is newer than the record
    assert (rig.node.high_watermark, rig.node.epoch) == (3, 1)


def test_an_observer_goes_back_to_a_leader_that_others_believe_in() -> None:
    rig = following(node_id=4)
    rig.tick(2_000)  # the leader was silent; somebody else is asked
    request, _ = rig.take_one(FetchRequest)
    rig.fail(request)
    rig.tick(20)
    other, _ = rig.take_one(FetchRequest)
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.respond(other, fetch_answer(2, 5, error=error, named=True))
    rig.tick(20)
    assert rig.take_one(FetchRequest)[0].to.id == 2


def test_a_leader_whose_connection_breaks_is_given_a_moment_and_no_whole_timeout() -> None:
    rig = following()
    assert asked_to_wait_ms(rig) == 0  # does it answer at all?
    give(rig)
    assert asked_to_wait_ms(rig) == 500
    rig.fail(rig.take_one(FetchRequest)[0])
    assert rig.node.role is Role.FOLLOWER
    answer = rig.ask(vote(3, 5, last_epoch=5, last_offset=9, pre_vote=True))
    assert isinstance(answer, VoteResponse)
    assert answer.topics[0].partitions[0].vote_granted  # it does not speak for that leader now
    rig.fail(rig.take_one(FetchRequest)[0])
    rig.tick(200)
    assert rig.node.role.name == "PROSPECTIVE"


def test_a_connection_that_comes_back_is_a_leader_that_works() -> None:
    rig = following()
    give(rig)
    rig.fail(rig.take_one(FetchRequest)[0])
    rig.fail(rig.take_one(FetchRequest)[0])
    rig.tick(20)
    give(rig)
    rig.tick(1_500)
    assert rig.node.role is Role.FOLLOWER


def test_a_fetch_that_is_only_late_breaks_nothing() -> None:
    rig = following()
    give(rig)
    rig.fail(rig.take_one(FetchRequest)[0], ErrorCode.REQUEST_TIMED_OUT)
    rig.tick(500)
    assert rig.node.role is Role.FOLLOWER


def asked_to_wait_ms(rig: RaftRig) -> int:
    message = rig.sent[-1].message
    assert isinstance(message, FetchRequest)
    return message.max_wait_ms
