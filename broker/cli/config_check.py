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

from config.catalogue import broker_definition
from config.effects import REASONS_IGNORED, Effect, effect_of
from config.errors import ConfigError
from config.loading import file_settings, layered, load, refusal
from config.setting import Setting, one_line
from config.values import HIDDEN

WOULD_START: Final = 0
REFUSED: Final = 1
UNREADABLE: Final = 2

_UNKNOWN: Final = "unknown"
_REFUSED: Final = "refused"
_HEADINGS: Final = (
    (Effect.HONOURED.value, "does what Kafka's documentation says"),
    (Effect.NOT_USED_YET.value, "read and checked, but nothing depends on it so far"),
    (Effect.IGNORED.value, "has no meaning here"),
    (_UNKNOWN, "no such config in Kafka 4.3; without effect, as in Kafka"),
    (_REFUSED, "the broker would not start"),
)


def run(options: argparse.Namespace) -> int:
    """The command; `options.file` is the path."""
    return check_file(options.file, sys.stdout)


def check_file(path: str, out: TextIO) -> int:
    """Writes the verdict on every key of the file to `out`; returns the exit code."""
    try:
        with open(path, "rb") as file:
            settings = layered(file_settings(path, file.read()))
    except OSError as problem:
        out.write(f"{path}: {problem.strerror or problem}\n")
        return UNREADABLE
    except ConfigError as problem:
        out.write(f"{problem}\n")
        return UNREADABLE

    lines: dict[str, list[str]] = {heading: [] for heading, _ in _HEADINGS}
    for name in sorted(settings):
        heading, line = _verdict(settings[name])
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


def _verdict(setting: Setting) -> tuple[str, str]:
    """The heading under which the setting stands, and its line."""
    definition = broker_definition(setting.name)
    if definition is None:
        # A key that nobody knows may be a secret of a plug-in, so its value is not shown.
        return _UNKNOWN, f"{one_line(setting.name)}  ({setting.place})"
    problem = refusal(setting)
    if problem is not None:
        return _REFUSED, problem
    shown = HIDDEN if definition.sensitive else one_line(setting.text)
    line = f"{setting.name} = {shown}"
    effect = effect_of(definition)
    if effect is Effect.IGNORED:
        line += f"  ({REASONS_IGNORED[definition.name]})"
    return effect.value, line


def _refused_together(settings: Mapping[str, Setting]) -> str | None:
    try:
        load(settings)
    except ConfigError as problem:
        return str(problem)
    return None
