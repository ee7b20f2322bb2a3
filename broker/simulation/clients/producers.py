"""Producers without transactions: plain ones with acks 0, 1 and all, and idempotent ones.

What they write is in the history as it must be: `ok` what all in-sync replicas have; `fail` what certainly
was not written; `info` all else. What the leader alone has acknowledged (acks=1) may be lost when it fails,
and so ends with `info`, as if nobody had said anything.

A plain producer sends again only what certainly was not written, for each value may be written once. An
idempotent one sends the same batch with the same sequence again until it is told what became of it.

    answer                        what an idempotent producer makes of it
    NONE, DUPLICATE_SEQUENCE      written, once
    OUT_OF_ORDER_SEQUENCE         of the first batch that is open: its place in the sequence is lost, and it
                                  fails; the partition begins again with another epoch or producer id.
                                  Of a later one: an earlier one is missing; again, in order
    another retriable one, none   again
    any other                     it fails, and the partition begins again
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from broker.simulation.clients.answer_errors import RETRIABLE
from broker.simulation.clients.client_batches import BatchMaker
from broker.simulation.clients.cluster_client import GIVE_UP_MS, Backoff, ClusterClient
from broker.simulation.clients.outgoing_batches import (
    OutgoingBatch,
    Place,
    by_place,
    is_out_of_order,
    send_round,
    send_unanswered,
    written,
)
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["IdempotentProducer", "PlainProducer", "make_producer"]

PAUSE_MS: Final = 400
"""Between two writes, on average."""
MOST_PARTITIONS: Final = 3
MOST_RECORDS: Final = 5
MOST_IN_FLIGHT: Final = 5
"""Batches of one partition, as Kafka's idempotent producers have them."""
LAST_EPOCH: Final = 32_766
ACKS_ALL: Final = -1


