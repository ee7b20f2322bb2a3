"""Stories of a follower: what it asks, what it does with the answers, and what it asks next."""

from __future__ import annotations

import errno
import logging

import pytest

from broker.replication.fetcher.fetch_transitions import FetchState
from protocol.errors import ErrorCode, InvariantViolated
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.peer_channel import PeerError
from protocol.records.header import patch_offset_and_epoch
from storage.faulty_files import Fault, FaultyFiles
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from tests.support.rigs.fetcher_rig import (
    BROKER_EPOCH,
    NODE,
    FetcherRig,
    diverging,
    failure,
    nothing,
    records,
)
from tests.support.rigs.log_rig import NOW_MS, TOPIC_ID, LogRig, client_batch, done, leader_batch

BACKOFF_MS = 1_000


def test_what_comes_is_in_the_log_byte_for_byte_and_told_with_the_next_fetch() -> None:
    rig = FetcherRig()
    log = rig.host().log
    rig.follow(leader_epoch=3)
    request = rig.leader.sent[0].request
    assert isinstance(request, FetchRequest)
    assert request.replica_state == FetchRequest.ReplicaState(NODE, BROKER_EPOCH)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert rig.asked()[0] == FetchRequest.FetchPartition(0, 3, 0, -1, 0, 1_048_576)
    batches = leader_batch(0, b"a", b"b", epoch=2) + leader_batch(2, b"c", epoch=3)
    rig.answer(records(batches, high_watermark=2))
    found = log.read(0, max_bytes=1_000)
    assert found is not None
    assert found.read() == batches
    assert (log.log_end_offset, log.high_watermark) == (3, 2)
    assert log.leader_epochs.entries() == [(2, 0), (3, 2)]
    assert rig.asked()[0] == FetchRequest.FetchPartition(0, 3, 3, 3, 0, 1_048_576)
    assert rig.fetcher.bytes_fetched == len(batches)


def test_a_quiet_partition_is_not_named_again() -> None:
    rig = FetcherRig()
    for index in (0, 1):
        rig.host(index)
        rig.follow(index)
    rig.answer()
    assert set(rig.asked()) == {1}, "the second came while the first fetch was under way"
    rig.answer()
    assert rig.asked() == {}
    rig.answer(records(leader_batch(0, b"v", epoch=1), index=1))
    assert set(rig.asked()) == {1}


def test_the_high_watermark_is_the_leaders_and_never_beyond_the_own_log() -> None:
    rig = FetcherRig()
    log = rig.host().log
    rig.follow()
    rig.answer(records(leader_batch(0, b"a", b"b", epoch=1), high_watermark=9))
    assert log.high_watermark == 2
    rig.answer(nothing(high_watermark=1))
    assert log.high_watermark == 2, "it does not fall"


def test_the_log_start_follows_the_leaders() -> None:
    rig = FetcherRig()
    log = rig.host().log
    rig.follow()
    rig.answer(records(leader_batch(0, b"a", b"b", epoch=1), high_watermark=2))
    answer = nothing(high_watermark=2)
    answer.log_start_offset = 1
    rig.answer(answer)
    assert log.log_start_offset == 1
    assert rig.asked()[0].log_start_offset == 1


def test_a_log_start_that_retention_moved_is_told_soon() -> None:
    rig = FetcherRig()
    log = rig.host().log
    rig.follow()
    rig.answer(records(leader_batch(0, b"a", b"b", epoch=1), high_watermark=2))
    rig.answer(nothing(high_watermark=2))
    assert rig.asked() == {}
    log.increase_log_start(1)
    rig.clock.move(1_000)
    rig.answer()
    assert rig.asked()[0].log_start_offset == 1


def test_a_follower_that_has_what_its_leader_has_not_is_cut() -> None:
    """KIP-101 and KIP-279: the leader's epoch 1 ends at 2, this log has epoch 1 up to 3, and epoch 2."""
    rig = FetcherRig()
    story = rig.host()
    story.append(b"a", b"b", epoch=1)
    story.append(b"lost", epoch=1)
    story.append(b"lost", epoch=2)
    rig.follow(leader_epoch=3)
    assert (rig.asked()[0].fetch_offset, rig.asked()[0].last_fetched_epoch) == (4, 2)
    rig.answer(diverging(1, 2))
    assert story.log.log_end_offset == 2
    assert (rig.asked()[0].fetch_offset, rig.asked()[0].last_fetched_epoch) == (2, 1)
    rig.answer(records(leader_batch(2, b"new", epoch=3), high_watermark=3))
    assert story.log.leader_epochs.entries() == [(1, 0), (3, 2)]


