"""The broker's handlers over logs in memory, an image made by records, and a controller that a test scripts.

No socket, no loop, no codec but where a test asks for it: a request object goes in, a response object comes
out, and the clock moves by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from broker.controller_channel.forwarding import ControllerChannel
from broker.controller_channel.producer_ids import ProducerIds
from broker.controller_channel.topic_creation import TopicCreation
from broker.fast_lane.epoch import LaneEpoch
from broker.metadata.cache import MetadataCache
from broker.metadata.publishers import RightsPublisher
from broker.replication.coordinator_log import CoordinatorLog
from broker.replication.delayed_fetch import FetchPurgatory
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.partition_listeners import NO_KEEPER, IsrKeeper
from broker.replication.replica_manager import LeaderChange, ReplicaManager
from broker.replication.replica_selector import replica_selector
from broker.replication.waiting_appends import WaitingAppends
from broker.scheduling.long_work import LongWork
from broker.scheduling.lookups import Lookups
from broker.security.standard_authorizer import StandardAuthorizer
from broker.services import BrokerServices
from config.broker_config import BrokerConfig
from config.ports import Files
from config.setting import Setting, Source
from controller.metadata.image.acls import AclsImage
from controller.metadata.image.brokers import UNASSIGNED_DIRECTORY, VersionRange
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, replay
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.metadata_log.cluster import ConfigRecord, FeatureLevelRecord
from protocol.metadata_log.registrations import RegisterBrokerRecord
from protocol.metadata_log.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from protocol.peer_channel import PeerError
from protocol.records.builder import SimpleRecord, build_batch
from protocol.serving.authorization import Authorizer, Operation, ResourceType
from protocol.serving.handler_table import HandlerTable
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session, WalkedBytes
from storage.append import AppendResult
from storage.background_tasks import BackgroundTasks
from storage.errors import AppendRefused
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from storage.opening import create_log
from storage.partition_log import PartitionLog
from tests.support.rigs.asked_coordinator import AskedCoordinator
from tests.support.rigs.authorizers import HandmadeAuthorizer
from tests.support.rigs.controllers import HandLoggers
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.storage_world import RunsAtOnce

CLUSTER_ID = "kVGcPLkCRUWqKbbcbOLT3g"
LISTENER = "PLAINTEXT"

NOT_THERE: Any = SimpleNamespace()
"""Of the services, a part that the rig does not have; a test that needs it puts one in its place."""


def topic_id(number: int) -> bytes:
    return struct.pack(">QQ", 7, number)


def config_of(settings: Mapping[str, str]) -> BrokerConfig:
    """The configuration of broker 1. settings: by key, with underscores in place of dots."""
    values = {"node.id": "1", "process.roles": "broker,controller"} | {
        name.replace("_", "."): value for name, value in settings.items()
    }
    return BrokerConfig({name: Setting(name, value, Source.FILE, "test") for name, value in values.items()})


class CountingRandomSource:
    """Random numbers 0, 1, 2 …, each cut to its bound."""

    def __init__(self) -> None:
        self._count = -1

    def random_bytes(self, count: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(count, "big")

    def below(self, bound: int) -> int:
        self._count += 1
        return self._count % bound

    def fraction(self) -> float:
        return 0.5


class HandAuthorizer(HandmadeAuthorizer):
    """Allows all but what `denied` holds, as (operation, resource, name), name None for every name, and what
    the access control entries of the rig's image deny."""

    def __init__(self, acls: Callable[[], AclsImage]) -> None:
        self.denied: set[tuple[Operation, ResourceType, str | None]] = set()
        self.denies_all = False
        self._by_entries = StandardAuthorizer(
            acls, lambda: True, super_users=frozenset(), allows_everyone_without_acls=True
        )

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        in_earnest: bool = True,
    ) -> bool:
        return super().authorize(context, operation, resource, name) and self._by_entries.authorize(
            context, operation, resource, name
        )

    def permits(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
        if self.denies_all:
            return False
        return (operation, resource, name) not in self.denied and (
            operation,
            resource,
            None,
        ) not in self.denied


class MemoryLogs:
    """The log manager's part: logs in a file system that lives in memory."""

    def __init__(self, files: Files, clock: HandClock) -> None:
        self.files = files
        self.clock = clock
        self.background_tasks = BackgroundTasks()
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.deleted: list[tuple[str, int]] = []
        self.suspected: list[str] = []

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        directory_id: bytes | None = None,
    ) -> PartitionLog:
        directory = f"/logs/{topic}-{partition}.{len(self.deleted)}"
        log = create_log(
            self.files,
            directory,
            topic,
            partition,
            topic_id,
            config,
            self.background_tasks,
            now_ms=self.clock.wall_ms(),
        )
        self.logs[topic, partition] = log
        return log

    def delete_async(self, topic: str, partition: int) -> None:
        log = self.logs.pop((topic, partition), None)
        if log is not None:
            self.deleted.append((topic, partition))
            log.abandon()

    def suspect(self, path: str, error: BaseException | None) -> None:
        self.suspected.append(path)


