"""What a broker's log says of its own faults: stacks, and turns of the loop that took too long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_FRAME: Final = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_NEW_LINE: Final = re.compile(r"^[\[\d].*?\b(?P<level>TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b")
_SLOW: Final = re.compile(
    r"the last request begun is (?P<api>\w+) version (?P<version>\d+) from client '(?P<client>[^']*)'"
)
_TOOK: Final = re.compile(r"it took at least (?P<ms>\d+) ms")
_OUR_FOLDERS: Final = ("/broker/", "/controller/", "/storage/", "/protocol/", "/config/")


class Fault(NamedTuple):
    """where: our innermost frame. what: the exception. said: the log's own line, which names the client."""

    where: str
    what: str
    said: str


class SlowTurn(NamedTuple):
    """took_ms: 0 if it was not over."""

    request: str
    client: str
    where: str
    took_ms: int


def _entries(path: Path) -> Iterator[list[str]]:
    """The log's entries, each with the lines of its stack."""
    entry: list[str] = []
    with path.open(errors="replace") as file:
        for line in file:
            if _NEW_LINE.match(line) and entry:
                yield entry
                entry = []
            entry.append(line.rstrip("\n"))
    if entry:
        yield entry


def _where(entry: list[str]) -> str:
    ours = [
        f"{found['file'].rpartition('/')[2]}:{found['line']} {found['function']}"
        for line in entry
        if (found := _FRAME.match(line)) and any(folder in found["file"] for folder in _OUR_FOLDERS)
    ]
    return " < ".join(ours[:-4:-1])


def faults(path: Path) -> Iterator[Fault]:
    """Every stack of an exception."""
    for entry in _entries(path):
        if any(line.startswith("Traceback") for line in entry):
            last = [
                line
                for line in entry
                if line and not line.startswith((" ", "Traceback", "Thread", "Current"))
            ]
            yield Fault(_where(entry), last[-1][:300], entry[0][:300])


def slow_turns(path: Path) -> Iterator[SlowTurn]:
    """Every turn that the watchdog caught, with the stack it took."""
    request, client, where = "", "", ""
    for entry in _entries(path):
        if found := _SLOW.search(entry[0]):
            request, client, where = f"{found['api']} {found['version']}", found["client"], _where(entry)
        elif took := _TOOK.search(entry[0]):
            yield SlowTurn(request, client, where, int(took["ms"]))
            request, client, where = "", "", ""
    if request:
        yield SlowTurn(request, client, where, 0)