def test_a_cut_takes_two_fetches_where_the_epochs_interleave() -> None:
    """The follower has epochs 1 and 3, the leader answers with an epoch 2 of which the follower knows
    nothing: it cuts to the end of its epoch 1, and is told more with the next fetch."""
    rig = FetcherRig()
    story = rig.host()
    story.append(b"a", b"b", b"c", epoch=1)
    story.append(b"d", epoch=3)
    rig.follow(leader_epoch=4)
    rig.answer(diverging(2, 5))
    assert (rig.asked()[0].fetch_offset, rig.asked()[0].last_fetched_epoch) == (3, 1)
    rig.answer(diverging(1, 1))
    assert story.log.log_end_offset == 0, "a batch is cut as a whole"
    assert rig.asked()[0].last_fetched_epoch == -1


def test_a_log_without_epochs_is_cut_to_its_high_watermark_first() -> None:
    rig = FetcherRig()
    story = rig.host()
    for value in (b"a", b"b", b"c"):
        story.append(value)
    story.log.update_high_watermark(2)
    story.log.leader_epochs.clear()
    rig.follow()
    assert story.log.log_end_offset == 2
    assert (rig.asked()[0].fetch_offset, rig.asked()[0].last_fetched_epoch) == (2, -1)


@pytest.mark.parametrize("call", ["write", "rename", "unlink", "truncate"])
@pytest.mark.parametrize("epoch", [3, 4], ids=["by the same leader", "by the next one"])
def test_a_cut_for_which_there_is_no_space_is_made_again_before_anything_is_copied(
    call: str, epoch: int
) -> None:
    files = FaultyFiles(MemoryFiles(lambda: NOW_MS))
    rig = FetcherRig()
    story = rig.host(rig=LogRig(files, LogConfig(index_interval_bytes=0)))
    for number in range(600):
        story.append(b"%d" % number, epoch=1 if number < 500 else 2)
    story.log.roll(NOW_MS)
    story.append(b"600", epoch=2)
    rig.follow(leader_epoch=3)
    files.faults = [Fault(call, path_part=story.directory, error=errno.ENOSPC, count=2)]
    rig.answer(diverging(1, 400))
    assert rig.state() is FetchState.TRUNCATING
    assert story.log.log_end_offset == 400
    if epoch == 4:
        rig.follow(leader_epoch=4)
    for _ in range(6):
        rig.timers.advance(BACKOFF_MS)
        rig.timers.run_soon()
        if not rig.leader.sent:
            continue
        if story.log.log_end_offset == 400 and 0 in rig.asked():
            assert rig.asked()[0].fetch_offset == 400
            rig.answer(records(leader_batch(400, b"new", epoch=epoch)))
        else:
            rig.answer()
    assert story.log.log_end_offset == 401
    assert [segment.base_offset for segment in story.log.segments] == [0]
    assert story.log.active.offset_index.entries()[-1][0] == 400
    assert [name for name in story.file_names() if name.endswith(".log")] == ["00000000000000000000.log"]


def test_an_unclean_leader_that_ends_before_this_log_has_it_cut() -> None:
    rig = FetcherRig()
    story = rig.host()
    for value in (b"a", b"b", b"c"):
        story.append(value, epoch=1)
    rig.follow(leader_epoch=2)
    rig.answer(failure(ErrorCode.OFFSET_OUT_OF_RANGE))
    assert rig.state() is FetchState.FINDING_OFFSET
    asked = rig.leader.sent[0].request
    assert isinstance(asked, ListOffsetsRequest)
    assert (asked.replica_id, asked.topics[0].partitions[0].current_leader_epoch) == (NODE, 2)
    rig.tell_offsets(end=1, start=0)
    assert story.log.log_end_offset == 1
    rig.answer()
    assert rig.asked()[0].fetch_offset == 1


