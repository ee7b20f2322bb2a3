"""One incarnation of a transactional producer: its epoch, its sequences, and the requests of a transaction.

Two protocols, by `transaction.version` of the cluster and by what the client speaks:

    1  AddPartitionsToTxn before the first Produce to a partition, AddOffsetsToTxn before TxnOffsetCommit;
       the epoch stays the same from one transaction to the next, and so do the sequences
    2  Produce and TxnOffsetCommit add their partitions themselves; EndTxn gives the next epoch, in which
       sequences begin at 0 (KIP-890)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from broker.simulation.clients.answer_errors import RETRIABLE, codes_in
from broker.simulation.clients.client_batches import BatchMaker
from broker.simulation.clients.cluster_client import GROUP, TRANSACTION, Backoff, ClusterClient
from broker.simulation.clients.group_consumer import Identity
from broker.simulation.clients.outgoing_batches import (
    OutgoingBatch,
    Place,
    by_place,
    is_out_of_order,
    send_round,
)
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.peer_channel import PeerError
from protocol.registry import ApiKey

__all__ = ["LAST_VERSIONS_OF_1", "TransactionalSession"]

LAST_VERSIONS_OF_1: Final[Mapping[int, int]] = MappingProxyType(
    {ApiKey.PRODUCE: 11, ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.END_TXN: 4, ApiKey.TXN_OFFSET_COMMIT: 4}
)
"""Of a client that does not know the second protocol."""

ACKS_ALL: Final = -1
NO_ANSWER: Final = "no answer"


class TransactionalSession:
    """is_v2: whether it speaks the second protocol. is_of_use: whether it may begin another transaction."""

    def __init__(
        self, client: ClusterClient, maker: BatchMaker, transactional_id: str, *, timeout_ms: int, is_v2: bool
    ) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.is_v2 = is_v2
        self.is_of_use = False
        self.producer_id = -1
        self.producer_epoch = -1
        self._client = client
        self._maker = maker
        self._sequences: dict[Place, int] = {}

    async def open(self, *, is_bump: bool = False) -> bool:
        """Gets an epoch, which fences those who had one before; False if it does not.

        is_bump: says which one it had, so that only that one is fenced (KIP-360).
        """
        request = InitProducerIdRequest(
            self.transactional_id,
            self.timeout_ms,
            self.producer_id if is_bump else -1,
            self.producer_epoch if is_bump else -1,
        )
        answer = await self._client.ask_coordinator(self.transactional_id, TRANSACTION, request)
        self.is_of_use = False
        if isinstance(answer, InitProducerIdResponse) and answer.error_code == ErrorCode.NONE:
            self._continue_with(answer.producer_id, answer.producer_epoch)
            self.is_of_use = True
        return self.is_of_use

    def _continue_with(self, producer_id: int, producer_epoch: int) -> None:
        if (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch):
            self.producer_id, self.producer_epoch = producer_id, producer_epoch
            self._sequences.clear()

    def batch(self, place: Place, values: Sequence[str]) -> OutgoingBatch:
        """The next one of a partition."""
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(values)
        data = self._maker.make(
            values,
            self._client.wall_ms(),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return OutgoingBatch(place, values, map(self._maker.key_of, values), data, sequence)

    # Within a transaction. Each returns why it failed, or nothing if it is done.

    async def produce(self, batches: Sequence[OutgoingBatch]) -> str:
        if not self.is_v2:
            why = await self._add_partitions(list(by_place(batches)))
            if why:
                _give_up(batches)
                return why
        backoff = Backoff(self._client, self.timeout_ms)
        while open_batches := by_place(batches):
            await self.produce_once(batches)
            why = next((why for queue in open_batches.values() if (why := _refusal(self._client, queue))), "")
            if not why and by_place(batches) and not await backoff.pause():
                why = NO_ANSWER
            if why:
                _give_up(batches)
                return why
        return ""

    async def produce_once(self, batches: Sequence[OutgoingBatch]) -> None:
        """Sends what is open, and takes the answers as they come."""
        await send_round(
            self._client, by_place(batches), acks=ACKS_ALL, transactional_id=self.transactional_id
        )

    async def _add_partitions(self, places: Sequence[Place]) -> str:
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name, partitions)
                for name, partitions in topics.items()
            ],
        )
        return _why(await self._ask(request))

    async def commit_offsets(self, group: str, offsets: Mapping[Place, int], member: Identity) -> str:
        if not self.is_v2:
            request = AddOffsetsToTxnRequest(
                self.transactional_id, self.producer_id, self.producer_epoch, group
            )
            why = _why(await self._ask(request))
            if why:
                return why
        topics: dict[str, TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = {}
        for (name, partition), offset in offsets.items():
            topic = topics.setdefault(name, TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name, []))
            topic.partitions.append(TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition, offset))
        commit = TxnOffsetCommitRequest(
            self.transactional_id,
            group,
            self.producer_id,
            self.producer_epoch,
            generation_id=member.generation,
            member_id=member.member,
            group_instance_id=member.instance or None,
            topics=list(topics.values()),
        )
        return _why(await self._client.ask_coordinator(group, GROUP, commit, limit_ms=self.timeout_ms))

    # Its end

    async def end(self, *, committed: bool) -> Literal["done", "refused", "unknown"]:
        """Asks for the end until it is told something. After anything but `done` the session is of no use."""
        answer = await self._ask(self.end_request(committed=committed))
        if not isinstance(answer, EndTxnResponse) or answer.error_code in RETRIABLE:
            self.is_of_use = False
            return "unknown"
        if answer.error_code != ErrorCode.NONE:
            self.is_of_use = False
            return "refused"
        if self.is_v2 and answer.producer_id >= 0:
            self._continue_with(answer.producer_id, answer.producer_epoch)
        return "done"

    async def end_once(self, *, committed: bool) -> int | None:
        """Sends the request once; the code of the answer, None if there is none."""
        request = self.end_request(committed=committed)
        answer = await self._client.ask_coordinator(
            self.transactional_id, TRANSACTION, request, limit_ms=0, repeats_unanswered=False
        )
        return answer.error_code if isinstance(answer, EndTxnResponse) else None

    def end_request(self, *, committed: bool) -> EndTxnRequest:
        return EndTxnRequest(self.transactional_id, self.producer_id, self.producer_epoch, committed)

    async def _ask(self, request: Message) -> Message | PeerError:
        return await self._client.ask_coordinator(self.transactional_id, TRANSACTION, request)


def _give_up(batches: Sequence[OutgoingBatch]) -> None:
    for batch in batches:
        if not batch.outcome:
            batch.give_up()


def _refusal(client: ClusterClient, queue: Sequence[OutgoingBatch]) -> str:
    """Why a batch of this partition cannot be written; nothing if it may be sent again."""
    for index, batch in enumerate(queue):
        if batch.outcome or batch.code is None or batch.code in RETRIABLE:
            continue
        if batch.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or is_out_of_order(client, queue, index):
            return ErrorCode.of(batch.code).name
    return ""


def _why(answer: Message | PeerError) -> str:
    """The errors of an answer by name, or that there was none; nothing if all is well."""
    if isinstance(answer, PeerError):
        return NO_ANSWER
    return ", ".join(ErrorCode.of(code).name for code in codes_in(answer) if code != ErrorCode.NONE)
