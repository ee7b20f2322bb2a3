"""Recovers logs in a worker process: they are read from end to end, and their files are put right.

The broker names the logs and what it knows of them. The worker does with each what a start does after a crash
(`recovery.load_log`), writes the indexes, and returns what else the headers have told: producers and leader
epochs. The broker then opens the log as after a clean shutdown. What a worker that dies has done is done
again by the next one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from config.ports import Files
from storage.errors import LogStorageError
from storage.file_names import LOG_SUFFIX, offset_of, segment_file
from storage.jobs import Job, Pace
from storage.loaded_log import RecoveredLog
from storage.recovery import OnDamage, load_log

TELL_BYTES: Final = 256 * 1024 * 1024
"""The number of bytes after which a line about the progress is written."""


class LogToRecover(msgspec.Struct, frozen=True, kw_only=True):
    directory: str
    recovery_point: int
    log_start_offset: int
    cleaned_offset: int
    unverified_bytes: int
    """The size of the segments that will be read."""


class RecoverPlan(msgspec.Struct, frozen=True, kw_only=True):
    logs: list[LogToRecover]
    on_damage: str
    """A value of `OnDamage`."""
    index_interval_bytes: int
    now_ms: int


class RecoverResult(msgspec.Struct, frozen=True):
    """The recovered logs, in the order of the plan."""

    logs: list[RecoveredLog]


def recover(files: Files, pace: Pace, plan: RecoverPlan) -> RecoverResult:
    """Recovers the logs of a plan. One that cannot be used has the reason in `failure`, and the others are
    recovered."""
    progress = _Progress(pace, plan)
    return RecoverResult([_recover_one(files, progress, plan, log) for log in plan.logs])


RECOVER = Job("recover", recover, plan=RecoverPlan, result=RecoverResult)


class _Progress:
    def __init__(self, pace: Pace, plan: RecoverPlan) -> None:
        self._pace = pace
        self._total_bytes = sum(log.unverified_bytes for log in plan.logs)
        self._read_bytes = 0
        self._told_bytes = 0
        self.directory = ""

    def note(self, size_bytes: int) -> None:
        self._pace.worked(size_bytes)
        self._read_bytes += size_bytes
        if self._read_bytes - self._told_bytes >= TELL_BYTES:
            self._told_bytes = self._read_bytes
            done, total = self._read_bytes >> 20, max(self._total_bytes, self._read_bytes) >> 20
            self._pace.tell(f"Recovering {self.directory}: {done:,} of {total:,} MiB read")


def _recover_one(files: Files, progress: _Progress, plan: RecoverPlan, log: LogToRecover) -> RecoveredLog:
    progress.directory = log.directory
    try:
        found = load_log(
            files,
            log.directory,
            is_clean=False,
            recovery_point=log.recovery_point,
            log_start_offset=log.log_start_offset,
            index_interval_bytes=plan.index_interval_bytes,
            now_ms=plan.now_ms,
            cleaned_offset=log.cleaned_offset,
            on_damage=OnDamage(plan.on_damage),
            note=progress.note,
        )
        found.segments[-1].seal()
        for segment in found.segments:
            segment.close()
    except (OSError, LogStorageError) as error:
        return RecoveredLog(
            directory=log.directory, producers=[], leader_epochs=[], epochs_changed=False, recovery_point=0,
            scanned_segments=0, cut_bytes=0, problems=[], failure=str(error),
        )  # fmt: skip
    return RecoveredLog(
        directory=log.directory,
        producers=list(found.producer_state.entries()),
        leader_epochs=found.leader_epochs.entries(),
        epochs_changed=found.leader_epochs.changed,
        recovery_point=found.recovery_point,
        scanned_segments=found.scanned_segments,
        cut_bytes=found.cut_bytes,
        problems=list(found.problems),
    )


def unverified_bytes(files: Files, directory: str, recovery_point: int) -> int:
    """The number of bytes that must be read after a crash: the last segment, and all above the recovery
    point."""
    offsets = sorted(
        offset for name in files.listdir(directory) if (offset := offset_of(name, LOG_SUFFIX)) is not None
    )
    total = 0
    for number, offset in enumerate(offsets):
        if number + 1 == len(offsets) or offsets[number + 1] > recovery_point:
            total += files.status(f"{directory}/{segment_file(offset, LOG_SUFFIX)}").size_bytes
    return total