def make_producer(world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> ClusterClient:
    """Options: `acks` 0, 1 or all; with `idempotent` false those of acks=all are plain too."""
    is_plain = plan.options.get("acks", "all") != "all" or plan.options.get("idempotent") == "false"
    return (PlainProducer if is_plain else IdempotentProducer)(world, plan, bootstrap)


class WritingClient(ClusterClient):
    """Writes, pauses, and writes again. Options: `pause_ms`, `codecs` false if nothing is compressed, `keys`
    where records have keys (`BatchMaker`)."""

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        keys = self.option("keys")
        self.maker = BatchMaker(
            self.random, codecs=self.option("codecs") != "false", keys=int(keys) if keys else None
        )
        self._pause_ms = int(self.option("pause_ms", str(PAUSE_MS)))

    async def run(self) -> None:
        while not self.is_finishing:
            await self.write_some()
            await self.sleep_ms(self.random.between(1, 2 * self._pause_ms))

    async def write_some(self) -> bool:
        """One operation; whether all of it was written, as far as anybody says so."""
        raise NotImplementedError

    async def write_once_more(self) -> bool:
        """One operation more when it has come to its end, of which nothing should fail; whether all of it was
        written."""
        return await self.write_some()

    async def some_places(self) -> list[Place]:
        """Where to write next; none if no topic is known yet."""
        found: list[Place] = []
        for _ in range(self.random.between(1, MOST_PARTITIONS)):
            topic = self.random.one_of(self.plan.topics)
            count = await self.partitions(topic)
            place = (topic, self.random.below(count)) if count else None
            if place is not None and place not in found:
                found.append(place)
        return found

    def some_values(self) -> list[str]:
        return [self.new_value() for _ in range(self.random.between(1, MOST_RECORDS))]


def close_operation(client: ClusterClient, batches: Sequence[OutgoingBatch], *, is_safe: bool = True) -> None:
    """Says in the history what has become of a write. is_safe: whether what is acknowledged is there for
    good."""
    outcomes = {batch.outcome for batch in batches}
    codes = sorted({ErrorCode.of(batch.code).name for batch in batches if batch.code})
    why = ", ".join(codes)
    if outcomes == {"fail"}:
        client.history.ends("fail", why=why)
    elif not is_safe:
        client.history.ends("info", why=why or "the leader alone may have it")
    else:
        outcome: Literal["ok", "info"] = "ok" if outcomes == {"ok"} else "info"
        client.history.ends(outcome, writes=written(batches), why=why)


def _are_written(batches: Iterable[OutgoingBatch]) -> bool:
    return all(batch.outcome == "ok" for batch in batches)


class PlainProducer(WritingClient):
    """Without sequences. acks: 0, 1, or -1 for all."""

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        option = self.option("acks", "all")
        self.acks = ACKS_ALL if option == "all" else int(option)

    async def write_some(self) -> bool:
        """Some records to some partitions, one batch each."""
        batches = []
        for place in await self.some_places():
            values = self.some_values()
            keys = map(self.maker.key_of, values)
            batches.append(OutgoingBatch(place, values, keys, self.maker.make(values, self.wall_ms())))
        if not batches:
            return False
        self.history.begin_write([record for batch in batches for record in batch.records])
        if self.acks == 0:
            await send_unanswered(self, by_place(batches))
            self._give_up(batches)
        else:
            await self._send(batches)
        close_operation(self, batches, is_safe=self.acks == ACKS_ALL)
        return self.acks == 0 or _are_written(batches)

    async def _send(self, batches: Sequence[OutgoingBatch]) -> None:
        backoff = Backoff(self, GIVE_UP_MS)
        while open_batches := by_place(batches):
            await send_round(self, open_batches, acks=self.acks)
            for queue in open_batches.values():
                for batch in queue:
                    is_final = batch.code is not None and batch.code not in RETRIABLE
                    if not batch.outcome and (batch.is_uncertain or is_final):
                        batch.give_up()
            if by_place(batches) and not await backoff.pause():
                self._give_up(batches)

    @staticmethod
    def _give_up(batches: Iterable[OutgoingBatch]) -> None:
        for batch in batches:
            if not batch.outcome:
                batch.give_up()


class IdempotentProducer(WritingClient):
    """producer_id, producer_epoch: of the batches that it makes next. sequences: by partition."""

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[Place, int] = {}

    async def write_some(self) -> bool:
        """Some batches to each of some partitions, all on their way at once."""
        if self.producer_id < 0 and not await self._get_producer_id():
            return False
        batches = [
            self._next_batch(place, self.some_values())
            for place in await self.some_places()
            for _ in range(self.random.between(1, MOST_IN_FLIGHT))
        ]
        if not batches:
            return False
        self.history.begin_write([record for batch in batches for record in batch.records])
        backoff = Backoff(self, GIVE_UP_MS)
        is_broken = False
        while open_batches := by_place(batches):
            await send_round(self, open_batches, acks=ACKS_ALL)
            for queue in open_batches.values():
                is_broken = self._judge(queue) or is_broken
            if by_place(batches) and not await backoff.pause():
                is_broken = True
                for batch in batches:
                    if not batch.outcome:
                        batch.give_up()
        close_operation(self, batches)
        if is_broken:
            self._begin_again()
        return _are_written(batches)

    def _judge(self, queue: Sequence[OutgoingBatch]) -> bool:
        """Looks at the answers for one partition; whether a place in its sequence is lost."""
        for index, batch in enumerate(queue):
            code = batch.code
            if batch.outcome or code is None or code in RETRIABLE:
                continue
            if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_out_of_order(self, queue, index):
                continue
            self.world.coverage.count(f"idempotent producer begins again: {ErrorCode.of(code).name}")
            for each in queue[index:]:
                if not each.outcome:
                    each.give_up()
            return True
        return False

    def _begin_again(self) -> None:
        """With the next epoch, as Kafka's own producer does, or as a new one. All sequences begin at 0."""
        self.sequences.clear()
        if self.producer_epoch < LAST_EPOCH and self.random.happens(0.5):
            self.producer_epoch += 1
        else:
            self.producer_id = -1

    def _next_batch(self, place: Place, values: Sequence[str]) -> OutgoingBatch:
        sequence = self.sequences.get(place, 0)
        self.sequences[place] = sequence + len(values)
        data = self.maker.make(
            values,
            self.wall_ms(),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
        )
        return OutgoingBatch(place, values, map(self.maker.key_of, values), data, sequence)

    async def _get_producer_id(self) -> bool:
        answer = await self.ask_any(InitProducerIdRequest(None, 0))
        if isinstance(answer, InitProducerIdResponse) and answer.error_code == ErrorCode.NONE:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        return self.producer_id >= 0
