"""Where a group lives must be what Java says, or a second broker would look elsewhere."""

from __future__ import annotations

import pytest

from broker.coordinator.runtime.partitioning import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("abc", 96354),
        ("my-group", -1906497762),
        ("polygenelubricants", -(2**31)),
        ("😀", 1772899),
        ("grüße", 98768023),
    ],
)
def test_hashes_are_those_of_java(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_the_one_number_without_an_absolute_value_is_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_negative_hashes_are_taken_positive() -> None:
    assert partition_for("my-group", 50) == 12
