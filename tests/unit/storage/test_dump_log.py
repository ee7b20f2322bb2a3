"""Kafka's own kafka-dump-log reads what we write, in the middle of a log's life and after its end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.ports.files import RealFiles
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.control import TransactionMarker, build_marker_batch
from storage.log_config import LogConfig
from tests.support.genuine.kafka_tools import run_tool
from tests.support.rigs.log_rig import NOW_MS, LogRig, client_batch

pytestmark = pytest.mark.java

COMPLAINTS = re.compile(
    r"mismatch|out of order|non-consecutive|invalid|corrupt|exception|error", re.IGNORECASE
)


def filled(directory: Path) -> LogRig:
    """Some segments: all codecs, an idempotent producer, timestamps that jump back, a marker, epochs."""
    rig = LogRig(RealFiles(), LogConfig(segment_bytes=20_000), str(directory / "orders-0"))
    for number in range(120):
        timestamp = NOW_MS + number * 10 - (50 if number % 7 == 0 else 0)
        values = [bytes([number]) * 900] * (number % 3 + 1)
        producer = (5, 0, sum(each % 3 + 1 for each in range(0, number, 2))) if number % 2 == 0 else None
        batch = client_batch(*values, timestamp=timestamp, producer=producer, codec=number // 2 % 5)
        rig.log.append_as_leader(batch, leader_epoch=number // 50, now_ms=NOW_MS)
    marker = build_marker_batch(
        TransactionMarker(True, 3), timestamp_ms=NOW_MS, producer_id=5, producer_epoch=0
    )
    rig.log.append_internal(marker, leader_epoch=2, now_ms=NOW_MS)
    rig.log.flush()
    rig.run_background_tasks()
    for segment in rig.log.segments:
        segment.offset_index.file.write_pending()
        segment.time_index.file.write_pending()
    return rig


def dump(directory: Path, *arguments: str) -> str:
    files = sorted(
        path for path in directory.iterdir() if path.suffix in (".log", ".index", ".timeindex", ".snapshot")
    )
    result = run_tool("kafka-dump-log", "--files", ",".join(map(str, files)), *arguments)
    assert result.code == 0, result.err
    text = "\n".join(line for line in result.lines if not line.startswith("| "))
    assert COMPLAINTS.search(text.replace("isvalid: true", "")) is None, text
    return result.out


def test_a_log_that_is_being_written(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    assert len(rig.log.segments) >= 2
    out = dump(Path(rig.directory), "--deep-iteration", "--print-data-log")
    assert out.count("| offset: ") == rig.log.log_end_offset
    assert f"lastOffset: {rig.log.log_end_offset - 1} " in out
    assert "endTxnMarker: COMMIT" in out
    assert "producerId: 5 producerEpoch: 0" in out
    assert re.search(r"^offset: \d+ position: \d+$", out, re.MULTILINE)
    assert re.search(r"^timestamp: \d+ offset: \d+$", out, re.MULTILINE)


def test_a_log_that_was_closed(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    rig.close()
    directory = Path(rig.directory)
    out = dump(directory, "--index-sanity-check")
    assert out.count("passed sanity check") == 2 * len(rig.log.segments)
    assert f"{rig.log.log_end_offset:020d}.snapshot" in out
    dump(directory, "--verify-index-only")


def test_a_log_that_recovered_from_a_torn_write(tmp_path: Path) -> None:
    rig = filled(tmp_path)
    end = rig.log.log_end_offset
    last = rig.log.active.path(".log")
    with open(last, "ab") as file:
        file.write(bytes(build_batch([SimpleRecord(None, b"torn")], base_offset=end))[:-3])
    rig.reopen(is_clean=False)
    assert rig.log.log_end_offset == end
    rig.append(b"after")
    rig.close()
    out = dump(Path(rig.directory), "--deep-iteration")
    assert f"baseOffset: {end} lastOffset: {end} " in out
