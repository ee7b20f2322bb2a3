r"""JAAS entries, as `sasl.jaas.config` holds them: a login module and its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Words are separated by white space. A word in double or single quotes may hold anything, with `\n`, `\t`,
`\"`, `\\` and octal numbers as in Java; one without quotes ends before white space, `=`, `;`, a quote or a
`/`, which begins a comment. Error messages name the number of an option and never repeat what stands there,
because where a quote is missing that is a part of a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from config.errors import ConfigError

__all__ = ["JaasEntry", "parse_jaas"]

FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_EQUALS: Final = "="
_END: Final = ";"

_TOKEN: Final = re.compile(
    r"""
      (?P<space> [\x00-\x20]+ | //[^\r\n]* | /\*.*?\*/ | /(?![*/])[^\r\n]* )
    | (?P<mark> [=;] )
    | "(?P<double> (?: [^"\\\r\n] | \\[^\r\n] )* )"
    | '(?P<single> (?: [^'\\\r\n] | \\[^\r\n] )* )'
    | (?P<word> [^\x00-\x20=;"'/]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_CONTROLS: Final = MappingProxyType(
    {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\x0b"}
)


class JaasEntry(Struct, frozen=True):
    """The one entry of a config. Its options hold passwords and are not shown."""

    login_module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.login_module!r}, [hidden])"


class _Token(Struct, frozen=True):
    """A word, which may be empty where it was quoted, or one of the marks `=` and `;`."""

    text: str
    is_mark: bool = False

    def is_(self, mark: str) -> bool:
        return self.is_mark and self.text == mark


def parse_jaas(name: str, text: str) -> JaasEntry:
    """The entry in the config `name`. Raises ConfigError if the text does not hold exactly one."""
    tokens = _tokens(name, text)
    entries = [_entry(name, token, tokens) for token in tokens]
    if len(entries) != 1:
        count = "no login module" if not entries else f"{len(entries)} login modules"
        raise ConfigError(f"{name}: JAAS config property contains {count}, should be 1 module")
    return entries[0]


def _entry(name: str, first: _Token, tokens: Iterator[_Token]) -> JaasEntry:
    if first.is_mark:
        raise ConfigError(f"{name}: Login module not specified in JAAS config")
    flag = next(tokens, None)
    if flag is None or flag.is_mark or flag.text.lower() not in FLAGS:
        raise ConfigError(
            f"{name}: Login module control flag not specified in JAAS config: the second word must be one of "
            f"{', '.join(FLAGS)}"
        )
    options: dict[str, str] = {}
    for key in tokens:
        if key.is_(_END):
            return JaasEntry(first.text, MappingProxyType(options))
        equals, value = next(tokens, None), next(tokens, None)
        if key.is_mark or equals is None or not equals.is_(_EQUALS) or value is None or value.is_mark:
            raise ConfigError(
                f"{name}: Value not specified for option {len(options) + 1} in JAAS config: each is "
                'name="value", and a semicolon is behind the last one'
            )
        options[key.text] = value.text
    raise ConfigError(f"{name}: JAAS config entry not terminated by semi-colon")


def _tokens(name: str, text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            kind = "comment" if text.startswith("/*", at) else "quoted word"
            raise ConfigError(f"{name}: the {kind} that begins at character {at + 1} has no end")
        at = match.end()
        if match["mark"]:
            yield _Token(match["mark"], is_mark=True)
        elif match["word"] is not None:
            yield _Token(match["word"])
        elif match["space"] is None:
            quoted = match["double"] if match["double"] is not None else match["single"]
            yield _Token(_ESCAPE.sub(_unescaped, quoted))


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _CONTROLS.get(escaped, escaped)
