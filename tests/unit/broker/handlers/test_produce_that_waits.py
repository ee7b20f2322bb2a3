"""Produce requests whose batches wait for helper threads: what is answered when, with each kind of acks."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceResponse
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.records.header import read_header
from protocol.serving.pending import NO_ANSWER, CloseConnection, Pending
from storage.faulty_files import Fault, FaultyFiles
from storage.memory_files import MemoryFiles
from storage.waiting_append import WaitingAppend
from tests.support.rigs.handler_rig import committed, topic_id
from tests.support.rigs.waiting_rig import WaitingRig


@pytest.fixture
def rig() -> WaitingRig:
    rig = WaitingRig()
    rig.topic("packed", number=1, compression_type="lz4", cleanup_policy="compact")
    rig.topic("plain", number=2)
    rig.topic("synced", number=3, flush_messages="1")
    return rig


def codes(response: Any) -> list[tuple[str, int, int]]:
    assert isinstance(response, ProduceResponse)
    return [
        (topic.name, answer.error_code, answer.base_offset)
        for topic in response.responses
        for answer in topic.partition_responses
    ]


@pytest.mark.parametrize("acks", [1, -1])
def test_one_answer_for_what_waits_and_what_does_not(rig: WaitingRig, acks: int) -> None:
    pending = rig.produce(("packed", rig.large()), ("plain", rig.batch()), ("synced", rig.batch()), acks=acks)
    assert isinstance(pending, Pending)
    assert pending.holds_request
    assert rig.log("plain").log_end_offset == 1
    rig.timers.run_soon()
    assert rig.codecs.run() == 1
    assert not pending.done
    rig.timers.run_soon()
    assert rig.disks.run() == 1
    assert codes(pending.response) == [("packed", 0, 0), ("plain", 0, 0), ("synced", 0, 0)]
    assert rig.log("packed").high_watermark == 300
    assert rig.log("synced").recovery_point == 1
    counters = rig.replicas.counters["packed"]
    assert (counters.messages_in, counters.total_produce_requests) == (300, 1)


def test_records_at_fault_are_named_late(rig: WaitingRig) -> None:
    pending = rig.produce(("packed", rig.large(key=None)), ("plain", rig.batch()))
    rig.run()
    assert codes(pending.response) == [("packed", ErrorCode.INVALID_RECORD, -1), ("plain", 0, 0)]
    answer = pending.response.responses[0].partition_responses[0]
    assert len(answer.record_errors) == 300
    assert answer.error_message
    assert rig.replicas.counters["packed"].failed_produce_requests == 1


def test_without_acks_nothing_is_answered_and_a_failure_closes(rig: WaitingRig) -> None:
    good = rig.produce(("packed", rig.large()), acks=0)
    bad = rig.produce(("packed", rig.large(key=None)), acks=0)
    assert isinstance(good, Pending)
    assert not good.done
    rig.run()
    assert good.response is NO_ANSWER
    assert isinstance(bad.response, CloseConnection)
    assert "packed-0: INVALID_RECORD" in str(bad.response)
    assert rig.log("packed").log_end_offset == 300


def test_replication_is_waited_for_after_the_append_and_only_then_the_time_runs() -> None:
    rig = WaitingRig()
    rig.topic("packed", compression_type="lz4", replicas=(1, 2))
    pending = rig.produce(("packed", rig.large()), timeout_ms=500)
    rig.timers.advance(10_000)
    assert not pending.done
    rig.run()
    assert not pending.done
    rig.timers.advance(499)
    assert not pending.done
    rig.timers.advance(1)
    assert codes(pending.response) == [("packed", ErrorCode.REQUEST_TIMED_OUT, 0)]
    second = rig.produce(("packed", rig.large()))
    rig.run()
    rig.replicas.by_name["packed", 0].follower_fetched(2, 600, now_ms=0)
    assert codes(second.response) == [("packed", 0, 300)]


def test_who_has_gone_is_not_answered_and_the_batch_stays(rig: WaitingRig) -> None:
    pending = rig.produce(("packed", rig.large()))
    pending.cancel()
    rig.run()
    assert pending.response is None
    assert rig.log("packed").log_end_offset == 300


@pytest.mark.parametrize("stage", ["queued", "compressed"])
def test_leadership_goes_while_a_batch_waits(rig: WaitingRig, stage: str) -> None:
    pending = rig.produce(("packed", rig.large()), acks=1)
    if stage == "compressed":
        rig.timers.run_soon()
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), replicas=[1, 2], isr=[2], leader=2))
    assert codes(pending.response) == [("packed", ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    assert pending.response.responses[0].partition_responses[0].current_leader.leader_id == 2
    rig.run()
    assert rig.log("packed").log_end_offset == 0


def test_a_topic_is_deleted_while_a_batch_waits(rig: WaitingRig) -> None:
    pending = rig.produce(("synced", rig.batch()))
    rig.timers.run_soon()
    rig.remove_topic(topic_id(3))
    assert not pending.done
    rig.run()
    assert codes(pending.response) == [("synced", ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_a_write_that_fails_after_the_topic_was_deleted_is_kept_nowhere() -> None:
    files = FaultyFiles(MemoryFiles())
    rig = WaitingRig(files=files)
    made = rig.topic("synced", flush_messages="1")
    pending = rig.produce(("synced", rig.batch()))
    rig.timers.run_soon()
    rig.remove_topic(made)
    files.faults.append(Fault("write", path_part=".log"))
    rig.run()
    assert codes(pending.response) == [("synced", ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert not rig.replicas.appends.failing


def test_coordinators_wait_in_the_same_line(rig: WaitingRig) -> None:
    heard: list[tuple[ErrorCode, int]] = []
    first = rig.produce(("synced", rig.batch()))
    own = bytes(rig.batch(2))
    rig.coordinator_log.append_internal("synced", 0, own, lambda outcome: heard.append(committed(outcome)))
    assert heard == []
    rig.run()
    assert codes(first.response) == [("synced", 0, 0)]
    assert heard == [(ErrorCode.NONE, 1)]
    assert rig.log("synced").recovery_point == 3


def test_small_batches_wait_for_nobody(rig: WaitingRig) -> None:
    assert codes(rig.produce(("packed", rig.batch()))) == [("packed", 0, 0)]
    found = rig.log("packed").read(0, max_bytes=1000)
    assert found is not None
    assert read_header(found.read()).codec == 3
    waiting = rig.replicas.appends.append(
        rig.replicas.by_name["packed", 0], rig.large(), 1, 12, {}, rig.clock.wall_ms()
    )
    assert isinstance(waiting, WaitingAppend)
