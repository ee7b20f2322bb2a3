"""Any records go through any codec and come back; the walk and the reader see the same."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.records.builder import BatchBuilder, SimpleRecord, build_batch
from protocol.records.compression import CODECS, compress, decompress
from protocol.records.header import headers, is_intact, read_header
from protocol.records.reader import batch_records, plain_records, records
from protocol.records.record_validation import rebuild
from protocol.records.validation import place, validate_client_batch
from protocol.records.verdict import ValidationRules
from protocol.records.walk import WalkDepth, walk
from protocol.varint import append_signed, read_int, read_long, size_of_signed

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
BLOBS = st.binary(max_size=300) | st.none()
TIMESTAMPS = st.integers(-1, 2**45)
NAMES = st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
RECORDS = st.builds(
    SimpleRecord,
    key=BLOBS,
    value=BLOBS,
    timestamp=TIMESTAMPS,
    headers=st.lists(st.tuples(NAMES, BLOBS), max_size=3).map(tuple),
)
BATCHES = st.lists(RECORDS, min_size=1, max_size=80)
CODEC_NUMBERS = st.sampled_from([codec.number for codec in CODECS])


@given(INT64)
def test_numbers_come_back_and_take_what_was_foretold(value: int) -> None:
    written = bytearray(b"x")
    append_signed(written, value)
    assert len(written) - 1 == size_of_signed(value)
    assert read_long(written, 1) == (value, len(written))
    if -(2**31) <= value < 2**31:
        assert read_int(written, 1) == (value, len(written))


@given(
    BATCHES,
    CODEC_NUMBERS,
    st.integers(0, 2**62),
    INT32.filter(lambda epoch: epoch >= -1),
    st.booleans(),
)
def test_a_batch_comes_back(
    sent: list[SimpleRecord], codec: int, base_offset: int, leader_epoch: int, transactional: bool
) -> None:
    batch = build_batch(
        sent, base_offset=base_offset, leader_epoch=leader_epoch, codec=codec, transactional=transactional
    )
    header = read_header(batch)
    assert is_intact(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (base_offset, leader_epoch)
    assert header.is_transactional == transactional
    assert header.max_timestamp == max(record.timestamp for record in sent)
    found = [(r.offset, r.key, r.value, r.timestamp, r.headers) for r in records(batch)]
    assert found == [(base_offset + i, r.key, r.value, r.timestamp, r.headers) for i, r in enumerate(sent)]


@given(st.lists(st.tuples(RECORDS, st.integers(1, 20_000)), min_size=1, max_size=60), CODEC_NUMBERS)
def test_the_walk_sees_what_the_reader_sees(sent: list[tuple[SimpleRecord, int]], codec: int) -> None:
    builder = BatchBuilder(codec=codec)
    delta = -1
    for record, step in sent:
        delta += step
        builder.append(record.key, record.value, record.timestamp, record.headers, offset_delta=delta)
    batch = builder.build()
    header = read_header(batch)
    plain = plain_records(batch, 0, header)
    walked = walk(plain, header.record_count)
    found = list(records(batch))
    assert (
        walk(plain, header.record_count, WalkDepth.LENGTHS).record_count == len(found) == walked.record_count
    )
    times = [record.timestamp - header.base_timestamp for record in found]
    assert (walked.min_timestamp_delta, walked.max_timestamp_delta) == (min(times), max(times))
    assert walked.max_timestamp_index == times.index(max(times))
    keyless = [index for index, record in enumerate(found) if record.key is None]
    assert walked.first_without_key == (keyless[0] if keyless else -1)
    assert walked.offsets_are_sequential == ([r.offset for r in found] == list(range(len(found))))


@given(st.lists(BATCHES, min_size=1, max_size=4), st.data())
def test_joined_batches_read_like_their_parts_wherever_the_tail_is_cut(
    parts: list[list[SimpleRecord]], data: st.DataObject
) -> None:
    batches = [bytes(build_batch(part)) for part in parts]
    joined = b"".join(batches)
    end = data.draw(st.integers(0, len(joined)))
    whole = 0
    while whole < len(batches) and sum(map(len, batches[: whole + 1])) <= end:
        whole += 1
    assert len(list(headers(joined[:end]))) == whole
    expected = [record for batch in batches[:whole] for record in records(batch)]
    assert list(batch_records(memoryview(joined)[:end])) == expected


@given(st.binary(max_size=70_000), CODEC_NUMBERS, st.integers(-10, 25))
def test_compression_is_lossless_at_every_level(data: bytes, codec: int, level: int) -> None:
    assert decompress(codec, compress(codec, data, level), len(data)) == data


@given(BATCHES, CODEC_NUMBERS, CODEC_NUMBERS | st.none(), st.booleans(), INT64.filter(lambda o: o >= 0))
def test_an_accepted_batch_keeps_its_records(
    sent: list[SimpleRecord], codec: int, target: int | None, append_time: bool, base_offset: int
) -> None:
    base_offset >>= 1
    batch = build_batch(sent, codec=codec)
    now_ms = 2**45
    rules = ValidationRules("t-0", 1 << 20, codec=target, log_append_time=append_time)
    accepted = validate_client_batch(
        batch, 0, len(batch), rules, now_ms=now_ms, walk=True, request_version=11
    )
    if accepted.must_rebuild:
        assert target is not None
        assert target != codec
        stored = rebuild(accepted, rules, base_offset, 3)
    else:
        place(batch, 0, accepted, base_offset, 3)
        stored = batch
    header = read_header(stored)
    assert is_intact(stored, 0, header)
    assert header.codec == (codec if target is None else target)
    assert header.max_timestamp == accepted.max_timestamp
    found = list(records(stored))
    assert [(r.offset, r.key, r.value, r.headers) for r in found] == [
        (base_offset + i, r.key, r.value, r.headers) for i, r in enumerate(sent)
    ]
    times = [now_ms] * len(sent) if append_time else [record.timestamp for record in sent]
    assert [record.timestamp for record in found] == times
