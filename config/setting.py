"""One setting as somebody wrote it: a name, a text, and the place where it stands.

The place goes with the value all the way, so that a refusal can point at file and line, and DescribeConfigs
can tell a value from the file from a built-in one.
"""

from __future__ import annotations

import enum

from msgspec import Struct


class Source(enum.IntEnum):
    """The source of a setting; of two settings of one name that of the higher source wins."""

    DEFAULTS = 0
    FILE = 1
    ENVIRONMENT = 2
    OVERRIDE = 3
    DYNAMIC = 4


class Setting(Struct, frozen=True, gc=False):
    """`text` is unparsed, blanks included; `place` reads like `server.properties line 12`."""

    name: str
    text: str
    source: Source
    place: str


def one_line(text: str, most: int = 200) -> str:
    """The text fit for a line of a log: control characters escaped, and cut when very long."""
    shown = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= most else shown[:most] + "…"
