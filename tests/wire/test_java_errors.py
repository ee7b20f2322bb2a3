"""Our error codes are Apache Kafka's: number, name, what a client does about it, what it shows."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from tests.support.genuine.java_oracle.message_oracle import error_codes

NEWER_THAN_4_3 = (134, 135, 136)


@pytest.mark.java
def test_every_error_code() -> None:
    theirs = error_codes()
    assert [int(row[0]) for row in theirs] == [code for code in ErrorCode if code not in NEWER_THAN_4_3]
    for code, name, retriable, refreshes, message in theirs:
        ours = ErrorCode(int(code))
        assert ours.name == name
        assert (ours.retriable, ours.refreshes_metadata) == (retriable == "true", refreshes == "true"), name
        assert ours.message == message
