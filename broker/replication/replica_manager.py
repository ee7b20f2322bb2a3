"""All partitions that this broker hosts: they are found by name or id, and follow the image.

The metadata log says who hosts and who leads. `apply` applies the difference between two images here: logs
are created and deleted, leaders begin a new epoch, and the topics' settings reach the logs. Handlers find a
partition in `by_name` or `by_id`; for one that is not there, `why_not_hosted` gives the error to answer.
Batches are appended with `appends`.

A partition whose log could not be created because the disk was full is tried again, without a restart. One
whose log may lie in a log directory that has failed is offline here, and its log is not created: an empty one
in another directory would let the controller elect this replica, without the records that it had.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, Protocol

from broker.fast_lane.epoch import LaneEpoch
from broker.replication.appending import PartitionAppends
from broker.replication.partition import Partition
from broker.replication.partition_listeners import NO_KEEPER, IsrKeeper
from broker.replication.topic_settings import TopicCounters, TopicSettings, topic_settings
from broker.replication.waiting_appends import WaitingAppends
from broker.replication.watched_batches import WatchedBatches
from config.broker_config import BrokerConfig
from config.ports import Clock
from controller.metadata.image.brokers import UNASSIGNED_DIRECTORY
from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.image.topics import NO_LEADER, PartitionRegistration
from protocol.errors import ErrorCode
from protocol.values import ZERO_UUID
from storage.errors import LogStorageError, is_out_of_space
from storage.log_config import LogConfig
from storage.opening import give_topic_id
from storage.partition_log import PartitionLog

LOG: Final = logging.getLogger("barnabas.replicas")

NotHosted = Literal[
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER
]
"""The errors that say why a partition is not hosted here. ErrorCode.NONE is not one of them."""

_WALK_ALWAYS: Final = "full"


class Logs(Protocol):
    """What the replica manager needs of the log manager."""

    def get(self, topic: str, partition: int) -> PartitionLog | None: ...

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        directory_id: bytes | None = None,
    ) -> PartitionLog: ...

    def delete_async(self, topic: str, partition: int) -> None: ...

    def suspect(self, path: str, error: BaseException | None) -> None: ...


class ClusterMetadata(Protocol):
    """What the replica manager needs of the metadata cache."""

    @property
    def image(self) -> ClusterImage: ...

    def partition(self, topic: str, index: int) -> PartitionRegistration | None: ...


class LeaderChange(NamedTuple):
    """This broker has become the leader of a partition, is not the leader any more, or leads in another
    epoch."""

    topic: str
    partition: int
    leader_epoch: int
    leads: bool


class Followers(Protocol):
    """Copies the partitions that this broker follows."""

    def partition_moved(self, partition: Partition) -> None:
        """Another leader or leader epoch is in force."""
        ...

    def partition_gone(self, partition: Partition) -> None:
        """The partition has failed, or is hosted here no longer."""
        ...


class ReplicaManager:
    """The hosted partitions of one broker."""

    def __init__(
        self,
        *,
        node_id: int,
        logs: Logs,
        config: BrokerConfig,
        metadata: ClusterMetadata,
        clock: Clock,
        waiting: WaitingAppends | None = None,
        lane_epoch: LaneEpoch | None = None,
        isr_keeper: IsrKeeper = NO_KEEPER,
    ) -> None:
        """waiting: helper threads for appends that would keep the loop busy; without it they are done on the
        loop. lane_epoch: that of the node (`broker.fast_lane`). isr_keeper: see `Partition`."""
        self.lane_epoch = lane_epoch or LaneEpoch()
        self._node_id = node_id
        self._logs = logs
        self._config = config
        self._inherited: TopicSettings | None = None
        """The settings of topics that have no configs of their own."""
        self._told_faults: dict[str, tuple[str, ...]] = {}
        """The faults of topics' stored settings that are in the log, by topic."""
        self._metadata = metadata
        self._clock = clock
        self._waiting = waiting
        self._isr_keeper = isr_keeper
        self.appends = PartitionAppends(
            watched=WatchedBatches(always=config.text("barnabas.record.validation") == _WALK_ALWAYS),
            suspect=logs.suspect,
        )
        self.by_name: dict[tuple[str, int], Partition] = {}
        self.by_id: dict[tuple[bytes, int], Partition] = {}
        self.counters: dict[str, TopicCounters] = {}
        """The counters of the topics that are hosted here, by topic. Metrics read them."""
        self.deleted_topics = TopicCounters("")
        """The sum of the counters of deleted topics, so that the sums over all topics never fall."""
        self._offline: dict[tuple[str, int], None] = {}
        """Partitions that this broker should host, but whose log could not be created or cannot be used any
        more."""
        self.without_space: dict[tuple[str, int], None] = {}
        """The offline partitions that only lack space on a disk. `log_retries` tries them again."""
        self._tell_without_space: Callable[[], None] = _nobody_tries
        self._followers: Followers | None = None
        self._is_leaving = False

    # Finding.

    def partition(self, topic: str, index: int) -> Partition | NotHosted:
        found = self.by_name.get((topic, index))
        return self.why_not_hosted(topic, index) if found is None else found

    def why_not_hosted(self, topic: str, index: int) -> NotHosted:
        """The error to answer for a partition that is not in `by_name`."""
        if (topic, index) in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._metadata.partition(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    @property
    def offline_count(self) -> int:
        """The number of partitions that this broker should host and whose log cannot be used."""
        return len(self._offline)

    # Following the image.

    def apply(self, image: ClusterImage, delta: ImageDelta | None) -> list[LeaderChange]:
        """Applies a new image; without a delta everything in it is taken as new.

        It is called after the metadata cache shows the image. Returns the changes of leadership.
        """
        changes: list[LeaderChange] = []
        for _ in self.apply_in_steps(image, delta, changes):
            pass
        return changes

    def retire_in_steps(self, delta: ImageDelta, changes: list[LeaderChange]) -> Iterator[None]:
        """Drops the partitions of deleted topics, one partition a step. It is called while the metadata cache
        still shows the image before. So no partition is ever found by a name that is another topic's already,
        or by the id of a topic that the cache does not know. Their logs are deleted by `apply`."""
        if delta.topics is None:
            return
        for gone in delta.topics.deleted.values():
            for index in gone.partitions:
                self._retire(gone.name, index, gone.id, changes)
                yield

    def apply_in_steps(
        self, image: ClusterImage, delta: ImageDelta | None, changes: list[LeaderChange]
    ) -> Iterator[None]:
        """Does as `apply`, one partition a step. Adds the changes of leadership to `changes`."""
        if delta is None:
            for topic in image.topics.by_name.values():
                yield from self._follow_topic(image, topic.name, topic.id, topic.partitions, changes)
            return
        if delta.topics is not None:
            for gone in delta.topics.deleted.values():
                # What was hosted is told by the image before: a replica may have left in the same delta.
                for index, entry in delta.topics.base.by_id[gone.id].partitions.items():
                    if self._node_id in entry.replicas:
                        self._drop(gone.name, index, gone.id, changes)
                    yield
                if gone.name not in image.topics.by_name:
                    self._forget_topic(gone.name)
            for topic_id, changed in delta.topics.changed.items():
                yield from self._follow_topic(image, changed.name, topic_id, changed.partitions, changes)
        if delta.configs is not None:
            for resource_type, name in delta.configs.changed:
                if resource_type == ConfigResourceType.TOPIC:
                    yield from self._configure_topic(image, name)

    def when_without_space(self, told: Callable[[], None] | None) -> None:
        """Has `told` called when a log could not be created because there was no space; None: nobody is
        told."""
        self._tell_without_space = told or _nobody_tries

    def copy_with(self, followers: Followers) -> None:
        """Sets what copies the partitions that follow another broker."""
        self._followers = followers

    def begin_controlled_shutdown(self) -> None:
        """From now on a partition is not followed any more once this broker is out of its ISR, or nobody
        leads it: otherwise the broker would ask to come back into an ISR that it leaves."""
        self._is_leaving = True

    def try_again_in_steps(self, changes: list[LeaderChange]) -> Iterator[None]:
        """Tries again to make the logs that lacked space, one partition a step."""
        for topic, index in list(self.without_space):
            image = self._metadata.image
            found = image.topics.by_name.get(topic)
            entry = None if found is None else found.partitions.get(index)
            if found is not None and entry is not None and (topic, index) in self.without_space:
                yield from self._follow_topic(image, topic, found.id, {index: entry}, changes)
        yield

    def configure(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Takes over a change of the broker's own configuration. Topics without configs of their own follow
        it."""
        self._config = config
        self._inherited = None
        for name in self.counters:
            for _ in self._configure_topic(image, name):
                pass

    def _forget_topic(self, topic: str) -> None:
        self._told_faults.pop(topic, None)
        counters = self.counters.pop(topic, None)
        if counters is not None:
            self.deleted_topics.add(counters)

    def _settings(self, image: ClusterImage, topic: str) -> TopicSettings:
        """The settings in force for a topic."""
        overrides = image.configs.of(ConfigResourceType.TOPIC, topic)
        if not overrides:
            if self._inherited is None:
                self._inherited = topic_settings(self._config, {})
            return self._inherited
        settings = topic_settings(self._config, overrides)
        if settings.faults != self._told_faults.get(topic, ()):
            self._told_faults[topic] = settings.faults
            for fault in settings.faults:
                LOG.error("Topic %s has a setting that is not valid: %s", topic, fault)
        return settings

    def _configure_topic(self, image: ClusterImage, topic: str) -> Iterator[None]:
        found = image.topics.by_name.get(topic)
        if found is None or topic not in self.counters:
            return
        settings = self._settings(image, topic)
        for index in found.partitions:
            partition = self.by_name.get((topic, index))
            if partition is not None:
                partition.log.update_config(settings.log)
                partition.require_insync(settings.min_insync_replicas)
            yield

    def _follow_topic(
        self,
        image: ClusterImage,
        topic: str,
        topic_id: bytes,
        partitions: Mapping[int, PartitionRegistration],
        changes: list[LeaderChange],
    ) -> Iterator[None]:
        settings: TopicSettings | None = None
        for index, entry in partitions.items():
            yield
            if self._node_id not in entry.replicas:
                if (topic_id, index) in self.by_id or (topic, index) in self._offline:
                    self._drop(topic, index, topic_id, changes)
                continue
            if settings is None:
                settings = self._settings(image, topic)
            directory_id = entry.directory_of(self._node_id)
            partition = self._host(topic, index, topic_id, settings, directory_id)
            if partition is None:
                continue
            led = partition.is_leader
            moved = partition.follow_image(
                leader_id=entry.leader,
                leader_epoch=entry.leader_epoch,
                partition_epoch=entry.partition_epoch,
                replicas=entry.replicas,
                isr=entry.isr,
                adding=entry.adding,
                removing=entry.removing,
                min_insync_replicas=settings.min_insync_replicas,
                now_ms=self._clock.monotonic_ms(),
            )
            if self._followers is not None:
                if self._is_leaving and (entry.leader == NO_LEADER or self._node_id not in entry.isr):
                    self._followers.partition_gone(partition)
                elif moved:
                    self._followers.partition_moved(partition)
            if moved and not partition.is_leader:
                self.appends.forget(partition)
            if moved and (led or partition.is_leader):
                changes.append(LeaderChange(topic, index, entry.leader_epoch, partition.is_leader))

    def _host(
        self, topic: str, index: int, topic_id: bytes, settings: TopicSettings, directory_id: bytes
    ) -> Partition | None:
        """The partition, with its log; None if the log could not be created or opened, or may be in a log
        directory that has failed. directory_id: the log directory of the replica in the image."""
        key = (topic, index)
        partition = self.by_name.get(key)
        if partition is not None and partition.topic_id == topic_id:
            return partition
        if partition is not None:
            self._drop(topic, index, partition.topic_id, [])
        try:
            log = self._logs.get(topic, index)
            while log is not None and log.topic_id not in (topic_id, ZERO_UUID):
                LOG.warning("%s-%d on disk belongs to an earlier topic of that name; it goes", topic, index)
                self._logs.delete_async(topic, index)
                log = self._logs.get(topic, index)
            if log is None:
                is_assigned = directory_id != UNASSIGNED_DIRECTORY
                log = self._logs.create(
                    topic, index, topic_id, settings.log, directory_id if is_assigned else None
                )
            else:
                if log.topic_id == ZERO_UUID:
                    give_topic_id(log, topic_id)
                log.update_config(settings.log)
                log.forget_expired_producers(self._clock.wall_ms())
        except (OSError, LogStorageError) as error:
            if key not in self._offline:
                LOG.error("%s-%d cannot be served, its log could not be made: %s", topic, index, error)
            self._offline[key] = None
            if is_out_of_space(error):
                self.without_space[key] = None
                self._tell_without_space()
            else:
                self.without_space.pop(key, None)
            return None
        log.producer_state.verifications.is_required = True
        self._offline.pop(key, None)
        if key in self.without_space:
            del self.without_space[key]
            LOG.info("%s-%d can be served, there is space for its log", topic, index)
        counters = self.counters.get(topic)
        if counters is None:
            counters = self.counters[topic] = TopicCounters(topic)
        partition = Partition(
            topic=topic, topic_id=topic_id, index=index, node_id=self._node_id, log=log, counters=counters,
            lane_epoch=self.lane_epoch, isr_keeper=self._isr_keeper,
        )  # fmt: skip
        if self._waiting is not None:
            self._waiting.watch(log)
        self.by_name[key] = partition
        self.by_id[partition.key] = partition
        return partition

    def _retire(self, topic: str, index: int, topic_id: bytes, changes: list[LeaderChange]) -> None:
        """Stops hosting the partition. Its log stays."""
        self._offline.pop((topic, index), None)
        self.without_space.pop((topic, index), None)
        partition = self.by_id.pop((topic_id, index), None)
        if partition is None:
            return
        if self.by_name.get((topic, index)) is partition:
            del self.by_name[topic, index]
        self._forget(partition)
        led = partition.is_leader
        partition.retire()
        if led:
            changes.append(LeaderChange(topic, index, partition.leader_epoch, False))

    def _drop(self, topic: str, index: int, topic_id: bytes, changes: list[LeaderChange]) -> None:
        """Stops hosting the partition, and has its log deleted in the background, even if the log has
        failed."""
        self._retire(topic, index, topic_id, changes)
        try:
            self._logs.delete_async(topic, index)
        except OSError as error:
            LOG.error("The log of %s-%d could not be set aside for removal: %s", topic, index, error)

    def _forget(self, partition: Partition) -> None:
        self.appends.forget(partition)
        if self._followers is not None:
            self._followers.partition_gone(partition)

    # Disk errors.

    def log_went_offline(self, topic: str, index: int) -> LeaderChange | None:
        """Takes in that the log cannot be used any more. Returns the change of leadership, if this broker was
        the leader."""
        key = (topic, index)
        self._offline[key] = None
        partition = self.by_name.pop(key, None)
        if partition is None:
            return None
        self.by_id.pop((partition.topic_id, index), None)
        self._forget(partition)
        led = partition.is_leader
        partition.go_offline()
        return LeaderChange(topic, index, partition.leader_epoch, False) if led else None

    def log_moved(self, topic: str, index: int) -> None:
        """Takes in that the log lies in another directory now, and has its writes timed as those of that
        disk."""
        partition = self.by_name.get((topic, index))
        if partition is not None and self._waiting is not None:
            self._waiting.watch(partition.log)

    def read_failed(self, partition: Partition, error: BaseException) -> None:
        """Takes in that a read has met a disk error: the log manager checks whether the whole directory has
        failed."""
        self._logs.suspect(partition.log.directory, error.__cause__ or error)


def _nobody_tries() -> None:
    """Does nothing: the partition is tried again only when it changes next."""
