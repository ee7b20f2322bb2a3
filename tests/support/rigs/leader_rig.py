"""A broker that leads, as its clients and followers see it, and a controller that a test plays by hand."""

from __future__ import annotations

from typing import Any

from broker.controller_channel.alter_partition_manager import AlterPartitionManager
from broker.handlers import fetch, produce
from broker.replication.isr_maintenance import IsrMaintenance
from broker.replication.partition import Partition
from broker.replication.partition_listeners import IsrKeeper
from controller.metadata.image.topics import PartitionRegistration
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.metadata_log.registrations import RegisterBrokerRecord
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.peer_channel import PeerError
from tests.support.rigs.handler_rig import LISTENER, HandlerRig, ScriptedPeer, now, topic_id

MAX_LAG_MS = 30_000
BROKER_EPOCH = 5
TOPIC = "t"

Answer = AlterPartitionResponse.PartitionData


class LeaderRig(HandlerRig):
    """Broker 1 and one partition of topic `t`. What it asks of the controller is in `controller.requests`."""

    def isr_keeper(self) -> IsrKeeper:
        self.controller = ScriptedPeer()
        self.manager = AlterPartitionManager(
            node_id=1,
            channel=self.controller,
            clock=self.clock,
            timers=self.timers,
            broker_epoch=lambda: BROKER_EPOCH,
            request_timeout_ms=30_000,
        )
        self.isr = IsrMaintenance(
            self.manager,
            registration=lambda broker_id: self.metadata.image.brokers.get(broker_id),
            broker_epoch=lambda: BROKER_EPOCH,
            clock=self.clock,
            timers=self.timers,
            max_lag_ms=MAX_LAG_MS,
        )
        return self.isr

    def lead(
        self, replicas: tuple[int, ...], isr: tuple[int, ...], *, leader: int = 1, **configs: Any
    ) -> None:
        """Makes the partition, and every broker of its replicas."""
        self.register(*(replica for replica in replicas if replica != 1))
        self.topic(TOPIC, replicas=replicas, isr=isr, leader=leader, **configs)
        self.isr.start(self.replicas.by_name.values)

    def register(
        self,
        *broker_ids: int,
        epoch: int = BROKER_EPOCH,
        fenced: bool = False,
        in_controlled_shutdown: bool = False,
        rack: str | None = None,
    ) -> None:
        for broker_id in broker_ids:
            endpoint = RegisterBrokerRecord.BrokerEndpoint(LISTENER, f"host{broker_id}", 9000 + broker_id, 0)
            self.apply(
                RegisterBrokerRecord(
                    broker_id=broker_id,
                    broker_epoch=epoch,
                    end_points=[endpoint],
                    fenced=fenced,
                    in_controlled_shutdown=in_controlled_shutdown,
                    rack=rack,
                )
            )

    def change(self, **fields: Any) -> None:
        """The metadata log brings a change of the partition."""
        self.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), **fields))

    @property
    def partition(self) -> Partition:
        return self.replicas.by_name[TOPIC, 0]

    @property
    def registered(self) -> PartitionRegistration:
        """The partition as the metadata log has it."""
        return self.image.topics.by_name[TOPIC].partitions[0]

    # Requests of others.

    def produce(self, count: int = 1, *, acks: int = -1, timeout_ms: int = 30_000) -> Any:
        records = self.batch(count)
        data = ProduceRequest.TopicProduceData(
            TOPIC, partition_data=[ProduceRequest.PartitionProduceData(0, records)]
        )
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])
        return produce.handle(self.services, self.context(0, 12), request)

    def fetch(
        self,
        offset: int,
        *,
        replica: int = -1,
        broker_epoch: int = BROKER_EPOCH,
        leader_epoch: int | None = None,
        last_epoch: int = -1,
        log_start: int = 0,
        rack: str = "",
        **options: Any,
    ) -> Any:
        """leader_epoch: the partition's own if it is not given, -1 for none."""
        epoch = self.partition.leader_epoch if leader_epoch is None else leader_epoch
        wanted = FetchRequest.FetchPartition(0, epoch, offset, last_epoch, log_start, 1 << 20)
        state = FetchRequest.ReplicaState(replica, broker_epoch if replica >= 0 else -1)
        request = FetchRequest(
            replica_state=state,
            topics=[FetchRequest.FetchTopic(TOPIC, topic_id(1), [wanted])],
            rack_id=rack,
            **({"max_wait_ms": 0, "min_bytes": 1} | options),
        )
        return fetch.handle(self.services, self.context(1, 17), request)

    def follow(self, replica: int, offset: int, **options: Any) -> Any:
        """A follower's fetch that is answered at once: the partition's part of the answer."""
        ((data,),) = [
            topic.partitions for topic in now(self.fetch(offset, replica=replica, **options)).responses
        ]
        return data

    # The controller's part.

    @property
    def asked(self) -> AlterPartitionRequest.PartitionData:
        """What the newest request asks for."""
        request = self.controller.requests[-1]
        assert isinstance(request, AlterPartitionRequest)
        ((wish,),) = [topic.partitions for topic in request.topics]
        return wish

    @property
    def asked_isr(self) -> list[int]:
        return [each.broker_id for each in self.asked.new_isr_with_epochs]

    def answer(self, **changes: Any) -> None:
        """The open request is answered: the wish is granted, unless the changes say otherwise."""
        wish = self.asked
        granted: dict[str, Any] = {
            "leader_id": 1,
            "leader_epoch": wish.leader_epoch,
            "isr": self.asked_isr,
            "partition_epoch": wish.partition_epoch + 1,
        }
        data = Answer(0, **(granted | changes))
        self.answer_with(
            AlterPartitionResponse(topics=[AlterPartitionResponse.TopicData(topic_id(1), [data])])
        )

    def refuse(self, error: ErrorCode) -> None:
        """The partition is refused."""
        self.answer(error_code=error, leader_id=0, leader_epoch=0, isr=[], partition_epoch=0)

    def answer_with(self, response: AlterPartitionResponse | PeerError) -> None:
        self.controller.open.pop(0)(response)
