"""Compaction against a dictionary: whatever happens in whatever order, each key has its last value."""

from __future__ import annotations

import os
import random

import pytest

from storage.cleaner.cleaner import SET_ASIDE_MS, CleanerSettings
from storage.faulty_files import Fault
from tests.support.rigs.compaction import CompactionRig, contents, random_pairs, state
from tests.support.rigs.transactions import TransactionWriter

SEEDS = int(os.environ.get("BARNABAS_COMPACTION_SEEDS", "40"))
FIRST = int(os.environ.get("BARNABAS_COMPACTION_FIRST_SEED", "0"))
STEPS = 60
HOUR_MS = 3_600_000


class Story:
    """Random steps on one log, and the dictionary that it must amount to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rig = CompactionRig(
            segment_bytes=self.rng.choice((300, 700, 2000)),
            delete_retention_ms=HOUR_MS,
            min_compaction_lag_ms=self.rng.choice((0, 0, HOUR_MS)),
        )
        self.rig.cleaner.settings = CleanerSettings(dedupe_buffer_bytes=self.rng.choice((24 * 12, 1 << 16)))
        self.writer = TransactionWriter(self.rig.log)
        self.expected: dict[str, str] = {}
        self.passes = self.crashes = self.restarts = 0

    def step(self) -> None:
        rng, rig = self.rng, self.rig
        action = rng.random()
        if action < 0.45:
            pairs = random_pairs(rng, rng.randrange(1, 6), 8)
            rig.put(*pairs, codec=rng.randrange(5))
            self._expect(pairs)
        elif action < 0.55:
            self._transaction()
        elif action < 0.62:
            rig.log.roll(rig.now_ms)
        elif action < 0.82:
            self.passes += rig.clean()
        elif action < 0.88:
            rig.now_ms += rng.choice((1000, HOUR_MS, 2 * HOUR_MS))
            rig.run_background_tasks()
        elif action < 0.94:
            self._restart()
        else:
            self._crash()

    def _expect(self, pairs: list[tuple[str, str | None]]) -> None:
        for key, value in pairs:
            if value is None:
                self.expected.pop(key, None)
            else:
                self.expected[key] = value

    def _transaction(self) -> None:
        """One that ends: its records count only if it is committed."""
        commits = self.rng.random() < 0.5
        producer_id = self.rng.randrange(3)
        for _ in range(self.rng.randrange(1, 4)):
            self.writer.write(producer_id, key=b"txn%d" % producer_id)
        if self.rng.random() < 0.3:
            self.rig.log.roll(self.rig.now_ms)
        self.writer.end(producer_id, commit=commits)
        if commits:
            self.expected[f"txn{producer_id}"] = "\0" * 10

    def _restart(self) -> None:
        is_clean = self.rng.random() < 0.5
        if is_clean:
            self.rig.commit_all()
            self.rig.close()
        self.writer.log = self.rig.start_again(is_clean=is_clean)
        self.restarts += 1

    def _crash(self) -> None:
        """In the middle of a pass: the n-th change of a name, or of a cleaned file, does not happen."""
        rig = self.rig
        call = self.rng.choice(("rename", "rename", "write", "fdatasync"))
        fault = Fault(call, number=self.rng.randrange(1, 12), count=10_000, path_part="/orders-0/")
        rig.commit_all()
        rig.run_background_tasks()
        rig.faulty.faults = [fault]
        rig.cleaner.look()
        rig.faulty.faults = []
        if fault.hits:
            self.crashes += 1
        if self.rng.random() < 0.5 and self._all_synced():
            rig.memory.cut_power()
        else:
            rig.memory.kill_process()
        self.writer.log = rig.start_again(is_clean=False)
        rig.cleaner.set_aside.clear()
        rig.broken.clear()

    def _all_synced(self) -> bool:
        """A power cut is only about the cleaner here: what was appended is brought to the disk first."""
        for segment in self.rig.log.segments:
            for suffix in (".log", ".log.deleted", ".log.swap"):
                path = segment.path(suffix)
                if self.rig.memory.exists(path):
                    file = self.rig.memory.open(path, write=True)
                    file.fdatasync()
                    file.close()
        return True

    def check(self) -> None:
        found = contents(self.rig.log)
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert committed_state(self.rig) == self.expected


def committed_state(rig: CompactionRig) -> dict[str, str]:
    """What read_committed holds in the end."""
    rig.commit_all()
    aborted = [each for segment in rig.log.segments for each in segment.transaction_index.entries()]
    found: dict[str, str] = {}
    for offset, key, value in contents(rig.log):
        if key.startswith("txn"):
            producer_id = int(key[3:])
            if any(
                each.producer_id == producer_id and each.first_offset <= offset <= each.last_offset
                for each in aborted
            ):
                continue
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_each_key_has_its_last_value(seed: int) -> None:
    story = Story(seed)
    for _ in range(STEPS):
        story.step()
        story.check()
    story.rig.now_ms += SET_ASIDE_MS + 3 * HOUR_MS
    for _ in range(8):
        story.rig.roll_and_clean()
        story.check()
    assert story.passes + story.crashes + story.restarts > 0


def test_the_stories_are_full_of_events() -> None:
    passes = crashes = restarts = 0
    for seed in range(20):
        story = Story(seed)
        for _ in range(STEPS):
            story.step()
        passes += story.passes
        crashes += story.crashes
        restarts += story.restarts
    assert passes > 40
    assert crashes > 20
    assert restarts > 30


def test_state_leaves_tombstones_out() -> None:
    rig = CompactionRig()
    rig.put(("a", "1"), ("b", "2"))
    rig.put(("a", None))
    assert state(rig.log) == {"b": "2"}
