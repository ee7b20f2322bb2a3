"""What two equal brokers must differ in: addresses, folders, ids and times. Nothing else is taken away.

``NORMALISATIONS`` is the whole list, in the order of its use. Each has its reason; a difference that none of
them covers is a difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple


class Places(NamedTuple):
    """Where one side lives."""

    broker: str
    controller: str
    data: Path
    files: Path

    def filled(self, text: str, files: Iterable[str] = ()) -> str:
        """A command line's word, or a file's text, with this side's places in it."""
        for name, value in {"broker": self.broker, "controller": self.controller, "data": self.data}.items():
            text = text.replace(f"{{{name}}}", str(value))
        for name in files:
            text = text.replace(f"{{{name}}}", str(self.files / name))
        return text


class Normalisation(NamedTuple):
    reason: str
    pattern: re.Pattern[str]
    instead: str


NORMALISATIONS: Final = (
    Normalisation(
        "a topic, a directory, a cluster and a process get random ids, which Kafka writes with 22 characters",
        re.compile(r"(?<![\w.-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[A-Za-z0-9_-]{22}(?![\w(=+/-])"),
        "<id>",
    ),
    Normalisation(
        "other clients write them in the other Base64, with + and / and padding",
        re.compile(r"(?<![\w+/])[A-Za-z0-9+/]{21}[AQgw](?:==|(?![\w+/=]))"),
        "<id>",
    ),
    Normalisation(
        "a member's id is its client's id and a random UUID",
        re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        "<uuid>",
    ),
    Normalisation(
        "a log line begins with the time of day",
        re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+\]"),
        "[<time>]",
    ),
    Normalisation(
        "a timestamp counts milliseconds since 1970", re.compile(r"(?<!\d)1[789]\d{11}(?!\d)"), "<time>"
    ),
    Normalisation(
        "how long a transaction is open, beside its time-out and the time since then",
        re.compile(r"(?P<since>\b900000\s+<time>\s+)\d+\s+"),
        r"\g<since><duration> ",
    ),
    Normalisation(
        "how long a transaction hangs, in minutes since the old time of its record",
        re.compile(r"(?P<since>\b1600000000000\s+)\d{7}(?!\d)"),
        r"\g<since><minutes>",
    ),
    Normalisation(
        "the metadata log also holds what time brings about (NoOp records), so its offsets are times too",
        re.compile(r"(?<= Epoch: )\d+|(?<=HighWatermark: {10})\d+"),
        "<metadata offset>",
    ),
    Normalisation(
        "kafkatop names a broker by the connection that answered first, which may have no id yet",
        re.compile(r'(?<="broker_name": ")[^"]*/(?:\d+|bootstrap)(?=")'),
        "<a connection>",
    ),
    Normalisation(
        "a client that calls in vain tells where it stood when its time was up",
        re.compile(
            r"Call\(callName=.*?\) timed out at \S+ after \d+ attempt\(s\)"
            r"|Timed out waiting for a node assignment\. Call: [\w()=]+"
        ),
        "<time is up>",
    ),
)

OF_NO_ORDER: Final = re.compile(
    r"(?<=perations=\[)[^]]+|(?<=operations = \[)[^]]+|(?<=topicPartitions=\[)[^]]+"
    r"|(?<=topicPartitions=)[^)[]+"
    r"|(?<=<duration> )\S+"
)
"""Java prints a set in an order that is another one in each JVM (Set.of): its members are compared sorted."""

MEMBERS: Final = re.compile(r"(?<=members=)\(memberId=.*?\)(?=, (?:partitionAssignor|state)=)")
"""A consumer group lists its members in the order of a hash table, by ids that are random."""


def normalised(answer: str, places: Places, *, unordered: bool = False) -> str:
    """The answer without what is random or a matter of place and time."""
    text = answer.replace(str(places.data), "<data>").replace(str(places.files), "<files>")
    for name, address in (("broker", places.broker), ("controller", places.controller)):
        port = address.rpartition(":")[2]
        text = text.replace(address, f"<{name}>")
        text = re.sub(rf"(?<!\d){port}(?!\d)", f"<{name} port>", text)
    for each in NORMALISATIONS:
        text = each.pattern.sub(each.instead, text)
    text = MEMBERS.sub(_members_in_order, OF_NO_ORDER.sub(_in_order, text))
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(sorted(_json_in_order(line) for line in lines) if unordered else lines)


def _in_order(found: re.Match[str]) -> str:
    return ",".join(sorted(each.strip() for each in found[0].split(",")))


def _members_in_order(found: re.Match[str]) -> str:
    by_client = re.compile(r"clientId=[^,]+")
    return ",".join(sorted(re.split(r",(?=\(memberId=)", found[0]), key=lambda each: by_client.findall(each)))


def _json_in_order(line: str) -> str:
    """A tool's line of JSON with its lists sorted; any other line as it is."""
    if not line.startswith("{"):
        return line

    def ordered(value: object) -> object:
        if isinstance(value, dict):
            return {key: ordered(each) for key, each in value.items()}
        if isinstance(value, list):
            return sorted((ordered(each) for each in value), key=json.dumps)
        return value

    return json.dumps(ordered(json.loads(line)))
