"""What retention says before it deletes: Apache Kafka's sentences, with this log's numbers.

The expected lines are those of the genuine broker (UnifiedLog and LogSegment of kafka-storage 4.3.1), seen
with the same settings.
"""

from __future__ import annotations

import logging

import pytest

from storage.retention import CLIENT_DELETES, LOGGED_SEGMENTS
from tests.support.rigs.log_rig import NOW_MS, LogRig, client_batch

DAY_MS = 86_400_000
SIZE = len(client_batch(bytes(90)))
WHO = "[UnifiedLog partition=orders-0, dir=/data] "


def at(number: int) -> int:
    """The time of a batch: ten days ago and later, never in the future."""
    return NOW_MS + min(number - 10, 0) * DAY_MS


def segments_of_one_batch(count: int, **config: object) -> LogRig:
    """Base offsets 0, 1, 2 …, one batch each, a day apart, written now."""
    rig = LogRig()
    rig.configure(segment_bytes=200, **config)
    for number in range(count):
        rig.append(bytes(90), timestamp=at(number))
    rig.commit_all()
    assert [segment.base_offset for segment in rig.log.segments] == list(range(count))
    return rig


def segment(offset: int) -> str:
    return (
        f"LogSegment(baseOffset={offset}, size={SIZE}, lastModifiedTime={NOW_MS}, "
        f"largestRecordTimestamp={at(offset)})"
    )


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert all(record.levelno == logging.INFO for record in caplog.records)
    return caplog.messages


@pytest.fixture(autouse=True)
def _listen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.storage")


def test_by_time(caplog: pytest.LogCaptureFixture) -> None:
    rig = segments_of_one_batch(5, retention_ms=604_800_000)
    assert rig.log.delete_old_segments(NOW_MS) == 3
    reason = (
        "due to log retention time 604800000ms breach based on the largest record timestamp in the segment"
    )
    assert said(caplog) == [
        f"{WHO}Incremented log start offset to 3 due to segment deletion",
        *[f"{WHO}Deleting segment {segment(offset)} {reason}" for offset in range(3)],
    ]


def test_by_the_time_of_the_file_where_no_record_has_one(caplog: pytest.LogCaptureFixture) -> None:
    rig = LogRig()
    rig.configure(retention_ms=1500)
    rig.append(bytes(90), timestamp=-1)
    rig.commit_all()
    assert rig.log.delete_old_segments(NOW_MS + 1501) == 1
    assert said(caplog) == [
        f"{WHO}Incremented log start offset to 1 due to segment deletion",
        (
            f"{WHO}Deleting segment LogSegment(baseOffset=0, size={SIZE}, lastModifiedTime={NOW_MS}, "
            "largestRecordTimestamp=-1) due to log retention time 1500ms breach based on the last modified "
            "time of the segment"
        ),
    ]


def test_by_size(caplog: pytest.LogCaptureFixture) -> None:
    rig = segments_of_one_batch(5, retention_ms=-1, retention_bytes=2 * SIZE + 1)
    assert rig.log.delete_old_segments(NOW_MS) == 2
    assert said(caplog) == [
        f"{WHO}Incremented log start offset to 2 due to segment deletion",
        (
            f"{WHO}Deleting segment {segment(0)} due to log retention size {2 * SIZE + 1} breach. "
            f"Log size after deletion will be {4 * SIZE}."
        ),
        (
            f"{WHO}Deleting segment {segment(1)} due to log retention size {2 * SIZE + 1} breach. "
            f"Log size after deletion will be {3 * SIZE}."
        ),
    ]


def test_below_the_log_start(caplog: pytest.LogCaptureFixture) -> None:
    rig = segments_of_one_batch(5, retention_ms=-1)
    rig.log.increase_log_start(2, CLIENT_DELETES)
    assert said(caplog) == [f"{WHO}Incremented log start offset to 2 due to client delete records request"]
    caplog.clear()
    assert rig.log.delete_old_segments(NOW_MS) == 2
    assert said(caplog) == [
        f"{WHO}Deleting segments due to log start offset 2 breach: {segment(0)},{segment(1)}"
    ]
    caplog.clear()
    assert not rig.log.increase_log_start(2, CLIENT_DELETES)
    assert rig.log.delete_old_segments(NOW_MS) == 0
    assert said(caplog) == []