class ScriptedPeer:
    """The controller's end of the channel. `answer` gives a response, or None to leave the request open."""

    def __init__(self) -> None:
        self.requests: list[Message] = []
        self.open: list[Callable[[Message | PeerError], None]] = []
        self.answer: Callable[[Message], Message | PeerError | None] = lambda request: None
        self.versions: dict[int, tuple[int, int]] | None = None

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None:
        self.requests.append(request)
        response = self.answer(request)
        if response is None:
            self.open.append(on_response)
        else:
            on_response(response)


class HandlerRig:
    """One broker with id 1, and whatever topics a test makes."""

    def __init__(self, *, files: Files | None = None, slots: int = 1000, **settings: str) -> None:
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.authorizer = HandAuthorizer(lambda: self.metadata.image.acls)
        self.in_force: Authorizer = self.authorizer
        """The authorizer of requests; a benchmark takes one that costs what the real one costs."""
        self.random_source = CountingRandomSource()
        self.peer = ScriptedPeer()
        self.image: ClusterImage = EMPTY_IMAGE
        self.offset = 0
        self.config = config_of(settings)
        self.walked: WalkedBytes = {}
        """Of the connection to which batches belong that are appended without a request, see `Session`."""
        self._walked_of_requests: WalkedBytes = {}
        self.lane_epoch = LaneEpoch()
        self.metadata = MetadataCache(random_source=self.random_source, lane_epoch=self.lane_epoch)
        self.logs = MemoryLogs(MemoryFiles() if files is None else files, self.clock)
        self.replicas = ReplicaManager(
            node_id=1,
            logs=self.logs,
            config=self.config,
            metadata=self.metadata,
            clock=self.clock,
            waiting=self.helper_threads(),
            lane_epoch=self.lane_epoch,
            isr_keeper=self.isr_keeper(),
        )
        self.coordinator_log = CoordinatorLog(self.replicas, self.replicas.appends, self.clock)
        self.sessions = FetchSessions(slots=slots, random_source=self.random_source)
        self.fetches = FetchPurgatory(
            sessions=self.sessions,
            max_bytes=self.config.integer("fetch.max.bytes"),
            clock=self.clock,
            timers=self.timers,
            selector=replica_selector(self.config.optional_text("replica.selector.class")),
        )
        self.long_work = LongWork(self.clock, self.timers)
        self.lookups = Lookups(clock=self.clock, work=self.long_work, threads=RunsAtOnce())
        channel = ControllerChannel(
            self.peer,
            clock=self.clock,
            timers=self.timers,
            request_timeout_ms=30_000,
            versions=lambda: self.peer.versions,
        )
        self.asked_coordinator = AskedCoordinator(self.clock, self.timers)
        self.services = BrokerServices(
            node_id=1,
            cluster_id=CLUSTER_ID,
            config=self.config,
            clock=self.clock,
            timers=self.timers,
            metadata=self.metadata,
            logs=NOT_THERE,
            replicas=self.replicas,
            fetches=self.fetches,
            groups=NOT_THERE,
            transactions=NOT_THERE,
            first_writes=self.asked_coordinator.first_writes,
            coordinator_log=self.coordinator_log,
            topics=TopicCreation(channel=channel, metadata=self.metadata, config=self.config),
            lookups=self.lookups,
            producer_ids=ProducerIds(node_id=1, broker_epoch=lambda: 5, channel=channel),
            controller=channel,
            handlers=HandlerTable("broker", []),
            loggers=HandLoggers(),
            features={"metadata.version": VersionRange(7, 30), "kraft.version": VersionRange(0, 1)},
            finalized_by_quorum={"kraft.version": 1},
        )
        self.apply(FeatureLevelRecord("metadata.version", 30), self.broker_record(1))

    def helper_threads(self) -> WaitingAppends | None:
        """For appends that wait; by default none does."""
        return None

    def isr_keeper(self) -> IsrKeeper:
        """Who changes ISRs; by default nobody."""
        return NO_KEEPER

    # The cluster.

    @staticmethod
    def broker_record(
        broker_id: int, *, fenced: bool = False, listener: str = LISTENER, rack: str | None = None
    ) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=broker_id,
            broker_epoch=5,
            end_points=[
                RegisterBrokerRecord.BrokerEndpoint(listener, f"host{broker_id}", 9000 + broker_id, 0)
            ],
            fenced=fenced,
            rack=rack,
        )

    def apply(self, *records: Message) -> list[LeaderChange]:
        """Replay records as the metadata log would bring them, and publish the image."""
        changes: list[LeaderChange] = []
        for _ in self.apply_in_steps(changes, *records):
            pass
        return changes

    def apply_in_steps(self, changes: list[LeaderChange], *records: Message) -> Iterator[None]:
        """The same, in the steps between which a broker serves its clients."""
        self.offset += len(records)
        self.image, delta = replay(self.image, records, offset=self.offset, epoch=1)
        yield from self.replicas.retire_in_steps(delta, changes)
        self.metadata.apply(self.image, delta)
        RightsPublisher(self.sessions).publish(delta, self.image)
        yield from self.replicas.apply_in_steps(self.image, delta, changes)

    def topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        number: int = 1,
        replicas: Sequence[int] = (1,),
        isr: Iterable[int] | None = None,
        leader: int = 1,
        leader_epoch: int = 0,
        directory_id: bytes = UNASSIGNED_DIRECTORY,
        **configs: str,
    ) -> bytes:
        """A topic whose partitions broker 1 leads, unless told otherwise; its id. directory_id: that of all
        replicas."""
        made = topic_id(number)
        self.apply(
            TopicRecord(name, made),
            *(
                ConfigRecord(resource_type=2, resource_name=name, name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=made,
                    replicas=list(replicas),
                    isr=list(replicas if isr is None else isr),
                    leader=leader,
                    leader_epoch=leader_epoch,
                    partition_epoch=0,
                    directories=[directory_id for _ in replicas],
                )
                for index in range(partitions)
            ),
        )
        return made

    def remove_topic(self, made: bytes) -> list[LeaderChange]:
        return self.apply(RemoveTopicRecord(made))

    def log(self, name: str, index: int = 0) -> PartitionLog:
        return self.logs.logs[name, index]

    def write(self, name: str, index: int = 0, count: int = 1, size_bytes: int = 10, **options: Any) -> int:
        """Append one batch as a producer would; its first offset."""
        partition = self.replicas.by_name[name, index]
        result = self.replicas.appends.append(
            partition,
            self.batch(count, size_bytes, **options),
            acks=-1,
            version=12,
            walked=self.walked,
            now_ms=self.clock.wall_ms(),
        )
        assert isinstance(result, AppendResult)
        return result.base_offset

    def batch(
        self, count: int = 1, size_bytes: int = 10, timestamp: int | None = None, **options: Any
    ) -> bytearray:
        at = self.clock.wall_ms() if timestamp is None else timestamp
        return build_batch([SimpleRecord(b"k", b"v" * size_bytes, at) for _ in range(count)], **options)

    # Requests.

    def context(self, api_key: int, version: int, client_id: str = "client") -> RequestContext:
        return RequestContext(
            api_key,
            version,
            1,
            client_id,
            Session("1-2-3", LISTENER, "10.0.0.7", walked_bytes=self._walked_of_requests),
            self.clock.wall_ms(),
            self.in_force,
        )

    def deny(self, operation: Operation, resource: ResourceType, name: str | None = None) -> None:
        self.authorizer.denied.add((operation, resource, name))


def committed(outcome: AppendResult | AppendRefused) -> tuple[ErrorCode, int]:
    """What a coordinator heard of its batch: the error, and the offset if there is none."""
    if isinstance(outcome, AppendRefused):
        return outcome.error_code, -1
    return ErrorCode.NONE, outcome.base_offset


def now(answer: Any) -> Any:
    """The response that a handler gave, which must be there already."""
    if isinstance(answer, Pending):
        assert answer.response is not None, "the answer is still pending"
        return answer.response
    return answer
