"""The administrator of a simulated cluster, who asks for what the steps of a run want changed.

It does what Kafka's own tools do, over the wire and from a machine of its own that may be cut off as others
are. A command is a coroutine: it is begun with `carry_out`, and goes on by itself until it is answered or its
patience is over; whoever began it does not wait.

    any broker ──no answer, or an answer that time may change──▶ a pause ──▶ any broker ──▶ … ──▶ the answer

An answer is handed to the command as it came, errors and all: what to make of TOPIC_ALREADY_EXISTS is for
whoever wanted the topic. None means that nothing was answered in all that time; then the change may have
been made all the same, as after any lost answer.

Between the commands it looks around, as whoever watches a cluster does.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from broker.simulation.clients.answer_errors import codes_in
from broker.simulation.clients.client_metadata import Address
from broker.simulation.clients.cluster_client import ClusterClient
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import CLUSTER_ID, CONTROLLER_LISTENER
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterRequest
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.peer_channel import PeerError

__all__ = ["BROKER_CONFIG", "TOPIC_CONFIG", "AdminClient"]

TOPIC_CONFIG: Final = 2
BROKER_CONFIG: Final = 4
"""Kinds of resources that have configs; the broker without a name is all of them."""

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""Kinds of elections."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2

_SET: Final = 0
_DELETE: Final = 1
BY_ASSIGNMENT: Final = -1
"""For the counts of partitions and replicas of a topic whose replicas are named."""

PATIENCE_MS: Final = 120_000
LAST_PATIENCE_MS: Final = 20_000
"""What is left of it when the administrator is asked to finish."""
REQUEST_TIMEOUT_MS: Final = 10_000
LEAST_PAUSE_MS: Final = 50
MOST_PAUSE_MS: Final = 1_000
LOOK_EVERY_MS: Final = 5_000

_TRIED_AGAIN: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)


class AdminClient(ClusterClient):
    """Is started as other clients are; what it looks at is for nobody."""

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        self.leaving: dict[int, None] = {}
        """Nodes that shall leave the cluster, or have left it."""
        self.under_way: dict[str, None] = {}
        """What is done once at a time, and is being done."""
        self._give_up_ms: int | None = None

    # Its life

    async def run(self) -> None:
        """Looks at the cluster now and then, until it is asked to finish."""
        while not self.is_finishing:
            answer = await self.describe_topics()
            if isinstance(answer, MetadataResponse):
                self.metadata.take(answer, self.now_ms())
            await self.sleep_ms(self.random.between(1, 2 * LOOK_EVERY_MS))
            if not self.is_finishing:
                await self._look()

    async def _look(self) -> None:
        looks = (
            DescribeClusterRequest(include_fenced_brokers=True),
            ListPartitionReassignmentsRequest(timeout_ms=REQUEST_TIMEOUT_MS),
            DescribeTopicPartitionsRequest(),
            _QUORUM,
        )
        await self.ask_a_broker(self.random.one_of(looks))

    def finish(self) -> None:
        """It begins nothing any more; what it has begun is given up unless it succeeds soon."""
        super().finish()
        self._give_up_ms = self.now_ms() + LAST_PATIENCE_MS

    def carry_out(self, command: Coroutine[Any, None, object]) -> None:
        """Begins a command; what it returns is for nobody."""
        if self.is_finishing:
            command.close()
        else:
            self.begin(_to_its_end(command))

    # Ways to ask

    async def ask_a_broker(self, request: Message) -> Message | None:
        """What the controller decides a broker carries there, in Kafka as here."""

        async def any_broker() -> Address:
            return self.random.one_of(self.metadata.addresses())

        return await self._ask_patiently(any_broker, request)

    async def ask_controller(self, request: Message) -> Message | None:
        """Asks the active controller itself, on its own listener, as `--bootstrap-controller` does."""
        return await self._ask_patiently(self._active_controller, request)

    async def ask_the_leader(self, topic: str, partition: int, request: Message) -> Message | None:
        """For what only the leader of a partition can do."""

        async def leader() -> Address | None:
            self.metadata.expire()
            known = await self.leader(topic, partition)
            return None if known is None else self.metadata.brokers.get(known.node_id)

        return await self._ask_patiently(leader, request)

    async def _ask_patiently(
        self, find: Callable[[], Coroutine[Any, None, Address | None]], request: Message
    ) -> Message | None:
        """find: says whom to ask, before each attempt."""
        deadline_ms = self.now_ms() + PATIENCE_MS
        while True:
            address = await find()
            if address is not None:
                answer = await self.ask(*address, request)
                if not isinstance(answer, PeerError) and not _TRIED_AGAIN.intersection(codes_in(answer)):
                    return answer
            await self.sleep_ms(self.random.between(LEAST_PAUSE_MS, MOST_PAUSE_MS))
            give_up_ms = deadline_ms if self._give_up_ms is None else min(deadline_ms, self._give_up_ms)
            if self.now_ms() >= give_up_ms:
                return None

    async def _active_controller(self) -> Address | None:
        described = await self.describe_quorum()
        if described is None or not described.topics:
            return None
        leader_id = described.topics[0].partitions[0].leader_id
        for node in described.nodes:
            if node.node_id == leader_id and node.listeners:
                return node.listeners[0].host, node.listeners[0].port
        return None

    # Commands

    async def describe_topics(self, topics: Iterable[str] | None = None) -> Message | None:
        """topics: None for all."""
        named = (
            None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        )
        return await self.ask_a_broker(MetadataRequest(topics=named, allow_auto_topic_creation=False))

    async def describe_quorum(self) -> DescribeQuorumResponse | None:
        answer = await self.ask_a_broker(_QUORUM)
        return answer if isinstance(answer, DescribeQuorumResponse) else None

    async def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        assignments: Sequence[Sequence[int]] = (),
    ) -> Message | None:
        """assignments: the replicas of each partition; none leaves them to the controller."""
        told = [CreateTopicsRequest.CreatableTopicConfig(key, value) for key, value in configs.items()]
        if assignments:
            partitions = replication_factor = BY_ASSIGNMENT
        placed = [
            CreateTopicsRequest.CreatableReplicaAssignment(index, list(replicas))
            for index, replicas in enumerate(assignments)
        ]
        topic = CreateTopicsRequest.CreatableTopic(name, partitions, replication_factor, placed, told)
        return await self.ask_a_broker(CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS))

    async def delete_topic(self, name: str) -> Message | None:
        topic = DeleteTopicsRequest.DeleteTopicState(name=name)
        return await self.ask_a_broker(DeleteTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS))

    async def create_partitions(self, topic: str, count: int) -> Message | None:
        """count: how many there shall be in all."""
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(topic, count, assignments=None)
        return await self.ask_a_broker(
            CreatePartitionsRequest(topics=[wanted], timeout_ms=REQUEST_TIMEOUT_MS)
        )

    async def alter_config(self, kind: int, name: str, config: str, value: str | None) -> Message | None:
        """value: None takes the config away."""
        change = IncrementalAlterConfigsRequest.AlterableConfig(
            config, _DELETE if value is None else _SET, value
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(kind, name, [change])
        return await self.ask_a_broker(IncrementalAlterConfigsRequest(resources=[resource]))

    async def reassign(self, topic: str, partition: int, replicas: Sequence[int] | None) -> Message | None:
        """replicas: None takes back a reassignment that is under way."""
        wanted = None if replicas is None else list(replicas)
        target = AlterPartitionReassignmentsRequest.ReassignablePartition(partition, wanted)
        topics = [AlterPartitionReassignmentsRequest.ReassignableTopic(topic, [target])]
        return await self.ask_a_broker(
            AlterPartitionReassignmentsRequest(timeout_ms=REQUEST_TIMEOUT_MS, topics=topics)
        )

    async def elect(
        self, partitions: Mapping[str, Sequence[int]] | None, *, is_unclean: bool = False
    ) -> Message | None:
        """partitions: of each topic; None for all partitions of all topics."""
        named = None
        if partitions is not None:
            named = [ElectLeadersRequest.TopicPartitions(name, [*of]) for name, of in partitions.items()]
        kind = UNCLEAN if is_unclean else PREFERRED
        return await self.ask_a_broker(ElectLeadersRequest(kind, named, REQUEST_TIMEOUT_MS))

    async def delete_records(self, topic: str, partition: int, before: int) -> Message | None:
        """before: an offset; -1 for the high watermark."""
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition, before)
        topics = [DeleteRecordsRequest.DeleteRecordsTopic(topic, [part])]
        return await self.ask_the_leader(
            topic, partition, DeleteRecordsRequest(topics=topics, timeout_ms=REQUEST_TIMEOUT_MS)
        )

    async def update_feature(self, name: str, level: int, *, is_downgrade: bool) -> Message | None:
        kind = SAFE_DOWNGRADE if is_downgrade else UPGRADE
        update = UpdateFeaturesRequest.FeatureUpdateKey(name, level, upgrade_type=kind)
        return await self.ask_a_broker(UpdateFeaturesRequest(REQUEST_TIMEOUT_MS, [update]))

    async def add_voter(self, node_id: int, directory_id: bytes, host: str, port: int) -> Message | None:
        listeners = [AddRaftVoterRequest.Listener(CONTROLLER_LISTENER, host, port)]
        return await self.ask_controller(
            AddRaftVoterRequest(CLUSTER_ID, REQUEST_TIMEOUT_MS, node_id, directory_id, listeners)
        )

    async def remove_voter(self, node_id: int, directory_id: bytes) -> Message | None:
        return await self.ask_controller(RemoveRaftVoterRequest(CLUSTER_ID, node_id, directory_id))

    async def unregister_broker(self, node_id: int) -> Message | None:
        return await self.ask_a_broker(UnregisterBrokerRequest(node_id))


_QUORUM: Final = DescribeQuorumRequest(
    topics=[DescribeQuorumRequest.TopicData("__cluster_metadata", [DescribeQuorumRequest.PartitionData(0)])]
)


async def _to_its_end(command: Coroutine[Any, None, object]) -> None:
    await command
