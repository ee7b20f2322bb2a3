"""The compiled codecs: version rules, null rules, tags, bounds, and what is a view and what a copy."""

from __future__ import annotations

import linecache
import traceback
from typing import Annotated

import pytest

from protocol.codec.compiler import decode, decoder, encode, encoder, piece_encoder, source
from protocol.codec.message import (
    Between,
    Ignorable,
    Message,
    NullableSince,
    Since,
    Struct,
    Tag,
    Until,
    data,
)
from protocol.codec.writing import uvarint_bytes
from protocol.errors import EncodeError, ProtocolError
from protocol.group_log.consumer_groups import ConsumerGroupMemberMetadataValue
from protocol.messages.create_topics import CreateTopicsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.primitives import Records, Uuid, f64, i8, i16, i32, i64, u16, u32
from protocol.values import ZERO_UUID


@data(versions="0-5", flexible="3+")
class Sample(Message):
    """One field of each kind, and each marker once."""

    class Inner(Struct):
        number: i32 = 0
        late: Annotated[i16, Since(2)] = -1

    flag: bool = False
    small: i8 = 0
    unsigned: u16 = 0
    wide: u32 = 0
    ratio: f64 = 0.0
    id: Uuid = ZERO_UUID
    old: Annotated[str, Until(1)] = ""
    middle: Annotated[str, Between(1, 2), Ignorable] = ""
    name: Annotated[str | None, NullableSince(2)] = ""
    payload: bytes | None = None
    inners: list[Inner] | None = []
    numbers: list[i64] = []
    words: list[str] = []
    tagged: Annotated[i32, Tag(0, since=3)] = 7
    inner: Annotated[Inner | None, Tag(2, since=3)] = None
    words_too: Annotated[list[str], Tag(1, since=4), Ignorable] = []


def test_old_encoding_byte_by_byte() -> None:
    sample = Sample(
        flag=True, small=-1, unsigned=65535, wide=1, ratio=1.0, old="o", middle="m", name="né",
        payload=b"pp", inners=[Sample.Inner(number=5)], numbers=[-1], words=["w", ""],
    )  # fmt: skip
    expected = bytes.fromhex(
        "01 ff ffff 00000001 3ff0000000000000" + "00" * 16 + "0001 6f 0001 6d 0003 6ec3a9 00000002 7070"
        "00000001 00000005 00000001 ffffffffffffffff 00000002 0001 77 0000"
    )
    assert encode(sample, 1) == expected
    assert decode(Sample, 1, expected) == sample


def test_flexible_encoding_byte_by_byte() -> None:
    sample = Sample(
        name=None, inners=None, words=["w"], tagged=8, inner=Sample.Inner(number=1), words_too=["x"]
    )
    expected = bytes.fromhex(
        "00 00 0000 00000000 0000000000000000" + "00" * 16 + "00 00 00 01 02 02 77"
        "03 00 04 00000008 01 03 02 02 78 02 07 00000001 ffff 00"
    )
    assert encode(sample, 4) == expected
    assert decode(Sample, 4, expected) == sample


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 32767])
@pytest.mark.parametrize("version", [2, 3])
def test_lengths_at_the_borders_of_their_encodings(size: int, version: int) -> None:
    sample = Sample(name="n" * size, payload=bytes(size), words=["w"] * size, numbers=[size] * size)
    assert decode(Sample, version, encode(sample, version)) == sample


def test_a_field_that_the_version_lacks_must_have_its_default_unless_it_is_ignorable() -> None:
    with pytest.raises(EncodeError, match=r"Sample 2 has no field Sample\.old, its value 'x' would be lost"):
        encode(Sample(old="x"), 2)
    with pytest.raises(EncodeError, match=r"Sample\.tagged, its value 9"):
        encode(Sample(tagged=9), 2)
    with pytest.raises(EncodeError, match=r"Inner\.late, its value 3"):
        encode(Sample(inners=[Sample.Inner(late=3)]), 1)
    assert decode(Sample, 3, encode(Sample(middle="dropped"), 3)).middle == ""
    assert decode(Sample, 3, encode(Sample(words_too=["dropped"]), 3)).words_too == []


