"""The log against a dumb model, a list of batches, through appends, cuts, rolls, failing disks and crashes.

After every step: offsets follow each other, every offset reads as in the model, indexes point at batches.
After a power cut everything that was synced is there, and of each segment a prefix; after a
killed process and after an orderly end it is the whole model.
"""

from __future__ import annotations

import contextlib
import errno
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from protocol.records.header import BatchHeader, headers
from storage.compaction_marker import write_compaction_marker
from storage.errors import LogStorageError, OffsetOutOfRange
from storage.faulty_files import Fault, FaultyFiles
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles, TearPlan, Torn, lose_all
from storage.recovery import OnDamage
from storage.truncation_markers import (
    read_truncation_marker,
)
from tests.support.rigs.log_rig import (
    DIRECTORY,
    NOW_MS,
    LogRig,
    client_batch,
    done,
    everything,
    found_since,
    leader_batch,
    prepare,
)


class Batch:
    """One batch of the model."""

    def __init__(
        self, base: int, last: int, data: bytes, epoch: int, producer: tuple[int, int] | None
    ) -> None:
        self.base = base
        self.last = last
        self.data = data
        self.epoch = epoch
        self.producer = producer
        """(id, last sequence)"""


class LogMachine(RuleBasedStateMachine):
    """What a node, its clients and its hardware do to one log."""

    @initialize(segment_bytes=st.sampled_from([400, 1500, 100_000]), interval=st.sampled_from([0, 150, 4096]))
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.memory = MemoryFiles(lambda: NOW_MS)
        self.faulty = FaultyFiles(self.memory)
        config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, file_delete_delay_ms=0)
        self.rig = LogRig(self.faulty, config)
        self.rig.run_background_tasks()
        self.model: list[Batch] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.clock = NOW_MS
        self.sequences: dict[int, int] = {}
        self.saved_point = 0
        self.saved_start = 0
        self._tell_what_is_saved()

    def _tell_what_is_saved(self) -> None:
        """As the log manager does it: a cut below what the checkpoints say leaves a mark
        (`truncation_markers`)."""
        self.rig.log.durability.set_max_checkpointed_offset(lambda: max(self.saved_point, self.saved_start))

    # Appends

    def _accepted(self, base: int, data: memoryview | bytes, producer: tuple[int, int] | None) -> None:
        header = next(headers(data))[1]
        assert header.base_offset == base == self.end
        assert header.partition_leader_epoch == self.epoch
        self.model.append(Batch(base, header.last_offset, bytes(data), self.epoch, producer))
        self.end = header.next_offset
        if producer is not None:
            self.sequences[producer[0]] = producer[1]

    def _next_batch(self, sizes: list[int], producer_id: int) -> tuple[memoryview, tuple[int, int] | None]:
        self.clock += 5
        values = [bytes(size) for size in sizes]
        if not producer_id:
            return client_batch(*values, timestamp=self.clock), None
        first = self.sequences.get(producer_id, -1) + 1
        batch = client_batch(*values, timestamp=self.clock, producer=(producer_id, 0, first))
        return batch, (producer_id, first + len(sizes) - 1)

    sizes = st.lists(st.integers(0, 60), min_size=1, max_size=4)

    @rule(sizes=sizes, producer_id=st.integers(0, 2), as_bytes=st.booleans())
    def append(self, sizes: list[int], producer_id: int, as_bytes: bool) -> None:
        batch, producer = self._next_batch(sizes, producer_id)
        given = bytes(batch) if as_bytes else batch
        result = done(self.rig.log.append_as_leader(given, leader_epoch=self.epoch, now_ms=NOW_MS))
        if as_bytes:
            found = self.rig.log.read(result.base_offset, max_bytes=1)
            assert found is not None
            self._accepted(result.base_offset, found.read(), producer)
        else:
            self._accepted(result.base_offset, batch, producer)

    @rule(count=st.integers(1, 5), sizes=sizes, keep=st.booleans())
    def append_several_at_once(self, count: int, sizes: list[int], keep: bool) -> None:
        log = self.rig.log
        batches = [self._next_batch(sizes, 0)[0] for _ in range(count)]
        prepared = [prepare(log, each, leader_epoch=self.epoch, now_ms=NOW_MS) for each in batches]
        log.appends.queue.write(prepared, NOW_MS)
        assert log.log_end_offset == self.end
        if keep:
            for result, batch in zip(log.appends.queue.commit(prepared), batches, strict=True):
                self._accepted(result.base_offset, batch, None)
        else:
            assert log.appends.queue.rollback() == count

    @rule(sizes=sizes, gaps=st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=1, max_size=3))
    def copy_from_a_leader(self, sizes: list[int], gaps: list[int]) -> None:
        """gaps: of each batch, how many offsets before it the leader has compacted away."""
        self.clock += 5
        batches: list[bytes] = []
        offset = self.end
        for gap in gaps:
            values = [bytes(size) for size in sizes]
            offset += gap
            batches.append(leader_batch(offset, *values, epoch=self.epoch, timestamp=self.clock))
            offset += len(sizes)
        torn = leader_batch(offset, b"cut off")[:-1]
        copied = done(self.rig.log.append_as_follower(b"".join(batches) + torn, NOW_MS))
        assert (copied.base_offset, copied.last_offset) == (self.end + gaps[0], offset - 1)
        for batch, gap in zip(batches, gaps, strict=True):
            self.end += gap
            self._accepted(self.end, batch, None)

    @rule(sizes=sizes, partial=st.sampled_from([0, 1, 40, 60]), joined=st.booleans())
    def append_to_a_disk_that_fails(self, sizes: list[int], partial: int, joined: bool) -> None:
        log = self.rig.log
        batch, _ = self._next_batch(sizes, 1)
        faults = [
            Fault("write", path_part=".log", partial_bytes=partial),
            Fault("write", number=1 if partial == 0 else 2, path_part=".log", count=5),
        ]
        self.faulty.faults = faults[1:] if partial == 0 else faults
        if joined:
            prepared = [prepare(log, batch, leader_epoch=self.epoch, now_ms=NOW_MS)]
            with pytest.raises(LogStorageError):
                log.appends.queue.write(prepared, NOW_MS)
        else:
            with pytest.raises(LogStorageError):
                log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=NOW_MS)
        self.faulty.faults = []
        log.appends.queue.rollback()

    # What a node does

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.rig.log.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        self.rig.log.flush()
        self.rig.log.durability.write_leader_epochs()
        self.rig.run_background_tasks()
        assert self.rig.log.recovery_point == self.end

    @rule()
    def run_background_tasks(self) -> None:
        self.rig.run_background_tasks()

    @rule()
    def save_checkpoints(self) -> None:
        self.saved_point = self.rig.log.recovery_point
        self.saved_start = self.rig.log.log_start_offset
        self.rig.log.durability.remove_truncation_marker()

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.end - back, self.start)
        self.rig.log.truncate_to(offset, now_ms=NOW_MS)
        self._cut_model(offset)
        self.flush()  # a cut that was not synced may be undone by a power cut, and is then made again

    @rule(
        back=st.integers(0, 12),
        call=st.sampled_from(["open", "pread", "write", "truncate", "rename", "unlink"]),
        number=st.integers(1, 5),
    )
    def truncate_on_a_disk_that_fails_once(self, back: int, call: str, number: int) -> None:
        self.faulty.faults = [Fault(call, number=number, error=errno.ENOSPC)]
        with contextlib.suppress(LogStorageError):
            self.rig.log.truncate_to(max(self.end - back, self.start), now_ms=NOW_MS)
        self.faulty.faults = []
        self.truncate(back)

    def _cut_model(self, offset: int) -> None:
        while self.model and self.model[-1].last >= offset:
            self.end = self.model.pop().base
        self.end = min(self.end, offset)  # an offset in a gap is the new end itself
        self._after_cut()

    def _after_cut(self) -> None:
        self._recall_sequences()
        self.start = min(self.start, self.end)

    def _recall_sequences(self) -> None:
        """From what is in the log; a producer without batches there may be remembered by a snapshot."""
        entries = self.rig.log.producer_state.entries()
        self.sequences = {entry.producer_id: entry.last_sequence for entry in entries}
        first = self.rig.log.segments[0].base_offset
        self.sequences |= {
            batch.producer[0]: batch.producer[1]
            for batch in self.model
            if batch.producer and batch.base >= first
        }

    @rule(share=st.floats(0, 1))
    def delete_the_beginning(self, share: float) -> None:
        log = self.rig.log
        log.update_high_watermark(self.end)
        offset = self.start + int((self.end - self.start) * share)
        log.increase_log_start(offset)
        log.delete_old_segments(NOW_MS)
        self.start = max(self.start, offset)
        assert log.segments[0].base_offset <= self.start
        assert len(log.segments) == 1 or log.segments[1].base_offset > self.start

    # Ends of a process

    @rule()
    def end_in_order(self) -> None:
        self.rig.close()
        self.save_checkpoints()
        end_in_files = self._end_in_files(self.end)
        self.memory.kill_process()
        self.rig.reopen(is_clean=True, recovery_point=self.saved_point, log_start_offset=self.saved_start)
        self._tell_what_is_saved()
        assert (self.rig.problems == ()) == (end_in_files >= self.saved_start)
        assert self.rig.scanned_segments == 0
        self._ends_where_the_files_do(end_in_files)
        self._start_may_fall_back()

    def _end_in_files(self, up_to: int) -> int:
        """Where a start finds the log end, if all below `up_to` is there and nothing else.

        A cut within a gap, which a power cut or compaction leaves, has set the log end to an offset of which
        no file tells.
        """
        ends = [batch.last + 1 for batch in self.model if batch.last < up_to]
        bases = [segment.base_offset for segment in self.rig.log.segments if segment.base_offset <= up_to]
        return max(ends + bases, default=up_to)

    def _ends_where_the_files_do(self, end_in_files: int) -> None:
        """But a log that ends below the log start that was saved begins anew there: no record gets an offset
        that was deleted."""
        self.end = max(end_in_files, self.saved_start)

    @rule()
    def kill(self) -> None:
        end_in_files = self._end_in_files(self.end)
        self.memory.kill_process()
        self._reopen_after_a_crash()
        self._ends_where_the_files_do(end_in_files)
        self._start_may_fall_back()

    def _reopen_after_a_crash(self, on_damage: OnDamage = OnDamage.REFUSE) -> None:
        """The checkpoints are believed as far as the mark of a cut allows."""
        mark = read_truncation_marker(self.memory, DIRECTORY)
        if mark is not None:
            self.saved_point = min(self.saved_point, mark.end_offset)
            self.saved_start = min(self.saved_start, mark.start_offset)
        self.rig.reopen(
            is_clean=False,
            recovery_point=self.saved_point,
            log_start_offset=self.saved_start,
            on_damage=on_damage,
        )
        self._tell_what_is_saved()
        self.rig.log.durability.check_truncation_marker(mark, self.rig.log.log_start_offset)

    @rule(data=st.data(), keep_names=st.booleans())
    def cut_power(self, data: st.DataObject, keep_names: bool) -> None:
        def plan(path: str, unsynced: int) -> Torn:
            kept = data.draw(st.integers(0, unsynced), label=f"kept of {path}")
            return Torn(kept, data.draw(st.sampled_from([0, 0, 7, 300]), label="zeros"))

        self.cut_power_with(plan, keep_names)

    def cut_power_with(self, plan: TearPlan, keep_names: bool) -> None:
        synced = self._end_in_files(self.rig.log.recovery_point)
        self.memory.cut_power(plan, keep_names=keep_names)
        # Of two segments that were never synced the older may be torn alone.
        self._reopen_after_a_crash(OnDamage.TRUNCATE)
        assert synced <= self.rig.log.log_end_offset <= self.end
        self.end = self.rig.log.log_end_offset
        self._start_may_fall_back()
        self._lose_what_was_not_synced(synced)
        self._after_cut()

    def _lose_what_was_not_synced(self, synced: int) -> None:
        """Of each segment a prefix is there. A segment may have lost its end though the next one has its
        beginning: offsets then have a gap, as after compaction."""
        there = {header.base_offset for _, header in self._headers()}
        first = self.rig.log.segments[0].base_offset
        deleted = [batch for batch in self.model if batch.last < first]
        kept = [batch for batch in self.model if batch.last >= first and batch.base in there]
        assert kept == [
            batch
            for batch in self.model
            if batch.last >= first and (batch.last < synced or batch.base in there)
        ]
        self.model = deleted + kept

    def _headers(self) -> list[tuple[int, BatchHeader]]:
        return [each for segment in self.rig.log.segments for each in segment.headers()]

    def _start_may_fall_back(self) -> None:
        """The log start is saved from time to time only; a crash may bring back what was deleted since."""
        log = self.rig.log
        assert self.saved_start <= log.log_start_offset or log.log_start_offset == self.end
        self.start = log.log_start_offset
        self.saved_start = min(self.saved_start, self.start)
        self._recall_sequences()

    # What holds

    @invariant()
    def numbers_agree(self) -> None:
        log = self.rig.log
        assert log.log_end_offset == self.end
        assert log.log_start_offset == self.start
        assert self.start <= log.high_watermark <= self.end
        assert log.recovery_point <= self.end
        assert [segment.base_offset for segment in log.segments] == sorted(
            {segment.base_offset for segment in log.segments}
        )
        assert log.active is log.segments[-1]

    @invariant()
    def everything_reads_as_in_the_model(self) -> None:
        expected = [batch for batch in self.model if batch.last >= self.start]
        assert everything(self.rig.log) == b"".join(batch.data for batch in expected)

    @invariant()
    def indexes_point_at_batches(self) -> None:
        for segment in self.rig.log.segments:
            places = dict(segment.headers())
            index = segment.offset_index
            for number in range(index.count):
                offset, position = index._entry(number)
                assert places[position].last_offset == offset
            newest = max((header.max_timestamp for header in places.values()), default=-1)
            assert segment.largest_timestamp() == newest

    @invariant()
    def producers_agree(self) -> None:
        state = self.rig.log.producer_state
        for producer_id, last in self.sequences.items():
            entry = state.get(producer_id)
            assert entry is not None
            assert entry.last_sequence == last

    @invariant()
    def leader_epochs_agree(self) -> None:
        epochs = self.rig.log.leader_epochs
        for batch in self.model:
            if batch.base >= self.start:
                assert epochs.epoch_of(batch.base) == batch.epoch

    @rule(offset=st.integers(0, 400), max_bytes=st.integers(0, 400), limit=st.integers(0, 400))
    def read_anywhere(self, offset: int, max_bytes: int, limit: int) -> None:
        offset = min(offset, self.end + 1)
        log = self.rig.log
        if not self.start <= offset <= self.end:
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, max_bytes=max_bytes)
            return
        wanted = [batch for batch in self.model if batch.last >= offset and batch.last < limit]
        found = log.read(offset, max_bytes=max_bytes, up_to_offset=limit)
        strict = log.read(offset, max_bytes=max_bytes, up_to_offset=limit, at_least_one_batch=False)
        first = next((batch for batch in self.model if batch.last >= offset), None)
        if first is None or first.last >= limit:
            assert found is None
            assert strict is None
            return
        assert found is not None
        data = found.read()
        assert len(data) == found.size_bytes
        assert found.base_offset == first.base
        assert len(data) <= max(max_bytes, len(first.data))
        assert data[: len(first.data)] == first.data
        assert b"".join(batch.data for batch in wanted).startswith(data)
        assert (strict is None) == (len(first.data) > max_bytes)

    @rule(back=st.integers(-10, 200))
    def find_a_timestamp(self, back: int) -> None:
        timestamp = self.clock - back
        found = found_since(self.rig.log, timestamp)
        expected: tuple[int, int, int] | None = None
        for batch in self.model:
            header: Any = next(headers(batch.data))[1]
            if header.max_timestamp >= timestamp and batch.last >= self.start:
                expected = (header.max_timestamp, max(batch.base, self.start), batch.epoch)
                break
        assert found == expected


