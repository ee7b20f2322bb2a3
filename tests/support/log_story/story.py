"""One seed is one story: what a node, its clients and its hardware do to some logs, step by step.

The steps are drawn before the first is done; each has a seed of its own from which it draws its details when
its turn comes. So steps can be left out, and the rest still means something: that is how a story that fails
is made short (`shrink`).

What may be lost
    a killed process      nothing that was answered. What was not answered yet may be there, in whole batches
                          and in its order.
    a power cut           of what was answered only what lies at or above the recovery point (what somebody
                          was told to be synced), and of each segment only its end. If damage is left in the
                          middle, the log is cut there; it is never refused.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

from storage.directories import DirectoryRefused
from storage.errors import LogStorageError
from storage.memory_files import MemoryFiles, Torn
from storage.partition_log import PartitionLog
from storage.slices import LogSlice
from tests.support.log_story.after_compaction import stored
from tests.support.log_story.appending import Sent
from tests.support.log_story.checks import (
    Wrong,
    check_checkpoints,
    check_handles,
    check_log,
    check_names,
    require,
)
from tests.support.log_story.doing import DOING, sync_all
from tests.support.log_story.dying_files import SECTOR_BYTES, DyingFiles, Plan, ProcessDied
from tests.support.log_story.hosts import BareHost, Key, NodeHost, configs
from tests.support.log_story.model import Batch, LogModel
from tests.support.log_story.reunion import Reunion
from tests.support.log_story.subject import Subject
from tests.support.rigs.storage_world import ManualClock

STEPS: Final = 30
CALLS: Final = ("write", "write", "sync", "rename", "open", "unlink", "truncate", "any", "any")

KINDS: Final = (
    ("append", 14), ("append idempotent", 10), ("append in a transaction", 10), ("end a transaction", 7),
    ("append several at once", 6), ("copy from a leader", 6), ("send again", 4), ("send nonsense", 3),
    ("raise the high watermark", 8), ("new leader", 3), ("roll", 5), ("truncate", 4),
    ("truncate fully", 1), ("delete records", 3), ("retention by time", 2), ("retention by size", 2),
    ("compact", 9), ("alter the config", 4), ("flush", 4), ("background_tasks", 4), ("housekeeping", 4),
    ("hold a slice", 2), ("let slices go", 1), ("time goes by", 3), ("end in order", 4), ("kill", 3),
    ("cut the power", 4), ("delete the topic", 1),
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    kind: str
    seed: int
    fault: Plan | None = None

    def __str__(self) -> str:
        fault = self.fault
        return self.kind + (f" [{fault.kind} at {fault.call} {fault.number}]" if fault else "")


def steps_of(seed: int, count: int = STEPS) -> list[Step]:
    rng = random.Random(seed)
    kinds, weights = zip(*KINDS, strict=True)
    found = []
    for kind in rng.choices(kinds, weights, k=count):
        fault = None
        if rng.random() < 0.2:
            what = rng.choice(("kill", "power", "EIO", "ENOSPC", "short"))
            call = rng.choice(CALLS) if what not in ("kill", "power") else "any"
            call = "write" if what == "short" else call
            number = 1 + int(rng.random() ** 2 * (12 if call == "any" else 4))
            fault = Plan(what, call, number, rng.choice((1, 1, 2, 50)), rng.random())
        found.append(Step(kind, rng.randrange(1 << 40), fault))
    return found


class Story:
    """Runs steps; `told` is what happened, in words."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"world {seed}")
        self.seed = seed
        self.clock = ManualClock()
        self.memory = MemoryFiles(lambda: self.clock.now_ms)
        self.files = DyingFiles(self.memory)
        self.counts = self.files.counts
        self.told: list[str] = []
        self.slices: list[LogSlice] = []
        is_node = seed % 4 == 3
        self.host: BareHost | NodeHost
        if is_node:
            self.host = NodeHost(self.memory, self.files, self.clock, by_workers=rng.random() < 0.5)
            keys = [("orders", 0), ("orders", 1), ("bills", 0)]
        else:
            self.host = BareHost(self.memory, self.files, self.clock)
            keys = [("orders", 0)]
        self.ids = 0
        self.configs = {key: configs(rng) for key in keys}
        self.subjects = {key: Subject(key) for key in keys}
        for subject in self.subjects.values():
            self._create(subject)
        self.host.run_background_tasks()
        self.is_struck = False
        """Something failed since the last start: parts may be offline."""

    def _create(self, subject: Subject) -> None:
        self.ids += 1
        subject.topic_id = self.ids.to_bytes(16)
        subject.model = LogModel()
        subject.leftovers = []
        subject.cut_stays()
        self.host.create(subject.key, subject.topic_id, self.configs[subject.key])

    def say(self, text: str) -> None:
        self.told.append(text)

    def log_of(self, subject: Subject) -> PartitionLog:
        return self.host.logs[subject.key]

    # Steps

    def run(self, step: Step) -> None:
        """One step, what became of it, and what holds then. Raises Wrong, or whatever the engine did."""
        rng = random.Random(step.seed)
        usable = [each for each in self.subjects.values() if not each.is_offline]
        if not usable:
            self.say("everything is offline: the process is started again")
            self._die(rng, with_power=False)
            usable = list(self.subjects.values())
        subject = rng.choice(usable)
        self.counts[step.kind] += 1
        plan = self.files.plan = replace(step.fault) if step.fault else None
        self.say(f"{step} on {subject.name}")

        try:
            DOING[step.kind](self, subject, rng)
            self.files.plan = None
        except ProcessDied:
            if plan is None:
                raise
            self.say(
                f"    the process dies{' with the power' * (plan.kind == 'power')} before: {plan.struck}"
            )
            self._die(rng, with_power=plan.kind == "power")
        except (LogStorageError, OSError) as error:
            self.files.plan = None
            if plan is None or not plan.struck:
                raise
            self.say(f"    fails: {error}")
            self._after_error(subject, rng)
        if plan is not None and plan.struck:
            self.is_struck = True
            if plan.kind not in ("kill", "power"):
                self.say(f"    {plan.kind} struck {plan.struck}")
        self._see_who_is_offline()
        self.check(rng)

    def _after_error(self, subject: Subject, rng: random.Random) -> None:
        """The engine has said that it cannot; what was under way is what a broker then does."""
        log, model = self.host.logs.get(subject.key), subject.model
        if log is not None and len(subject.appending) > 1:
            # what was committed before a segment could not be sealed is in the log
            for batch in [each for each in stored(log) if each.base >= model.end]:
                self._require_sent(subject, batch)
                model.take(batch)
            subject.appending = subject.appending if log.segments.has_failed_write else []
        subject.leftovers.append(subject.appending)
        subject.appending = []
        model.removal_failed = True
        if subject.cutting is not None or subject.is_starting_anew:
            self.say("    half cut: the process is started again")
            self._die(rng, with_power=False)

    def _require_sent(self, subject: Subject, batch: Batch) -> None:
        """It is the next of those that were to be appended."""
        sent = subject.appending.pop(0) if subject.appending else b""
        if isinstance(sent, Sent):
            sent.require_is(batch, batch.base, subject.model.leader_epoch, None)
        else:
            require(sent == batch.data, "a batch that nobody sent", base=batch.base)

    def _see_who_is_offline(self) -> None:
        for subject in self.subjects.values():
            if subject.key not in self.host.logs and not subject.is_offline:
                if not self.is_struck:
                    raise Wrong(f"{subject.name} is offline and nothing has failed: {self.host.offline}")
                self.say(f"    {subject.name} is offline")
                subject.is_offline = True
                self.counts["offline"] += 1

    def check(self, rng: random.Random) -> None:
        logs = []
        for subject in self.subjects.values():
            if subject.is_offline:
                continue
            log = self.log_of(subject)
            logs.append(log)
            model = subject.model
            model.start = self._checked_start(log, model)
            try:
                check_log(log, model, rng)
            except Wrong as wrong:
                raise Wrong(f"{subject.name}: {wrong}") from None
            model.durable = max(model.durable, log.recovery_point)
        check_checkpoints(self.memory, list(self.host.directories), logs)
        self.slices = [each for each in self.slices if each.shared.is_open]
        check_handles(list(self.files.handles.values()), logs, [each.shared.path for each in self.slices])

    def _checked_start(self, log: PartitionLog, model: LogModel) -> int:
        """Retention moves it as far as it removes segments, never beyond the high watermark."""
        if log.log_start_offset < model.start or log.log_start_offset > model.high_watermark:
            return model.start
        if log.log_start_offset == log.segments[0].base_offset:
            return log.log_start_offset
        return model.start

    # Ends and beginnings

    def end_in_order(self, rng: random.Random) -> None:
        for each in self.slices:
            each.release()
        self.slices.clear()
        try:
            self.host.end()
            is_clean = True
        except (OSError, LogStorageError) as error:
            if not self.is_struck and not (self.files.plan and self.files.plan.struck):
                raise
            self.say(f"    the end is not in order: {error}")
            is_clean = False
        was_clean = is_clean and not self.is_struck and not (self.files.plan and self.files.plan.struck)
        if was_clean:
            require(
                not self.files.handles,
                "a descriptor leaked at the end",
                paths=list(self.files.handles.values()),
            )
        if not is_clean:
            self._die(rng, with_power=False)
            return
        self.memory.kill_process()
        ids = {key: each.topic_id for key, each in self.subjects.items()}
        self.files.handles.clear()
        for each_subject in self.subjects.values():
            each_subject.synced = each_subject.model.end
            each_subject.cut_stays()
        if self._begin(rng, is_clean=True, ids=ids) and was_clean:
            require(
                self.host.scanned == 0 and not self.host.problems,
                "an orderly end is not believed",
                problems=self.host.problems,
            )
            self.clock.now_ms += 120_000
            self.host.run_background_tasks()
            for subject in self.subjects.values():
                log = self.log_of(subject)
                require(
                    log.recovery_point == log.log_end_offset,
                    "an orderly end has a recovery point below the end",
                )
                check_names(self.memory, log)

    def _die(self, rng: random.Random, *, with_power: bool) -> None:
        """The process ends here and now, and another one begins."""
        for subject in self.subjects.values():
            log = self.host.logs.get(subject.key)
            reached = subject.model.durable if log is None else max(subject.model.durable, log.recovery_point)
            if log is not None and log.recovery_point > subject.returns_from:
                subject.cut_stays()  # by some sync behind it
            if subject.cutting is not None:
                reached = min(reached, subject.cutting)
            subject.synced = 0 if subject.is_starting_anew else min(reached, subject.model.end)
        self._crash(rng, with_power)
        self._begin(rng, is_clean=False, ids={key: each.topic_id for key, each in self.subjects.items()})

    def _crash(self, rng: random.Random, with_power: bool) -> None:
        self.slices.clear()
        self.files.revive()
        if not with_power:
            self.memory.kill_process()
            self.counts["killed"] += 1
            self._with_power = False
            return
        self.counts["power cut"] += 1
        self._with_power = True
        keep_names = rng.random() < 0.6
        merciless = rng.random() < 0.2

        # A file system that has lost the names of a cut has not got what was written later either.
        keeps_nothing = not keep_names and any(each.may_return for each in self.subjects.values())

        def plan(path: str, unsynced: int) -> Torn:
            if merciless or keeps_nothing or not unsynced:
                return Torn(0)
            synced = self.memory.status(path).size_bytes - unsynced
            kept = rng.choice((0, unsynced, rng.randrange(unsynced + 1)))
            kept = kept if kept == unsynced else max(kept - (synced + kept) % SECTOR_BYTES, 0)
            zeros = 0 if kept == unsynced else rng.choice((0, 0, SECTOR_BYTES, 5 * SECTOR_BYTES))
            self.counts["torn at a sector"] += 0 < kept < unsynced
            self.counts["zeros behind"] += zeros > 0
            self.counts["unsynced lost"] += kept < unsynced
            return Torn(kept, zeros)

        self.memory.cut_power(plan, keep_names=keep_names)
        self.counts["names lost"] += not keep_names

    def _begin(self, rng: random.Random, *, is_clean: bool, ids: dict[Key, bytes]) -> bool:
        """Opens everything; the opening may be struck as well, and is then done again."""
        with_power = not is_clean and self._with_power
        if not is_clean and rng.random() < 0.25:
            kind = rng.choice(("kill", "power", "EIO", "ENOSPC"))
            self.files.plan = Plan(kind, "any", 1 + rng.randrange(12), share=rng.random())
        for _ in range(6):
            plan = self.files.plan
            try:
                self.host.begin(is_clean=is_clean, config=self.configs, ids=ids)
                if not self.host.offline:
                    break
                reason = f"offline: {self.host.offline}"
            except ProcessDied:
                reason = "it dies again"
            except (OSError, LogStorageError, DirectoryRefused) as error:
                reason = f"{type(error).__name__}: {error}"
            self.say(f"    the start does not end well: {reason}")
            struck = plan is not None and plan.struck
            if struck:
                self.counts["start struck"] += 1
            else:
                raise Wrong(f"the log cannot be opened: {reason}")
            is_power = plan is not None and bool(plan.struck) and plan.kind == "power"
            was = with_power
            self._crash(rng, is_power)
            with_power = was or is_power
            is_clean = False
        self.files.plan = None
        self.is_struck = False
        damage = sum("is damaged" in problem for problem in self.host.problems)
        require(with_power or not damage, "damage in the middle without a power cut")
        self.counts["damage cut"] += damage
        for subject in self.subjects.values():
            subject.is_offline = False
            self._meet_again(subject, with_power, is_clean)
        return is_clean

    def _meet_again(self, subject: Subject, with_power: bool, is_clean: bool) -> None:
        """What is there now, is it what may be there? The model then goes on from it."""
        log = self.host.logs.get(subject.key)
        if log is not None and log.topic_id not in (subject.topic_id, bytes(16)):
            self.say(f"    {subject.name} is there as it was before it was deleted")
            self.host.delete(subject.key)
            log = None
        if log is None:
            require(with_power or subject.is_deleting, "a log is gone", log=subject.name)
            require(subject.synced == 0 or subject.is_deleting, "a synced log is gone", log=subject.name)
            self._create(subject)
            subject.is_deleting = False
            self._nothing_under_way(subject)
            return
        try:
            Reunion(
                subject,
                log,
                self.counts,
                self.clock.now_ms,
                with_power=with_power,
                is_clean=is_clean,
                knows_high_watermark=isinstance(self.host, NodeHost),
            ).meet()
        except Wrong as wrong:
            raise Wrong(f"{subject.name} after a start: {wrong}") from None
        subject.is_deleting = False
        if with_power:
            subject.cut_stays()
        was_cutting = subject.cutting is not None or subject.is_starting_anew
        self._nothing_under_way(subject)
        if was_cutting:
            sync_all(self, subject)  # as whoever cut it does before it goes on

    def _nothing_under_way(self, subject: Subject) -> None:
        subject.appending = []
        subject.cutting = None
        subject.is_starting_anew = subject.is_compacting = subject.is_removing = False