def test_nulls() -> None:
    with pytest.raises(EncodeError, match="cannot encode Sample 1"):
        encode(Sample(name=None), 1)
    null_name = encode(Sample(name=None), 2)
    assert decode(Sample, 2, null_name).name is None
    with pytest.raises(ProtocolError, match=r"Sample\.name cannot be null"):
        decode(
            Sample, 1, encode(Sample(), 1).replace(b"\x00\x00\xff\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff")
        )
    with pytest.raises(ProtocolError, match=r"HeartbeatRequest\.group_id cannot be null"):
        decode(HeartbeatRequest, 4, b"\x00" + bytes(7))
    with pytest.raises(ProtocolError, match=r"HeartbeatRequest\.group_id cannot be null"):
        decode(HeartbeatRequest, 3, b"\xff\xff" + bytes(8))
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(ProtocolError, match=r"MetadataRequest\.topics cannot be null"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")


def test_values_that_no_encoding_has() -> None:
    for broken in (
        Sample(small=128),
        Sample(unsigned=-1),
        Sample(id=b"short"),
        Sample(id=bytes(17)),
        Sample(name="n" * 32768),
        Sample(name="\ud800"),
    ):
        with pytest.raises(EncodeError):
            encode(broken, 2)


def test_a_tagged_field_travels_only_when_it_differs() -> None:
    plain = encode(Sample(), 3)
    assert encode(Sample(tagged=7, inner=Sample.Inner()), 3) == plain
    assert decode(Sample, 3, plain).inner is None
    assert len(encode(Sample(tagged=6), 3)) == len(plain) + 6


def test_a_tagged_struct_that_can_be_null_has_three_states() -> None:
    value = ConsumerGroupMemberMetadataValue
    states = [value(), value(classic_member_metadata=None)]
    states.append(value(classic_member_metadata=value.ClassicMemberMetadata(session_timeout_ms=1)))
    encoded = [encode(state, 0) for state in states]
    assert [decode(value, 0, each) for each in encoded] == states
    assert encoded[0][-1:] == b"\x00"
    assert encoded[1][-4:] == b"\x01\x00\x01\x00"


def tags(*fields: tuple[int, bytes]) -> bytes:
    return bytes([len(fields)]) + b"".join(bytes([tag, len(raw)]) + raw for tag, raw in fields)


def heartbeat(tail: bytes) -> bytes:
    return b"\x02g" + bytes(4) + b"\x02m\x00" + tail


def test_unknown_tags_are_skipped() -> None:
    expected = HeartbeatRequest(group_id="g", member_id="m")
    assert decode(HeartbeatRequest, 4, heartbeat(tags((0, b"abc"), (5, b""), (99, b"x" * 50)))) == expected
    body = encode(FetchRequest(cluster_id="c", rack_id="r"), 17)
    with_unknown = body[:-5] + tags((0, b"\x02c"), (7, b"new"))
    assert body[-5:] == tags((0, b"\x02c"))
    assert decode(FetchRequest, 17, with_unknown) == FetchRequest(cluster_id="c", rack_id="r")


@pytest.mark.parametrize(
    "tail",
    [
        tags((1, b""), (1, b"")),
        tags((2, b""), (1, b"")),
        b"\x01\x00\x05abc",
        b"\x7f",
        b"\xff\xff\xff\xff\x07",
        b"\xff\xff\xff\xff\xff\x01",
        b"\x01\x80\x80\x80\x80\x80\x01\x00",
    ],
)
def test_broken_tag_sections(tail: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(HeartbeatRequest, 4, heartbeat(tail))
    sections = encode(FetchRequest(), 17)[:-1]
    with pytest.raises(ProtocolError):
        decode(FetchRequest, 17, sections + tail.replace(b"\x00\x05abc", b"\x00\x05\x02c"))


def test_a_known_tag_must_fill_its_size() -> None:
    body = encode(FetchRequest(), 17)[:-1]
    assert decode(FetchRequest, 17, body + tags((0, b"\x02c"))).cluster_id == "c"
    with pytest.raises(ProtocolError, match="tagged field 0 has 2 bytes, its header announced 3"):
        decode(FetchRequest, 17, body + tags((0, b"\x02c\x00")))


def test_counts_are_checked_before_memory_is_taken() -> None:
    huge = b"\xff\xff\xff\xff\x07"
    for version, raw in (
        (4, b"\x00" * 15 + b"\x7f\xff\xff\xff"),
        (17, bytes(21) + huge),
        (17, bytes(21) + b"\x02" + bytes(16) + huge),
    ):
        with pytest.raises(ProtocolError, match=r"cannot lie in the bytes that are left|cut off|malformed"):
            decode(FetchRequest, version, raw)


def test_a_length_below_zero_is_null() -> None:
    """Whatever its number, as Apache Kafka reads it; where null is not allowed it is an error."""
    for raw in (b"\xff\xff\xff\xff", b"\xff\xff\xff\xfb", b"\x80\0\0\0"):
        assert decode(MetadataRequest, 1, raw).topics is None
        with pytest.raises(ProtocolError, match=r"MetadataRequest\.topics cannot be null"):
            decode(MetadataRequest, 0, raw)
    with pytest.raises(ProtocolError, match=r"group_id cannot be null"):
        decode(HeartbeatRequest, 0, b"\xff\xfb")
    assert decode(HeartbeatRequest, 3, b"\0\1g" + bytes(4) + b"\0\1m\xff\xfb").group_instance_id is None


@pytest.mark.parametrize(
    "length",
    [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\xfb\xff\xff\xff\x0f", b"\x81\x80\x80\x80\x08"],
)
def test_a_compact_length_wraps_around_at_int32(length: bytes) -> None:
    """Five bytes carry more than an int32: Apache Kafka drops the rest, and what is then below 0 is null."""
    expected = HeartbeatRequest(group_id="g", member_id="m")
    assert decode(HeartbeatRequest, 4, b"\x02g" + bytes(4) + b"\x02m" + length + b"\0") == expected
    assert decode(MetadataRequest, 9, length + bytes(4)).topics is None
    with pytest.raises(ProtocolError, match="group_id cannot be null"):
        decode(HeartbeatRequest, 4, length + bytes(12))
    with pytest.raises(ProtocolError, match="its size is -"):
        decode(HeartbeatRequest, 4, heartbeat(b"\1\0" + length))


def test_the_one_compact_length_that_is_neither_null_nor_an_int32() -> None:
    with pytest.raises(ProtocolError, match="exceeds int32"):
        decode(HeartbeatRequest, 4, b"\x02g" + bytes(4) + b"\x02m" + b"\x80\x80\x80\x80\x08" + b"\0")


def test_truncation_and_trailing_bytes() -> None:
    raw = encode(HeartbeatRequest(group_id="grp", member_id="member"), 4)
    for size in range(len(raw)):
        with pytest.raises(ProtocolError):
            decode(HeartbeatRequest, 4, raw[:size])
    with pytest.raises(ProtocolError, match="1 bytes are left after HeartbeatRequest 4"):
        decode(HeartbeatRequest, 4, raw + b"\x00")


def compact(raw: bytes) -> bytes:
    return uvarint_bytes(len(raw) + 1) + raw


@pytest.mark.parametrize("size", [32_768, 40_000, 1 << 20])
def test_a_string_beyond_its_bound_is_refused_in_compact_form_too(size: int) -> None:
    whole = b"\x02g" + bytes(4) + b"\x02m" + compact(b"i" * size) + b"\0"
    with pytest.raises(
        ProtocolError, match=rf"group_instance_id has {size} bytes of text, allowed are 32767"
    ):
        decode(HeartbeatRequest, 4, whole)
    with pytest.raises(ProtocolError, match=rf"group_id has {size} bytes"):
        decode(HeartbeatRequest, 4, compact(b"g" * size) + whole[2:])
    with pytest.raises(ProtocolError, match=rf"words has {size} bytes"):
        decode(
            Sample, 3, encode(Sample(words=["w"]), 3).replace(b"\x02\x02w", b"\x02" + compact(b"w" * size))
        )
    with pytest.raises(EncodeError, match=rf"a text of {size} bytes"):
        encode(HeartbeatRequest(group_instance_id="i" * size), 4)
    with pytest.raises(EncodeError, match=rf"a text of {size} bytes"):
        encode(Sample(words=["w" * size]), 3)
    assert len(encode(Sample(payload=bytes(size)), 3)) > size


MALFORMED_TEXTS = {
    b"\xff": "\ufffd",
    b"g\xff\xfez": "g\ufffd\ufffdz",
    b"\xc3": "\ufffd",
    b"\xc3A": "\ufffdA",
    b"\xc0\x80": "\ufffd" * 2,
    b"\xe2\x82": "\ufffd",
    b"\xe2\x82A": "\ufffdA",
    b"\xe0\x80\x80": "\ufffd" * 3,
    b"\xed\xa0\x80": "\ufffd",
    b"\xed\xa0\x80\xed\xb0\x80": "\ufffd" * 2,
    b"\xed\xa0": "\ufffd",
    b"\xed\xbf\xc3\xa4": "\ufffdä",
    b"\xf0\xed\xa0\x80": "\ufffd" * 2,
    b"\xf0\x90\x80A": "\ufffdA",
    b"\xf4\x90\x80\x80": "\ufffd" * 4,
    b"\xf8\x88\x80\x80\x80": "\ufffd" * 5,
}
"""As Apache Kafka 4.3.1 (Java 17) gave them back in the keys of FindCoordinator."""


@pytest.mark.parametrize("raw", MALFORMED_TEXTS)
def test_bytes_that_are_no_utf8_are_read_as_java_reads_them(raw: bytes) -> None:
    expected = HeartbeatRequest(group_id="ä", member_id=MALFORMED_TEXTS[raw], group_instance_id="é")
    shown = compact("ä".encode()) + bytes(4) + compact(raw) + compact("é".encode()) + b"\0"
    assert decode(HeartbeatRequest, 4, shown) == expected
    assert decode(HeartbeatRequest, 4, memoryview(bytearray(b"at" + shown))[2:]) == expected
    long = raw + b"x" * 200
    decoded = decode(HeartbeatRequest, 4, compact("ä".encode()) + bytes(4) + compact(long) + b"\0\0")
    assert decoded.member_id == MALFORMED_TEXTS[raw] + "x" * 200
    old = b"\0\1g" + bytes(4) + len(raw).to_bytes(2, "big") + raw + b"\xff\xff"
    assert decode(HeartbeatRequest, 3, old).member_id == MALFORMED_TEXTS[raw]


def test_records_stay_views_beside_text_that_is_no_utf8() -> None:
    scratch = bytearray(encode(produce(b"batch" * 100), 9).replace(b"\x02t", b"\x02\xff"))
    decoded, end = decoder(ProduceRequest, 9)(memoryview(scratch), 0)
    assert (decoded.topic_data[0].name, end) == ("\ufffd", len(scratch))
    assert isinstance(decoded.topic_data[0].partition_data[0].records, memoryview)


def test_text_that_no_message_could_carry_any_longer_is_refused() -> None:
    """A replacement takes three bytes where one stood."""

    def heartbeat_of(raw: bytes) -> bytes:
        return compact(raw) + bytes(4) + b"\x02m\0\0"

    kept = decode(HeartbeatRequest, 4, heartbeat_of(b"\xff" * 10_922))
    assert encode(kept, 4) == heartbeat_of(b"\xef\xbf\xbd" * 10_922)
    with pytest.raises(ProtocolError, match="group_id has 32769 bytes of text"):
        decode(HeartbeatRequest, 4, heartbeat_of(b"\xff" * 10_923))


def test_a_broken_message_is_refused_whatever_its_text_is() -> None:
    raw = compact(b"\xff") + bytes(4) + b"\x02m\0\0"
    for size in range(2, len(raw)):
        with pytest.raises(ProtocolError):
            decode(HeartbeatRequest, 4, raw[:size])


@pytest.mark.parametrize("version", [4, 7])
@pytest.mark.parametrize("letter", ["x", "ä", "日", "😀"])
def test_only_the_text_of_an_error_is_cut_to_what_can_travel(version: int, letter: str) -> None:
    def read(message: str) -> str | None:
        result = CreateTopicsResponse.CreatableTopicResult("t", error_code=17, error_message=message)
        raw = encode(CreateTopicsResponse(topics=[result]), version)
        return decode(CreateTopicsResponse, version, raw).topics[0].error_message

    size = 32_767 // len(letter.encode())
    whole = letter * size + "y" * (32_767 - size * len(letter.encode()))
    assert read(whole) == whole
    cut = read(whole + letter)
    assert cut is not None
    assert cut.endswith(letter + "…")
    assert whole.startswith(cut[:-1])
    assert 32_760 < len(cut.encode()) <= 32_767


def test_decoding_starts_and_ends_where_it_is_told() -> None:
    raw = encode(HeartbeatRequest(group_id="g"), 3)
    message, end = decoder(HeartbeatRequest, 3)(memoryview(b"ab" + raw + b"cd"), 2)
    assert (message.group_id, end) == ("g", 2 + len(raw))


def produce(records: Records) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=1, records=records)
    return ProduceRequest(
        acks=-1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])]
    )


