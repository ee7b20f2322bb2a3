"""What an Apache Kafka 4.3.1 broker answered to good and bad batches, and what we answer.

Codes must be Kafka's, and texts and record errors wherever Kafka sent any, but for the differences listed
here with their reasons.
"""

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.records.errors import RecordsError
from protocol.records.validation import validate_client_batch
from tests.support.samples.record_corpus import rules_of_topic, verdicts

VERDICTS = verdicts()

DELIBERATE = {
    # Kafka answers UNKNOWN_SERVER_ERROR where its codecs or its varint reader throw something unforeseen
    **dict.fromkeys(("bad gz", "bad snappy", "bad lz4", "bad zstd"), ErrorCode.INVALID_RECORD),
    **dict.fromkeys(("cut gz", "cut lz4", "cut zstd", "varint too long"), ErrorCode.INVALID_RECORD),
    **{f"codec {n}{v}": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE for n in (5, 6, 7) for v in ("", " v6")},
    # Kafka means to renumber such a batch and fails over a bug of its own
    "unsequential gz": ErrorCode.NONE,
}

ONLY_THE_RECORDS_TELL = {
    "records remain", "records missing", "records remain gz", "records missing gz", "record length negative",
    "record length huge", "record garbage", "record garbage2", "headers too many", "header neg",
    "record len short", "bad gz", "bad snappy", "bad lz4", "bad zstd", "cut gz", "cut lz4", "cut zstd",
    "varint too long",
}  # fmt: skip
"""Batches whose header and checksum are good: refused when walked, stored when not."""


def answer(case: dict[str, Any], walk: bool) -> tuple[int, str | None, list[list[object]]]:
    records = bytearray.fromhex(case["hex"])
    try:
        validate_client_batch(
            records,
            0,
            len(records),
            rules_of_topic(case["topic"]),
            now_ms=case["clock_ms"],
            walk=walk,
            request_version=case["version"],
        )
    except RecordsError as error:
        return error.code, error.message, [list(item) for item in error.record_errors]
    return ErrorCode.NONE, None, []


@pytest.mark.parametrize("case", VERDICTS, ids=lambda case: case["name"].replace(" ", "-"))
def test_our_verdict_is_kafkas(case: dict[str, Any]) -> None:
    code, message, record_errors = answer(case, walk=True)
    assert code == DELIBERATE.get(case["name"], case["code"]), message
    assert record_errors == case["record_errors"]
    if case["message"] is not None:
        assert message == case["message"]


@pytest.mark.parametrize("case", VERDICTS, ids=lambda case: case["name"].replace(" ", "-"))
def test_without_a_walk_header_and_checksum_decide(case: dict[str, Any]) -> None:
    code, message, record_errors = answer(case, walk=False)
    if case["name"] in ONLY_THE_RECORDS_TELL:
        assert code == ErrorCode.NONE
    else:
        assert (code, message, record_errors) == answer(case, walk=True)


def test_the_recorded_verdicts_cover_every_code_of_a_batch() -> None:
    codes = {case["code"] for case in VERDICTS}
    assert {0, 2, 10, 32, 76, 87} <= codes
    assert len(VERDICTS) > 70
