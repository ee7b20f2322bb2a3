"""All partitions that this broker hosts: found by name or id, appended to, read back, and made to follow
the image.

The metadata log says who hosts and who leads; `apply` turns the difference between two images into deeds
here: logs are created and deleted, leaders begin in a new epoch, configs reach the logs. Handlers find a
partition with one look into `by_name` or `by_id`; what is not there has a reason, and `why_not_hosted`
gives it.

An append leaves either all of a batch or nothing of it. If the disk fails, the batch is refused with
KAFKA_STORAGE_ERROR and the partition stays as it was: the next append tries again, so a disk that was full
and has room again needs no restart. Nor does a partition whose log could not be made for want of space.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol

from broker.metadata.cache import MetadataCache
from broker.replication.partition import Partition, TopicCounters
from broker.replication.roles import NO_EPOCH
from broker.replication.topic_settings import TopicSettings, topic_settings
from broker.replication.waiting_appends import WaitingAppends
from broker.replication.watched_batches import WatchedBatches
from config.broker_config import BrokerConfig
from config.errors import InvalidValue
from config.ports import Clock
from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.image.topics import PartitionRegistration
from protocol.errors import ErrorCode, InvariantViolated
from protocol.records.errors import CorruptRecord
from protocol.values import ZERO_UUID
from storage.append import AppendResult
from storage.append_lane import AppendLane, Outcome, WaitingAppend
from storage.errors import (
    AppendRefused,
    CorruptSegment,
    LogStorageError,
    OffsetOutOfRange,
    is_out_of_space,
)
from storage.log_config import LogConfig
from storage.opening import give_topic_id
from storage.partition_log import PartitionLog

LOG: Final = logging.getLogger("barnabas.replicas")

ACKS_ALL: Final = -1

NotHosted = Literal[
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER
]
"""Why a partition is not here. NONE is not among it."""

_WALK_ALWAYS: Final = "full"


class Logs(Protocol):
    """What is asked of the log manager."""

    def get(self, topic: str, partition: int) -> PartitionLog | None: ...

    def create(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> PartitionLog: ...

    def delete_async(self, topic: str, partition: int) -> None: ...

    def suspect(self, path: str, error: BaseException | None) -> None: ...


OnCommitted = Callable[["AppendResult | AppendRefused"], None]
"""Hears where a coordinator's batch lies once the high watermark has passed it, or why it will not."""


class LeaderChange(NamedTuple):
    """This broker began or ceased to lead a partition, or leads it in another epoch."""

    topic: str
    partition: int
    leader_epoch: int
    leads: bool


