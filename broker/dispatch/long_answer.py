"""The answer to a long request, which is encoded while the handler makes it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from broker.network.response_pieces import Piece
from config.limits import ANSWER_BYTES
from protocol.codec.compiler import elements_encoder
from protocol.codec.message import Message, Struct
from protocol.errors import invariant
from protocol.framing import encode_long_response
from protocol.serving.error_counts import struct_arrays
from protocol.serving.pending import AnswerTooLong, Pending
from protocol.serving.turns import Turns, array_of, longest_array

if TYPE_CHECKING:
    from broker.dispatch.routes import Route

ELEMENTS_AT_ONCE: Final = 200
"""The number of elements of an answer that are collected before they are encoded, with those in their own
arrays: a few may be large."""

PIECES_JOINED: Final = 4096
"""The number of small pieces of bytes from which on they are joined."""

Steps = Generator[None, None, None]


class LongAnswer:
    """Holds the bytes of the elements that are encoded so far. Its methods raise AnswerTooLong beyond
    `ANSWER_BYTES`."""

    __slots__ = ("_array", "_count", "_measured", "_pieces", "_route", "_size_bytes", "_small")

    def __init__(self, route: Route) -> None:
        self._route = route
        self._array = ""
        """The array of the response to which the elements belong."""
        self._count = 0
        self._pieces: list[bytes] = []
        self._small: list[bytes] = []
        self._measured = 0
        """The number of small pieces that are counted in the size already."""
        self._size_bytes = 0

    def collect(self, turns: Turns[Any]) -> Generator[None, None, Any]:
        """Runs a handler that yields elements, and encodes them. Returns what the handler returned."""
        elements: list[Any] = []
        weight = 0
        with closing(turns):
            while True:
                try:
                    element = next(turns)
                except StopIteration as end:
                    response = end.value
                    break
                if element is not None:
                    elements.append(element)
                    weight += 1 + sum(len(getattr(element, name) or ()) for name in _arrays(type(element)))
                    if weight >= ELEMENTS_AT_ONCE:
                        yield from self._encode(elements)
                        elements, weight = [], 0
                yield
        if elements:
            yield from self._encode(elements)
        invariant(
            not self._count or not isinstance(response, Pending),
            "an answer that is not there yet has no elements yet",
        )
        return response

    def frame(
        self, response: Message, version: int, correlation_id: int
    ) -> Generator[None, None, list[Piece]]:
        """The whole answer: the elements that were collected, and the response itself."""
        if not self._array:
            self._array = longest_array(response, version)
        elements = getattr(response, self._array) if self._array else None
        if elements is None:  # no array of structs, or a null one: it has no elements, and no count either
            self._array = ""
            return self.framed(response, version, correlation_id)
        for start in range(0, len(elements), ELEMENTS_AT_ONCE):
            yield from self._encode(elements[start : start + ELEMENTS_AT_ONCE], are_counted=True)
        self._join()
        return self.framed(response, version, correlation_id)

    def framed(self, response: Message, version: int, correlation_id: int) -> list[Piece]:
        """Makes the frame around elements that are encoded already once more, because another field of the
        response has changed since."""
        if not self._array:
            return self._route.encode(response, version, correlation_id)
        return encode_long_response(response, version, correlation_id, self._array, self._count, self._pieces)  # type: ignore[return-value]

    def _encode(self, elements: list[Any], *, are_counted: bool = False) -> Steps:
        """Encodes some elements. are_counted: their error codes are in the metrics already."""
        route = self._route
        if not self._array:
            element: type[Struct] = type(elements[0])
            self._array = array_of(route.response_class, element)
        if route.count_errors is not None and not are_counted:
            route.count_errors(route.response_class(**{self._array: elements}), route.counts.errors)
        self._count += len(elements)
        for _ in elements_encoder(route.response_class, route.version, self._array)(elements, self._small):
            self._measure()
            yield
        self._measure()

    def _measure(self) -> None:
        """Counts the bytes of new pieces, before they are copied: many may be one and the same object."""
        new = self._small[self._measured :]
        self._measured += len(new)
        self._size_bytes += sum(map(len, new))
        if self._size_bytes > ANSWER_BYTES:
            raise AnswerTooLong(
                f"the answer to a {self._route.name} request would be longer than {ANSWER_BYTES} bytes"
            )
        if self._measured >= PIECES_JOINED:
            self._join()

    def _join(self) -> None:
        if not self._small:
            return
        self._pieces.append(b"".join(self._small))
        self._small.clear()
        self._measured = 0


@cache
def _arrays(element: type[Struct]) -> tuple[str, ...]:
    """The fields of an element that are arrays of structs."""
    return tuple(name for name, _ in struct_arrays(element))
