"""What all clients of a simulated cluster have: they find brokers, leaders and coordinators, try again as
Kafka's clients do, and write down what they do.

    ask_any          whoever answers
    ask_node         the broker with this id
    ask_leader       the leader of a partition, and its successors
    ask_coordinator  the coordinator of a group or transactional id, and its successors

Each returns the last answer when its time is up, so a code that was worth another try may be in it, or a
PeerError if there was none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final

from broker.simulation.clients.answer_errors import COORDINATOR_MOVED, REFRESHES, RETRIABLE, codes_in
from broker.simulation.clients.client_history import ClientHistory
from broker.simulation.clients.client_metadata import Address, ClientMetadata, PartitionLeader
from broker.simulation.cluster.client import SimulatedClient
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import AskedBroker, ClusterWorld, FetchedPart, RefusedPart
from broker.simulation.cluster.tasks import Awaited
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.metadata import MetadataResponse
from protocol.peer_channel import PeerError
from protocol.registry import api

__all__ = ["EARLIEST", "GROUP", "TRANSACTION", "Backoff", "ClusterClient"]

GROUP: Final = 0
TRANSACTION: Final = 1
"""Key types of FindCoordinator."""

EARLIEST: Final = -2
"""For ListOffsets: where a log begins."""

REQUEST_TIMEOUT_MS: Final = 12_000
GIVE_UP_MS: Final = 60_000
METADATA_AGE_MS: Final = 60_000
FIRST_PAUSE_MS: Final = 50
LONGEST_PAUSE_MS: Final = 1_000


class Backoff:
    """The pauses between the tries of one request, until its time is up."""

    def __init__(self, client: ClusterClient, limit_ms: int) -> None:
        self._client = client
        self._deadline_ms = client.now_ms() + limit_ms
        self._pause_ms = FIRST_PAUSE_MS

    async def pause(self) -> bool:
        """False if there is no time for another try."""
        if self._client.now_ms() >= self._deadline_ms:
            return False
        await self._client.sleep_ms(self._client.random.between(self._pause_ms // 2, self._pause_ms))
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        return True


class ClusterClient(SimulatedClient):
    """A client by its plan. bootstrap: hosts of brokers that it knows from the beginning.

    is_finishing: it was asked to end; `run` comes to its end as soon as nothing is under way.
    """

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world.network, plan.name, world.seed)
        self.is_patient = False
        self.world = world
        self.plan = plan
        addresses = [(host, port) for port in world.broker_ports for host in bootstrap]
        self.metadata = ClientMetadata(addresses, plan.topics)
        self.history = ClientHistory(world, plan.name)
        self.is_finishing = False
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._values = 0

    async def run(self) -> None:
        """What it does all its life."""
        raise NotImplementedError

    def start(self) -> None:
        self.begin(self.run())

    def finish(self) -> None:
        self.is_finishing = True

    def option(self, name: str, default: str = "") -> str:
        return self.plan.options.get(name, default)

    def new_value(self) -> str:
        """That nobody else writes."""
        self._values += 1
        return f"{self.name}:{self._values}"

    async def together(self, coroutines: Sequence[Coroutine[Any, None, None]]) -> None:
        """Side by side, begun in their order, until all are over."""
        over: Awaited[None] = Awaited()
        left = len(coroutines)

        async def run(coroutine: Coroutine[Any, None, None]) -> None:
            nonlocal left
            await coroutine
            left -= 1
            if left == 0:
                over.settle(None)

        for each in coroutines:
            self.begin(run(each))
        if coroutines:
            await over

    def is_given(
        self, topic_id: bytes, offset: int, data: FetchResponse.PartitionData, *, is_committed: bool
    ) -> None:
        """Shows what it was given of a partition to those who judge that."""
        part = FetchedPart(self.name, topic_id, data.partition_index, offset, is_committed, data)
        for listener in self.world.fetch_listeners:
            listener(part)

    def asks(self, node_id: int) -> AskedBroker:
        """For `is_refused`, before it asks this broker."""
        return AskedBroker(node_id, self.world.now_ms)

    def is_refused(
        self, asked: AskedBroker, topic_id: bytes, partition: int, why: str, *, offset: int | None = None
    ) -> None:
        """Shows what it was refused in a partition to those who judge that. offset: its position, if it
        reads."""
        part = RefusedPart(self.name, asked, topic_id, partition, offset, why)
        for listener in self.world.refusal_listeners:
            listener(part)

    def is_refused_records(
        self, asked: AskedBroker, topic_id: bytes, offset: int, data: FetchResponse.PartitionData
    ) -> None:
        """Shows an answer to a fetch to those who judge it, if it says that the log does not have all that
        the client has read, which is all below an offset."""
        diverging = data.diverging_epoch
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            why = "OFFSET_OUT_OF_RANGE"
        elif data.error_code == ErrorCode.NONE and diverging is not None and diverging.end_offset < offset:
            why = f"epoch {diverging.epoch} ends at {diverging.end_offset}"
        else:
            return
        self.is_refused(asked, topic_id, data.partition_index, why, offset=offset)

    # Asking

    async def ask(
        self, host: str, port: int, request: Message, *, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> Message | PeerError:
        """See `SimulatedClient`. The codes of the answer are counted."""
        answer = await super().ask(host, port, request, timeout_ms=timeout_ms)
        name = api(request.declaration.key or 0).name
        if isinstance(answer, PeerError):
            self.world.coverage.count(f"{name}: {'unsupported' if answer.is_unsupported else 'no answer'}")
        else:
            for code in codes_in(answer):
                self.world.coverage.count(f"{name}: {ErrorCode.of(code).name}")
        return answer

    async def ask_node(
        self, node_id: int, request: Message, *, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> Message | PeerError:
        address = self.metadata.brokers.get(node_id)
        if address is None:
            return PeerError(f"broker {node_id} is not known")
        return await self.ask(*address, request, timeout_ms=timeout_ms)

    async def ask_any(self, request: Message, *, limit_ms: int = GIVE_UP_MS) -> Message | PeerError:
        """One broker after the other, from a random one on, until one answers."""
        backoff = Backoff(self, limit_ms)
        addresses = self.metadata.addresses()
        index = self.random.below(len(addresses))
        while True:
            answer = await self.ask(*addresses[index % len(addresses)], request)
            if not isinstance(answer, PeerError) or not await backoff.pause():
                return answer
            index += 1

    async def ask_leader(
        self,
        topic: str,
        partition: int,
        make_request: Callable[[PartitionLeader], Message],
        *,
        limit_ms: int = GIVE_UP_MS,
        retries: Collection[int] = RETRIABLE,
        repeats_unanswered: bool = True,
    ) -> Message | PeerError:
        """make_request: what to ask this leader. retries: codes after which it is asked again.
        repeats_unanswered: whether a request that got no answer may be sent again."""
        backoff = Backoff(self, limit_ms)
        answer: Message | PeerError = PeerError(f"{topic}-{partition} has no leader")
        while True:
            leader = await self.leader(topic, partition)
            if leader is not None:
                answer = await self.ask_node(leader.node_id, make_request(leader))
                if isinstance(answer, PeerError):
                    self.metadata.expire()
                    if not repeats_unanswered:
                        return answer
                else:
                    codes = codes_in(answer)
                    if any(code in REFRESHES for code in codes):
                        self.metadata.expire()
                    if not any(code in retries for code in codes):
                        return answer
            if not await backoff.pause():
                return answer

    async def ask_coordinator(
        self,
        key: str,
        key_type: int,
        request: Message,
        *,
        limit_ms: int = GIVE_UP_MS,
        retries: Collection[int] = RETRIABLE,
        repeats_unanswered: bool = True,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        asked: list[Address] | None = None,
    ) -> Message | PeerError:
        """key_type: GROUP or TRANSACTION. retries: codes after which it is asked again; wherever they say
        that the coordinator has moved, it is looked for. asked: gets the addresses that were asked, in order;
        another task may have forgotten the coordinator when the answer comes."""
        backoff = Backoff(self, limit_ms)
        answer: Message | PeerError = PeerError(f"{key} has no coordinator")
        while True:
            address = await self.coordinator(key, key_type)
            if address is not None:
                if asked is not None:
                    asked.append(address)
                answer = await self.ask(*address, request, timeout_ms=timeout_ms)
                codes = () if isinstance(answer, PeerError) else codes_in(answer)
                if isinstance(answer, PeerError) or any(code in COORDINATOR_MOVED for code in codes):
                    self.forget_coordinator(key, key_type)
                if isinstance(answer, PeerError):
                    if not repeats_unanswered:
                        return answer
                elif not any(code in retries for code in codes):
                    return answer
            if not await backoff.pause():
                return answer

    async def earliest(self, topic: str, index: int, *, limit_ms: int = GIVE_UP_MS) -> int | None:
        """The first offset of a partition; None if nobody says it."""

        def request(leader: PartitionLeader) -> ListOffsetsRequest:
            part = ListOffsetsRequest.ListOffsetsPartition(index, leader.leader_epoch, EARLIEST)
            return ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [part])]
            )

        answer = await self.ask_leader(topic, index, request, limit_ms=limit_ms)
        if not isinstance(answer, ListOffsetsResponse):
            return None
        (found,) = answer.topics[0].partitions
        return found.offset if found.error_code == ErrorCode.NONE else None

    # Who is who

    async def refresh(self) -> None:
        """Asks for metadata, sometimes by topic ids."""
        by_id = self.random.happens(0.3)
        answer = await self.ask_any(self.metadata.request(by_id=by_id))
        if isinstance(answer, MetadataResponse):
            self.metadata.take(answer, self.now_ms())

    async def leader(self, topic: str, partition: int) -> PartitionLeader | None:
        """From the metadata, which is asked for if it is old or does not say it; None if nobody leads."""
        metadata = self.metadata
        if topic not in metadata.topics:
            metadata.topics[topic] = None
            metadata.expire()
        if not await self.refresh_if_old() and metadata.leader(topic, partition) is None:
            await self.refresh()
        return metadata.leader(topic, partition)

    async def refresh_if_old(self) -> bool:
        """Asks for metadata if something has called it old, or it is of a certain age; whether it did."""
        taken_ms = self.metadata.taken_ms
        is_old = taken_ms is None or self.now_ms() - taken_ms > METADATA_AGE_MS
        if is_old:
            await self.refresh()
        return is_old

    async def partitions(self, topic: str) -> int:
        """How many the topic has; 0 if nobody knows it."""
        if topic not in self.metadata.partition_counts:
            await self.leader(topic, 0)
        return self.metadata.partition_counts.get(topic, 0)

    async def coordinator(self, key: str, key_type: int) -> Address | None:
        """None if whoever was asked does not say it, which may be different soon."""
        known = self._coordinators.get((key_type, key))
        if known is not None:
            return known
        answer = await self.ask_any(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
        if isinstance(answer, FindCoordinatorResponse):
            for each in answer.coordinators:
                if each.key == key and each.error_code == ErrorCode.NONE:
                    self._coordinators[key_type, key] = (each.host, each.port)
        return self._coordinators.get((key_type, key))

    def forget_coordinator(self, key: str, key_type: int) -> None:
        """The next request looks for it again."""
        self._coordinators.pop((key_type, key), None)
