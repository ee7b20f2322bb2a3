"""The transaction coordinator that a leader asks before it takes the first batch of a transaction.

It confirms everything at once, in the next turn of the loop; or it is told to hold its answers back, or what
to answer for a partition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.coordinator.transaction.first_writes import FirstWrites
from broker.coordinator.transaction.partition_verification import PartitionVerification, VerificationSettings
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tests.support.rigs.hand_clock import HandClock, HandTimers

BROKER_ID = 1

Response = AddPartitionsToTxnResponse


class AskedCoordinator:
    """first_writes: what asks it. asked: transactional id, partition, and whether it is only to be verified;
    all that was asked, in order. errors: what is answered for a partition, if not NONE."""

    def __init__(self, clock: HandClock, timers: HandTimers) -> None:
        self._timers = timers
        self.is_there = True
        self.holds = False
        self.asked: list[tuple[str, tuple[str, int], bool]] = []
        self.errors: dict[tuple[str, int], ErrorCode] = {}
        self._held: list[Callable[[], None]] = []
        verification = PartitionVerification(
            VerificationSettings(), coordinators=self, channel=self, clock=clock, timers=timers
        )
        self.first_writes = FirstWrites(verification, clock, is_enabled=True)

    def coordinator(self, transactional_id: str) -> int | None:
        return BROKER_ID if self.is_there else None

    def send(self, broker_id: int, request: Message, on_response: Callable[[Message | None], None]) -> None:
        assert isinstance(request, AddPartitionsToTxnRequest)
        self.asked += [
            (each.transactional_id, (topic.name, index), each.verify_only)
            for each in request.transactions
            for topic in each.topics
            for index in topic.partitions
        ]
        answer = partial(self._answer, request, on_response)
        if self.holds:
            self._held.append(answer)
        else:
            self._timers.call_soon(answer)

    def answer_held(self) -> None:
        """Answers what was held back, with the errors that are set now."""
        held, self._held = self._held, []
        for answer in held:
            answer()
        self._timers.run_soon()

    def _answer(
        self, request: AddPartitionsToTxnRequest, on_response: Callable[[Message | None], None]
    ) -> None:
        on_response(
            Response(
                results_by_transaction=[
                    Response.AddPartitionsToTxnResult(
                        each.transactional_id,
                        [
                            Response.AddPartitionsToTxnTopicResult(
                                topic.name,
                                [
                                    Response.AddPartitionsToTxnPartitionResult(
                                        index, self.errors.get((topic.name, index), ErrorCode.NONE)
                                    )
                                    for index in topic.partitions
                                ],
                            )
                            for topic in each.topics
                        ],
                    )
                    for each in request.transactions
                ]
            )
        )