class ReplicaManager:
    """The hosted partitions of one broker."""

    def __init__(
        self,
        *,
        node_id: int,
        logs: Logs,
        config: BrokerConfig,
        metadata: MetadataCache,
        clock: Clock,
        waiting: WaitingAppends | None = None,
    ) -> None:
        """waiting: helper threads for appends that should not keep the loop; without it they do."""
        self._node_id = node_id
        self._logs = logs
        self._config = config
        self._inherited: TopicSettings | None = None
        """Of topics that set nothing themselves."""
        self._metadata = metadata
        self._clock = clock
        self.waiting = waiting
        self._inline_bytes = 0 if waiting is None else waiting.inline_bytes
        self.by_name: dict[tuple[str, int], Partition] = {}
        self.by_id: dict[tuple[bytes, int], Partition] = {}
        self.counters: dict[str, TopicCounters] = {}
        """By topic, for topics that are hosted here; read by metrics."""
        self.watched = WatchedBatches(always=config.text("barnabas.record.validation") == _WALK_ALWAYS)
        self._offline: dict[tuple[str, int], None] = {}
        """Partitions that should be here, but whose log could not be made, or cannot be used any more."""
        self.without_space: dict[tuple[str, int], None] = {}
        """Those of them that lack nothing but room on a disk; `log_retries` tries them again."""
        self.on_without_space: Callable[[], None] = _nobody_tries
        self._failing: dict[Partition, None] = {}
        """Partitions whose last append met a disk error; logged when it begins and when it ends."""

    # Finding.

    def partition(self, topic: str, index: int) -> Partition | NotHosted:
        found = self.by_name.get((topic, index))
        return self.why_not_hosted(topic, index) if found is None else found

    def why_not_hosted(self, topic: str, index: int) -> NotHosted:
        """What to answer for a partition that is not in `by_name`."""
        if (topic, index) in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._metadata.partition(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    # Appending.

    def append(
        self,
        partition: Partition,
        records: memoryview | bytearray | bytes,
        acks: int,
        version: int,
        connection_id: str,
        now_ms: int,
    ) -> AppendResult | WaitingAppend:
        """One client's batch, as the leader. Raises AppendRefused with the code to answer; nothing changed.

        On return the batch is in the log; whether it is replicated is for the high watermark to say. Or it
        waits for helper threads, and its outcome follows: an AppendResult, or an AppendRefused.
        """
        counters = partition.counters
        counters.total_produce_requests += 1
        if not partition.is_leader:
            raise _refused(ErrorCode(partition.refusal(NO_EPOCH)), partition)
        if partition.is_under_min_isr and acks == ACKS_ALL:
            raise _refused(ErrorCode.NOT_ENOUGH_REPLICAS, partition)
        walk = False
        if partition.trusted_connection is not connection_id:
            walk = self.watched.next_is_walked(connection_id, partition.topic_id, partition.index)
            if not walk:
                partition.trusted_connection = connection_id
        try:
            result = partition.log.append_or_wait(
                records,
                leader_epoch=partition.leader_epoch,
                now_ms=now_ms,
                walk=walk,
                request_version=version,
                inline_bytes=self._inline_bytes,
            )
        except LogStorageError as error:
            raise self._disk_failed(partition, error) from error
        if result is None:
            return self._append_later(partition, records, now_ms, walk, version)
        if self._failing:
            self._disk_works(partition)
        if not result.is_duplicate:
            size_bytes = len(records)
            counters.bytes_in += size_bytes
            counters.messages_in += result.last_offset - result.base_offset + 1
            partition.appended(size_bytes)
        return result

    def _append_later(
        self,
        partition: Partition,
        records: memoryview | bytearray | bytes,
        now_ms: int,
        walk: bool,
        version: int,
    ) -> WaitingAppend:
        waiting = self._lane(partition).submit(
            records,
            leader_epoch=partition.leader_epoch,
            now_ms=now_ms,
            walk=walk,
            request_version=version,
        )
        waiting.then(partial(self._appended_late, partition, waiting))
        return waiting

    def _lane(self, partition: Partition) -> AppendLane:
        if self.waiting is None:
            raise InvariantViolated(f"an append to {partition!r} wants helper threads, and there are none")
        return self.waiting.lane(partition.log)

    def _appended_late(self, partition: Partition, waiting: WaitingAppend, outcome: Outcome) -> None:
        """Helper threads have done their part: what follows an append follows now, before the answer."""
        if isinstance(outcome, LogStorageError):
            waiting.outcome = self._disk_failed(partition, outcome)
        if not isinstance(outcome, AppendResult):
            return
        if self._failing:
            self._disk_works(partition)
        if not outcome.is_duplicate:
            partition.counters.bytes_in += waiting.size_bytes
            partition.counters.messages_in += outcome.last_offset - outcome.base_offset + 1
            partition.appended(waiting.size_bytes)

    def append_internal(self, topic: str, index: int, batch: bytes, on_result: OnCommitted) -> None:
        """A coordinator's batch, with acks=all. `on_result` once, at once or later; see `OnCommitted`."""
        partition = self.by_name.get((topic, index))
        if partition is None:
            error = self.why_not_hosted(topic, index)
            on_result(AppendRefused(error, error.message))
            return
        refusal = partition.refusal(NO_EPOCH)
        if refusal or partition.is_under_min_isr:
            on_result(_refused(ErrorCode(refusal or ErrorCode.NOT_ENOUGH_REPLICAS), partition))
            return
        if len(batch) > partition.log.config.max_message_bytes:
            on_result(_refused(ErrorCode.MESSAGE_TOO_LARGE, partition))
            return
        log, now_ms = partition.log, self._clock.wall_ms()
        try:
            if self.waiting is not None and log.must_wait():
                waiting = self._lane(partition).submit_own(
                    batch, leader_epoch=partition.leader_epoch, now_ms=now_ms
                )
                waiting.then(partial(self._appended_late, partition, waiting))
                waiting.then(partial(_answer_internal, partition, on_result))
                return
            result = log.append_internal(bytearray(batch), leader_epoch=partition.leader_epoch, now_ms=now_ms)
        except LogStorageError as error:
            on_result(self._disk_failed(partition, error))
            return
        except AppendRefused as error:
            on_result(error)
            return
        if self._failing:
            self._disk_works(partition)
        partition.counters.bytes_in += len(batch)
        partition.counters.messages_in += result.last_offset - result.base_offset + 1
        partition.wait_for_commit(result.last_offset + 1, InternalAppend(on_result, result))
        partition.appended(len(batch))

    def max_batch_bytes(self, topic: str, index: int) -> int:
        """The largest batch that a partition takes; of one that is not hosted, Kafka's own default."""
        partition = self.by_name.get((topic, index))
        return (LogConfig() if partition is None else partition.log.config).max_message_bytes

    def read_batches(self, topic: str, index: int, from_offset: int, max_bytes: int) -> bytes:
        """Whole batches up to the log's end from the one with `from_offset` on, `b""` at the end.

        At least one batch, otherwise up to `max_bytes`. Raises OSError if the disk fails, LookupError if the
        partition is not hosted, CorruptRecord for bytes that are no batch and an offset beyond the end.
        """
        partition = self.by_name.get((topic, index))
        if partition is None:
            raise LookupError(f"{topic}-{index} is not hosted by broker {self._node_id}")
        log = partition.log
        try:
            found = log.read(
                max(from_offset, log.log_start_offset),
                max_bytes=max_bytes,
                up_to_offset=log.log_end_offset,
                at_least_one_batch=True,
            )
            return b"" if found is None else found.read()
        except (OffsetOutOfRange, CorruptSegment) as error:
            raise CorruptRecord(str(error)) from error
        except LogStorageError as error:
            raise OSError(str(error)) from error

    # Following the image.

    def apply(self, image: ClusterImage, delta: ImageDelta | None) -> list[LeaderChange]:
        """Do what the new image asks for; without a delta everything in it is taken as new.

        Call it after the metadata cache shows the image. Returns where leadership changed here.
        """
        changes: list[LeaderChange] = []
        for _ in self.apply_in_steps(image, delta, changes):
            pass
        return changes

    def retire_in_steps(self, delta: ImageDelta, changes: list[LeaderChange]) -> Iterator[None]:
        """Lets go of the partitions of deleted topics, a partition a step. Call it while the metadata cache
        still shows the image before: so nobody ever finds a partition by a name that is another topic's
        already, or by the id of a topic that the cache does not know. Their logs go with `apply`."""
        if delta.topics is None:
            return
        for gone in delta.topics.deleted.values():
            for index in gone.partitions:
                self._retire(gone.name, index, gone.id, changes)
                yield

    def apply_in_steps(
        self, image: ClusterImage, delta: ImageDelta | None, changes: list[LeaderChange]
    ) -> Iterator[None]:
        """As `apply`, a partition a step; what changed is added to `changes` on the way."""
        if delta is None:
            for topic in image.topics.by_name.values():
                yield from self._follow_topic(image, topic.name, topic.id, topic.partitions, changes)
            return
        if delta.topics is not None:
            for gone in delta.topics.deleted.values():
                for index, entry in gone.partitions.items():
                    if self._node_id in entry.replicas:
                        self._drop(gone.name, index, gone.id, changes)
                    yield
                if gone.name not in image.topics.by_name:
                    self.counters.pop(gone.name, None)
            for topic_id, changed in delta.topics.changed.items():
                yield from self._follow_topic(image, changed.name, topic_id, changed.partitions, changes)
        if delta.configs is not None:
            for resource_type, name in delta.configs.changed:
                if resource_type == ConfigResourceType.TOPIC:
                    yield from self._configure_topic(image, name)

    def try_again_in_steps(self, changes: list[LeaderChange]) -> Iterator[None]:
        """Makes the logs that lacked space, as far as there is some now, a partition a step."""
        for topic, index in list(self.without_space):
            image = self._metadata.image
            found = image.topics.by_name.get(topic)
            entry = None if found is None else found.partitions.get(index)
            if found is not None and entry is not None and (topic, index) in self.without_space:
                yield from self._follow_topic(image, topic, found.id, {index: entry}, changes)
        yield

    def configure(self, image: ClusterImage, config: BrokerConfig) -> None:
        """The broker's own configuration changed: topics that inherit from it change too."""
        self._config = config
        self._inherited = None
        for name in self.counters:
            for _ in self._configure_topic(image, name):
                pass

    def _settings(self, image: ClusterImage, topic: str) -> TopicSettings:
        """In force for a topic; an invalid stored setting is as good as none, and said aloud."""
        overrides = image.configs.of(ConfigResourceType.TOPIC, topic)
        if not overrides:
            if self._inherited is None:
                self._inherited = topic_settings(self._config, {})
            return self._inherited
        try:
            return topic_settings(self._config, overrides)
        except InvalidValue as problem:
            LOG.error(
                "Topic %s has a setting that is not valid and is treated as if unset: %s", topic, problem
            )
            return topic_settings(self._config, {})

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
            partition = self._host(topic, index, topic_id, settings)
            if partition is None:
                continue
            led = partition.is_leader
            moved = partition.follow_image(
                leader_id=entry.leader,
                leader_epoch=entry.leader_epoch,
                partition_epoch=entry.partition_epoch,
                replicas=entry.replicas,
                isr=entry.isr,
                min_insync_replicas=settings.min_insync_replicas,
                now_ms=self._clock.monotonic_ms(),
            )
            if moved and (led or partition.is_leader):
                changes.append(LeaderChange(topic, index, entry.leader_epoch, partition.is_leader))

    def _host(self, topic: str, index: int, topic_id: bytes, settings: TopicSettings) -> Partition | None:
        """The partition, with its log; None if the disk refuses."""
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
                log = self._logs.create(topic, index, topic_id, settings.log)
            else:
                if log.topic_id == ZERO_UUID:
                    give_topic_id(log, topic_id)
                log.update_config(settings.log)
        except (OSError, LogStorageError) as error:
            if key not in self._offline:
                LOG.error("%s-%d cannot be served, its log could not be made: %s", topic, index, error)
            self._offline[key] = None
            if is_out_of_space(error):
                self.without_space[key] = None
                self.on_without_space()
            else:
                self.without_space.pop(key, None)
            return None
        self._offline.pop(key, None)
        if key in self.without_space:
            del self.without_space[key]
            LOG.info("%s-%d can be served, there is space for its log", topic, index)
        counters = self.counters.get(topic)
        if counters is None:
            counters = self.counters[topic] = TopicCounters(topic)
        partition = Partition(
            topic=topic, topic_id=topic_id, index=index, node_id=self._node_id, log=log, counters=counters
        )
        if self.waiting is not None:
            self.waiting.watch(log)
        self.by_name[key] = partition
        self.by_id[topic_id, index] = partition
        return partition

    def _retire(self, topic: str, index: int, topic_id: bytes, changes: list[LeaderChange]) -> None:
        """Host the partition no longer."""
        self._offline.pop((topic, index), None)
        self.without_space.pop((topic, index), None)
        partition = self.by_id.pop((topic_id, index), None)
        if partition is None:
            return
        if self.by_name.get((topic, index)) is partition:
            del self.by_name[topic, index]
        self._failing.pop(partition, None)
        led = partition.is_leader
        partition.retire()
        if led:
            changes.append(LeaderChange(topic, index, partition.leader_epoch, False))

    def _drop(self, topic: str, index: int, topic_id: bytes, changes: list[LeaderChange]) -> None:
        """The same, and its log goes in its own time; also one that could not be used."""
        self._retire(topic, index, topic_id, changes)
        try:
            self._logs.delete_async(topic, index)
        except OSError as error:
            LOG.error("The log of %s-%d could not be set aside for removal: %s", topic, index, error)

    # Disk errors.

    def log_went_offline(self, topic: str, index: int) -> LeaderChange | None:
        """The log cannot be used any more; the change of leadership that this is, if it is one."""
        key = (topic, index)
        self._offline[key] = None
        partition = self.by_name.pop(key, None)
        if partition is None:
            return None
        self.by_id.pop((partition.topic_id, index), None)
        self._failing.pop(partition, None)
        led = partition.is_leader
        partition.go_offline()
        return LeaderChange(topic, index, partition.leader_epoch, False) if led else None

    def log_moved(self, topic: str, index: int) -> None:
        """The log lies in another directory now: its writes are that disk's."""
        partition = self.by_name.get((topic, index))
        if partition is not None and self.waiting is not None:
            self.waiting.watch(partition.log)

    def read_failed(self, partition: Partition, error: BaseException) -> None:
        """A read met a disk error: perhaps more has failed than this one file."""
        self._logs.suspect(partition.log.directory, error.__cause__ or error)

    def _disk_failed(self, partition: Partition, error: LogStorageError) -> AppendRefused:
        if partition not in self._failing:
            self._failing[partition] = None
            LOG.error("Appends to %r fail, producers get KAFKA_STORAGE_ERROR: %s", partition, error)
        self._logs.suspect(partition.log.directory, error.__cause__)
        return AppendRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error), (), partition.log.log_start_offset)

    def _disk_works(self, partition: Partition) -> None:
        if partition in self._failing:
            del self._failing[partition]
            LOG.info("Appends to %r work again", partition)


class InternalAppend:
    """A coordinator that waits for its batch to be replicated."""

    __slots__ = ("_on_result", "_result")

    def __init__(self, on_result: OnCommitted, result: AppendResult) -> None:
        self._on_result = on_result
        self._result = result

    def replicated(self, partition: Partition, error: ErrorCode) -> None:
        """See `partition.CommitWaiter`."""
        self._on_result(_refused(error, partition) if error else self._result)


def _answer_internal(partition: Partition, on_result: OnCommitted, outcome: Outcome) -> None:
    """What a coordinator hears when its batch had to wait for helper threads."""
    if isinstance(outcome, LogStorageError):
        raise InvariantViolated(f"an append to {partition!r} ended with {outcome!r}, as nobody may see it")
    if isinstance(outcome, AppendResult) and partition.log.high_watermark <= outcome.last_offset:
        partition.wait_for_commit(outcome.last_offset + 1, InternalAppend(on_result, outcome))
    else:
        on_result(outcome)


def _nobody_tries() -> None:
    """Without `log_retries` the next change of a partition tries."""


def _refused(code: ErrorCode, partition: Partition) -> AppendRefused:
    return AppendRefused(code, code.message, (), -1)