def test_each_segment_with_its_own_reason(caplog: pytest.LogCaptureFixture) -> None:
    rig = segments_of_one_batch(6, retention_ms=6 * DAY_MS, retention_bytes=5 * SIZE)
    rig.log.increase_log_start(1, CLIENT_DELETES)
    caplog.clear()
    assert rig.log.delete_old_segments(NOW_MS) == 4
    assert [line.partition(" due to ")[2] for line in said(caplog)] == [
        "segment deletion",
        f"log start offset 1 breach: {segment(0)}",
        *["log retention time 518400000ms breach based on the largest record timestamp in the segment"] * 3,
    ]


def test_hundreds_at_once_are_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    rig = segments_of_one_batch(200, retention_ms=1)
    rig.now_ms += 1000 * DAY_MS
    assert rig.log.delete_old_segments(rig.now_ms) == 200
    lines = said(caplog)
    assert len(lines) == 2 + LOGGED_SEGMENTS
    assert lines[1] == (
        f"{WHO}Deleting segment {segment(0)} due to log retention time 1ms breach based on the largest "
        "record timestamp in the segment"
    )
    left = 200 - LOGGED_SEGMENTS
    assert lines[-1] == f"{WHO}Deleting {left} more segments, {left * SIZE} bytes, up to {segment(199)}"
    caplog.clear()
    rig = segments_of_one_batch(200, retention_ms=-1)
    rig.log.increase_log_start(199, CLIENT_DELETES)
    assert rig.log.delete_old_segments(NOW_MS) == 199
    assert [line.count("LogSegment(") for line in said(caplog)] == [0, LOGGED_SEGMENTS, 1]


def test_files_that_are_gone(caplog: pytest.LogCaptureFixture) -> None:
    rig = segments_of_one_batch(5, retention_ms=8 * DAY_MS, file_delete_delay_ms=60_000)
    rig.run_background_tasks()
    rig.log.delete_old_segments(NOW_MS)
    caplog.clear()
    rig.now_ms += 60_000
    rig.run_background_tasks()
    directory = "/data/orders-0/"
    assert said(caplog) == [f"Deleted log {directory}{'0' * 19}{number}.log.deleted." for number in (0, 1)]


def test_a_file_that_is_gone_already_is_not_said_to_be_deleted(caplog: pytest.LogCaptureFixture) -> None:
    rig = segments_of_one_batch(5, retention_ms=9 * DAY_MS)
    rig.run_background_tasks()
    rig.log.delete_old_segments(NOW_MS)
    caplog.clear()
    rig.files.unlink(f"/data/orders-0/{'0' * 20}.log.deleted")
    rig.now_ms += 60_000
    rig.run_background_tasks()
    assert said(caplog) == []


def test_the_other_files_are_said_to_who_asks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "barnabas.storage")
    rig = segments_of_one_batch(5, retention_ms=9 * DAY_MS)
    rig.run_background_tasks()
    rig.log.delete_old_segments(NOW_MS)
    caplog.clear()
    rig.now_ms += 60_000
    rig.run_background_tasks()
    stem = f"/data/orders-0/{'0' * 20}"
    assert caplog.messages == [
        f"Deleted log {stem}.log.deleted.",
        f"Deleted offset index {stem}.index.deleted.",
        f"Deleted time index {stem}.timeindex.deleted.",
    ]


def test_a_segment_whose_file_is_missing_goes_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    rig = segments_of_one_batch(5, retention_ms=9 * DAY_MS)
    rig.run_background_tasks()
    rig.log.segments[0].close()
    rig.files.unlink(f"/data/orders-0/{'0' * 20}.log")
    assert rig.log.delete_old_segments(NOW_MS) == 1
    assert "lastModifiedTime=0, " in said(caplog)[1]
