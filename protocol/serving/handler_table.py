"""Which handler serves which API: the rows, and the table of all that a listener serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from protocol.errors import invariant
from protocol.registry import ApiKey, api
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns

LISTENER_BROKER: Final = "broker"
LISTENER_CONTROLLER: Final = "controller"

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Handler(Protocol[S_contra]):
    """``handle(services, context, request) -> response | Pending | None``.

    The type of its `services` names what it needs of all that the listener provides.
    """

    def __call__(self, services: S_contra, context: RequestContext, request: Any, /) -> Any: ...


class ServedApi(msgspec.Struct, Generic[S_contra], frozen=True):
    """A row: one API, the versions of it that are served, and the function that serves it.

    turns: the same handler as a generator function, if it has turns (`protocol.serving.turns`). memory_bytes:
    the memory that the arrays of a long request may take once they are decoded, if that is not the usual.
    keeps_frame: the handler passes requests on as they were received, and finds their bytes in its context.
    plain: whether a short request is served in one go. It is not where a short name, or none at all, may
    stand for much; a function of a request and its version says so where that depends on the request.
    framing: makes the encoder of the answers at one version, where `protocol.framing.encode_response_frame`
    is not the best one.
    """

    api_key: ApiKey
    min_version: int
    max_version: int
    handler: Handler[S_contra]
    turns: Callable[..., Turns[Any]] | None = None
    memory_bytes: int | None = None
    keeps_frame: bool = False
    plain: bool | Callable[[Any, int], bool] = True
    framing: Callable[[], Callable[[Any, int, int], list[Any]]] | None = None


def serve(
    key: ApiKey,
    handler: Handler[S],
    *,
    versions: tuple[int, int] | None = None,
    memory_bytes: int | None = None,
    keeps_frame: bool = False,
    plain: bool | Callable[[Any, int], bool] = True,
    framing: Callable[[], Callable[[Any, int, int], list[Any]]] | None = None,
) -> ServedApi[S]:
    """A row of the table. versions: the lowest and the highest version served; all stable ones of the API if
    left out. memory_bytes, keeps_frame, plain, framing: see `ServedApi`."""
    low, high = versions or api(key).stable_versions
    turns = getattr(handler, "turns", None)
    return ServedApi(key, low, high, handler, turns, memory_bytes, keeps_frame, plain, framing)


class HandlerTable:
    """The APIs that one kind of listener serves, by API key. ApiVersions is read from it."""

    def __init__(self, listener: str, rows: Iterable[ServedApi[Any]]) -> None:
        table: dict[int, ServedApi[Any]] = {}
        for row in rows:
            invariant(row.api_key not in table, "an API has one handler", api_key=row.api_key)
            table[int(row.api_key)] = row
        self.listener = listener
        self._by_key = dict(sorted(table.items()))

    def get(self, api_key: int) -> ServedApi[Any] | None:
        return self._by_key.get(api_key)

    def __iter__(self) -> Iterator[ServedApi[Any]]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)
