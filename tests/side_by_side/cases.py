"""What a case is: a name, and one call of a tool or of an admin client.

A call is written as its user writes it: `tool` a command line, `java` a call of Java's admin client in
AdminCall's words, `confluent` and `kafka_python` the call itself. The bootstrap server is added where it
is left out; ``{broker}``, ``{controller}``, ``{data}`` and the names of ``files`` in braces stand for what
differs between two brokers. Cases run in the order of the tables, each on what the ones before it left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.side_by_side.sides import Side

PATIENCE_SECONDS: Final = 60
ASKING: Final = re.compile(
    r"--describe|--list|get-offsets|AdminCall (describe|list)|-transactions .*(describe|list|find-hanging)"
    r"|kafka-cluster list-endpoints|kafka-metadata-quorum .*describe|kafka-console-consumer (?!.*--group )"
)
QUICK: Final = "default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n"
"""A client's file, for a call that a client repeats until it has had enough."""


@dataclass(frozen=True)
class Case:
    """One call, and how its answer is to be read."""

    name: str
    line: str = ""
    """A command line: ``kafka-…`` for a tool, ``AdminCall …`` for Java's admin client."""
    stdin: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that the command line names in braces."""
    python: Callable[[Side], object] | None = None
    """A call of a Python client, instead of a command line."""
    calls: tuple[str, ...] = ()
    """The names that the Python call uses."""
    unordered: bool = False
    """Kafka takes the order of the lines from a hash table: they are compared sorted."""
    until: str = ""
    """What is asked for comes about a little later; this is how one knows."""

    @property
    def only_asks(self) -> bool:
        """Whether the call changes nothing, so that it may be made again: told by its name."""
        if self.python is None:
            return bool(ASKING.search(self.line))
        return any(name.startswith(("describe_", "list_", "shown_by_")) for name in self.calls)


def tool(
    name: str, line: str, stdin: str = "", *, unordered: bool = False, until: str = "", **files: str
) -> Case:
    return Case(name, line, stdin, files, unordered=unordered, until=until)


def java(name: str, line: str, *, unordered: bool = False, until: str = "") -> Case:
    return Case(name, f"AdminCall {line}", unordered=unordered, until=until)


def confluent(name: str, call: Callable[[Any], object], *, until: str = "") -> Case:
    """A call of confluent-kafka's AdminClient; futures are awaited, one by one."""
    return Case(name, python=lambda side: call(side.confluent), calls=_names(call), until=until)


def kafka_python(name: str, call: Callable[[Any], object], *, until: str = "") -> Case:
    """A call of kafka-python's KafkaAdminClient."""
    return Case(name, python=lambda side: call(side.kafka_python), calls=_names(call), until=until)


def _names(call: Callable[[Any], object]) -> tuple[str, ...]:
    code: CodeType = getattr(call, "__code__")  # noqa: B009
    return code.co_names


def step(name: str, act: Callable[[Side], object]) -> Case:
    """Something that must happen between two calls, such as a consumer that joins."""
    return Case(name, python=act)
