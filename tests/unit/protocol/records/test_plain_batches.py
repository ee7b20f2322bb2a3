"""What `plain_headers` takes at one glance is what the whole examination would have taken, unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.records import validation
from protocol.records.errors import RecordsError
from protocol.records.header import HEADER
from protocol.records.validation import plain_headers, validate_client_batch
from protocol.records.verdict import ValidatedBatch, ValidationRules
from tests.support.samples import bad_batches as bad
from tests.support.samples.mutated_batches import mutated_batches

RULES = {
    "plain": ValidationRules("t-0", 1_000_000),
    "small": ValidationRules("t-0", 100),
    "compacted": ValidationRules("t-0", 1_000_000, compacted=True),
    "append time": ValidationRules("t-0", 1_000_000, log_append_time=True),
    "gzip": ValidationRules("t-0", 1_000_000, codec=1),
    "none": ValidationRules("t-0", 1_000_000, codec=0),
    "not before": ValidationRules("t-0", 1_000_000, before_max_ms=10**15),
    "not after": ValidationRules("t-0", 1_000_000, after_max_ms=0),
}


def samples() -> list[tuple[bytes, int]]:
    found = [(each.records, each.version) for each in mutated_batches(600)]
    found += [(bytes(bad.good(codec=codec)), version) for codec in range(5) for version in (3, 6, 7, 12)]
    for attributes in range(64):
        found.append((bytes(bad.lying(attributes=attributes)), 12))
    for name in ("base_offset", "magic", "last_offset_delta", "record_count", "producer_id", "base_sequence"):
        for value in (-2, -1, 0, 1, 2, 3, 4):
            lie: Any = {name: value}
            found.append((bytes(bad.lying(**lie)), 12))
    return [each for each in found if len(each[0]) >= HEADER.size]


def verdict(data: bytes, rules: ValidationRules, version: int, now_ms: int) -> tuple[object, ...]:
    try:
        found = validate_client_batch(
            data, 0, len(data), rules, now_ms=now_ms, walk=False, request_version=version
        )
    except RecordsError as error:
        return error.code, error.message
    return ("taken", *described(found))


def described(batch: ValidatedBatch) -> tuple[object, ...]:
    plain = None if batch.plain is None else bytes(batch.plain)
    return batch.header, batch.max_timestamp, batch.log_append_time, batch.restamp, batch.must_rebuild, plain


@pytest.mark.parametrize("name", RULES)
def test_the_glance_and_the_examination_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = RULES[name]
    now_ms = bad.now_ms()
    found = samples()
    glances = [list(plain_headers(data, [(0, len(data))], rules, now_ms, version)) for data, version in found]
    with_glance = [verdict(data, rules, version, now_ms) for data, version in found]
    monkeypatch.setattr(validation, "plain_headers", lambda *_: ())
    without = [verdict(data, rules, version, now_ms) for data, version in found]
    assert with_glance == without
    for plain, examined in zip(glances, without, strict=True):
        if plain:
            assert examined[0] == "taken"
            assert examined[3:] == (False, False, False, None)
    assert any(glances) is (name not in ("compacted", "append time", "not before"))
