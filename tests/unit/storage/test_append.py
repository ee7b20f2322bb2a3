"""A client's batch on its way in: what is patched, what is refused, what a repeated one gets."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode, InvariantViolated
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import is_intact, read_header
from protocol.records.reader import batch_records
from storage.errors import AppendRefused
from tests.support.rigs.log_rig import (
    NOW_MS,
    LogRig,
    client_batch,
    done,
    everything,
    found_largest_timestamp,
    leader_batch,
    offsets_of,
    prepare,
)


def test_base_offset_and_epoch_are_patched_into_the_callers_buffer() -> None:
    rig = LogRig()
    rig.append(b"first", b"second")
    batch = client_batch(b"third", b"fourth")
    result = done(rig.log.append_as_leader(batch, leader_epoch=7, now_ms=NOW_MS))
    assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (2, 3, -1)
    header = read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (2, 7)
    assert is_intact(batch, 0, header)
    assert everything(rig.log).endswith(bytes(batch))
    assert rig.log.log_end_offset == 4
    assert rig.log.leader_epochs.entries() == [(0, 0), (7, 2)]


def test_bytes_that_cannot_be_patched_are_copied() -> None:
    rig = LogRig()
    rig.append(b"first")
    batch = bytes(client_batch(b"second"))
    before = bytes(bytearray(batch))
    assert done(rig.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)).base_offset == 1
    assert done(rig.log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)).base_offset == 2
    assert batch == before
    assert offsets_of(everything(rig.log)) == [(0, 0), (1, 1), (2, 2)]


def test_bytes_behind_the_batch_are_not_taken() -> None:
    rig = LogRig()
    batch = client_batch(b"value")
    rig.log.append_as_leader(bytearray(batch) + b"\0\0\0", leader_epoch=0, now_ms=NOW_MS)
    assert rig.log.size_bytes == len(batch)
    rig.append(b"next")
    assert offsets_of(everything(rig.log)) == [(0, 0), (1, 1)]


def test_log_append_time_is_stamped() -> None:
    rig = LogRig()
    rig.configure(log_append_time=True)
    batch = client_batch(b"value", timestamp=5)
    assert (
        done(rig.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS + 9)).log_append_time_ms
        == NOW_MS + 9
    )
    header = read_header(batch)
    assert is_intact(batch, 0, header)
    assert [record.timestamp for record in batch_records(everything(rig.log))] == [NOW_MS + 9]
    assert found_largest_timestamp(rig.log) == (NOW_MS + 9, 0, 0)


def test_another_codec_than_the_topics_is_stored_anew() -> None:
    rig = LogRig()
    rig.configure(codec=4)
    result = done(rig.log.append_as_leader(client_batch(b"a" * 200, b"b"), leader_epoch=3, now_ms=NOW_MS))
    assert (result.base_offset, result.last_offset) == (0, 1)
    stored = everything(rig.log)
    assert read_header(stored).codec == 4
    assert [record.value for record in batch_records(stored)] == [b"a" * 200, b"b"]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda batch: batch.__setitem__(70, batch[70] ^ 1), ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: batch.__setitem__(7, 1), ErrorCode.INVALID_RECORD),
        (lambda batch: batch.__setitem__(16, 1), ErrorCode.INVALID_RECORD),
    ],
)
def test_what_is_refused_leaves_no_trace(spoil: object, code: ErrorCode) -> None:
    rig = LogRig()
    rig.append(b"kept")
    batch = client_batch(b"spoiled value")
    spoil(batch)  # type: ignore[operator]
    with pytest.raises(AppendRefused) as refused:
        rig.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.error_code is code
    assert rig.log.log_end_offset == 1
    assert offsets_of(everything(rig.log)) == [(0, 0)]


def test_limits_of_size() -> None:
    rig = LogRig()
    rig.configure(max_message_bytes=200)
    with pytest.raises(AppendRefused, match="exceeds") as refused:
        rig.append(b"x" * 300)
    assert refused.value.error_code is ErrorCode.MESSAGE_TOO_LARGE
    rig.configure(max_message_bytes=1000, segment_bytes=200)
    with pytest.raises(AppendRefused, match=r"segment\.bytes is 200") as refused:
        rig.append(b"x" * 300)
    assert refused.value.error_code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert rig.log.log_end_offset == 0


def test_a_compacted_topic_wants_keys_and_names_the_record() -> None:
    rig = LogRig()
    rig.configure(compact=True)
    with pytest.raises(AppendRefused) as refused:
        rig.append(b"no key")
    assert refused.value.error_code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.value.record_errors] == [0]
    batch = client_batch(b"value", key=b"key")
    assert done(rig.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)).base_offset == 0


def test_timestamps_too_far_ahead_are_refused() -> None:
    rig = LogRig()
    with pytest.raises(AppendRefused) as refused:
        rig.append(b"from the future", timestamp=NOW_MS + 3_600_001)
    assert refused.value.error_code is ErrorCode.INVALID_TIMESTAMP
    rig.append(b"from soon", timestamp=NOW_MS + 3_599_999)


# Idempotent producers


def test_a_repeated_batch_is_answered_with_the_first_offset() -> None:
    rig = LogRig()
    assert [rig.produce(7, 0, number) for number in range(6)] == [0, 1, 2, 3, 4, 5]
    assert [rig.produce(7, 0, number) for number in range(1, 6)] == [1, 2, 3, 4, 5]
    assert rig.log.log_end_offset == 6
    with pytest.raises(AppendRefused) as refused:
        rig.produce(7, 0, 0)
    assert refused.value.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_under_log_append_time_repeats_the_first_time() -> None:
    rig = LogRig()
    rig.configure(log_append_time=True)
    batch = bytes(client_batch(b"v", producer=(7, 0, 0)))
    rig.log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=NOW_MS)
    again = done(rig.log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=NOW_MS + 500))
    assert (again.is_duplicate, again.base_offset, again.log_append_time_ms) == (True, 0, NOW_MS)


def test_sequences_must_follow_and_epochs_must_not_fall() -> None:
    rig = LogRig()
    rig.produce(7, 3, 0, count=4)
    for epoch, sequence, code in (
        (3, 5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (3, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (4, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (2, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        with pytest.raises(AppendRefused) as refused:
            rig.produce(7, epoch, sequence)
        assert refused.value.error_code is code, (epoch, sequence)
        assert "orders-0" in refused.value.message
    assert rig.produce(7, 3, 4) == 4
    assert rig.produce(7, 4, 0) == 5
    assert rig.produce(8, 9, 1234) == 6


def test_after_the_epoch_minus_one_any_sequence_may_follow() -> None:
    """As in Apache Kafka, to which an entry with that epoch says that nothing is known of the producer."""
    rig = LogRig()
    assert [rig.produce(7, -1, sequence) for sequence in (0, 1, 5, 9)] == [0, 1, 2, 3]
    assert rig.produce(7, -1, 5) == 2, "still a duplicate"
    assert rig.produce(7, 2, 7) == 4, "a higher epoch need not begin at 0"
    assert rig.produce(7, 2, 8) == 5
    for epoch, sequence, code in (
        (2, 12, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (3, 4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (-1, 10, ErrorCode.INVALID_PRODUCER_EPOCH),
        (-2, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        with pytest.raises(AppendRefused) as refused:
            rig.produce(7, epoch, sequence)
        assert refused.value.error_code is code, (epoch, sequence)
    rig.produce(8, -1, 3)
    with pytest.raises(AppendRefused) as older:
        rig.produce(8, -2, 4)
    assert older.value.error_code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap() -> None:
    rig = LogRig()
    rig.produce(7, 0, 2147483646, count=3)
    assert rig.produce(7, 0, 1) == 3
    assert rig.produce(7, 0, 2147483646, count=3) == 0


def test_a_forgotten_producer_may_go_on_anywhere() -> None:
    rig = LogRig()
    rig.produce(7, 0, 0)
    state = rig.log.producer_state
    assert state.remove_expired(NOW_MS + 999, 1000) == 0
    assert state.remove_expired(NOW_MS + 1000, 1000) == 1
    assert rig.produce(7, 0, 42) == 1


# Stages


def test_prepared_batches_see_each_other_and_nobody_sees_them() -> None:
    rig = LogRig()
    log = rig.log
    batches = [
        client_batch(b"a", b"b", producer=(7, 0, 0)),
        client_batch(b"c", producer=(7, 0, 2)),
        client_batch(b"d"),
    ]
    prepared = [prepare(log, each, leader_epoch=1, now_ms=NOW_MS) for each in batches]
    repeated = prepare(log, client_batch(b"c", producer=(7, 0, 2)), leader_epoch=1, now_ms=NOW_MS)
    assert [each.base_offset for each in prepared] == [0, 2, 3]
    assert (repeated.is_duplicate, repeated.base_offset) == (True, 2)
    with pytest.raises(AppendRefused):
        prepare(log, client_batch(b"x", producer=(7, 0, 9)), leader_epoch=1, now_ms=NOW_MS)
    log.appends.queue.write([*prepared, repeated], NOW_MS)
    assert (log.log_end_offset, log.producer_state.get(7), log.read(0, max_bytes=99)) == (0, None, None)
    results = log.appends.queue.commit([*prepared, repeated])
    assert [(each.base_offset, each.is_duplicate) for each in results] == [
        (0, False), (2, False), (3, False), (2, True),
    ]  # fmt: skip
    assert everything(log) == b"".join(batches)
    assert log.leader_epochs.entries() == [(1, 0)]


def test_a_rollback_forgets_offsets_and_sequences() -> None:
    rig = LogRig()
    log = rig.log
    rig.produce(7, 0, 0)
    size = rig.files.status(log.active.path(".log")).size_bytes
    prepared = [
        prepare(log, client_batch(b"x" * 50, producer=(7, 0, number)), leader_epoch=0, now_ms=NOW_MS)
        for number in (1, 2)
    ]
    log.appends.queue.write(prepared[:1], NOW_MS)
    assert rig.files.status(log.active.path(".log")).size_bytes > size
    assert log.appends.queue.rollback() == 2
    assert rig.files.status(log.active.path(".log")).size_bytes == size
    assert rig.produce(7, 0, 1) == 1


def test_nothing_overtakes_the_queue() -> None:
    rig = LogRig()
    log = rig.log
    first = prepare(log, client_batch(b"a"), leader_epoch=0, now_ms=NOW_MS)
    second = prepare(log, client_batch(b"b"), leader_epoch=0, now_ms=NOW_MS)
    with pytest.raises(InvariantViolated):
        rig.append(b"c")
    log.appends.queue.write([first, second], NOW_MS)
    with pytest.raises(InvariantViolated):
        log.appends.queue.commit([second])
    log.appends.queue.commit([first])
    log.appends.queue.commit([second])
    assert rig.append(b"c") == 2


def test_one_wake_up_may_fill_several_segments() -> None:
    rig = LogRig()
    rig.configure(segment_bytes=400)
    log = rig.log
    prepared = [prepare(log, client_batch(bytes(100)), leader_epoch=0, now_ms=NOW_MS) for _ in range(7)]
    log.appends.queue.write(prepared, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0]
    log.appends.queue.commit(prepared)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    assert offsets_of(everything(log)) == [(number, number) for number in range(7)]
    assert log.durability.snapshot_offsets == [2, 4, 6]


# Followers and the broker itself


def test_a_follower_keeps_the_leaders_bytes_and_learns_epochs_and_producers() -> None:
    rig = LogRig()
    tail = bytes(
        build_batch(
            [SimpleRecord(None, b"v", NOW_MS)],
            base_offset=5,
            leader_epoch=4,
            producer_id=9,
            producer_epoch=1,
            base_sequence=3,
        )
    )
    batches = leader_batch(0, b"a", b"b", epoch=2) + leader_batch(2, b"c", epoch=4) + tail
    copied = done(rig.log.append_as_follower(batches + tail[:40], NOW_MS))
    assert (copied.base_offset, copied.last_offset) == (0, 5)
    assert everything(rig.log) == batches
    assert rig.log.log_end_offset == 6
    assert rig.log.leader_epochs.entries() == [(2, 0), (4, 2)]
    entry = rig.log.producer_state.get(9)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, entry.last_offset) == (1, 3, 5)


def test_a_follower_takes_no_batch_of_a_later_leader_than_the_one_it_asked() -> None:
    rig = LogRig()
    first, later = leader_batch(0, b"a", epoch=2), leader_batch(1, b"b", epoch=3)
    copied = done(rig.log.append_as_follower(first + later, NOW_MS, 2))
    assert (copied.base_offset, copied.last_offset) == (0, 0)
    assert everything(rig.log) == first
    assert rig.log.leader_epochs.entries() == [(2, 0)]
    nothing = done(rig.log.append_as_follower(later, NOW_MS, 2))
    assert (nothing.base_offset, nothing.last_offset) == (1, 0)
    assert done(rig.log.append_as_follower(later, NOW_MS, 3)).last_offset == 1


def test_a_follower_keeps_what_comes_before_a_bad_batch() -> None:
    rig = LogRig()
    good, bad = leader_batch(0, b"good"), bytearray(leader_batch(1, b"bad"))
    bad[-1] ^= 1
    with pytest.raises(AppendRefused) as refused:
        rig.log.append_as_follower(good + bytes(bad), NOW_MS)
    assert refused.value.error_code is ErrorCode.CORRUPT_MESSAGE
    assert everything(rig.log) == good
    with pytest.raises(AppendRefused, match="offset 1 or above was expected"):
        rig.log.append_as_follower(good, NOW_MS)
    assert rig.append(b"next") == 1


def test_the_brokers_own_batches_pass_no_clients_rules() -> None:
    rig = LogRig()
    rig.configure(compact=True, max_message_bytes=10)
    batch = build_batch([SimpleRecord(None, b"own", NOW_MS)])
    assert done(rig.log.append_internal(batch, leader_epoch=2, now_ms=NOW_MS)).base_offset == 0
    with pytest.raises(InvariantViolated):
        rig.log.append_internal(bytes(batch) + b"x", leader_epoch=2, now_ms=NOW_MS)


def test_a_duplicate_is_answered_with_its_batch_s_own_time() -> None:
    """Apache Kafka does, also where the first answer had no time."""
    rig = LogRig()
    batch = bytes(client_batch(b"v", producer=(7, 0, 0), timestamp=NOW_MS - 100))
    first = done(rig.log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=NOW_MS))
    again = done(rig.log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=NOW_MS + 500))
    assert (first.log_append_time_ms, again.log_append_time_ms) == (-1, NOW_MS - 100)
