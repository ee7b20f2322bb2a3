"""Which error codes a response holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

from protocol.codec.message import Message, Struct
from protocol.codec.schema import Kind, schema

ErrorCounter = Callable[[Any, dict[int, int]], None]
"""A function that adds the error codes of a response to a count per code. Zero is left out."""


@cache
def error_counter(response: type[Message]) -> ErrorCounter | None:
    """Makes a function that counts the error codes of a response class: its own, and those of the structs in
    its arrays.

    None for a response without error codes. For the codes of partitions it consists of two loops in plain
    Python: some 200 ns for one partition, far less than the handler has taken for it.
    """
    counters: list[ErrorCounter] = []
    if "error_code" in response.__struct_fields__:
        counters.append(_count_own)
    path = _path_to_error(response)
    if path is not None and len(path) == 1:
        counters.append(_one_level(path[0]))
    elif path is not None:
        counters.append(_two_levels(path[0], path[1]))
    if len(counters) == 2:
        return _both(*counters)
    return counters[0] if counters else None


def _count_own(response: Any, errors: dict[int, int]) -> None:
    code = response.error_code
    if code:
        errors[code] = errors.get(code, 0) + 1


def _one_level(items_field: str) -> ErrorCounter:
    items_of = attrgetter(items_field)

    def count(response: Any, errors: dict[int, int]) -> None:
        for item in items_of(response) or ():
            code = item.error_code
            if code:
                errors[code] = errors.get(code, 0) + 1

    return count


def _two_levels(groups_field: str, items_field: str) -> ErrorCounter:
    groups_of, items_of = attrgetter(groups_field), attrgetter(items_field)

    def count(response: Any, errors: dict[int, int]) -> None:
        for group in groups_of(response) or ():
            for item in items_of(group) or ():
                code = item.error_code
                if code:
                    errors[code] = errors.get(code, 0) + 1

    return count


def _both(first: ErrorCounter, second: ErrorCounter) -> ErrorCounter:
    def count(response: Any, errors: dict[int, int]) -> None:
        first(response, errors)
        second(response, errors)

    return count


def _path_to_error(struct: type[Struct]) -> tuple[str, ...] | None:
    """The one or two fields to follow from a struct to the nearest structs in arrays that have an error
    code."""
    arrays = struct_arrays(struct)
    for field, element in arrays:
        if "error_code" in element.__struct_fields__:
            return (field,)
    for field, element in arrays:
        for inner_field, inner in struct_arrays(element):
            if "error_code" in inner.__struct_fields__:
                return (field, inner_field)
    return None


def struct_arrays(struct: type[Struct]) -> list[tuple[str, type[Struct]]]:
    """The fields of a struct that are arrays of structs, with the classes of these structs."""
    return [
        (field.name, field.struct_class)
        for field in schema(struct)
        if field.is_array and field.kind is Kind.STRUCT
    ]
