"""Prints a file with the reader that its name asks for."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from config.ports import Files
from storage.dump.index_files import (
    base_offset_of,
    check_index,
    dump_offset_index,
    dump_snapshot,
    dump_time_index,
    dump_transaction_index,
    without_endings,
)
from storage.dump.log_file import LogOptions, dump_log
from storage.file_names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from storage.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from storage.producer_snapshot import CorruptProducerSnapshot
from storage.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES

CHECKPOINT_SUFFIX = ".checkpoint"
_BOOTSTRAP = "bootstrap"

Write = Callable[[str], None]


class DumpOptions(msgspec.Struct, frozen=True, kw_only=True):
    log: LogOptions = LogOptions()
    verify_index_only: bool = False
    index_sanity_check: bool = False


class CannotDump(Exception):
    """A file does not hold what its name says. The text is one line."""


def dump_file(files: Files, path: str, options: DumpOptions, write: Write, complain: Write) -> None:
    """Prints one file. Raises CannotDump, OSError."""
    suffix = os.path.splitext(without_endings(path))[1]
    write(f"Dumping {path}")
    if suffix in (LOG_SUFFIX, CHECKPOINT_SUFFIX):
        _dump_batches(files, path, suffix, options, write, complain)
    elif suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        _dump_index(files, path, suffix, options, write, complain)
    elif suffix == TRANSACTION_INDEX_SUFFIX:
        dump_transaction_index(files, path, write)
    elif suffix == SNAPSHOT_SUFFIX:
        try:
            dump_snapshot(files, path, write)
        except CorruptProducerSnapshot as error:
            raise CannotDump(f"{path}: {error}") from error
    else:
        complain(f"Ignoring unknown file {path}")


def _dump_batches(
    files: Files, path: str, suffix: str, options: DumpOptions, write: Write, complain: Write
) -> None:
    if suffix == LOG_SUFFIX:
        base_offset = base_offset_of(path)
        if base_offset is None:
            raise CannotDump(f"{path}: the name of a segment is its first offset in twenty digits")
        write(f"Log starting offset: {base_offset}")
    else:
        end, _, epoch = os.path.basename(path).partition(".")[0].partition("-")
        if end.isdigit() and epoch.isdigit():
            write(f"Snapshot end offset: {int(end)}, epoch: {int(epoch)}")
        elif end == _BOOTSTRAP:
            write("KRaft bootstrap snapshot")
    file = files.open(path)
    try:
        dump_log(file, options.log, write, complain)
    finally:
        file.close()


def _dump_index(
    files: Files, path: str, suffix: str, options: DumpOptions, write: Write, complain: Write
) -> None:
    base_offset = base_offset_of(path)
    if base_offset is None:
        raise CannotDump(f"{path}: the name of an index is its segment's first offset in twenty digits")
    is_offsets = suffix == OFFSET_INDEX_SUFFIX
    if is_offsets and not files.status(path).size_bytes:
        write(f"{path} is empty.")
        return
    if options.index_sanity_check:
        write(check_index(files, path, OFFSET_ENTRY_BYTES if is_offsets else TIME_ENTRY_BYTES))
        return
    dump = dump_offset_index if is_offsets else dump_time_index
    dump(
        files, path, base_offset=base_offset, verify_only=options.verify_index_only,
        write=write, complain=complain,
    )  # fmt: skip