def test_a_follower_whose_offsets_are_deleted_at_the_leader_begins_anew() -> None:
    rig = FetcherRig()
    story = rig.host()
    story.append(b"old", epoch=1)
    rig.follow(leader_epoch=2)
    rig.answer(failure(ErrorCode.OFFSET_OUT_OF_RANGE))
    rig.tell_offsets(end=120, start=100)
    log = story.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    rig.answer()
    assert (rig.asked()[0].fetch_offset, rig.asked()[0].log_start_offset) == (100, 100)
    rig.answer(records(leader_batch(100, b"v", epoch=2), high_watermark=101, log_start=100))
    assert log.log_end_offset == 101


def test_a_log_that_begins_anew_within_a_batch_of_its_leader_has_it_whole() -> None:
    """DeleteRecords may move the leader's log start into a batch, which is sent and stored as a whole."""
    rig = FetcherRig()
    story = rig.host()
    story.append(b"old", epoch=1)
    rig.follow(leader_epoch=2)
    rig.answer(failure(ErrorCode.OFFSET_OUT_OF_RANGE))
    rig.tell_offsets(end=120, start=100)
    rig.answer()
    assert rig.asked()[0].fetch_offset == 100
    around = leader_batch(98, b"98", b"99", b"100", b"101", epoch=2)
    rig.answer(records(around, high_watermark=102, log_start=100))
    log = story.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 102, 102)
    assert log.leader_epochs.entries() == [(2, 100)]
    assert (rig.asked()[0].fetch_offset, rig.asked()[0].log_start_offset) == (102, 100)


def test_a_batch_before_the_end_of_a_log_with_records_is_refused() -> None:
    rig = FetcherRig()
    story = rig.host()
    story.append(b"a", epoch=1)
    rig.follow(leader_epoch=2)
    rig.answer(records(leader_batch(0, b"0", b"1", epoch=2), high_watermark=2))
    assert story.log.log_end_offset == 1


def test_an_offset_that_is_in_range_after_all_is_fetched_again() -> None:
    rig = FetcherRig()
    story = rig.host()
    story.append(b"a", epoch=1)
    rig.follow()
    rig.answer(failure(ErrorCode.OFFSET_OUT_OF_RANGE))
    rig.tell_offsets(end=5, start=0)
    assert story.log.log_end_offset == 1
    assert rig.state() is FetchState.FETCHING


