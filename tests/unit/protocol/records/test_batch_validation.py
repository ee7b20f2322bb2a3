"""What an accepted batch becomes: placed, stamped, recompressed, renumbered."""

from typing import Any

import pytest

from protocol.errors import InvariantViolated
from protocol.records.builder import LOG_APPEND_TIME, BatchBuilder, SimpleRecord, build_batch
from protocol.records.compression import CODECS
from protocol.records.errors import BatchTooLarge, InvalidRecord, InvalidTimestamp
from protocol.records.header import (
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    is_intact,
    read_header,
    seal,
)
from protocol.records.reader import records
from protocol.records.record_validation import rebuild
from protocol.records.validation import place, validate_client_batch
from protocol.records.verdict import ValidatedBatch, ValidationRules
from tests.support.samples.record_corpus import many_records

NOW = 1_700_000_000_000


def rules(**options: Any) -> ValidationRules:
    return ValidationRules(
        partition_name="orders-3", max_message_bytes=options.pop("limit", 10**6), **options
    )


def judge(
    batch: bytearray, rule: ValidationRules, *, walk: bool = False, now_ms: int = NOW
) -> ValidatedBatch:
    frame = bytearray(b"before" + batch + b"behind")
    return validate_client_batch(
        memoryview(frame), 6, len(batch), rule, now_ms=now_ms, walk=walk, request_version=9
    )


def some(count: int = 4, timestamp: int = NOW, **options: Any) -> bytearray:
    return build_batch([SimpleRecord(b"k%d" % i, b"value", timestamp + i) for i in range(count)], **options)


def test_an_ordinary_batch_is_taken_on_the_word_of_its_header() -> None:
    batch = some(producer_id=5, producer_epoch=1, base_sequence=10)
    accepted = judge(batch, rules())
    assert accepted.header == read_header(batch)
    assert (accepted.max_timestamp, accepted.max_timestamp_delta) == (NOW + 3, 3)
    assert not accepted.restamp
    assert not accepted.must_rebuild
    assert accepted.plain is None, "nothing was walked"
    before = bytes(batch)
    place(batch, 0, accepted, 1000, 7)
    header = read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch, header.crc) == (1000, 7, accepted.header.crc)
    assert batch[16:] == before[16:]


def test_append_time_is_stamped_without_looking_at_the_records() -> None:
    batch = some(timestamp=NOW + 10**10)
    accepted = judge(batch, rules(log_append_time=True))
    assert (accepted.max_timestamp, accepted.max_timestamp_delta, accepted.plain) == (NOW, 3, None)
    place(batch, 0, accepted, 50, 2)
    header = read_header(batch)
    assert is_intact(batch, 0, header)
    assert header.timestamp_type == LOG_APPEND_TIME
    assert [(record.offset, record.timestamp) for record in records(batch)] == [
        (50 + i, NOW) for i in range(4)
    ]


def test_a_walk_finds_the_true_largest_timestamp() -> None:
    builder = BatchBuilder()
    for timestamp in (NOW, NOW + 9, NOW + 2):
        builder.append(b"k", b"v", timestamp)
    batch = builder.build()
    batch[35:43] = (NOW + 500).to_bytes(8)
    seal(batch, 0, len(batch))
    unwalked = judge(batch, rules())
    assert (unwalked.max_timestamp, unwalked.max_timestamp_delta, unwalked.restamp) == (NOW + 500, 2, False)
    walked = judge(batch, rules(), walk=True)
    assert (walked.max_timestamp, walked.max_timestamp_delta, walked.restamp) == (NOW + 9, 1, True)
    place(batch, 0, walked, 0, 0)
    header = read_header(batch)
    assert header.max_timestamp == NOW + 9
    assert is_intact(batch, 0, header)


def test_timestamp_bounds_name_the_offending_records_only() -> None:
    builder = BatchBuilder()
    for timestamp in (NOW, NOW - 5000, -1, NOW - 1000, NOW + 2001):
        builder.append(b"k", b"v", timestamp)
    batch = builder.build()
    with pytest.raises(InvalidTimestamp) as caught:
        judge(batch, rules(before_max_ms=1000, after_max_ms=2000))
    assert [error.batch_index for error in caught.value.record_errors] == [1, 4]
    assert caught.value.record_errors[1].message == (
        f"Timestamp {NOW + 2001} of message with offset 4 is out of range. "
        f"The timestamp should be within [{NOW - 1000}, {NOW + 2000}]"
    )
    assert judge(batch, rules(before_max_ms=5000, after_max_ms=2001)).max_timestamp == NOW + 2001


