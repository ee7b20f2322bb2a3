"""What one operation of a coordinator leaves behind: records to write, and who is to be answered with what.

An operation runs on a shard in memory and touches nothing else. It fills a :class:`CoordinatorResult`; the
runtime then replays and appends the records, and answers. So an operation can be tested by looking at what it
returned, and nobody is answered in the middle of one: an answer may let the client's next request in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from broker.coordinator.ports import CurrentTime
from protocol.errors import EncodeError, ErrorCode
from protocol.serving.pending import Pending

LOG: Final = logging.getLogger("barnabas.coordinator")

R = TypeVar("R")


class CoordinatorRecord(NamedTuple):
    """A record of an internal topic. A value of None is a tombstone."""

    key: bytes
    value: bytes | None


class CoordinatorResult(Generic[R]):
    """All that one operation leaves behind.

    response: for the one who asked; sent when the records are committed, or, if there are none, when all that
    was written before is committed, so that what he learns cannot be taken back. None while he waits for
    something else.

    answers: for those whom the operation sets free; sent right after it.

    on_stored: called when the records are committed (NONE), refused or timed out (the log's error), and
    returns what follows from that. Without records it is never called.

    until_decided: `on_stored` is not called when the time is up, but when the log has decided, however late
    that is. The response does not wait so long.

    atomic: all records in one batch. Deletions of many keys need not be; they are cut to fit.

    refusal: one of the records cannot be encoded, or they are known to be more than the log takes. Then none
    is written, and everything goes on as if the log had refused them with this error.
    """

    __slots__ = ("answers", "atomic", "on_stored", "records", "refusal", "response", "until_decided")

    def __init__(self, response: R | None = None, *, atomic: bool = True) -> None:
        self.response = response
        self.records: list[CoordinatorRecord] = []
        self.answers: list[tuple[Pending[Any], Any]] = []
        self.on_stored: Callable[[ErrorCode, CurrentTime], CoordinatorResult[None]] | None = None
        self.until_decided = False
        self.atomic = atomic
        self.refusal = ErrorCode.NONE

    @property
    def is_response_only(self) -> bool:
        """Whether the operation has only a response, as most heartbeats have."""
        return not (self.records or self.answers or self.refusal) and self.response is not None

    def write(self, make: Callable[[], CoordinatorRecord]) -> None:
        """Adds a record, or notes a refusal if it cannot be encoded, for example because a name in it is too
        long."""
        try:
            self.records.append(make())
        except EncodeError as problem:
            LOG.error("a record cannot be encoded: %s", problem)
            self.refusal = ErrorCode.UNKNOWN_SERVER_ERROR

    def answer(self, waiting: Pending[R] | Pending[Any], response: Any) -> None:
        self.answers.append((waiting, response))


class UndoLog:
    """Undoes what a replay has changed, the newest change first."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []

    def add(self, step: Callable[[], None]) -> None:
        self._steps.append(step)

    def run(self) -> None:
        while self._steps:
            self._steps.pop()()


def response_error(error: ErrorCode) -> ErrorCode:
    """The error that a client is told when the log has refused: the coordinator may be elsewhere, or
    available again soon."""
    if error in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    if error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error
