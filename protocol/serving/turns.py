"""Handlers that may be interrupted between two elements of what a client names.

A request may name a hundred thousand groups. A handler that looks at each of them is written as a generator::

    @in_turns
    def handle(services, context, request) -> Turns[DescribeGroupsResponse]:
        for group_id in request.groups:
            yield services.groups.describe(group_id)
        return DescribeGroupsResponse()

It yields elements of an array of its response, which come before those that the returned response holds; or
None, where there is none but much was done. Between two yields it judges one element, on the state of that
moment; what must be one picture it takes before its first yield, and what must happen as one it does
between two.

Who calls the function gets the whole response, as from any handler. `handle.turns` is the generator function:
dispatch runs it a moment at a time and encodes what it yields at once, so that a long answer never exists as
objects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from protocol.codec.decoding import holds_records
from protocol.codec.message import Message, Struct
from protocol.codec.schema import Kind, schema
from protocol.errors import invariant

__all__ = [
    "Turns",
    "array_of",
    "in_turns",
    "longest_array",
    "run_through",
    "struct_arrays_of",
    "with_elements",
]

P = ParamSpec("P")
R = TypeVar("R")

Turns: TypeAlias = Generator[Struct | None, None, R]


def in_turns(function: Callable[P, Turns[R]]) -> Callable[P, R]:
    """The handler of which `function` is the generator."""

    @wraps(function)
    def handle(*args: P.args, **kwargs: P.kwargs) -> R:
        return run_through(function(*args, **kwargs))

    handle.turns = function  # type: ignore[attr-defined]
    return handle


def run_through(turns: Turns[R]) -> R:
    """Runs all turns at once, and returns the whole response."""
    elements: list[Any] = []
    while True:
        try:
            element = next(turns)
        except StopIteration as end:
            response: R = end.value
            break
        if element is not None:
            elements.append(element)
    if elements:
        with_elements(response, elements)
    return response


def with_elements(response: Any, elements: list[Any]) -> None:
    """Puts yielded elements into the response, before those that it has."""
    of: type[Message] = type(response)
    element: type[Struct] = type(elements[0])
    name = array_of(of, element)
    setattr(response, name, elements + (getattr(response, name) or []))


@cache
def array_of(response: type[Message], element: type[Struct]) -> str:
    """The name of the array of a response whose elements are of a class."""
    names = [field.name for field in schema(response) if field.is_array and field.struct is element]
    invariant(len(names) == 1, "an element belongs to one array of its response", element=element.__name__)
    return names[0]


@cache
def struct_arrays_of(response: type[Message], version: int) -> tuple[str, ...]:
    """The names of the arrays of structs that a response has at a version, but for tagged ones."""
    return tuple(
        field.name
        for field in schema(response)
        if field.is_array
        and field.kind is Kind.STRUCT
        and field.tag is None
        and field.present.covers(version)
    )


def longest_array(response: Message, version: int) -> str:
    """The name of the response's array of structs with the most elements; empty where there is none, or none
    that can be encoded in parts."""
    if holds_records(type(response), version):
        return ""
    names = struct_arrays_of(type(response), version)
    return max(names, key=lambda name: len(getattr(response, name) or ()), default="")