def test_the_header_alone_leads_to_a_walk_when_its_timestamp_lies_in_the_future() -> None:
    with pytest.raises(InvalidTimestamp):
        judge(some(timestamp=NOW + 3_600_001), rules())
    assert judge(some(1, timestamp=NOW + 3_600_000), rules()).plain is None


def test_many_faulty_records_are_counted_but_not_all_listed() -> None:
    batch = build_batch([SimpleRecord(None, b"", NOW) for _ in range(1500)])
    with pytest.raises(InvalidRecord, match="due to 1500 record errors in total") as caught:
        judge(batch, rules(compacted=True))
    assert len(caught.value.record_errors) == 1000
    assert caught.value.message.count("RecordError(") == 3


@pytest.mark.parametrize("source", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("target", CODECS, ids=lambda codec: codec.name)
def test_a_batch_is_rewritten_in_the_topics_codec(source: Any, target: Any) -> None:
    batch = build_batch(
        many_records(),
        codec=source.number,
        producer_id=8,
        producer_epoch=1,
        base_sequence=0,
        transactional=True,
    )
    rule = rules(codec=target.number)
    accepted = judge(batch, rule)
    assert accepted.must_rebuild == (source is not target)
    if not accepted.must_rebuild:
        return
    rebuilt = rebuild(accepted, rule, base_offset=70, leader_epoch=4)
    header, sent = read_header(rebuilt), read_header(batch)
    assert is_intact(rebuilt, 0, header)
    assert header.codec == target.number
    assert header.is_transactional
    assert (header.base_offset, header.partition_leader_epoch) == (70, 4)
    for field in ("last_offset_delta", "base_timestamp", "max_timestamp", "producer_id", "record_count"):
        assert getattr(header, field) == getattr(sent, field)
    assert (header.producer_epoch, header.base_sequence) == (1, 0)
    expected = [(70 + i, r.timestamp, r.key, r.value) for i, r in enumerate(many_records())]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in records(rebuilt)] == expected


def test_recompression_and_append_time_together() -> None:
    rule = rules(codec=4, log_append_time=True)
    rebuilt = rebuild(judge(some(timestamp=5), rule), rule, 9, 1)
    header = read_header(rebuilt)
    assert is_intact(rebuilt, 0, header)
    assert (header.codec, header.timestamp_type, header.max_timestamp) == (4, LOG_APPEND_TIME, NOW)
    assert [record.timestamp for record in records(rebuilt)] == [NOW] * 4


UNDEFINED_BITS = 0x7F80


@pytest.mark.parametrize("meant", [0, TRANSACTIONAL_BIT])
@pytest.mark.parametrize("sequential", [True, False])
def test_a_rebuilt_batch_has_no_delete_horizon_and_no_undefined_bits(meant: int, sequential: bool) -> None:
    """The cleaner would drop its tombstones at once, as if `delete.retention.ms` had gone by."""
    builder = BatchBuilder(producer_id=8, producer_epoch=1, base_sequence=0)
    builder.append(b"k", None, NOW)
    builder.append(b"l", None, NOW, offset_delta=1 if sequential else 5)
    batch = builder.build()
    batch[21:23] = (UNDEFINED_BITS | DELETE_HORIZON_BIT | meant).to_bytes(2)
    batch[23:27] = (1).to_bytes(4)
    seal(batch, 0, len(batch))
    rule = rules(compacted=True, codec=1 if sequential else None)
    rebuilt = rebuild(judge(batch, rule), rule, 70, 4)
    header = read_header(rebuilt)
    assert is_intact(rebuilt, 0, header)
    assert header.attributes == meant | (1 if sequential else 0)
    assert header.base_timestamp == NOW
    assert [record.offset for record in records(rebuilt)] == [70, 71]


def test_new_timestamps_clear_undefined_bits_and_nothing_else() -> None:
    """Kafka makes the attributes anew, with the delete horizon, if the largest timestamp is another one."""
    for claimed, attributes in ((NOW + 3, UNDEFINED_BITS | 0x50), (NOW + 500, 0x50)):
        batch = some(producer_id=8, producer_epoch=1, base_sequence=0)
        batch[21:23] = (UNDEFINED_BITS | DELETE_HORIZON_BIT | TRANSACTIONAL_BIT).to_bytes(2)
        batch[35:43] = claimed.to_bytes(8)
        seal(batch, 0, len(batch))
        place(batch, 0, judge(batch, rules(), walk=True), 0, 0)
        header = read_header(batch)
        assert is_intact(batch, 0, header)
        assert (header.attributes, header.max_timestamp) == (attributes, NOW + 3)


