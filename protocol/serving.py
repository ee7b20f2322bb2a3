"""What a handler is: a typed request and its context in, a response out.

The network reads frames, dispatch decodes them and calls a handler, and the
handler answers with a value. It decodes nothing and knows no socket, so the
same function serves a client on TCP, a peer in the same process and a
simulated cluster. (One that looks at many things is written in turns, see
:mod:`protocol.turns`.) A handler gives one of four things:

* a response message: sent at once;
* a :class:`Pending`: the answer comes later (a long poll, a rebalance, an
  acknowledgement by replicas); whoever owns the wait completes it;
* ``None``: there is no answer (Produce with acks=0);
* it raises :class:`CloseConnection`: the peer is to be cut off.

Broker and controller handlers share this module because both are served the
same way; it knows neither of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from types import ModuleType
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from protocol.codec.message import Message
from protocol.errors import EndsProcess, invariant
from protocol.registry import ApiKey, api
from protocol.turns import Turns

R = TypeVar("R")
S = TypeVar("S")

LISTENER_BROKER: Final = "broker"
LISTENER_CONTROLLER: Final = "controller"


class Operation(IntEnum):
    """What a principal may do (the codes of Kafka's AclOperation)."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """On what he may do it (the codes of Kafka's resource types in ACLs)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME: Final = "kafka-cluster"


class Principal(msgspec.Struct, frozen=True, gc=False):
    """Who speaks: ``User:alice``; before any authentication ``User:ANONYMOUS``."""

    name: str = "ANONYMOUS"
    type: str = "User"

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


class Session(msgspec.Struct, gc=False):
    """What is true of a whole connection. Only network and dispatch write here.

    host: the peer's address without port, as Kafka shows it without the slash. is_in_process: the peer is
    this process's other role.
    """

    connection_id: str
    listener: str
    host: str
    principal: Principal = Principal()
    security_protocol: str = "PLAINTEXT"
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    is_in_process: bool = False


class Authorizer(Protocol):
    """Decides on one operation; the default allows everything."""

    def authorize(
        self, session: Session, operation: Operation, resource: ResourceType, name: str
    ) -> bool: ...


class RequestContext(msgspec.Struct, gc=False):
    """All that a handler may know of a request beside the request itself.

    now_ms: wall clock at the beginning of the turn. frame_size_bytes: without
    the four bytes of the size. client_id: "" where the client sent null.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    session: Session
    now_ms: int
    authorizer: Authorizer
    frame_size_bytes: int = 0

    def allows(self, operation: Operation, resource: ResourceType, name: str) -> bool:
        return self.authorizer.authorize(self.session, operation, resource, name)

    def allows_cluster(self, operation: Operation) -> bool:
        return self.authorizer.authorize(self.session, operation, ResourceType.CLUSTER, CLUSTER_NAME)


class CloseConnection(Exception):
    """A handler's verdict: this connection must be closed, nothing is answered."""


class NoAnswer:
    """What a `Pending` is completed with when its request gets no answer after all (acks=0)."""


NO_ANSWER: Final = NoAnswer()


class Failed:
    """What a `Pending` is completed with when its answer could not be made: the exception that came instead.

    Whoever delivers the answer logs it and tells the client UNKNOWN_SERVER_ERROR.
    """

    __slots__ = ("failure",)

    def __init__(self, failure: Exception) -> None:
        self.failure = failure


class Pending(Generic[R]):
    """An answer that is not there yet. It may turn out to be `NO_ANSWER`, a `CloseConnection` or `Failed`.

    The owner of the wait completes it, dispatch subscribes to it, and the
    network cancels it when the peer has gone. Completed or cancelled once, it
    stays so: later calls do nothing, because a timer and an append may both
    want to answer.

    Who completes it is often somebody else's turn: a commit, a timer, an append of another client. So
    nothing that is done to make the answer out of it may raise there: `then` and `complete_by` turn what is
    raised into the answer. Only an `EndsProcess` passes.
    """

    __slots__ = ("_cancelled", "_deliver", "_on_cancel", "_response")

    def __init__(self) -> None:
        self._response: R | None = None
        self._deliver: Callable[[R], None] | None = None
        self._on_cancel: Callable[[], None] | None = None
        self._cancelled = False

    @property
    def done(self) -> bool:
        """Whether nobody waits any longer: answered or cancelled."""
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
        """Complete with what `make` gives, or with what it raises. If nobody waits any longer it is not
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
        """Do what will lead to the answer; what it raises is the answer."""
        try:
            step()
        except EndsProcess:
            raise
        except Exception as failure:
            self.complete(Failed(failure))  # type: ignore[arg-type]

    def then(self, change: Callable[[R], S]) -> Pending[S]:
        """The answer that `change` makes of this one. What is no response goes on as it is; a cancellation
        comes back to here."""
        changed: Pending[S] = Pending()

        def take(response: R) -> None:
            if isinstance(response, NoAnswer | CloseConnection | Failed):
                changed.complete(response)  # type: ignore[arg-type]
            else:
                changed.complete_by(lambda: change(response))

        self.on_complete(take)
        changed.on_cancel(self.cancel)
        return changed

    def on_complete(self, deliver: Callable[[R], None]) -> None:
        """Has the answer delivered. `deliver` must not raise; another answer is made of it by `then`."""
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


class PeerError(msgspec.Struct, frozen=True):
    """A request to another node that got no answer: disconnected or timed out.

    is_unsupported: it was not even sent, the other side knows no version that can say it.
    """

    reason: str
    is_unsupported: bool = False


class PeerChannel(Protocol):
    """Requests to another node, or to the controller in this very process.

    Encoded frames cross it in either case: two roles of one process share no
    object. ``on_response`` is called once, on the loop.
    """

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None: ...
