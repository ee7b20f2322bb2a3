"""Reads `server.properties` as java.util.Properties does.

A natural line ends at LF, CR or CRLF. Blanks (space, tab, form feed) at its start do not count. A line that
starts with `#` or `!` is a comment, unless it continues the line before. A line that ends with an odd number
of backslashes goes on in the next one:

    log.dirs=/srv/a,\\
             /srv/b            ->  log.dirs = "/srv/a,/srv/b"

The key ends at the first `=`, `:` or blank that has no backslash before it; one `=` or `:` and the blanks
around it are skipped; all the rest is the value, blanks at its end included. In both, `\\t \\n \\r \\f` and
`\\uXXXX` are escapes, and a backslash before anything else just disappears. The last of several equal keys
wins. The bytes of a file are ISO 8859-1, as Kafka reads them; other letters are written `\\uXXXX`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from config.errors import ConfigError
from config.setting import Setting, Source

_BLANKS: Final = " \t\f"
_ESCAPES: Final = MappingProxyType({"t": "\t", "n": "\n", "r": "\r", "f": "\f"})


def read_properties(text: str, place: str, source: Source = Source.FILE) -> list[Setting]:
    """The settings in their order, equal keys included; raises `ConfigError` for a broken `\\u` escape."""
    settings = []
    for line_number, line in _logical_lines(text):
        key_end, value_start = _split(line)
        try:
            name, value = _unescaped(line[:key_end]), _unescaped(line[value_start:])
        except ValueError:
            raise ConfigError(f"{place} line {line_number}: Malformed \\uxxxx encoding.") from None
        where = f"{place} line {line_number}" if source is Source.FILE else place
        settings.append(Setting(name, value, source, where))
    return settings


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its continuations joined, and the number of the natural line where it begins."""
    parts: list[str] = []
    first_line = 0
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        line = natural.lstrip(_BLANKS)
        if not parts:
            if not line or line[0] in "#!":
                continue
            first_line = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2 == 1:
            parts.append(line[:-1])
            continue
        yield first_line, "".join(parts) + line
        parts = []
    if parts:
        yield first_line, "".join(parts)


def _split(line: str) -> tuple[int, int]:
    """The positions at which the key ends and the value begins."""
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    start = end
    separator_seen = False
    while start < len(line):
        if line[start] in "=:" and not separator_seen:
            separator_seen = True
        elif line[start] not in _BLANKS:
            break
        start += 1
    return end, start


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character != "\\":
            out.append(character)
            at += 1
            continue
        escape = text[at + 1 : at + 2]
        if escape == "u":
            digits = text[at + 2 : at + 6]
            if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(digits)
            out.append(chr(int(digits, 16)))
            at += 6
        else:
            out.append(_ESCAPES.get(escape, escape))
            at += 2
    joined = "".join(out)
    # Two \u escapes may be the halves of one character.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
