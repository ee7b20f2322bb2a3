"""Regular expressions of clients, in the syntax of RE2 as Kafka takes them.

Matching takes time in proportion to the length of the text, whatever the expression. A compiled expression
has a bound in memory: one that needs more counts as wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["WrongExpression", "compiled", "matcher"]

PROGRAM_BYTES: Final = 1024 * 1024
"""The memory that a compiled expression may take."""
MOST_CHARACTERS: Final = 8192
"""The longest expression, in characters."""


class WrongExpression(Exception):
    """The text is no expression, or it needs too much memory. The message says why."""


def compiled(expression: str) -> Any:
    """The compiled expression, a pattern of `re2`. Raises WrongExpression."""
    if len(expression) > MOST_CHARACTERS:
        raise WrongExpression(f"it has more than {MOST_CHARACTERS} characters")
    import re2  # imported at the first expression

    options = re2.Options()
    options.max_mem = PROGRAM_BYTES
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        text = error.args[0]
        problem = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    raise WrongExpression(problem)


def matcher(expression: str) -> Callable[[str], bool]:
    """A function that tells whether all of a text matches the expression. Raises WrongExpression."""
    fullmatch = compiled(expression).fullmatch
    return lambda text: fullmatch(text) is not None
