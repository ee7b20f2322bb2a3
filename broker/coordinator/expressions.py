"""Regular expressions of clients, in the syntax of RE2 as Kafka takes them.

Matching takes time in proportion to the length of the text, whatever the expression. A compiled expression
has a bound in memory: one that needs more counts as wrong. So does one that would take long to compile, or to
be found too large: the loop waits for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

__all__ = ["WrongExpression", "compiled", "matcher"]

PROGRAM_BYTES: Final = 1024 * 1024
"""The memory that a compiled expression may take."""
MOST_CHARACTERS: Final = 16_384
"""The longest expression, in characters."""
MOST_UNICODE_CLASSES: Final = 100
r"""The most classes of characters by name (`\pL`), each of which has hundreds of ranges."""
MOST_REPETITIONS: Final = 40_000
"""The most repetitions in all that an expression may ask for in braces. More do not fit into the memory."""
_UNICODE_CLASS: Final = re.compile(r"\\[pP]")
_REPETITION: Final = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")


class WrongExpression(Exception):
    """The text is no expression, or it needs too much memory. The message says why."""


def compiled(expression: str) -> Any:
    """The compiled expression, a pattern of `re2`. Raises WrongExpression."""
    _check_size(expression)
    import re2  # imported at the first expression

    options = re2.Options()
    options.max_mem = PROGRAM_BYTES
    options.log_errors = False
    options.never_capture = True  # nobody asks for groups, and to find them takes as long again
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


def _check_size(expression: str) -> None:
    if len(expression) > MOST_CHARACTERS:
        raise WrongExpression(f"it has more than {MOST_CHARACTERS} characters")
    if len(_UNICODE_CLASS.findall(expression)) > MOST_UNICODE_CLASSES:
        raise WrongExpression(rf"it names more than {MOST_UNICODE_CLASSES} classes of characters by \p")
    if sum(int(most or least) for least, most in _REPETITION.findall(expression)) > MOST_REPETITIONS:
        raise WrongExpression(f"it repeats more than {MOST_REPETITIONS} times in all")
