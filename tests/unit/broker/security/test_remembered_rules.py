"""What an authorizer remembers: how much of whom, and what it takes."""

from __future__ import annotations

import tracemalloc

from broker.security.remembered_rules import (
    KEPT_BYTES,
    KEPT_BYTES_OF_CLIENT,
    RememberedRules,
)
from broker.security.standard_authorizer import DefaultRule
from config.limits import TOPIC_NAME_LENGTH

HOST = "10.0.0.1"
RULE = DefaultRule.DENY


def ask(rules: RememberedRules, principal: str, count: int, stem: str = "topic") -> None:
    for number in range(count):
        rules.keep(principal, HOST, (3, 2, f"{stem}-{number}"), RULE)


def known(rules: RememberedRules, principal: str, count: int, stem: str = "topic") -> int:
    return sum(rules.find(principal, HOST, (3, 2, f"{stem}-{n}")) is RULE for n in range(count))


def test_what_was_found_is_found_again() -> None:
    rules = RememberedRules()
    ask(rules, "User:ann", 3)
    assert known(rules, "User:ann", 4) == 3
    assert known(rules, "User:bob", 4) == 0
    assert rules.find("User:ann", "10.0.0.2", (3, 2, "topic-0")) is None
    assert rules.find("User:ann", HOST, (4, 2, "topic-0")) is None


def test_who_asks_more_than_its_share_takes_nothing_from_others() -> None:
    rules = RememberedRules()
    ask(rules, "User:ann", 2_000)
    ask(rules, "User:bob", 40_000)
    assert known(rules, "User:ann", 2_000) == 2_000
    assert 0 < known(rules, "User:bob", 40_000) < 20_000
    assert rules.size_bytes < KEPT_BYTES_OF_CLIENT + KEPT_BYTES_OF_CLIENT // 2


def test_of_many_clients_the_first_ones_go() -> None:
    rules = RememberedRules()
    for number in range(20_000):
        rules.keep(f"User:u{number}", HOST, (3, 2, "t"), RULE)
    assert rules.size_bytes <= KEPT_BYTES
    assert rules.find("User:u19999", HOST, (3, 2, "t")) is RULE
    assert rules.find("User:u0", HOST, (3, 2, "t")) is None


def test_what_is_long_is_not_kept() -> None:
    rules = RememberedRules()
    ask(rules, "User:" + "x" * 1000, 5)
    ask(rules, "User:ann", 5, stem="x" * TOPIC_NAME_LENGTH)
    assert rules.size_bytes < 1024


def test_it_takes_no_more_than_it_says() -> None:
    tracemalloc.start()
    try:
        rules = RememberedRules()
        for client in range(4):
            ask(rules, f"User:{'x' * 200}{client}", 20_000, stem="\U0001f600" * 200)
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rules.size_bytes <= KEPT_BYTES
    assert size_bytes < 1.25 * KEPT_BYTES
