"""APPEND and SUBTRACT: changes to configs that are lists (KIP-339).

Both work on the stored text, or on the built-in default where nothing is stored: what a topic inherits from
its broker is not looked at.
"""

from __future__ import annotations

from collections import Counter

from config.definition import LIST, Definition
from config.errors import InvalidValue
from config.values import text_of


def changed_list(definition: Definition | None, name: str, stored: str | None, given: str, word: str) -> str:
    """The text after `word` (APPEND or SUBTRACT) of the items in `given`; raises `InvalidValue`."""
    if definition is None or definition.type is not LIST:
        raise InvalidValue(f"Can't {word} to key {name} because its type is not LIST.")
    before = text_of(definition.default, LIST) if stored is None else stored
    items = [item for item in (before or "").split(",") if item]
    if word == "APPEND":
        there = set(items)
        new = [item for item in dict.fromkeys(split_as_java(given)) if item not in there]
        return ",".join([*items, *new])
    gone = Counter(split_as_java(given))
    left = []
    for item in items:  # each item that is given removes the first equal one
        if gone[item]:
            gone[item] -= 1
        else:
            left.append(item)
    return ",".join(left)


def split_as_java(text: str) -> list[str]:
    """`text.split(",")` of Java: empty texts at the end do not count, but an empty text is one item."""
    items = text.split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return [] if items == [""] and text else items
