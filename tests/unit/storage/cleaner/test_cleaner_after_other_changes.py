"""Compaction of a log that was truncated, thinned, deleted from or written to by transactions before."""

from __future__ import annotations

from tests.support.rigs.compaction import CompactionRig, contents
from tests.support.rigs.log_rig import NOW_MS, found_since
from tests.support.rigs.transactions import TransactionWriter


def test_what_follows_a_cut_is_dirty_though_a_pass_once_went_further() -> None:
    rig = CompactionRig()
    rig.put(("a", "1"), ("b", "1"), ("c", "1"))
    rig.roll_and_clean()
    rig.log.truncate_to(0, now_ms=rig.now_ms)
    rig.put(("a", "2"))
    rig.put(("a", "3"))
    rig.put(("b", "2"))
    rig.put(("b", "3"))
    rig.roll_and_clean()
    assert contents(rig.log) == [(1, "a", "3"), (3, "b", "3")]


def test_the_append_time_of_a_thinned_batch_is_that_of_a_record_that_is_there() -> None:
    rig = CompactionRig(log_append_time=True)
    rig.put(("a", "1"), ("b", "1"))
    rig.put(("a", "2"))
    rig.roll_and_clean()
    assert [offset for offset, _, _ in contents(rig.log)] == [1, 2]
    found = found_since(rig.log, NOW_MS)
    assert found is not None
    assert found[1] == 1


def test_a_segment_that_may_not_be_cleaned_stays_though_the_log_starts_within_it() -> None:
    rig = CompactionRig()
    rig.put(("a", "1"))
    rig.put(("b", "1"))
    rig.commit_all()
    rig.log.increase_log_start(1)
    writer = TransactionWriter(rig.log)
    writer.write(7, key=b"b")
    rig.log.roll(rig.now_ms)
    assert not rig.clean()
    writer.end(7, commit=False)
    assert (1, "b", "1") in contents(rig.log)


def test_a_transaction_that_was_aborted_in_the_clean_part_says_nothing_of_the_next() -> None:
    rig = CompactionRig()
    writer = TransactionWriter(rig.log)
    writer.write(7, key=b"a")
    writer.end(7, commit=False)
    rig.put(("b", "1"))
    rig.roll_and_clean()
    writer.write(7, key=b"c")
    writer.write(7, key=b"c")
    writer.end(7, commit=True)
    rig.roll_and_clean()
    assert [offset for offset, key, _ in contents(rig.log) if key == "c"] == [4]
