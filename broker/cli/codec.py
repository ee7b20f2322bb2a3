"""``barnabas codec show``: the straight-line code that reads and writes one message."""

from __future__ import annotations

import argparse
import sys

from protocol.codec.compiler import source
from protocol.codec.message import Message
from protocol.errors import ProtocolError
from protocol.record_types import find_class
from protocol.registry import apis


def show(options: argparse.Namespace) -> int:
    """Prints the code for an API's request and response, or for the one message named."""
    classes = find_messages(options.message)
    if not classes:
        print(
            f"barnabas: no message is called {options.message!r}; try an API (Fetch), a request "
            "(FetchRequest) or a record (TopicRecord)",
            file=sys.stderr,
        )
        return 1
    for cls in classes:
        if not cls.declaration.versions.covers(options.version):
            known = cls.declaration.versions
            print(f"barnabas: {cls.__name__} has no version {options.version}, only {known}", file=sys.stderr)
            return 1
    try:
        print("\n\n".join(source(cls, options.version).strip() for cls in classes))
    except ProtocolError as error:
        print(f"barnabas: {error}", file=sys.stderr)
        return 1
    return 0


def find_messages(name: str) -> list[type[Message]]:
    """The message classes that the user's `name` may mean; upper and lower case are treated alike."""
    wanted = name.lower()
    for entry in apis():
        base = entry.name.lower()
        if wanted == base:
            return [entry.request, entry.response]
        if wanted == f"{base}request":
            return [entry.request]
        if wanted == f"{base}response":
            return [entry.response]
    found = find_class(name)
    return [] if found is None else [found]