TestLogAgainstModel = LogMachine.TestCase
TestLogAgainstModel.settings = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking a log's life takes minutes
    suppress_health_check=list(HealthCheck),
)


def hold(machine: LogMachine) -> None:
    """All that holds after every step."""
    machine.numbers_agree()
    machine.everything_reads_as_in_the_model()
    machine.indexes_point_at_batches()
    machine.producers_agree()
    machine.leader_epochs_agree()


def test_a_cut_below_the_saved_log_start_stays_cut_after_a_power_cut() -> None:
    """The checkpoint says that the log starts at 3, but a cut has left it empty at 0: without the mark of
    that cut a start would begin anew at 3."""
    machine = LogMachine()
    machine.begin(1500, 4096)
    machine.copy_from_a_leader([10, 20, 30, 40], [0])
    machine.cut_power_with(lambda path, unsynced: Torn(unsynced), True)
    machine.run_background_tasks()
    machine.delete_the_beginning(0.9)
    machine.save_checkpoints()
    machine.save_checkpoints()
    assert machine.saved_start == 3
    machine.truncate(8)
    machine.truncate(12)
    hold(machine)
    machine.cut_power_with(lose_all, False)
    hold(machine)
    assert machine.end == 0


@pytest.mark.parametrize("end", ["end_in_order", "kill"])
def test_a_log_that_was_cut_within_a_gap_ends_with_its_files_but_not_below_its_start(end: str) -> None:
    machine = LogMachine()
    machine.begin(400, 150)
    machine.copy_from_a_leader([60, 41, 16, 27], [0])
    machine.copy_from_a_leader([2, 57, 38, 13], [0])
    write_compaction_marker(machine.rig.files, machine.rig.directory, 4)
    machine.cut_power_with(lambda path, unsynced: Torn(unsynced * (f"{4:020d}.log" in path)), True)
    assert [batch.base for batch in machine.model] == [4], "of the first segment nothing was left"
    machine.delete_the_beginning(0.3)
    machine.truncate(5)
    assert (machine.start, machine.end) == (2, 3)
    machine.save_checkpoints()
    getattr(machine, end)()
    hold(machine)
    assert (machine.start, machine.end) == (2, 2)
