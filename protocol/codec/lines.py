"""Python source in the making: lines with indentation, constants by name, fresh variables."""

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Layout
from typing import Any, Final

__all__ = ["SHORT_ARRAY", "SourceLines"]

SHORT_ARRAY: Final = 8
"""Arrays of fewer numbers are packed with a precompiled layout for their length."""


class SourceLines:
    """Collects the lines of one generated function and the constants that it needs."""

    def __init__(self, constants: dict[str, Any]) -> None:
        self.constants = constants
        self._lines: list[str] = []
        self._depth = 0
        self._fresh: dict[str, int] = {}

    def add(self, *lines: str) -> None:
        indent = "    " * self._depth
        self._lines.extend(indent + line for line in lines)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Makes the lines that are added inside the body of `head`; an empty body becomes `pass`."""
        self.add(head)
        size = len(self._lines)
        self._depth += 1
        yield
        if len(self._lines) == size:
            self.add("pass")
        self._depth -= 1

    def fresh(self, name: str) -> str:
        """A variable name not used before in this function. Single letters remain the generator's own."""
        count = self._fresh.get(name, 0)
        self._fresh[name] = count + 1
        return f"{name}_{count}" if count or len(name) == 1 else name + "_"

    def constant(self, name: str, value: Any) -> str:
        """The name under which `value` is visible to the function; the same value keeps its name."""
        candidate, count = name, 0
        while candidate in self.constants and self.constants[candidate] is not value:
            count += 1
            candidate = f"{name}{count}"
        self.constants[candidate] = value
        return candidate

    def layout(self, code: str, method: str) -> str:
        """The name of a bound method of a big-endian `struct` layout, such as `unpack_iqh`."""
        name = f"{method.partition('_')[0]}_{code.replace('?', 'z')}"
        if name not in self.constants:
            self.constants[name] = getattr(Layout(">" + code), method)
        return name

    def short_arrays(self, codes: str, element: str, method: str) -> str:
        """The name of a tuple of pack methods, each for `codes` and then as many elements as its index."""
        name = f"{method.partition('_')[0]}_{codes.replace('?', 'z')}_{element}s"
        if name not in self.constants:
            layouts = (Layout(f">{codes}{count}{element}") for count in range(SHORT_ARRAY))
            self.constants[name] = tuple(getattr(layout, method) for layout in layouts)
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def build(self, function: str, filename: str) -> Any:
        """Executes the lines and returns the function. Tracebacks and debuggers can show its source."""
        text = self.text()
        exec(compile(text, filename, "exec"), self.constants)
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        return self.constants[function]
