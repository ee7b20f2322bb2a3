"""A transaction begins on a partition only if its coordinator has said so."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from protocol.records.builder import BatchBuilder
from protocol.records.control import TransactionMarker, build_marker_batch
from storage.append import AppendResult
from storage.errors import AppendRefused
from storage.partition_log import PartitionLog
from storage.transactions import Verification
from storage.waiting_append import WaitingAppend
from tests.support.rigs.lane_rig import LaneRig, refusal_of, result_of
from tests.support.rigs.log_rig import NOW_MS, LogRig, done, everything

PRODUCER = 7


class Writer:
    """One transactional producer, and the coordinator that says yes or nothing."""

    def __init__(self) -> None:
        self.log: PartitionLog = LogRig().log
        self.verifications = self.log.producer_state.verifications
        self.verifications.is_required = True

    def ask(self, *, sequence: int = 0, epoch: int = 0, raises_epoch: bool = True) -> Verification:
        return self.verifications.begin(PRODUCER, epoch, sequence, raises_epoch=raises_epoch, now_ms=NOW_MS)

    def confirmed(self, *, sequence: int = 0, epoch: int = 0, raises_epoch: bool = True) -> None:
        self.ask(sequence=sequence, epoch=epoch, raises_epoch=raises_epoch).is_confirmed = True

    def write(self, sequence: int = 0, *, epoch: int = 0, producer: int = PRODUCER) -> int:
        builder = BatchBuilder(
            producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        builder.append(None, b"x", NOW_MS)
        result = self.log.append_as_leader(memoryview(builder.build()), leader_epoch=0, now_ms=NOW_MS)
        return done(result).base_offset

    def end(self, epoch: int = 0) -> None:
        marker = build_marker_batch(
            TransactionMarker(True, 1), timestamp_ms=NOW_MS, producer_id=PRODUCER, producer_epoch=epoch
        )
        done(self.log.append_internal(marker, leader_epoch=0, now_ms=NOW_MS))


def refusal(call: object) -> ErrorCode:
    with pytest.raises(AppendRefused) as caught:
        call()  # type: ignore[operator]
    return ErrorCode(caught.value.error_code)


def test_a_batch_that_begins_a_transaction_needs_the_coordinator_s_word() -> None:
    writer = Writer()
    question = writer.ask()
    assert refusal(writer.write) == ErrorCode.INVALID_TXN_STATE
    question.is_confirmed = True
    assert writer.write() == 0
    assert writer.write(1) == 1, "it is open now"
    assert len(writer.verifications) == 0


def test_after_the_marker_the_coordinator_is_to_be_asked_anew() -> None:
    writer = Writer()
    writer.confirmed()
    writer.write()
    writer.confirmed(sequence=1)  # asked before the marker came
    writer.end()
    assert refusal(lambda: writer.write(1)) == ErrorCode.INVALID_TXN_STATE
    writer.confirmed(sequence=1)
    assert writer.write(1) == 2


def test_a_batch_that_came_before_is_no_new_one() -> None:
    writer = Writer()
    writer.confirmed()
    writer.write()
    writer.end()
    assert writer.write() == 0, "the answer of the first time"


def test_the_word_is_for_one_producer_and_one_epoch() -> None:
    writer = Writer()
    writer.confirmed(epoch=1)
    assert refusal(lambda: writer.write(epoch=0)) == ErrorCode.INVALID_TXN_STATE
    assert refusal(lambda: writer.write(epoch=2)) == ErrorCode.INVALID_TXN_STATE
    assert refusal(lambda: writer.write(producer=8)) == ErrorCode.INVALID_TXN_STATE
    assert writer.write(epoch=1) == 0


def test_an_older_epoch_does_not_take_the_place_of_a_newer() -> None:
    writer = Writer()
    newer = writer.ask(epoch=2)
    assert writer.ask(epoch=1) is newer
    assert writer.ask(epoch=2) is newer
    assert writer.ask(epoch=3) is not newer


def test_the_first_batch_comes_first() -> None:
    writer = Writer()
    writer.ask(sequence=3, raises_epoch=False)
    writer.confirmed(sequence=5, raises_epoch=False)
    assert refusal(lambda: writer.write(5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert writer.write(3) == 0


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_question_of_a_leader_is_no_more_when_the_next_one_has_the_batch(is_ended: bool) -> None:
    """It asked, and another broker led the partition before there was an answer, and wrote the batch."""
    other = Writer()
    other.confirmed()
    other.write()
    if is_ended:
        other.end()
    writer = Writer()
    writer.ask()
    done(writer.log.append_as_follower(everything(other.log), NOW_MS))
    assert len(writer.verifications) == 0
    writer.confirmed(sequence=1, raises_epoch=False)
    assert writer.write(1) == 1 + is_ended, "the next batch, after this broker has come to lead again"


def test_a_newer_producer_that_is_not_known_here_begins_with_0() -> None:
    writer = Writer()
    writer.confirmed(sequence=3)
    assert refusal(lambda: writer.write(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    writer = Writer()
    writer.confirmed(sequence=3, raises_epoch=False)
    assert writer.write(3) == 0, "an older one may have been forgotten"


def test_a_batch_of_an_older_epoch_is_told_so() -> None:
    writer = Writer()
    writer.confirmed(epoch=1)
    writer.write(epoch=1)
    writer.end(epoch=2)
    writer.confirmed(epoch=0, sequence=4)
    assert refusal(lambda: writer.write(4)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_coordinator_s_batches_have_no_sequence_and_repeat_nothing() -> None:
    log = LogRig().log

    def commit(epoch: int = 0) -> int:
        builder = BatchBuilder(producer_id=PRODUCER, producer_epoch=epoch, transactional=True)
        builder.append(b"group", b"offset", NOW_MS)
        return done(log.append_internal(builder.build(), leader_epoch=0, now_ms=NOW_MS)).base_offset

    assert [commit(), commit(), commit(1)] == [0, 1, 2]
    assert refusal(commit) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("is_synced", [False, True], ids=["at once", "by a helper thread"])
def test_a_coordinator_s_batch_after_the_marker_is_no_repetition(is_synced: bool) -> None:
    rig = LaneRig(flush_messages=1) if is_synced else LaneRig()
    verifications = rig.log.producer_state.verifications
    verifications.is_required = True

    def append(batch: bytearray) -> WaitingAppend | AppendResult:
        appended = rig.log.append_internal(batch, leader_epoch=0, now_ms=NOW_MS)
        rig.run()
        return appended

    def commit() -> WaitingAppend | AppendResult:
        builder = BatchBuilder(producer_id=PRODUCER, producer_epoch=0, transactional=True)
        builder.append(b"group", b"offset", NOW_MS)
        return append(builder.build())

    verifications.begin(PRODUCER, 0, -1, raises_epoch=False, now_ms=NOW_MS).is_confirmed = True
    assert [result_of(commit()).base_offset for _ in range(2)] == [0, 1], "one transaction"
    marker = build_marker_batch(
        TransactionMarker(True, 1), timestamp_ms=NOW_MS, producer_id=PRODUCER, producer_epoch=0
    )
    assert result_of(append(marker)).base_offset == 2
    if is_synced:
        assert refusal_of(commit()) == ErrorCode.INVALID_TXN_STATE
    else:
        assert refusal(commit) == ErrorCode.INVALID_TXN_STATE
    assert rig.log.log_end_offset == 3


def test_what_was_asked_for_nothing_is_forgotten_with_the_producers() -> None:
    writer = Writer()
    writer.confirmed()
    writer.log.producer_state.remove_expired(NOW_MS + 999, 1000)
    assert len(writer.verifications) == 1
    writer.log.producer_state.remove_expired(NOW_MS + 1000, 1000)
    assert len(writer.verifications) == 0
