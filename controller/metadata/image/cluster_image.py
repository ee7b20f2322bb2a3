"""The whole cluster at one offset, and the one function that makes the next image: replay.

`ImageDelta` opens a subject's delta at its first record, so a batch that touches topics costs nothing for
brokers. After `apply` it stays as the list of what changed, and publishers read it beside the new image; a
subject that did not change has None there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from controller.metadata.image.acls import AclsDelta, AclsImage
from controller.metadata.image.brokers import BrokersDelta, BrokersImage, ControllersDelta, ControllersImage
from controller.metadata.image.configs import ConfigResourceType, ConfigsDelta, ConfigsImage
from controller.metadata.image.features import FeaturesDelta, FeaturesImage
from controller.metadata.image.producer_ids import ProducerIdsDelta, ProducerIdsImage
from controller.metadata.image.quotas import QuotasDelta, QuotasImage
from controller.metadata.image.record_table import RecordTable, RecordTableDelta
from controller.metadata.image.scram import ScramDelta, ScramImage
from controller.metadata.image.topics import NO_TOPICS, TopicsDelta, TopicsImage
from protocol.codec.message import Message
from protocol.errors import InvariantViolated
from protocol.metadata_log.cluster import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from protocol.metadata_log.registrations import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from protocol.metadata_log.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from protocol.metadata_log.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

__all__ = ["EMPTY_IMAGE", "ClusterImage", "ImageDelta", "image_records", "replay"]


class ClusterImage(msgspec.Struct, frozen=True):
    """The state of the cluster at an offset. offset: that of the last record in it, -1 before any. epoch: the
    epoch of the leader that has written it.

    timestamp_ms: the append time of that record's batch, as the log has it.
    """

    offset: int = -1
    epoch: int = 0
    timestamp_ms: int = 0
    features: FeaturesImage = FeaturesImage()
    brokers: BrokersImage = BrokersImage()
    controllers: ControllersImage = ControllersImage()
    topics: TopicsImage = NO_TOPICS
    configs: ConfigsImage = ConfigsImage()
    quotas: QuotasImage = QuotasImage()
    producer_ids: ProducerIdsImage = ProducerIdsImage()
    acls: AclsImage = AclsImage()
    scram: ScramImage = ScramImage()
    tokens: RecordTable = RecordTable()

    @property
    def is_empty(self) -> bool:
        """Whether the bootstrap records have not been replayed yet."""
        return self.features.metadata_version == 0


EMPTY_IMAGE: Final = ClusterImage()


class ImageDelta:
    """The changes that records make, on the way from one image to the next."""

    def __init__(self, base: ClusterImage) -> None:
        self.base = base
        self.records_replayed = 0
        self.features: FeaturesDelta | None = None
        self.brokers: BrokersDelta | None = None
        self.controllers: ControllersDelta | None = None
        self.topics: TopicsDelta | None = None
        self.configs: ConfigsDelta | None = None
        self.quotas: QuotasDelta | None = None
        self.producer_ids: ProducerIdsDelta | None = None
        self.acls: AclsDelta | None = None
        self.scram: ScramDelta | None = None
        self.tokens: RecordTableDelta | None = None

    def replay(self, record: Message) -> None:
        """Replays one record. A record type that no image knows is our bug, because metadata.version was
        checked."""
        step = _REPLAY.get(type(record))
        if step is None:
            raise InvariantViolated(f"each metadata record has a subject (record={type(record).__name__})")
        step(self, record)
        self.records_replayed += 1

    def apply(self, *, offset: int, epoch: int, timestamp_ms: int) -> ClusterImage:
        """The image after the records that were replayed. Subjects without a delta are shared with the
        base."""
        changes: dict[str, Any] = {
            name: delta.apply() for name in _SUBJECTS if (delta := getattr(self, name)) is not None
        }
        return msgspec.structs.replace(
            self.base, offset=offset, epoch=epoch, timestamp_ms=timestamp_ms, **changes
        )

    # One accessor per subject: the delta, opened when first needed.

    def open_features(self) -> FeaturesDelta:
        if self.features is None:
            self.features = FeaturesDelta(self.base.features)
        return self.features

    def open_brokers(self) -> BrokersDelta:
        if self.brokers is None:
            self.brokers = BrokersDelta(self.base.brokers)
        return self.brokers

    def open_controllers(self) -> ControllersDelta:
        if self.controllers is None:
            self.controllers = ControllersDelta(self.base.controllers)
        return self.controllers

    def open_topics(self) -> TopicsDelta:
        if self.topics is None:
            self.topics = TopicsDelta(self.base.topics)
        return self.topics

    def open_configs(self) -> ConfigsDelta:
        if self.configs is None:
            self.configs = ConfigsDelta(self.base.configs)
        return self.configs

    def open_quotas(self) -> QuotasDelta:
        if self.quotas is None:
            self.quotas = QuotasDelta(self.base.quotas)
        return self.quotas

    def open_producer_ids(self) -> ProducerIdsDelta:
        if self.producer_ids is None:
            self.producer_ids = ProducerIdsDelta(self.base.producer_ids)
        return self.producer_ids

    def open_acls(self) -> AclsDelta:
        if self.acls is None:
            self.acls = AclsDelta(self.base.acls)
        return self.acls

    def open_scram(self) -> ScramDelta:
        if self.scram is None:
            self.scram = ScramDelta(self.base.scram)
        return self.scram

    def open_tokens(self) -> RecordTableDelta:
        if self.tokens is None:
            self.tokens = RecordTableDelta(self.base.tokens)
        return self.tokens


def _remove_topic(delta: ImageDelta, record: RemoveTopicRecord) -> None:
    topics = delta.open_topics()
    name = topics.remove(record)
    delta.open_configs().forget((ConfigResourceType.TOPIC, name))


def _nothing(delta: ImageDelta, record: Message) -> None:
    """Ignores a record without effect: NoOp, and the state of the migration from ZooKeeper."""


_SUBJECTS: Final = (
    "features",
    "brokers",
    "controllers",
    "topics",
    "configs",
    "quotas",
    "producer_ids",
    "acls",
    "scram",
    "tokens",
)

_REPLAY: Final[Mapping[type[Message], Callable[[ImageDelta, Any], None]]] = MappingProxyType(
    {
        RegisterBrokerRecord: lambda delta, record: delta.open_brokers().register(record),
        UnregisterBrokerRecord: lambda delta, record: delta.open_brokers().unregister(record),
        FenceBrokerRecord: lambda delta, record: delta.open_brokers().fence(record),
        UnfenceBrokerRecord: lambda delta, record: delta.open_brokers().unfence(record),
        BrokerRegistrationChangeRecord: lambda delta, record: delta.open_brokers().change(record),
        RegisterControllerRecord: lambda delta, record: delta.open_controllers().register(record),
        TopicRecord: lambda delta, record: delta.open_topics().create(record),
        PartitionRecord: lambda delta, record: delta.open_topics().add_partition(record),
        PartitionChangeRecord: lambda delta, record: delta.open_topics().change_partition(record),
        RemoveTopicRecord: _remove_topic,
        ClearElrRecord: lambda delta, record: delta.open_topics().clear_elr(record),
        ConfigRecord: lambda delta, record: delta.open_configs().replay(record),
        FeatureLevelRecord: lambda delta, record: delta.open_features().replay(record),
        ClientQuotaRecord: lambda delta, record: delta.open_quotas().replay(record),
        ProducerIdsRecord: lambda delta, record: delta.open_producer_ids().replay(record),
        AccessControlEntryRecord: lambda delta, record: delta.open_acls().add(record),
        RemoveAccessControlEntryRecord: lambda delta, record: delta.open_acls().remove(record),
        UserScramCredentialRecord: lambda delta, record: delta.open_scram().put(record),
        RemoveUserScramCredentialRecord: lambda delta, record: delta.open_scram().remove(record),
        DelegationTokenRecord: lambda delta, record: delta.open_tokens().put((record.token_id,), record),
        RemoveDelegationTokenRecord: lambda delta, record: delta.open_tokens().remove((record.token_id,)),
        NoOpRecord: _nothing,
        ZkMigrationStateRecord: _nothing,
    }
)


def replay(
    image: ClusterImage, records: Iterable[Message], *, offset: int, epoch: int, timestamp_ms: int = 0
) -> tuple[ClusterImage, ImageDelta]:
    """The next image and what changed. `offset` is that of the last record.

    Transaction records are not for here: see `controller.metadata.image.replayer`.
    """
    delta = ImageDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms), delta


def image_records(image: ClusterImage) -> Iterator[Message]:
    """The records that make this image out of an empty one, in Kafka's order. They are the content of a
    snapshot."""
    yield from image.features.records()
    yield from image.brokers.records()
    yield from image.controllers.records()
    yield from image.topics.records()
    yield from image.configs.records()
    yield from image.quotas.records()
    yield from image.producer_ids.records()
    yield from image.acls.records()
    yield from image.scram.records()
    yield from image.tokens.records()