@pytest.mark.parametrize("version", [3, 12])
def test_records_stay_views_and_the_rest_is_copied(version: int) -> None:
    scratch = bytearray(encode(produce(b"batch" * 100), version))
    decoded, _ = decoder(ProduceRequest, version)(memoryview(scratch), 0)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == b"batch" * 100
    scratch[:] = b"\xdd" * len(scratch)
    assert records == b"\xdd" * 500
    assert decoded.topic_data[0].name == "t"


class FileSlice:
    """Stands for a piece of a segment file."""

    def __init__(self, size_bytes: int | None) -> None:
        self.size_bytes = size_bytes


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_record_slices_stay_apart(version: int) -> None:
    def response(*records: Records | None) -> FetchResponse:
        partitions = [
            FetchResponse.PartitionData(partition_index=n, records=r) for n, r in enumerate(records)
        ]
        topic = FetchResponse.FetchableTopicResponse(topic="t" if version < 13 else "", partitions=partitions)
        return FetchResponse(responses=[topic])

    first, second = FileSlice(300), FileSlice(4)
    pieces = piece_encoder(FetchResponse, version)(response(first, None, b"", second))
    tail = [] if version < 12 else [bytes]
    assert [type(piece) for piece in pieces] == [bytes, FileSlice, bytes, FileSlice, *tail]
    assert pieces[1] is first
    filled = b"".join(piece if isinstance(piece, bytes) else bytes(piece.size_bytes or 0) for piece in pieces)  # type: ignore[union-attr]
    assert filled == encode(response(bytes(300), None, b"", bytes(4)), version)
    with pytest.raises(EncodeError, match="not in memory"):
        encode(response(first), version)
    with pytest.raises(EncodeError, match="unknown size"):
        piece_encoder(FetchResponse, version)(response(FileSlice(None)))


def test_codecs_are_kept() -> None:
    assert decoder(FetchRequest, 17) is decoder(FetchRequest, 17)
    assert encoder(FetchRequest, 17) is encoder(FetchRequest, 17)


@pytest.mark.parametrize("version", [-1, 3, 19])
def test_a_version_that_the_message_does_not_have(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"FetchRequest has no version {version}, only 4-18"):
        decoder(FetchRequest, version)
    with pytest.raises(ProtocolError):
        encoder(FetchRequest, version)


def test_the_generated_source_can_be_read() -> None:
    text = source(FetchRequest, 17)
    assert "def decode(b, p):" in text
    assert "def encode(m):" in text
    compile(text, "shown", "exec")
    assert "unpack_iiqiqiB(b, p)" in text


def test_tracebacks_show_the_generated_line() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(HeartbeatRequest, 4, b"\x02")
    frame = traceback.extract_tb(caught.value.__cause__.__traceback__ if caught.value.__cause__ else None)[0]
    assert frame.filename == "<decode HeartbeatRequest 4>"
    assert linecache.getline(frame.filename, frame.lineno or 0).strip()
