"""Text of UUIDs; error codes and the two exceptions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ErrorCode, InvariantViolated, invariant
from protocol.values import ONE_UUID, ZERO_UUID, uuid_from_text, uuid_to_text


@pytest.mark.parametrize(
    ("uuid", "text"),
    [
        (ZERO_UUID, "AAAAAAAAAAAAAAAAAAAAAA"),
        (ONE_UUID, "AAAAAAAAAAAAAAAAAAAAAQ"),
        (b"\xff" * 16, "_____________________w"),
        (bytes.fromhex("6d656173757265ef6616 6c6c7468 696e".replace(" ", "")), "bWVhc3VyZe9mFmxsdGhpbg"),
    ],
)
def test_uuids_in_text(uuid: bytes, text: str) -> None:
    assert uuid_to_text(uuid) == text
    assert uuid_from_text(text) == uuid


@given(st.binary(min_size=16, max_size=16))
def test_any_uuid_survives_its_text(uuid: bytes) -> None:
    text = uuid_to_text(uuid)
    assert len(text) == 22
    assert uuid_from_text(text) == uuid
    assert uuid_from_text(text + "==") == uuid


@pytest.mark.parametrize(
    "text", ["", "A" * 21, "A" * 23, "A" * 21 + "ä", "A" * 21 + "!", "AAAA AAAAAAAAAAAAAAAAA"]
)
def test_texts_that_are_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        uuid_from_text(text)


def test_a_uuid_has_16_bytes() -> None:
    with pytest.raises(ValueError, match="this one has 3"):
        uuid_to_text(b"abc")


def test_every_code_has_a_message() -> None:
    assert all(code.message for code in ErrorCode)
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_invariant_names_its_numbers() -> None:
    invariant(True, "never seen")
    with pytest.raises(InvariantViolated, match=r"the log grows \(before=5, after=4\)"):
        invariant(False, "the log grows", before=5, after=4)
