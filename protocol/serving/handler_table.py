"""How a function says which API it serves, and the table of all that a listener serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Final, Protocol, TypeVar

import msgspec

from protocol.errors import invariant
from protocol.registry import ApiKey, api
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns

LISTENER_BROKER: Final = "broker"
LISTENER_CONTROLLER: Final = "controller"


class Handler(Protocol):
    """``handle(services, context, request) -> response | Pending | None``."""

    def __call__(self, services: Any, context: RequestContext, request: Any, /) -> Any: ...


class Registration(msgspec.Struct, frozen=True):
    """That a function serves one API on one kind of listener.

    turns: the same handler as a generator function, if it has turns (:mod:`protocol.turns`). memory_bytes:
    what the arrays of a long request may take once they are decoded, if that is less than usual.
    """

    api_key: ApiKey
    min_version: int
    max_version: int
    listener: str
    handler: Handler
    turns: Callable[..., Turns[Any]] | None = None
    memory_bytes: int | None = None


H = TypeVar("H", bound=Callable[..., Any])


def serves(
    key: ApiKey,
    *,
    versions: tuple[int, int] | None = None,
    listener: str = LISTENER_BROKER,
    memory_bytes: int | None = None,
) -> Callable[[H], H]:
    """Mark a function as the handler of an API.

    versions: lowest and highest version served; all stable ones of the API if
    left out. memory_bytes: see :class:`Registration`. Nothing is entered
    anywhere: a :class:`HandlerTable` collects.
    """

    def mark(function: H) -> H:
        low, high = versions or api(key).stable_versions
        turns = getattr(function, "turns", None)
        function.registration = Registration(  # type: ignore[attr-defined]
            key, low, high, listener, function, turns, memory_bytes
        )
        return function

    return mark


class HandlerTable:
    """The handlers of one listener kind, by API key. ApiVersions is read from it."""

    def __init__(self, modules: Iterable[ModuleType], listener: str) -> None:
        table: dict[int, Registration] = {}
        for module in modules:
            for registration in _registrations(module):
                if registration.listener != listener:
                    continue
                invariant(
                    registration.api_key not in table, "an API has one handler", api_key=registration.api_key
                )
                table[int(registration.api_key)] = registration
        self.listener = listener
        self._by_key = dict(sorted(table.items()))

    def get(self, api_key: int) -> Registration | None:
        return self._by_key.get(api_key)

    def __iter__(self) -> Iterator[Registration]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)


def _registrations(module: ModuleType) -> Iterator[Registration]:
    for value in vars(module).values():
        registration = getattr(value, "registration", None)
        if isinstance(registration, Registration) and value.__module__ == module.__name__:
            yield registration
