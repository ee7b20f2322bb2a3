"""The map against a plain dictionary, small and large, and where it is full."""

from __future__ import annotations

import random

import pytest

from storage.cleaner.offset_map import ENTRY_BYTES, SLOT_BYTES, OffsetMap

SMALL_BYTES = 1 << 20
"""A megabyte: the dictionary has room for some eight hundred entries, the table for forty thousand."""


def entries(random_source: random.Random, count: int, keys: int, size: int) -> list[tuple[bytes, int]]:
    return [(b"%0*d" % (size, random_source.randrange(keys)), offset) for offset in range(count)]


@pytest.mark.parametrize("size", [1, 8, 15, 16, 60], ids=lambda size: f"keys of {size} bytes")
@pytest.mark.parametrize("keys", [3, 700, 9_000])
def test_it_says_what_a_dictionary_says(keys: int, size: int) -> None:
    all_of_them = entries(random.Random(keys * size), 12_000, keys, size)
    known = OffsetMap(SMALL_BYTES)
    for first in range(0, len(all_of_them), 70):
        assert known.put_all(all_of_them[first : first + 70])
    model = dict(all_of_them)
    assert len(known) == len(model)
    assert known.latest_offset == 11_999
    assert {key: known.get(key, -1) for key in model} == model
    assert known.get(b"never met", -1) == -1
    assert known.get(b"a key of more than fifteen bytes", -7) == -7


@pytest.mark.parametrize("at_once", [1, 10, 5_000], ids=lambda at_once: f"{at_once} at once")
def test_a_full_map_takes_no_new_key_and_knows_those_before_it(at_once: int) -> None:
    slots = 1_000
    all_of_them = [(b"key %d" % number, number) for number in range(5_000)]
    known = OffsetMap(slots * SLOT_BYTES, 0.5)
    for first in range(0, len(all_of_them), at_once):
        if not known.put_all(all_of_them[first : first + at_once]):
            break
    assert len(known) == slots // 2
    assert known.latest_offset == slots // 2 - 1
    assert [known.get(key, -1) for key, _ in all_of_them[: slots // 2]] == list(range(slots // 2))
    assert known.get(b"key 500", -1) == -1
    assert known.put_all([(b"key 3", 9_000)]), "a key that is known needs no room"
    assert (known.get(b"key 3", -1), known.latest_offset) == (9_000, 9_000)


def test_a_map_for_a_few_keys_is_a_dictionary_and_stays_within_its_share() -> None:
    known = OffsetMap(SMALL_BYTES)
    fitting = SMALL_BYTES // 8 // (ENTRY_BYTES + 100)
    assert known.put_all([(b"%0100d" % number, number) for number in range(fitting)])
    assert known._table is None
    assert known.put_all([(b"%0100d" % fitting, fitting)])
    assert known._table is not None
    assert not known._known
    assert len(known) == fitting + 1


def test_nothing_is_nothing() -> None:
    known = OffsetMap(0)
    assert known.put_all([])
    assert (len(known), known.latest_offset, known.get(b"", -1)) == (0, -1, -1)
    assert known.put_all([(b"", 5)])
    assert known.get(b"", -1) == 5
