"""Lists that grow and shrink, and the order of Java's hash tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.catalogue import BROKER, TOPIC
from config.errors import InvalidValue
from config.java_order import hash_order, java_hash
from config.list_changes import changed_list, split_as_java

POLICY = TOPIC["cleanup.policy"]

items = st.lists(st.sampled_from("abcdef"), max_size=6)
stored = st.none() | items.map(",".join)


@given(stored, items.filter(bool))
def test_what_was_appended_is_there_once_and_comes_last(before: str | None, added: list[str]) -> None:
    after = changed_list(POLICY, "cleanup.policy", before, ",".join(added), "APPEND").split(",")
    had = ["delete"] if before is None else [each for each in before.split(",") if each]
    assert after[: len(had)] == had
    assert after[len(had) :] == [each for each in dict.fromkeys(added) if each not in had]


@given(stored, items.filter(bool))
def test_subtracting_takes_each_item_once(before: str | None, taken: list[str]) -> None:
    after = changed_list(POLICY, "cleanup.policy", before, ",".join(taken), "SUBTRACT")
    left = ["delete"] if before is None else [each for each in before.split(",") if each]
    for each in taken:
        if each in left:
            left.remove(each)
    assert after == ",".join(left)


@given(items.filter(bool))
def test_what_was_appended_to_nothing_can_be_taken_away(added: list[str]) -> None:
    text = ",".join(dict.fromkeys(added))
    grown = changed_list(POLICY, "cleanup.policy", "", text, "APPEND")
    assert grown == text
    assert changed_list(POLICY, "cleanup.policy", grown, text, "SUBTRACT") == ""


@pytest.mark.parametrize("name", ["retention.ms", "compression.type", "nonsense"])
def test_only_lists_have_items(name: str) -> None:
    with pytest.raises(InvalidValue, match=f"^Can't APPEND to key {name} because its type is not LIST.$"):
        changed_list(TOPIC.get(name), name, None, "1", "APPEND")


def test_a_config_without_default_starts_empty() -> None:
    assert changed_list(BROKER["log.dirs"], "log.dirs", None, "/a,/b", "APPEND") == "/a,/b"


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a,b", ["a", "b"]), ("a,,b,,", ["a", "", "b"]), ("", [""]), (",", []), (",a", ["", "a"]), ("a", ["a"])],
)
def test_texts_are_split_as_java_splits_them(text: str, parts: list[str]) -> None:
    assert split_as_java(text) == parts


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("ab", 3105), ("log.retention.ms", 0), ("\U0001f600", 1772899), ("ü", 252)],
)
def test_hashes_are_java_s(text: str, value: int) -> None:
    if text == "log.retention.ms":
        # Horner's scheme written out: what String.hashCode is defined as.
        value = sum(ord(each) * 31 ** (len(text) - 1 - place) for place, each in enumerate(text)) % 2**32
    assert java_hash(text) == value


def test_names_come_in_the_order_in_which_a_hash_set_was_seen_to_print_them() -> None:
    seen = "log.retention.hours num.partitions auto.create.topics.enable group.max.size broker.rack log.dirs"
    assert hash_order(sorted(seen.split())) == seen.split()
    seen = "ssl.keystore.type ssl.truststore.location ssl.key.password ssl.keystore.location"
    assert hash_order(sorted(seen.split(), reverse=True)) == seen.split()


@given(st.lists(st.text(max_size=5)))
def test_nothing_is_lost_or_doubled(names: list[str]) -> None:
    ordered = hash_order(names)
    assert len(ordered) == len(set(ordered))
    assert set(ordered) == set(names)