@pytest.mark.parametrize("base", [10, -(1 << 63), (1 << 63) - 11])
@pytest.mark.parametrize("sequential", [True, False])
def test_records_that_claim_append_time_keep_it_when_they_are_rebuilt(base: int, sequential: bool) -> None:
    builder = BatchBuilder()
    builder.append(b"k", b"v", 10)
    builder.append(b"l", b"w", 20, offset_delta=1 if sequential else 5)
    batch = builder.build()
    batch[21:23] = LOG_APPEND_TIME_BIT.to_bytes(2)
    batch[23:27] = (1).to_bytes(4)
    batch[27:43] = base.to_bytes(8, signed=True) + (NOW - 500).to_bytes(8)
    seal(batch, 0, len(batch))
    rule = rules(before_max_ms=1000, codec=4)
    rebuilt = rebuild(judge(batch, rule), rule, 70, 4)
    header = read_header(rebuilt)
    assert is_intact(rebuilt, 0, header)
    assert (header.attributes, header.max_timestamp) == (4, NOW - 500)
    found = [(record.offset, record.timestamp, record.key) for record in records(rebuilt)]
    assert found == [(70, NOW - 500, b"k"), (71, NOW - 500, b"l")]


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_offsets_with_gaps_are_renumbered(codec: int) -> None:
    builder = BatchBuilder(codec=codec)
    headers = (("h", b"1"), ("n", None))
    builder.append(b"a", b"1", NOW, headers)
    builder.append(None, None, NOW + 1, offset_delta=5)
    builder.append(b"c", b"3", NOW - 1, offset_delta=9)
    batch = builder.build()
    batch[23:27] = (2).to_bytes(4)  # the last offset delta that goes with three records
    seal(batch, 0, len(batch))
    rule = rules()
    accepted = judge(batch, rule, walk=True)
    assert accepted.must_rebuild
    rebuilt = rebuild(accepted, rule, 100, 0)
    found = list(records(rebuilt))
    assert [record.offset for record in found] == [100, 101, 102]
    assert [record.timestamp for record in found] == [NOW, NOW + 1, NOW - 1]
    assert [(record.key, record.value) for record in found] == [(b"a", b"1"), (None, None), (b"c", b"3")]
    assert found[0].headers == headers
    assert is_intact(rebuilt, 0, read_header(rebuilt))


def test_what_stands_behind_an_offset_is_kept_when_it_is_renumbered() -> None:
    sizes = (0, 1, 63, 64, 8191, 8192, 70_000)
    headers = (("name", b"value"), ("nothing", None), ("\udcff", b""), ("name", b"again"))
    sent = [SimpleRecord(b"k" * size, bytes(size), NOW + 40 * size, headers[: size % 5]) for size in sizes]
    sent.append(SimpleRecord(None, None, NOW, headers))
    builder = BatchBuilder()
    for number, each in enumerate(sent):
        builder.append(each.key, each.value, each.timestamp, each.headers, offset_delta=100 * number)
    batch = builder.build()
    batch[23:27] = (len(sent) - 1).to_bytes(4)
    seal(batch, 0, len(batch))
    found = list(records(rebuild(judge(batch, rules(), walk=True), rules(), 1000, 7), check_crc=True))
    assert [SimpleRecord(each.key, each.value, each.timestamp, each.headers) for each in found] == sent
    assert [each.offset for each in found] == list(range(1000, 1000 + len(sent)))


def test_a_rebuilt_batch_must_fit_as_well() -> None:
    batch = build_batch(many_records(), codec=4)
    rule = rules(codec=0, limit=10_000)
    accepted = judge(batch, rule)
    with pytest.raises(
        BatchTooLarge, match="partition orders-3, which exceeds the maximum configured size of 10000"
    ):
        rebuild(accepted, rule, 0, 0)


def test_unfolding_is_bounded_by_the_rules() -> None:
    batch = build_batch([SimpleRecord(b"k", bytes(10**6), NOW)], codec=1)
    assert len(batch) < 2000
    assert judge(batch, rules(), walk=False).plain is None
    with pytest.raises(BatchTooLarge, match="more than 100000 bytes"):
        judge(batch, rules(limit_bytes=100_000), walk=True)


def test_rebuilding_what_was_never_walked_is_our_own_mistake() -> None:
    accepted = judge(some(), rules())
    with pytest.raises(InvariantViolated, match="orders-3"):
        rebuild(accepted, rules(), 0, 0)


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1)])
def test_timestamps_beyond_64_bits_never_reach_the_log(base: int, delta: int) -> None:
    builder = BatchBuilder()
    builder.append(b"k", b"v", 0)
    builder.append(b"k", b"v", delta)
    batch = builder.build()
    batch[27:35] = base.to_bytes(8, signed=True)
    batch[35:43] = NOW.to_bytes(8)
    seal(batch, 0, len(batch))
    with pytest.raises(InvalidRecord, match="beyond 64 bits"):
        judge(batch, rules(after_max_ms=2**63 - 1), walk=True)
