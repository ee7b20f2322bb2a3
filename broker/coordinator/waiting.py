"""Answers that are built from answers which may not be there yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from protocol.serving.pending import Failed, Pending

R = TypeVar("R")
S = TypeVar("S")


def then(result: R | Pending[R], change: Callable[[R], S]) -> S | Pending[S]:
    """`change` applied to the result: now if it is there, otherwise when it comes."""
    return result.then(change) if isinstance(result, Pending) else change(result)


def gather(results: Sequence[R | Pending[R]], combine: Callable[[list[R]], S]) -> S | Pending[S]:
    """`combine` applied to all results in their order, as soon as the last one is there."""
    if not any(isinstance(result, Pending) for result in results):
        return combine([result for result in results if not isinstance(result, Pending)])
    gathered: Pending[S] = Pending()
    found: dict[int, R] = {}

    def take(index: int, response: R) -> None:
        if isinstance(response, Failed):
            gathered.complete(response)  # type: ignore[arg-type]
        found[index] = response
        if len(found) == len(results):
            gathered.complete_by(lambda: combine([found[place] for place in range(len(results))]))

    for index, result in enumerate(results):
        if isinstance(result, Pending):
            result.on_complete(lambda response, index=index: take(index, response))  # type: ignore[misc]
        else:
            take(index, result)
    return gathered
