"""What a config takes beyond its type: ranges, choices, lists without repetition, quorum addresses.

A validator has two methods: `check` raises `InvalidValue` with Kafka's sentence, `allowed` says in Kafka's
notation what would be right (`[1,...]`, `[gzip, lz4]`), which ends up in documentation and error lines.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from msgspec import Struct

from config.errors import InvalidValue
from config.values import Value, java_whole


class Validator(Protocol):
    def check(self, name: str, value: Value) -> None: ...

    def allowed(self) -> str: ...


class Range(Struct, frozen=True, gc=False):
    """A number from `minimum` to `maximum`, both included; None is open. Null is refused."""

    minimum: int | float | None
    maximum: int | float | None = None

    def check(self, name: str, value: Value) -> None:
        if not isinstance(value, (int, float)):
            raise InvalidValue.of(name, value, "Value must be non-null")
        if self.minimum is not None and value < self.minimum:
            raise InvalidValue.of(name, value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise InvalidValue.of(name, value, f"Value must be no more than {self.maximum}")

    def allowed(self) -> str:
        if self.maximum is None:
            return f"[{self.minimum},...]"
        return f"[{self.minimum},...,{self.maximum}]"


class GzipLevel(Struct, frozen=True, gc=False):
    """Allows the levels of zlib, and -1 for its default."""

    def check(self, name: str, value: Value) -> None:
        if not isinstance(value, int) or (value != -1 and not 1 <= value <= 9):
            raise InvalidValue.of(name, value, "Value must be between 1 and 9 or equal to -1")

    def allowed(self) -> str:
        return "[1,...,9] or -1"


class OneOf(Struct, frozen=True, gc=False):
    """Allows one of the given texts."""

    choices: tuple[str, ...]
    ignore_case: bool = False

    def check(self, name: str, value: Value) -> None:
        if self.ignore_case:
            if not isinstance(value, str) or value.upper() not in self.choices:
                choices = ", ".join(self.choices)
                raise InvalidValue.of(name, value, f"String must be one of (case insensitive): {choices}")
        elif value not in self.choices:
            raise InvalidValue.of(name, value, f"String must be one of: {', '.join(self.choices)}")

    def allowed(self) -> str:
        return ("(case insensitive) " if self.ignore_case else "") + f"[{', '.join(self.choices)}]"


class Items(Struct, frozen=True, gc=False):
    """A list whose repeated items count once (see `Definition.parse`), of `choices` if there are any."""

    choices: tuple[str, ...] = ()
    may_be_empty: bool = True
    may_be_null: bool = False

    def check(self, name: str, value: Value) -> None:
        if not isinstance(value, tuple):
            if self.may_be_null:
                return
            raise InvalidValue(f"Configuration '{name}' values must not be null.")
        if not value and not self.may_be_empty:
            wanted = f"[{', '.join(self.choices)}]" if self.choices else "any non-empty value"
            raise InvalidValue(f"Configuration '{name}' must not be empty. Valid values include: {wanted}")
        for item in value:
            if not item:
                raise InvalidValue(f"Configuration '{name}' values must not be empty.")
            if self.choices and item not in self.choices:
                raise InvalidValue.of(name, item, f"String must be one of: {', '.join(self.choices)}")

    def allowed(self) -> str:
        if self.choices:
            return f"[{', '.join(self.choices)}]"
        return "" if self.may_be_empty else "non-empty list"


class NonEmpty(Struct, frozen=True, gc=False):
    """Allows any text that is not empty, and null, as Kafka does."""

    def check(self, name: str, value: Value) -> None:
        if value == "":
            raise InvalidValue.of(name, value, "String must be non-empty")

    def allowed(self) -> str:
        return "non-empty string"


class NonNull(Struct, frozen=True, gc=False):
    def check(self, name: str, value: Value) -> None:
        if value is None:
            raise InvalidValue.of(name, value, "entry must be non null")

    def allowed(self) -> str:
        return "non-null string"


# Compiled on first use (`re` remembers them): most starts need none.
_REPLICA: Final = r"[0-9]+:[0-9]+"
_HOST_PORT: Final = r"\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,9})"
_DURATION: Final = r"(?i)P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+([.,][0-9]{0,9})?S)?)?"


class ThrottledReplicas(Struct, frozen=True, gc=False):
    """`*`, or replicas as `partition:broker`. Empty items are let through, as in Kafka, and so are numbers of
    any length."""

    def check(self, name: str, value: Value) -> None:
        items = [item for item in value if item] if isinstance(value, tuple) else []
        if items != ["*"] and not all(re.fullmatch(_REPLICA, item) for item in items):
            reason = f"{name} must be the literal '*' or a list of replicas in the following format: "
            raise InvalidValue.of(name, value, reason + self.allowed())

    def allowed(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class QuorumVoters(Struct, frozen=True, gc=False):
    """Allows a list of voters of the form `id@host:port`."""

    def check(self, name: str, value: Value) -> None:
        form = "Each entry should be in the form `{id}@{host}:{port}`."
        for item in value if isinstance(value, tuple) else ():
            node_id, at, address = item.partition("@")
            if not at or "@" in address:
                raise InvalidValue(f"Invalid configuration value for {name}. {form}")
            if java_whole(node_id) is None:
                raise InvalidValue(f"Failed to parse voter ID as an integer from {node_id}")
            match = re.fullmatch(_HOST_PORT, address)
            if match is None:
                raise InvalidValue(
                    f"Failed to parse host name from entry {item} for the configuration {name}. {form}"
                )
            _check_port(match[2])

    def allowed(self) -> str:
        return "non-empty list"


class BootstrapServers(Struct, frozen=True, gc=False):
    """Allows a list of addresses of the form `host:port`."""

    def check(self, name: str, value: Value) -> None:
        for item in value if isinstance(value, tuple) else ():
            match = re.fullmatch(_HOST_PORT, item)
            if match is None:
                raise InvalidValue(
                    f"Failed to parse host name from {item} for the configuration {name}. "
                    'Each entry should be in the form "{host}:{port}"'
                )
            _check_port(match[2])

    def allowed(self) -> str:
        return "non-empty list"


class ShareOffsetReset(Struct, frozen=True, gc=False):
    """Allows `earliest`, `latest`, and `by_duration:` with an ISO duration."""

    def check(self, name: str, value: Value) -> None:
        if value in ("earliest", "latest"):
            return
        text = str(value)
        if text.startswith("by_duration:") and re.fullmatch(_DURATION, text.partition(":")[2]):
            return
        raise InvalidValue.of(
            name,
            value,
            f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', "
            "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        )

    def allowed(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"


def at_least(minimum: int) -> Range:
    return Range(minimum)


def between(minimum: int | float, maximum: int | float) -> Range:
    return Range(minimum, maximum)


def _check_port(text: str) -> None:
    if int(text) > 65535:
        raise InvalidValue(f"port out of range:{text}")
