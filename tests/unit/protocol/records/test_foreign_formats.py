"""Message sets of formats 0 and 1, broken control records, and batches built by kafka-python."""

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from protocol.records.compression import CODECS
from protocol.records.control import ControlRecordType, control_key, control_type, marker_value, read_marker
from protocol.records.errors import CorruptRecord, InvalidRecord
from protocol.records.header import is_intact, read_header
from protocol.records.legacy import is_intact_message, is_legacy_set, magic_of, size_of_entry
from protocol.records.reader import records
from tests.support.samples.legacy_messages import legacy_message


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_sets_are_recognised_and_never_read(magic: int) -> None:
    message = legacy_message(magic)
    assert is_legacy_set(message)
    assert is_intact_message(b"front" + message + b"behind", 5)
    assert not is_intact_message(message[:-1] + b"w")
    assert not is_intact_message(message[:-1])
    assert magic_of(message, 0) == magic
    assert size_of_entry(message, 0) == len(message)
    padded = message + bytes(100)
    with pytest.raises(CorruptRecord, match=f"Invalid magic found in record: {magic}"):
        read_header(padded)


def test_what_is_too_short_is_nothing() -> None:
    message = legacy_message(1)
    assert magic_of(message[:16], 0) is None
    assert not is_legacy_set(message[:16])
    assert size_of_entry(message[:11], 0) is None
    assert magic_of(message, -5) is None
    assert magic_of(bytes(16) + b"\xff", 0) == -1
    assert not is_legacy_set(bytes(30)), "a size of 0 is no message"


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_control_keys_that_are_too_short(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord, match="at least 4 bytes"):
        control_type(key)


def test_control_records_of_later_releases() -> None:
    assert control_type(control_key(ControlRecordType.COMMIT)) is ControlRecordType.COMMIT
    assert control_type(b"\x00\x05\x00\x01more") is ControlRecordType.COMMIT, "a later version of the key"
    assert control_type(b"\x00\x00\x00\x63") is ControlRecordType.UNKNOWN
    assert read_marker(b"\x00\x00\x00\x63", None) is None
    with pytest.raises(InvalidRecord, match="Invalid version found for control record: -1"):
        control_type(b"\xff\xff\x00\x01")


def test_broken_markers() -> None:
    commit = control_key(ControlRecordType.COMMIT)
    for value in (None, b"", marker_value(1)[:-1]):
        with pytest.raises(InvalidRecord, match="end transaction marker"):
            read_marker(commit, value)
    with pytest.raises(InvalidRecord, match="version found for end transaction marker: -1"):
        read_marker(commit, b"\xff\xff" + bytes(4))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_batches_of_kafka_python(codec: object) -> None:
    number = codec.number  # type: ignore[attr-defined]
    builder = DefaultRecordBatchBuilder(2, number, 1, 77, 3, 12, 1 << 20)
    expected = []
    for index in range(200):
        key = None if index % 3 == 0 else b"key %d" % index
        value = b"some value that repeats " * (index % 5)
        headers = [("h", b"x")] if index % 7 == 0 else []
        builder.append(index, 1000 + index * 3, key, value, headers)
        expected.append((index, 1000 + index * 3, key, value, tuple(headers)))
    batch = bytes(builder.build())
    header = read_header(batch)
    assert is_intact(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 12)
    assert header.is_transactional
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records(batch)] == expected
