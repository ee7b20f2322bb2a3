"""Varints: known bytes, the edges of both widths, refusal of what is too long or cut off."""

from typing import Any

import pytest

from protocol.varint import (
    MalformedVarint,
    append_signed,
    append_unsigned,
    read_int,
    read_long,
    read_unsigned,
    size_of_signed,
    size_of_unsigned,
)


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_signed_numbers_have_known_bytes(value: int, wire: str) -> None:
    written = bytearray()
    append_signed(written, value)
    assert written.hex() == wire
    assert size_of_signed(value) == len(written)
    assert read_int(written, 0) == (value, len(written))
    assert read_long(memoryview(b"\xff" + written), 1) == (value, len(written) + 1)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_longs_take_ten_bytes_at_most(value: int) -> None:
    written = bytearray()
    append_signed(written, value)
    assert len(written) == size_of_signed(value) == 10
    assert read_long(written, 0) == (value, 10)
    with pytest.raises(MalformedVarint, match="longer than 5 bytes"):
        read_int(written, 0)


@pytest.mark.parametrize("value", [0, 127, 128, 300, 2**32 - 1])
def test_unsigned_numbers_come_back(value: int) -> None:
    written = bytearray()
    append_unsigned(written, value)
    assert len(written) == size_of_unsigned(value)
    assert read_unsigned(written, 0) == (value, len(written))


@pytest.mark.parametrize(
    ("read", "data", "position", "problem"),
    [
        (read_int, b"", 0, "cut off"),
        (read_int, b"\x80\x80", 0, "cut off"),
        (read_int, b"\x00", 1, "cut off"),
        (read_int, b"\x00", -1, "before the buffer"),
        (read_int, b"\x80" * 6, 0, "longer than 5"),
        (read_int, b"\xff\xff\xff\xff\x1f", 0, "does not fit into 32"),
        (read_long, b"\x80" * 11, 0, "longer than 10"),
        (read_long, b"\xff" * 9 + b"\x02", 0, "does not fit into 64"),
        (read_unsigned, b"\xff\xff\xff\xff\x10", 0, "does not fit into 32"),
    ],
)
def test_malformed_numbers_are_refused(read: Any, data: bytes, position: int, problem: str) -> None:
    with pytest.raises(MalformedVarint, match=problem):
        read(data, position)
