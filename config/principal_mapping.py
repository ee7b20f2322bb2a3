"""ssl.principal.mapping.rules: from the name in a client's certificate to the name of its principal
(KIP-371).

    rules    rule, rule, …                 the first one that matches counts
    rule     DEFAULT                       the name as it is
             RULE:pattern/replacement/     where the pattern matches the whole name, each place that it finds
             RULE:pattern/replacement/L    is replaced; in small letters; in capitals (U)

A replacement names a group as `$1`. As in Kafka `$4` is the text itself where there are only three groups,
and `$12` is the first group and a 2 where there are fewer than twelve; a backslash takes the meaning from
the next character.
"""

from __future__ import annotations

import re
from typing import Final

from config.errors import ConfigError
from config.setting import one_line

NAME: Final = "ssl.principal.mapping.rules"

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(?:.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(_RULE)


class NoRuleMatches(Exception):
    """No rule matches the name of a client, who therefore has no principal."""


class _Rule:
    """One rule with a pattern. `parts` are the replacement: texts, and numbers of groups."""

    def __init__(self, pattern: str, replacement: str, case: str) -> None:
        try:
            self._pattern = re.compile(pattern)
        except re.error as problem:
            raise ConfigError(f"{NAME}: the pattern {one_line(pattern)} cannot be read: {problem}") from None
        self._parts = _parts(replacement, self._pattern.groups)
        self._case = case

    def apply(self, name: str) -> str | None:
        if self._pattern.fullmatch(name) is None:
            return None
        result = self._pattern.sub(self._replaced, name)
        return {"L": result.lower, "U": result.upper}.get(self._case, result.__str__)()

    def _replaced(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self._parts)


class PrincipalMapper:
    """The rules, ready to be applied. Raises ConfigError if they cannot be read."""

    def __init__(self, rules: str) -> None:
        self._rules: list[_Rule | None] = []
        """None stands for DEFAULT."""
        for match in _SPLITTER.finditer(rules.strip()):
            rule = match[1]
            parsed = _PARSER.match(rule)
            if parsed is None or parsed.end() != len(rule):
                raise ConfigError(f"{NAME}: Invalid rule: {one_line(rule)}. A rule is DEFAULT or {_FORM}")
            if parsed[1] is not None:
                self._rules.append(None)
            elif parsed[2] is not None:
                self._rules.append(_Rule(parsed[2], parsed[3], parsed[4]))

    def name_of(self, distinguished_name: str) -> str:
        """The name of the principal. Raises NoRuleMatches."""
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoRuleMatches(f"no rule of {NAME} matches {one_line(distinguished_name, 200)}")


_FORM: Final = "RULE:pattern/replacement/, with L or U at the end for small letters or capitals"


def _parts(replacement: str, groups: int) -> list[str | int]:
    parts: list[str | int] = []
    at = 0
    while at < len(replacement):
        character = replacement[at]
        at += 1
        if character == "\\":
            parts.append(replacement[at : at + 1])
            at += 1
        elif character == "$":
            digits = re.match(r"[0-9]*", replacement[at:])
            number = _group(digits[0] if digits else "", groups)
            if number is None:
                raise ConfigError(
                    f"{NAME}: $ in the replacement {one_line(replacement)} is followed by no group of its "
                    r"pattern; \$ stands for the character itself"
                )
            if int(number) > groups:
                parts.append("$")
                continue
            parts.append(int(number))
            at += len(number)
        else:
            parts.append(character)
    return parts


def _group(digits: str, groups: int) -> str | None:
    """As many of the digits as make the number of a group; the first one if that is too large. None without
    digits, or where a pattern without groups is asked for one."""
    if not digits or (groups == 0 and digits[0] != "0"):
        return None
    size = 1
    while size < len(digits) and int(digits[: size + 1]) <= groups:
        size += 1
    return digits[:size]
