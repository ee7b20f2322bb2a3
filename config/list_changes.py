"""APPEND and SUBTRACT: changes to configs that are lists (KIP-339).

Both work on the stored text, or on the built-in default where nothing is stored: what a topic inherits from
its broker is not looked at.
"""

from __future__ import annotations

from config.definition import LIST, Definition
from config.errors import InvalidValue
from config.values import text_of


def changed_list(definition: Definition | None, name: str, stored: str | None, given: str, word: str) -> str:
    """The text after `word` (APPEND or SUBTRACT) of the items in `given`; raises `InvalidValue`."""
    if definition is None or definition.type is not LIST:
        raise InvalidValue(f"Can't {word} to key {name} because its type is not LIST.")
    before = text_of(definition.default, LIST) if stored is None else stored
    items = [item for item in (before or "").split(",") if item]
    for item in split_as_java(given):
        if word == "APPEND":
            if item not in items:
                items.append(item)
        elif item in items:
            items.remove(item)
    return ",".join(items)


def split_as_java(text: str) -> list[str]:
    """`text.split(",")` of Java: empty texts at the end do not count, but an empty text is one item."""
    items = text.split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return [] if items == [""] and text else items
