"""Fates of transactional producers, told step by step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from broker.simulation.clients.outgoing_batches import OutgoingBatch
from broker.simulation.clients.transactional_producers import REFUSED, TransactionalProducer
from broker.simulation.clients.transactional_session import TransactionalSession
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.verdict import Violation
from protocol.errors import ErrorCode
from tests.simulation.cluster_by_hand import CONTROLLER, TOPIC, ClusterByHand

__all__ = ["TRANSACTION_FATES", "write_arrives_late"]

TRANSACTION_TOPIC: Final = "__transaction_state"
TIMEOUT_MS: Final = 60_000


class ProducerByHand:
    """A transactional producer that does what it is told, in a cluster without other clients."""

    def __init__(
        self,
        seed: int,
        *,
        protocol: int = 2,
        version: int = 2,
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.cluster = ClusterByHand(
            seed, clients=(), features={"transaction.version": version}, properties=properties
        )
        options = {"protocol": str(protocol), "timeout_ms": str(TIMEOUT_MS)}
        plan = ClientPlan("transactional", "transactional-1", (TOPIC,), options=options)
        self.client = TransactionalProducer(self.cluster.world, plan, self.cluster.run.bootstrap)
        self.cluster.world.add_client(self.client)
        self.cluster.run.clients.append(self.client)

    def do(self, coroutine: Coroutine[Any, None, Any]) -> Any:
        """Until it is done; what it returns."""
        done: list[Any] = []

        async def run() -> None:
            done.append(await coroutine)

        self.client.begin(run())
        self.cluster.wait_until(lambda: done)
        return done[0]

    def session(self) -> TransactionalSession:
        """A new one, which fences those before it."""

        async def opened() -> TransactionalSession:
            session = None
            while session is None:
                session = await self.client._new_session()
            return session

        found = self.do(opened())
        assert isinstance(found, TransactionalSession)
        return found

    def begin(self, session: TransactionalSession, *values: str) -> list[OutgoingBatch]:
        """A transaction that will write these, each in a batch."""
        batches = [session.batch((TOPIC, 0), [value]) for value in values]
        records = [record for batch in batches for record in batch.records]
        self.client.history.begin_transaction(self.client.transactional_id, records)
        return batches

    def write(self, session: TransactionalSession, batches: Sequence[OutgoingBatch]) -> None:
        assert self.do(session.produce(batches)) == ""

    def end_transaction(self, session: TransactionalSession, *, committed: bool) -> None:
        self.client.history.asks("commit" if committed else "abort")
        assert self.do(session.end(committed=committed)) == "done"
        self.client.history.ends("ok" if committed else "fail")

    @property
    def coordinator(self) -> SimulatedNode:
        """Which leads the partition of `__transaction_state` that has the producer's id."""
        nodes = self.cluster.world.nodes.values()
        found = [
            node
            for node in nodes
            if node.broker is not None
            and (index := node.broker.services.transactions.partition_for(self.client.transactional_id)) >= 0
            and any(
                each.topic == TRANSACTION_TOPIC and each.index == index and each.is_leader
                for each in node.partitions
            )
        ]
        return max(found, key=lambda node: self._epoch_of(node))

    def _epoch_of(self, node: SimulatedNode) -> int:
        return max(each.leader_epoch for each in node.partitions if each.topic == TRANSACTION_TOPIC)


def write_arrives_late(
    seed: int = 1, *, version: int = 1, protocol: int = 1, verification: bool = True
) -> None:
    """A batch of a transaction that is aborted meanwhile."""
    properties = {"transaction.partition.verification.enable": str(verification).lower()}
    hand = ProducerByHand(seed, protocol=protocol, version=version, properties=properties)
    cluster, client = hand.cluster, hand.client
    session = hand.session()
    first, late = hand.begin(session, "first", "late")
    hand.write(session, [first])
    leader = str(cluster.leader)
    cluster.cut(client.name, leader)
    client.begin(session.produce_once([late]))
    cluster.wait_ms(50)
    hand.end_transaction(session, committed=False)
    cluster.wait_ms(1_000)
    cluster.join(client.name, leader)
    cluster.wait_ms(2_000)
    cluster.end()


def zombie_goes_on(seed: int, *, version: int = 2, protocol: int = 2) -> None:
    """Another incarnation has begun its transaction, and the one before writes, and asks for its commit.
    Leaders do not ask the coordinator before they write."""
    properties = {"transaction.partition.verification.enable": "false"}
    hand = ProducerByHand(seed, version=version, protocol=protocol, properties=properties)
    old = hand.session()
    first, late = hand.begin(old, "first", "late")
    hand.write(old, [first])
    hand.client.history.ends("info")
    new = hand.session()
    batches = hand.begin(new, "second")
    hand.write(new, batches)
    hand.do(old.produce_once([late]))
    if late.outcome == "ok":
        raise Violation(REFUSED, "a producer writes, and another one has its transactional id")
    if hand.do(old.end_once(committed=True)) == ErrorCode.NONE:
        raise Violation(REFUSED, "a producer commits, and another one has its transactional id")
    hand.end_transaction(new, committed=False)
    hand.cluster.end()


def zombie_wakes(seed: int) -> None:
    """Another incarnation has the transactional id, and has begun nothing; the one before begins to write."""
    hand = ProducerByHand(seed)
    old, new = hand.session(), hand.session()
    if hand.do(old.produce(hand.begin(old, "first"))) == "":
        raise Violation(REFUSED, "a producer writes, and another one has its transactional id")
    hand.client.history.ends("fail")
    hand.write(new, hand.begin(new, "second"))
    hand.end_transaction(new, committed=True)
    hand.cluster.end()


def zombie_of_the_first_protocol_goes_on(seed: int) -> None:
    """The same, in version 1 of transactions."""
    zombie_goes_on(seed, version=1, protocol=1)


def old_marker_arrives(seed: int) -> None:
    """A coordinator has decided, and its markers are late: another one has had them written, and the next
    transaction of the producer is open."""
    properties = {
        "broker.session.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "300",
        "replica.lag.time.max.ms": "400",
        "replica.fetch.wait.max.ms": "300",
    }
    hand = ProducerByHand(seed, protocol=1, version=1, properties=properties)
    cluster = hand.cluster
    session = hand.session()
    hand.write(session, hand.begin(session, "first"))
    coordinator, leader = hand.coordinator, cluster.leader
    assert coordinator is not leader
    cluster.cut(str(coordinator), str(leader))
    hand.end_transaction(session, committed=True)
    for host in (CONTROLLER, hand.client.name):
        cluster.cut_both_ways(str(coordinator), host)
    cluster.wait_until(lambda: hand.coordinator is not coordinator)
    batches = hand.begin(session, "second", "third")
    hand.write(session, batches[:1])
    cluster.join_all()
    cluster.wait_ms(2_500)
    hand.write(session, batches[1:])
    hand.end_transaction(session, committed=False)
    cluster.end()


def transaction_ends(seed: int) -> None:
    """It is committed, and nobody begins another one."""
    hand = ProducerByHand(seed)
    session = hand.session()
    hand.write(session, hand.begin(session, "first"))
    hand.end_transaction(session, committed=True)
    hand.cluster.end()


TRANSACTION_FATES: Final[Mapping[str, Callable[[int], None]]] = MappingProxyType(
    {
        "transaction ends": transaction_ends,
        "write arrives late": write_arrives_late,
        "zombie wakes": zombie_wakes,
        "zombie goes on": zombie_goes_on,
        "zombie of the first protocol goes on": zombie_of_the_first_protocol_goes_on,
        "old marker arrives": old_marker_arrives,
    }
)