def test_the_leaders_offsets_are_asked_again_after_an_error() -> None:
    rig = FetcherRig()
    rig.host().append(b"a", epoch=1)
    rig.follow()
    rig.answer(failure(ErrorCode.OFFSET_OUT_OF_RANGE))
    rig.tell_offsets(0, 0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert rig.state() is FetchState.FETCHING
    rig.answer()
    assert rig.leader.sent == []
    rig.timers.advance(BACKOFF_MS)
    rig.timers.run_soon()
    assert set(rig.asked()) == {0}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_partition_with_an_error_waits_and_the_others_go_on(error: ErrorCode) -> None:
    rig = FetcherRig()
    rig.host(0)
    good = rig.host(1).log
    rig.follow(0)
    rig.follow(1)
    rig.answer()
    rig.answer(failure(error, 0), records(leader_batch(0, b"a", epoch=1), index=1))
    assert good.log_end_offset == 1
    request = rig.leader.sent[0].request
    assert isinstance(request, FetchRequest)
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    assert set(rig.asked()) == {1}
    rig.clock.move(BACKOFF_MS)
    rig.answer()
    assert set(rig.asked()) == {0}
    assert rig.state(0) is FetchState.FETCHING


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_a_leader_that_has_not_heard_yet_that_it_leads_is_asked_again_soon(error: ErrorCode) -> None:
    """Producers with acks=all wait for its followers."""
    rig = FetcherRig()
    rig.host()
    rig.follow()
    for pause_ms in (50, 100, 200, 400, 800, BACKOFF_MS, BACKOFF_MS):
        rig.answer(failure(error))
        rig.answer()
        rig.timers.advance(pause_ms - 1)
        rig.timers.run_soon()
        assert rig.leader.sent == []
        rig.timers.advance(1)
        rig.timers.run_soon()
        assert set(rig.asked()) == {0}


def test_a_fenced_partition_waits_for_the_metadata_log() -> None:
    rig = FetcherRig()
    rig.host()
    rig.follow(leader_epoch=1)
    rig.answer(failure(ErrorCode.FENCED_LEADER_EPOCH))
    assert rig.state() is FetchState.FAILED
    rig.answer(session_id=0)
    rig.timers.advance(10 * BACKOFF_MS)
    assert rig.leader.sent == []
    rig.follow(leader_epoch=2)
    assert rig.asked()[0].current_leader_epoch == 2


def test_a_corrupt_batch_delays_its_partition_alone(caplog: pytest.LogCaptureFixture) -> None:
    rig = FetcherRig()
    log = rig.host(0).log
    other = rig.host(1).log
    rig.follow(0)
    rig.follow(1)
    rig.answer()
    good, bad = leader_batch(0, b"good", epoch=1), bytearray(leader_batch(1, b"bad", epoch=1))
    bad[-1] ^= 1
    rig.answer(records(good, bytes(bad)), records(leader_batch(0, b"a", epoch=1), index=1))
    assert (log.log_end_offset, other.log_end_offset) == (1, 1)
    assert set(rig.asked()) == {1}
    assert "orders-0 at offset 0 is not in the log" in caplog.text
    rig.clock.move(BACKOFF_MS)
    rig.answer()
    assert rig.asked()[0].fetch_offset == 1


def test_a_full_disk_is_tried_again_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles(
        MemoryFiles(lambda: NOW_MS), Fault("write", path_part=".log", error=errno.ENOSPC, count=2)
    )
    rig = FetcherRig()
    log = rig.host(files=files).log
    rig.follow()
    for _ in range(2):
        rig.answer(records(leader_batch(0, b"a", epoch=1)))
        assert log.log_end_offset == 0
        rig.answer(session_id=0)
        assert rig.leader.sent == []
        rig.timers.advance(BACKOFF_MS)
        rig.timers.run_soon()
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 1
    rig.answer(records(leader_batch(0, b"a", epoch=1)))
    assert log.log_end_offset == 1
    assert rig.suspected == ["/data/orders-0"] * 2


def test_after_a_lost_connection_all_is_asked_anew() -> None:
    rig = FetcherRig()
    rig.host()
    rig.follow()
    rig.answer()
    rig.lose()
    assert rig.leader.sent == []
    rig.timers.advance(BACKOFF_MS)
    rig.timers.run_soon()
    request = rig.leader.sent[0].request
    assert isinstance(request, FetchRequest)
    assert (request.session_id, request.session_epoch) == (5, 0)
    assert set(rig.asked()) == {0}


def test_nothing_is_fetched_before_the_broker_is_registered() -> None:
    """KIP-903: a fetch without a broker epoch could be taken for one of the broker's life before."""
    rig = FetcherRig()
    rig.broker_epoch = -1
    rig.host()
    rig.follow()
    rig.timers.advance(1_000)
    rig.timers.run_soon()
    assert rig.leader.sent == []
    rig.broker_epoch = 5
    rig.timers.advance(50)
    rig.timers.run_soon()
    request = rig.leader.sent[0].request
    assert isinstance(request, FetchRequest)
    assert request.replica_state == FetchRequest.ReplicaState(NODE, 5)


def test_a_leader_of_an_older_release_is_told_the_node_id_alone() -> None:
    rig = FetcherRig()
    rig.host()
    rig.follow()
    for replica_id, state in ((NODE, None), (-1, FetchRequest.ReplicaState(NODE, BROKER_EPOCH))):
        rig.leader.answer(PeerError("not in version 14", is_unsupported=True))
        rig.timers.run_soon()
        rig.timers.advance(BACKOFF_MS)
        rig.timers.run_soon()
        request = rig.leader.sent[0].request
        assert isinstance(request, FetchRequest)
        assert (request.replica_id, request.replica_state) == (replica_id, state)


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 5)],
)
def test_a_session_that_the_leader_does_not_know_begins_anew_at_once(
    error: ErrorCode, session_id: int
) -> None:
    rig = FetcherRig()
    rig.host()
    rig.follow()
    rig.answer()
    rig.answer(error_code=error)
    request = rig.leader.sent[0].request
    assert isinstance(request, FetchRequest)
    assert (request.session_id, request.session_epoch, set(rig.asked())) == (session_id, 0, {0})
    rig.answer(error_code=error)
    assert rig.leader.sent == [], "the second time it waits"


