"""The runtime with the smallest machine there is: keys and values."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.ports import CurrentTime, MetadataUpdate
from broker.coordinator.runtime.batches import coordinator_batch
from broker.coordinator.runtime.coordinator_loader import LOAD_RETRY_MS
from broker.coordinator.runtime.pending_writes import Transaction
from broker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from protocol.errors import ErrorCode, InvariantViolated
from protocol.records.builder import BatchBuilder, SimpleRecord, build_batch
from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.records.header import patch_offset_and_epoch
from protocol.serving.pending import Pending
from tests.support.rigs.group_world import is_parked, now
from tests.support.rigs.shelf_world import TOPIC, Shelf, World


def test_a_write_is_answered_at_once_when_it_is_committed_at_once() -> None:
    world = World()
    assert world.put(b"a", b"1") == "put a"
    assert world.ask(b"a") == "1"


def test_a_write_is_seen_by_the_machine_at_once_and_answered_when_committed() -> None:
    world = World()
    world.log.held = []
    answer = world.put(b"a", b"1")
    assert is_parked(answer)
    assert world.shelf.values == {b"a": b"1"}
    world.log.decide()
    assert now(answer) == "put a"


def test_a_reader_does_not_learn_what_may_still_be_taken_back() -> None:
    world = World()
    world.log.held = []
    write, read = world.put(b"a", b"1"), world.ask(b"a")
    assert is_parked(read)
    world.log.decide(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert now(write) == now(read) == "COORDINATOR_NOT_AVAILABLE"
    assert world.ask(b"a") == "nothing"


def test_a_refused_write_in_the_middle_is_taken_back_alone() -> None:
    world = World()
    world.put(b"x", b"0")
    world.log.held = []
    first, second, third = world.put(b"x", b"1"), world.put(b"x", b"2"), world.put(b"y", b"3")
    world.log.decide()
    world.log.decide(ErrorCode.MESSAGE_TOO_LARGE)
    assert (now(first), now(second)) == ("put x", "UNKNOWN_SERVER_ERROR")
    assert world.shelf.values == {b"x": b"1", b"y": b"3"}
    world.log.decide()
    assert now(third) == "put y"


def test_of_what_is_larger_than_the_log_takes_no_batch_is_made() -> None:
    """The log is not asked, the machine does not see the record, and writes that are under way stay."""
    world = World()
    world.log.largest_batch_bytes = 1_000
    world.log.held = []
    first, large, last = world.put(b"x", b"1"), world.put(b"x", bytes(1_000)), world.put(b"y", b"2")
    assert len(world.log.held) == 2
    assert now(large) == "UNKNOWN_SERVER_ERROR"
    assert world.shelf.values == {b"x": b"1", b"y": b"2"}
    world.log.decide()
    world.log.decide()
    assert (now(first), now(last)) == ("put x", "put y")


def test_when_all_are_refused_nothing_is_left_of_them() -> None:
    world = World()
    world.put(b"x", b"0")
    world.log.held = []
    answers = [world.put(b"x", b"1"), world.put(b"x", None), world.put(b"y", b"3")]
    for _ in answers:
        world.log.decide(ErrorCode.KAFKA_STORAGE_ERROR)
    assert [now(answer) for answer in answers] == ["NOT_COORDINATOR"] * 3
    assert world.shelf.values == {b"x": b"0"}


def test_the_machine_hears_how_its_records_fared() -> None:
    world = World()
    heard: list[ErrorCode] = []
    world.put(b"a", b"1", stored=heard)
    world.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.put(b"b", b"1", stored=heard) == "NOT_COORDINATOR"
    assert heard == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_write_that_is_not_confirmed_in_time_is_answered_but_not_undone() -> None:
    world = World(write_timeout_ms=500)
    world.log.held = []
    heard: list[ErrorCode] = []
    answer = world.put(b"a", b"1", stored=heard)
    world.timers.advance(499)
    assert is_parked(answer)
    world.timers.advance(1)
    assert now(answer) == "COORDINATOR_NOT_AVAILABLE"
    assert heard == [ErrorCode.REQUEST_TIMED_OUT]
    world.log.decide()
    assert world.shelf.values == {b"a": b"1"}
    assert heard == [ErrorCode.REQUEST_TIMED_OUT]


def test_each_operation_has_a_time_of_its_own() -> None:
    """Also those that come when the time of the first one is up."""
    world = World(write_timeout_ms=5_000)
    world.log.held = []
    first = world.put(b"a", b"1")
    world.timers.advance(4_950)
    reader = world.ask(b"a")
    world.timers.advance(50)
    assert now(first) == "COORDINATOR_NOT_AVAILABLE"
    assert is_parked(reader)
    world.timers.advance(50)
    second = world.put(b"b", b"2")
    world.timers.advance(4_899)
    assert is_parked(reader)
    world.timers.advance(1)
    assert now(reader) == "COORDINATOR_NOT_AVAILABLE"
    world.timers.advance(99)
    assert is_parked(second)
    world.timers.advance(1)
    assert now(second) == "COORDINATOR_NOT_AVAILABLE"
    assert is_parked(world.ask(b"b"))
    world.log.decide()
    world.log.decide()
    assert world.shelf.values == {b"a": b"1", b"b": b"2"}


def test_partitions_that_are_led_elsewhere_or_loading_say_so() -> None:
    world = World(led=False)
    assert world.ask(b"a") == "NOT_COORDINATOR"
    world.runtime.elected(0, 1)
    assert world.ask(b"a") == "COORDINATOR_LOAD_IN_PROGRESS"
    world.timers.run_soon()
    assert world.ask(b"a") == "nothing"


def test_resigning_answers_writes_on_their_way_and_tells_the_machine() -> None:
    world = World()
    shelf = world.shelf
    world.log.held = []
    answer = world.put(b"a", b"1")
    world.runtime.resigned(0, 1)
    assert now(answer) == "NOT_COORDINATOR"
    assert shelf.events == ["loaded", "unloaded"]
    world.log.decide()
    assert world.ask(b"a") == "NOT_COORDINATOR"


def test_news_of_an_older_epoch_do_not_take_a_partition_away() -> None:
    world = World()
    world.runtime.elected(0, 5)
    world.runtime.resigned(0, 4)
    assert world.ask(b"a") == "nothing"


def test_a_new_leader_has_what_the_old_one_committed() -> None:
    world = World()
    world.put(b"a", b"1")
    world.put(b"b", b"2")
    world.put(b"a", None)
    world.runtime.resigned(0)
    world.runtime.elected(0, 2)
    world.timers.run_soon()
    assert world.shelf.values == {b"b": b"2"}


def test_loading_goes_in_slices_and_lets_others_in_between() -> None:
    world = World(led=False, slice_records=10, load_buffer_bytes=200)
    for number in range(100):
        world.log.append_internal(
            TOPIC,
            0,
            coordinator_batch([CoordinatorRecord(b"%d" % number, b"v")], timestamp_ms=1),
            lambda *_: None,
        )
    assert turns_to_load(world) > 20
    assert len(world.shelf.values) == 100


@pytest.mark.parametrize("what", ["markers", "empty batches"])
def test_loading_what_has_no_records_goes_in_slices_too(what: str) -> None:
    """The cleaner leaves the markers of transactions, and the last batch of a producer without records."""
    world = World(led=False, slice_records=2_000)
    marker = build_marker_batch(TransactionMarker(True, 0), timestamp_ms=1, producer_id=1, producer_epoch=0)
    batch = bytes(BatchBuilder().build(last_offset_delta=0)) if what == "empty batches" else bytes(marker)
    placed = bytearray(batch * 10_000)
    for number in range(10_000):
        patch_offset_and_epoch(placed, number * len(batch), number, 0)
    world.log.batches[TOPIC, 0] = [bytes(placed)]
    assert turns_to_load(world) >= 5


def test_loading_a_few_large_records_goes_in_slices_too() -> None:
    world = World(led=False, load_buffer_bytes=10_000)
    for _ in range(20):
        large = coordinator_batch([CoordinatorRecord(b"k", bytes(5_000))], timestamp_ms=1)
        world.log.append_internal(TOPIC, 0, large, lambda *_: None)
    assert turns_to_load(world) >= 10


def turns_to_load(world: World) -> int:
    world.runtime.elected(0, 1)
    turns = 0
    while world.ask(b"k") == "COORDINATOR_LOAD_IN_PROGRESS":
        assert world.timers.run_once() == 1
        turns += 1
    return turns


def test_loading_keeps_transactions_apart_until_their_marker() -> None:
    world = World(led=False)

    def append(batch: bytes | bytearray) -> None:
        world.log.append_internal(TOPIC, 0, bytes(batch), lambda *_: None)

    for producer_id in (1, 2, 3):
        append(
            build_batch(
                [SimpleRecord(b"p%d" % producer_id, b"v", 1)],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
        )
    append(build_marker_batch(TransactionMarker(True, 0), timestamp_ms=1, producer_id=1, producer_epoch=0))
    append(build_marker_batch(TransactionMarker(False, 0), timestamp_ms=1, producer_id=2, producer_epoch=0))
    world.runtime.elected(0, 1)
    world.timers.run_soon()
    assert world.shelf.values == {b"p1": b"v"}
    assert list(world.shelf.held) == [3]


def write_in_a_transaction(world: World, key: bytes, marker: TransactionMarker | None = None) -> Any:
    def operation(shelf: Shelf, now: CurrentTime) -> CoordinatorResult[str]:
        result = CoordinatorResult("done")
        if marker is None:
            result.records.append(CoordinatorRecord(key, b"v"))
        return result

    ended = Transaction(7, 0, marker, 2)
    return world.runtime.write(0, operation, lambda error: error.name, transaction=ended)


@pytest.mark.parametrize("committed", [True, False])
def test_what_a_transaction_writes_counts_when_its_marker_commits_it(committed: bool) -> None:
    world = World()
    assert write_in_a_transaction(world, b"a") == "done"
    assert write_in_a_transaction(world, b"b") == "done"
    assert (world.shelf.values, len(world.shelf.held[7])) == ({}, 2)
    assert write_in_a_transaction(world, b"", TransactionMarker(committed, 0)) == "done"
    expected = {b"a": b"v", b"b": b"v"} if committed else {}
    for epoch in (2, 3):
        assert (world.shelf.values, world.shelf.held) == (expected, {})
        world.runtime.resigned(0)
        world.runtime.elected(0, epoch)
        world.timers.run_soon()


def test_what_the_log_is_told_of_a_transaction_and_nothing_where_nothing_is_written() -> None:
    world = World()
    write_in_a_transaction(world, b"a")
    write_in_a_transaction(world, b"", TransactionMarker(True, 0))
    world.put(b"x", b"1")
    nothing, of_seven = CoordinatorResult("refused"), Transaction(7, 0)
    answer = world.runtime.write(0, lambda *_: nothing, lambda error: error.name, transaction=of_seven)
    assert answer == "refused"
    assert world.log.transaction_versions == [2, 2, 0]


def test_a_refused_marker_leaves_the_transaction_open() -> None:
    world = World()
    write_in_a_transaction(world, b"a")
    world.log.held = []
    marker = write_in_a_transaction(world, b"", TransactionMarker(True, 0))
    plain = world.put(b"x", b"1")
    assert is_parked(marker)
    assert world.shelf.values == {b"a": b"v", b"x": b"1"}
    world.log.decide(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert now(marker) == "COORDINATOR_NOT_AVAILABLE"
    assert (world.shelf.values, list(world.shelf.held)) == ({b"x": b"1"}, [7])
    world.log.decide()
    assert now(plain) == "put x"


def test_a_broken_batch_is_passed_over() -> None:
    world = World()
    for key in (b"a", b"b", b"c"):
        world.put(key, b"1")
    log = world.log.batches[TOPIC, 0]
    log[1] = log[1][:-1] + bytes([log[1][-1] ^ 1])
    world.runtime.resigned(0)
    world.runtime.elected(0, 2)
    world.timers.run_soon()
    assert set(world.shelf.values) == {b"a", b"c"}


def test_a_disk_that_does_not_answer_is_asked_again() -> None:
    world = World()
    world.put(b"a", b"1")
    world.runtime.resigned(0)
    world.log.unreadable = True
    world.runtime.elected(0, 2)
    world.timers.advance(LOAD_RETRY_MS * 3)
    assert world.ask(b"a") == "COORDINATOR_LOAD_IN_PROGRESS"
    world.log.unreadable = False
    world.timers.advance(LOAD_RETRY_MS)
    assert world.ask(b"a") == "1"


def test_deadlines_ring_and_what_they_lead_to_is_written() -> None:
    world = World()
    world.shelf.due_ms = world.clock.monotonic_ms() + 50
    world.ask(b"a")  # whatever runs, the runtime looks at the deadlines afterwards
    world.timers.advance(49)
    assert "expired" not in world.shelf.events
    world.timers.advance(1)
    assert "expired" in world.shelf.events
    assert world.ask(b"expired") == "yes"


def test_what_need_not_be_atomic_is_cut_into_batches_that_fit() -> None:
    world = World(batch_bytes=500)

    def operation(shelf: Shelf, now: CurrentTime) -> CoordinatorResult[str]:
        result = CoordinatorResult("done", atomic=False)
        result.records.extend(CoordinatorRecord(b"%03d" % number, b"v" * 50) for number in range(40))
        return result

    assert world.runtime.write(0, operation, lambda error: error.name) == "done"
    assert len(world.shelf.values) == 40
    assert len(world.log.batches[TOPIC, 0]) > 5
    assert all(len(batch) <= 500 for batch in world.log.batches[TOPIC, 0])


def test_a_change_of_the_metadata_is_told_to_all_shards_but_those_that_load() -> None:
    world = World()
    world.runtime.elected(1, 1)
    active = world.shelf
    world.runtime.metadata_updated(MetadataUpdate({"gone": bytes(16)}))
    assert active.events == ["loaded", "gone"]
    world.timers.run_soon()
    assert dict(world.runtime.shards())[1].events == ["loaded"]  # type: ignore[union-attr]


def broken(*arguments: object) -> Any:
    raise KeyError("a bug of ours")


def parked(world: World) -> Pending[str]:
    """Somebody whom the machine answers itself, later."""
    waiting: Pending[str] = Pending()
    found = world.runtime.write(
        0, lambda shelf, now: CoordinatorResult(), lambda error: error.name, waiting=waiting
    )
    assert found is waiting
    return waiting


def assert_read_back(world: World, was: Shelf) -> None:
    """The machine was thrown away, and what the log says holds again."""
    assert world.runtime.failures == 2  # it was mended in vain before
    assert world.ask(b"a") == "COORDINATOR_LOAD_IN_PROGRESS"
    world.timers.advance(LOAD_RETRY_MS)
    assert world.shelf is not was
    assert world.shelf.values == {b"a": b"1"}
    assert world.ask(b"a") == "1"
    assert world.put(b"b", b"2") == "put b"


def test_a_deadline_that_fails_costs_the_machine_and_not_the_node(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.put(b"a", b"1")
    waiting, was = parked(world), world.shelf
    was.values[b"a"] = b"half done"
    was.expire = broken  # type: ignore[method-assign,assignment]
    was.due_ms = world.clock.monotonic_ms() + 10
    world.ask(b"a")
    world.timers.advance(10)
    assert waiting.response == "NOT_COORDINATOR"
    assert "__things-0 failed; this is our fault" in caplog.text
    assert "in broken" in caplog.text
    assert_read_back(world, was)


def test_nobody_waits_for_ever_for_a_machine_that_cannot_even_be_put_away() -> None:
    world = World()
    world.put(b"a", b"1")
    answered = parked(world)
    answered.complete("before")
    waiting, was = [parked(world) for _ in range(20)], world.shelf
    was.expire = was.unloaded = broken  # type: ignore[method-assign,assignment]
    was.due_ms = world.clock.monotonic_ms() + 10
    world.ask(b"a")
    world.timers.advance(10)
    assert {each.response for each in waiting} == {"NOT_COORDINATOR"}
    assert answered.response == "before"
    assert_read_back(world, was)


def test_a_verdict_of_the_log_that_leads_to_a_failure_is_mended() -> None:
    """It comes in the turn of whoever moved the high watermark."""
    world = World()
    world.put(b"a", b"1")
    world.log.held = []
    was = world.shelf

    def operation(shelf: Shelf, now: CurrentTime) -> CoordinatorResult[str]:
        result = CoordinatorResult("never said")
        result.records.append(CoordinatorRecord(b"c", b"3"))
        result.on_stored = broken
        return result

    waiting = world.runtime.write(0, operation, lambda error: error.name)
    later = world.put(b"d", b"4")
    assert isinstance(waiting, Pending)
    assert isinstance(later, Pending)
    world.log.decide(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert waiting.response == "COORDINATOR_NOT_AVAILABLE"
    assert was.events[-1] == "mended all"
    world.log.decide(ErrorCode.NONE)
    assert later.response == "put d"
    assert world.shelf is was
    assert was.values == {b"a": b"1", b"d": b"4"}
    assert world.runtime.failures == 1


def test_a_verdict_whose_failure_cannot_be_mended_costs_the_machine() -> None:
    world = World()
    world.put(b"a", b"1")
    world.log.held = []
    was = world.shelf
    was.mend = broken  # type: ignore[method-assign,assignment]

    def operation(shelf: Shelf, now: CurrentTime) -> CoordinatorResult[str]:
        result = CoordinatorResult("never said")
        result.records.append(CoordinatorRecord(b"c", b"3"))
        result.on_stored = broken
        return result

    world.runtime.write(0, operation, lambda error: error.name)
    later = world.put(b"d", b"4")
    assert isinstance(later, Pending)
    world.log.decide(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert later.response == "NOT_COORDINATOR"
    world.log.decide(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.log.held = None
    assert_read_back(world, was)


def test_records_that_cannot_be_replayed_count_as_refused() -> None:
    world = World()
    world.put(b"a", b"1")
    was, replay = world.shelf, world.shelf.replay
    was.replay = broken  # type: ignore[method-assign,assignment]
    assert world.put(b"c", b"3") == "UNKNOWN_SERVER_ERROR"
    was.replay = replay  # type: ignore[method-assign]
    assert world.shelf is was
    assert was.values == {b"a": b"1"}


def test_an_operation_that_fails_costs_its_request_alone() -> None:
    world = World()
    world.put(b"a", b"1")
    was = world.shelf
    assert world.runtime.write(0, broken, lambda error: error.name) == "UNKNOWN_SERVER_ERROR"
    assert world.shelf is was
    assert was.events[-1] == "mended"
    assert world.ask(b"a") == "1"
    assert world.runtime.failures == 1


def test_an_invariant_of_a_group_is_contained_and_one_of_the_log_is_not() -> None:
    world = World()

    def never(shelf: Shelf, now: CurrentTime) -> CoordinatorResult[str]:
        raise InvariantViolated("never")

    assert world.runtime.write(0, never, lambda error: error.name) == "UNKNOWN_SERVER_ERROR"
    world.log.failure = InvariantViolated("never")
    with pytest.raises(InvariantViolated):
        world.put(b"a", b"1")


def test_a_partition_that_fails_again_and_again_is_read_back_at_a_walking_pace() -> None:
    world = World()
    world.put(b"a", b"1")
    for _ in range(5):
        world.shelf.expire = broken  # type: ignore[method-assign,assignment]
        world.shelf.due_ms = world.clock.monotonic_ms()
        world.ask(b"a")
        world.timers.advance(LOAD_RETRY_MS - 1)
        assert world.ask(b"a") == "COORDINATOR_LOAD_IN_PROGRESS"
        world.timers.advance(1)
        assert world.ask(b"a") == "1"
    assert world.runtime.failures == 10


def test_a_partition_that_is_lost_while_it_waits_to_be_read_back() -> None:
    world = World()
    world.shelf.expire = broken  # type: ignore[method-assign,assignment]
    world.shelf.due_ms = world.clock.monotonic_ms()
    world.ask(b"a")
    world.timers.advance(1)
    world.runtime.resigned(0)
    world.timers.advance(2 * LOAD_RETRY_MS)
    assert world.ask(b"a") == "NOT_COORDINATOR"
