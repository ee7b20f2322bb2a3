"""`barnabas config check FILE`: what this broker would do with each key of a file, before it is trusted.

It is the first thing that somebody types who comes from Apache Kafka. Every key gets one line under one of
five headings: honoured, not used yet, ignored, unknown, refused. The exit code is 0 if a broker would start
with the file, 1 if it would be refused, and 2 if the file cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Final, TextIO

from broker.cli.configuration import read_settings, with_values
from config.effects import Effect
from config.errors import ConfigError
from config.loading import layered, load, refusal
from config.meanings import meaning_of
from config.setting import Setting, one_line
from config.values import HIDDEN

WOULD_START: Final = 0
REFUSED: Final = 1
UNREADABLE: Final = 2

_UNKNOWN: Final = "unknown"
_REFUSED: Final = "refused"
_HEADINGS: Final = (
    (Effect.HONOURED.value, "does what Kafka's documentation says"),
    (Effect.NOT_USED_YET.value, "known and kept, but nothing depends on it so far"),
    (Effect.IGNORED.value, "has no meaning here"),
    (_UNKNOWN, "neither Kafka 4.3 nor a plug-in that comes with it reads it; without effect, as in Kafka"),
    (_REFUSED, "the broker would not start"),
)


def run(options: argparse.Namespace) -> int:
    """Runs `barnabas config check`; `options.file` is the path of the file. The exit code is the worse one if
    a cluster is asked too."""
    if options.cluster is None and options.file is None:
        print("barnabas config check: name a file, or --cluster HOST:PORT", file=sys.stderr)
        return UNREADABLE
    code = WOULD_START if options.file is None else check_file(options.file, sys.stdout)
    if options.cluster is None or code == UNREADABLE:
        return code
    from broker.cli.cluster_check import check_cluster

    if options.file is not None:
        print()
    would_start = options.file if code == WOULD_START else None
    return max(code, check_cluster(options.cluster, would_start, sys.stdout))


def check_file(path: str, out: TextIO) -> int:
    """Writes the verdict on every key of the file to `out`; returns the exit code."""
    try:
        settings = layered(read_settings(path))
    except ConfigError as problem:
        out.write(f"{problem}\n")
        return UNREADABLE
    try:
        settings = with_values(settings)
    except ConfigError as problem:
        out.write(f"{_REFUSED} (the broker would not start)\n  {problem}\n")
        return REFUSED

    lines: dict[str, list[str]] = {heading: [] for heading, _ in _HEADINGS}
    for name in sorted(settings):
        heading, line = _verdict(settings[name], settings)
        lines[heading].append(line)
    together = None if lines[_REFUSED] else _refused_together(settings)
    if together is not None:
        lines[_REFUSED].append(f"the settings together: {together}")

    for heading, meaning in _HEADINGS:
        if lines[heading]:
            out.write(f"{heading} ({meaning})\n")
            out.writelines(f"  {line}\n" for line in lines[heading])
            out.write("\n")
    counts = ", ".join(f"{len(lines[heading])} {heading}" for heading, _ in _HEADINGS)
    out.write(f"{path}: {counts}\n")
    return REFUSED if lines[_REFUSED] else WOULD_START


def _verdict(setting: Setting, settings: Mapping[str, Setting]) -> tuple[str, str]:
    """The heading under which the setting is listed, and its line."""
    problem = refusal(setting)
    if problem is not None:
        return _REFUSED, problem
    meaning = meaning_of(setting.name, settings)
    if meaning.effect is None:
        # It may be a secret of somebody's plug-in: the value is not shown.
        notes = f"{setting.place}; {meaning.note}" if meaning.note else setting.place
        return _UNKNOWN, f"{one_line(setting.name)}  ({notes})"
    shown = HIDDEN if meaning.is_secret else one_line(setting.text)
    line = f"{one_line(setting.name)} = {shown}"
    return meaning.effect.value, f"{line}  ({meaning.note})" if meaning.note else line


def _refused_together(settings: Mapping[str, Setting]) -> str | None:
    try:
        load(settings)
    except ConfigError as problem:
        return str(problem)
    return None
