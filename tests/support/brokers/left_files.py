"""What a broker left in its directories, held against `kafka-dump-log`: it must have nothing to complain of.

One walk takes each file of a log directory that the tool reads: segments with every record and the decoder
of their topic, indexes against their logs and by themselves, transaction indexes, producer snapshots,
snapshots of the metadata log. The files of one kind go to the tool in one call, and all calls into one JVM.
`barnabas dump` reads the same files, and must print the same lines.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from broker.__main__ import main
from tests.support.genuine.tool_server import ToolServer

SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
SHARES: Final = "__share_group_state"
METADATA: Final = "__cluster_metadata"
COMPACTED: Final = (OFFSETS, TRANSACTIONS)
"""Topics in which offsets are missing, as they should be."""

_DECODERS: Final = {
    OFFSETS: "--offsets-decoder",
    TRANSACTIONS: "--transaction-log-decoder",
    SHARES: "--share-group-state-decoder",
    METADATA: "--cluster-metadata-decoder",
}
_DEEP: Final = ("--deep-iteration", "--print-data-log")
_SIGNS: Final = ("isvalid: false", "invalid bytes at the end", "Error at", "Unknown record type")

_INDEXES: Final = (".index", ".timeindex")


class Look(NamedTuple):
    """One call of the tool: these files, read with these options."""

    files: list[Path]
    options: tuple[str, ...]
    may_have_gaps: bool = False


def check_left_files(
    tools: ToolServer, data: Path | Sequence[Path], *, compacted: Collection[str] = ()
) -> dict[str, int]:
    """Fails on the first complaint, or line that is not ours too. `compacted` names topics of which records
    were cleaned away. Returns the number of files of each suffix, so that a test can tell that some were
    there."""
    directories = [data] if isinstance(data, Path) else list(data)
    files = sorted(each for directory in directories for each in _readable(directory))
    looks = list(_looks(files, {*COMPACTED, *compacted}))
    for look in looks:
        genuine = tools.run("kafka-dump-log", "--files", ",".join(map(str, look.files)), *look.options)
        complaints = _complaints(genuine.out, genuine.err, look.may_have_gaps)
        assert (genuine.code, complaints) == (0, []), f"{look.options}: {complaints[:10]}"
        _compare(look, genuine.out)
    return {suffix: sum(file.suffix == suffix for file in files) for suffix in SUFFIXES}


def orphans(data: Path) -> list[Path]:
    """Indexes without their log."""
    return [file for file in _readable(data) if _is_orphan(file)]


def _is_orphan(file: Path) -> bool:
    return file.suffix in _INDEXES and not file.with_suffix(".log").exists()


def _readable(directory: Path) -> Iterator[Path]:
    """Files in the directories of partitions; what is on its way out (`-delete`, `.deleted`) too is left
    alone."""
    for partition in directory.iterdir():
        if partition.is_dir() and not partition.name.endswith("-delete"):
            yield from (file for file in partition.iterdir() if file.suffix in SUFFIXES)


def _looks(files: list[Path], compacted: set[str]) -> Iterator[Look]:
    for decoder in ("", *_DECODERS.values()):
        for has_gaps in (False, True):
            chosen = [
                file
                for file in files
                if file.suffix in (".log", ".checkpoint")
                and _DECODERS.get(topic_of(file), "") == decoder
                and (topic_of(file) in compacted) == has_gaps
            ]
            if chosen:
                yield Look(chosen, (*_DEEP, decoder) if decoder else _DEEP, has_gaps)
    # A crash between the renames of one segment leaves an index without its log: the next start removes it.
    indexes = [file for file in files if file.suffix in _INDEXES and not _is_orphan(file)]
    for options in ((), ("--verify-index-only",), ("--index-sanity-check",)):
        if indexes:
            yield Look(indexes, options)
    others = [file for file in files if file.suffix in (".txnindex", ".snapshot")]
    if others:
        yield Look(others, ())


def topic_of(file: Path) -> str:
    """Of a file in a partition's directory, a copy that moves (`topic-0.<id>-future`) included."""
    return file.parent.name.partition(".")[0].rpartition("-")[0] or file.parent.name.rpartition("-")[0]


def _complaints(out: str, err: str, may_have_gaps: bool) -> list[str]:
    found = [line for line in out.splitlines() if any(sign in line for sign in _SIGNS)]
    return found + [line for line in err.splitlines() if not _is_harmless(line, may_have_gaps)]


def _is_harmless(line: str, may_have_gaps: bool) -> bool:
    """Two things that the tool also says of files that nobody but Apache Kafka wrote: it expects offset 0 in
    any segment, and it finds no timestamp in a batch that lost all its records and is kept for the numbers
    of its producer. The lines above these only name the file."""
    if line.startswith(("Non-consecutive offsets in ", "Found timestamp mismatch in ")):
        return True
    if line.startswith("  Index timestamp: "):
        return line.endswith("log timestamp: -1")
    return line.startswith("  -1 is followed by ") or (may_have_gaps and " is followed by " in line)


def _compare(look: Look, genuine: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["dump", *map(str, look.files), *look.options])
    complaints = _complaints("", err.getvalue(), look.may_have_gaps)
    assert (code, complaints) == (0, []), f"barnabas dump {look.options}: {complaints[:10]}"
    ours, theirs = out.getvalue().splitlines(), genuine.splitlines()
    for number, (mine, genuine_line) in enumerate(zip(ours, theirs, strict=False)):
        assert mine == genuine_line, (
            f"{look.options}: line {number} of barnabas dump differs, after {theirs[number - 1]}: {mine}"
        )
    assert len(ours) == len(theirs), f"{look.options}: {len(ours)} lines of ours, {len(theirs)} of the tool"
