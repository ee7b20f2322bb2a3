"""An answer that is not complete yet, and what may take the place of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from protocol.errors import EndsProcess, invariant

R = TypeVar("R")
S = TypeVar("S")


class CloseConnection(Exception):
    """The connection must be closed, and nothing is answered. A handler raises it, or completes its answer
    with it."""


class AnswerTooLong(CloseConnection):
    """An answer would be longer than it may be. Its connection is closed instead, and the log says why."""


class NoAnswer:
    """Completes a `Pending` whose request gets no answer after all (acks=0)."""


NO_ANSWER: Final = NoAnswer()


class Failed:
    """Completes a `Pending` whose answer could not be made. Holds the exception that was raised.

    The code that delivers the answer logs it and tells the client UNKNOWN_SERVER_ERROR.
    """

    __slots__ = ("failure",)

    def __init__(self, failure: Exception) -> None:
        self.failure = failure


class Pending(Generic[R]):
    """An answer that is not complete yet. It may become `NO_ANSWER`, a `CloseConnection` or `Failed`.

    The owner of the wait completes it, dispatch subscribes to it, and the network cancels it when the client
    has disconnected. Once it is completed or cancelled, later calls do nothing, because a timer and an append
    may both want to answer.

    It is often completed in another client's turn: by a commit, a timer, or an append. So nothing that makes
    the answer may raise there: `then` and `complete_by` turn what is raised into the answer. Only an
    `EndsProcess` passes.
    """

    __slots__ = ("_cancelled", "_deliver", "_on_cancel", "_response", "holds_request")

    def __init__(self, *, holds_request: bool = False) -> None:
        """holds_request: whether most of the request stays in memory until it is answered."""
        self.holds_request = holds_request
        self._response: R | None = None
        self._deliver: Callable[[R], None] | None = None
        self._on_cancel: Callable[[], None] | None = None
        self._cancelled = False

    @property
    def done(self) -> bool:
        """Whether it is answered or cancelled, so that nobody waits any longer."""
        return self._cancelled or self._response is not None

    @property
    def response(self) -> R | None:
        return self._response

    def complete(self, response: R) -> None:
        if self._cancelled or self._response is not None:
            return
        self._response = response
        self._on_cancel = None
        deliver, self._deliver = self._deliver, None
        if deliver is not None:
            deliver(response)

    def complete_by(self, make: Callable[[], R]) -> None:
        """Completes it with what `make` returns or raises. If nobody waits any longer, `make` is not
        called."""
        if self._cancelled or self._response is not None:
            return
        try:
            response = make()
        except EndsProcess:
            raise
        except CloseConnection as verdict:
            self.complete(verdict)  # type: ignore[arg-type]
        except Exception as failure:
            self.complete(Failed(failure))  # type: ignore[arg-type]
        else:
            self.complete(response)

    def attempt(self, step: Callable[[], None]) -> None:
        """Calls a function that will lead to the answer. If it raises, that is the answer."""
        try:
            step()
        except EndsProcess:
            raise
        except Exception as failure:
            self.complete(Failed(failure))  # type: ignore[arg-type]

    def then(self, change: Callable[[R], S]) -> Pending[S]:
        """The answer that `change` makes of this one. What is no response is passed on unchanged. If the new
        one is cancelled, so is this one."""
        changed: Pending[S] = Pending()

        def take(response: R) -> None:
            if isinstance(response, NoAnswer | CloseConnection | Failed):
                changed.complete(response)  # type: ignore[arg-type]
            else:
                changed.complete_by(lambda: change(response))

        self.on_complete(take)
        changed.on_cancel(self.cancel)
        return changed

    def follow(self, result: R | Pending[R]) -> None:
        """Completes this with the answer of another one: now if that is complete, otherwise later. If this is
        cancelled, so is the other one."""
        if isinstance(result, Pending):
            result.on_complete(self.complete)
            self.on_cancel(result.cancel)
        else:
            self.complete(result)

    def on_complete(self, deliver: Callable[[R], None]) -> None:
        """Has `deliver` called with the answer. It must not raise; `then` makes another answer of this
        one."""
        invariant(self._deliver is None, "a pending answer has one subscriber")
        if self._response is not None:
            deliver(self._response)
        elif not self._cancelled:
            self._deliver = deliver

    def on_cancel(self, callback: Callable[[], None]) -> None:
        if self._cancelled:
            callback()
        elif self._response is None:
            self._on_cancel = callback

    def cancel(self) -> None:
        if self._cancelled or self._response is not None:
            return
        self._cancelled = True
        self._deliver = None
        callback, self._on_cancel = self._on_cancel, None
        if callback is not None:
            callback()


def then(result: R | Pending[R], change: Callable[[R], S]) -> S | Pending[S]:
    """`change` applied to the result: now if it is complete, otherwise later."""
    return result.then(change) if isinstance(result, Pending) else change(result)


def gather(results: Sequence[R | Pending[R]], combine: Callable[[list[R]], S]) -> S | Pending[S]:
    """`combine` applied to all results in their order, when the last one is complete."""
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