def test_a_long_answer_is_taken_in_slices_and_its_buffer_is_not_needed_after_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = FetcherRig()
    for index in range(3):
        rig.host(index)
        rig.follow(index)
    rig.answer()
    rig.answer()
    ticks = iter(range(0, 1_000_000_000, 3_000_000))
    monkeypatch.setattr(rig.clock, "monotonic_ns", lambda: next(ticks))
    buffers = [bytearray(leader_batch(0, b"v", epoch=1)) for _ in range(3)]
    answers = [records(b"", index=index) for index in range(3)]
    for answer, buffer in zip(answers, buffers, strict=True):
        answer.records = memoryview(buffer)
    topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=answers)
    rig.leader.answer(FetchResponse(0, 0, 5, [topic]))
    assert [each.log.log_end_offset for each in rig.logs.values()] == [1, 1, 0]
    assert rig.leader.sent == [], "the next fetch follows when the whole answer is taken"
    for buffer in buffers:
        buffer[:] = b"\xdd" * len(buffer)
    rig.timers.run_soon()
    assert [each.log.log_end_offset for each in rig.logs.values()] == [1, 1, 1]
    assert set(rig.asked()) == {0, 1, 2}


def test_an_answer_for_a_partition_that_is_followed_no_longer_is_dropped() -> None:
    rig = FetcherRig()
    log = rig.host().log
    rig.follow()
    rig.fetcher.leave((TOPIC_ID, 0))
    rig.answer(records(leader_batch(0, b"a", epoch=1)))
    assert log.log_end_offset == 0


def test_an_answer_of_an_earlier_epoch_is_dropped() -> None:
    rig = FetcherRig()
    log = rig.host().log
    rig.follow(leader_epoch=1)
    rig.follow(leader_epoch=2)
    rig.answer(records(leader_batch(0, b"a", epoch=1)))
    assert log.log_end_offset == 0
    assert rig.asked()[0].current_leader_epoch == 2


def test_batches_of_a_later_leader_are_left_for_the_next_epoch() -> None:
    rig = FetcherRig()
    log = rig.host().log
    rig.follow(leader_epoch=1)
    rig.answer(records(leader_batch(0, b"a", epoch=1), leader_batch(1, b"b", epoch=2)))
    assert log.log_end_offset == 1


def test_an_answer_that_would_change_a_failed_partition_is_our_bug() -> None:
    rig = FetcherRig()
    rig.host()
    rig.follow()
    rig.answer(failure(ErrorCode.FENCED_LEADER_EPOCH))
    with pytest.raises(InvariantViolated, match="as the table says"):
        rig.fetch_of().append_waits()


def test_a_follower_knows_the_producers_when_it_leads() -> None:
    rig = FetcherRig()
    story = rig.host()
    rig.follow(leader_epoch=1)
    batch = client_batch(b"v", producer=(9, 0, 0))
    stored = bytearray(batch)
    patch_offset_and_epoch(stored, 0, 0, 1)
    rig.answer(records(bytes(stored), high_watermark=1))
    rig.fetcher.leave((TOPIC_ID, 0))
    again = done(story.log.append_as_leader(bytearray(batch), leader_epoch=2, now_ms=NOW_MS))
    assert (again.base_offset, again.is_duplicate) == (0, True)
    assert story.produce(9, 0, 1) == 1


def test_a_cut_forgets_what_producers_wrote_behind_it() -> None:
    rig = FetcherRig()
    story = rig.host()
    for sequence in range(3):
        story.produce(9, 0, sequence)
    rig.follow(leader_epoch=2)
    rig.answer(diverging(0, 1))
    entry = story.log.producer_state.get(9)
    assert entry is not None
    assert (entry.last_sequence, story.log.log_end_offset) == (0, 1)


def test_a_closed_fetcher_asks_nothing_and_does_nothing() -> None:
    rig = FetcherRig()
    log = rig.host().log
    rig.follow()
    rig.fetcher.close()
    rig.answer(records(leader_batch(0, b"a", epoch=1)))
    assert rig.leader.is_closed
    assert (log.log_end_offset, rig.leader.sent) == (0, [])
