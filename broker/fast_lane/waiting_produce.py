"""Remembered Produce requests whose batches other replicas do not have yet: the lane's part of acks=all.

The batches are in the log, and each request waits as every one does (`broker.replication.delayed_produce`):
for the high watermark, the loss of the leadership, or its deadline. Its answer is made when the batch is
appended, and leaves as it is once the batch is replicated. If it never is, the handler of Produce says how
the answer tells that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from broker.dispatch.waiting import WaitingAnswer
from broker.handlers.produce import ProduceAnswering
from broker.network.interfaces import DelayedAnswer
from broker.replication.appending import ACKS_ALL
from broker.replication.delayed_produce import DelayedProduce
from broker.replication.partition import Partition
from protocol.errors import ErrorCode, InvariantViolated
from protocol.messages.produce import ProduceResponse
from protocol.serving.request_context import RequestContext
from storage.append import AppendResult
from storage.errors import AppendRefused

if TYPE_CHECKING:
    from broker.dispatch.dispatcher import Dispatcher
    from broker.fast_lane.produce_lane import PlainProduce
    from broker.network.connection import Connection
    from broker.network.response_pieces import Piece

__all__ = ["RememberedAnswer", "take_waiting"]

_Encoded = list[bytes]
"""One frame, the answer without error."""


class RememberedAnswer(WaitingAnswer):
    """The answer of one request, see the module and `broker.replication.delayed_produce.ProduceAnswers`.

    correlation_id: unsigned. offsets: the first and the last one of its batch. encoded: the answer if all
    goes well.
    """

    __slots__ = ("_correlation_id", "_failure", "_log_start_offset", "_offset", "_plain")

    def __init__(
        self,
        dispatcher: Dispatcher,
        connection: Connection,
        plain: PlainProduce,
        correlation_id: int,
        offsets: tuple[int, int],
        encoded: bytes,
        arrived_ns: int,
    ) -> None:
        services = dispatcher.services
        self._plain = plain
        self._correlation_id = correlation_id
        self._offset = offsets[0]
        self._log_start_offset = plain.partition.log.log_start_offset
        self._failure: ProduceResponse | None = None
        delayed: DelayedProduce[bytes, _Encoded] = DelayedProduce(
            self, acks=ACKS_ALL, timeout_ms=plain.timeout_ms, clock=services.clock, timers=services.timers
        )
        delayed.wait(plain.partition, encoded, offsets[1])
        pending: Any = delayed.start([encoded])
        super().__init__(dispatcher, connection, plain.route, plain.context, None, pending, arrived_ns)

    def appended(self, partition: Partition, answer: bytes, outcome: AppendResult | AppendRefused) -> None:
        raise InvariantViolated(f"the lane's append to {partition!r} was done before anybody waited")

    def not_replicated_yet(self, answer: bytes) -> None:
        """The answer is not looked at before the wait is over."""

    def all_appended(self, response: _Encoded) -> None:
        """Its batch was in the log before."""

    def replicated(self, partition: Partition, answer: bytes, error: ErrorCode) -> None:
        if not error:
            return
        plain, like, correlation_id = self._plain, self.context, self._correlation_id
        if correlation_id > 0x7FFFFFFF:
            correlation_id -= 1 << 32
        self.context = context = RequestContext(
            like.api_key, like.version, correlation_id, like.client_id, like.session, like.now_ms,
            like.authorizer,
        )  # fmt: skip
        self._failure = response = plain.response(self._offset, self._log_start_offset)
        answering = ProduceAnswering(self._dispatcher.services, context, ACKS_ALL)
        answering.all_appended(response)
        answering.replicated(partition, response.responses[0].partition_responses[0], error)

    def _deliver(self, response: Any) -> None:
        super()._deliver(response if self._failure is None else self._failure)


def take_waiting(
    dispatcher: Dispatcher,
    connection: Connection,
    plain: PlainProduce,
    correlation_ids: Sequence[int],
    offsets: Sequence[int],
    answers: Sequence[bytes],
    out: list[Piece],
    *,
    began_ns: int,
    received_bytes: int,
) -> int:
    """Answers like requests of which some have to wait, for replicas or for the answers before them.

    correlation_ids: maybe of more requests. offsets: where the batches begin, which are in the log. answers:
    those without error. received_bytes: of all. Returns the bytes of those answers that are in `out` now.
    """
    log = plain.partition.log
    high_watermark = log.high_watermark if plain.acks_all else log.log_end_offset
    ends = [*offsets[1:], log.log_end_offset]
    requests = len(offsets)
    done = sum(end <= high_watermark for end in ends)
    counts = plain.route.counts
    if done:
        dispatcher.count_remembered(connection, counts, done, received_bytes, began_ns)
    else:
        counts.received_bytes += received_bytes
        connection.now_ns = dispatcher.monotonic_ns()
    counts.requests += requests - done
    sent_bytes = 0
    for encoded in answers[:done]:
        if connection.waiting:
            connection.wait_for(DelayedAnswer(connection, True, [encoded]))
        else:
            out.append(encoded)
            sent_bytes += len(encoded)
    for number in range(done, requests):
        answer = RememberedAnswer(
            dispatcher,
            connection,
            plain,
            correlation_ids[number],
            (offsets[number], ends[number] - 1),
            answers[number],
            began_ns,
        )
        connection.wait_for(answer)
    return sent_bytes
