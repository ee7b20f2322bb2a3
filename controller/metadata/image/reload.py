"""The difference between an image and another one that was loaded from a snapshot.

A follower that was away so long that the log it needs has been deleted loads a snapshot. Its publishers still
need a difference, so one is made: first the records that remove what the snapshot does not have, then the
snapshot's own records, which replace what is there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from config.limits import METADATA_RECORDS_PER_STEP
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, ImageDelta
from protocol.codec.message import Message
from protocol.metadata_log.cluster import ClientQuotaRecord, ConfigRecord, FeatureLevelRecord
from protocol.metadata_log.registrations import UnregisterBrokerRecord
from protocol.metadata_log.security import RemoveAccessControlEntryRecord
from protocol.metadata_log.topics import RemoveTopicRecord

__all__ = ["reload", "reload_in_steps"]


def reload(
    image: ClusterImage, records: Sequence[Message], *, offset: int, epoch: int, timestamp_ms: int
) -> tuple[ClusterImage, ImageDelta]:
    """The image of a snapshot, and the delta that leads from `image` to it."""
    steps = reload_in_steps(image, records, offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: tuple[ClusterImage, ImageDelta] = end.value
            return result


def reload_in_steps(
    image: ClusterImage, records: Sequence[Message], *, offset: int, epoch: int, timestamp_ms: int
) -> Generator[None, None, tuple[ClusterImage, ImageDelta]]:
    """Does as `reload`, as a generator: the caller serves others between the steps, and gets the result at
    the end."""
    first = ImageDelta(EMPTY_IMAGE)
    yield from _replayed(first, records)
    target = first.apply(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)
    if image is EMPTY_IMAGE:
        return target, first
    delta = ImageDelta(image)
    yield from _replayed(delta, tuple(_removals(image, target)))
    yield from _replayed(delta, records)
    _remove_kept(delta, image, target)
    return delta.apply(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms), delta


def _replayed(delta: ImageDelta, records: Sequence[Message]) -> Iterator[None]:
    for number, record in enumerate(records):
        delta.replay(record)
        if number % METADATA_RECORDS_PER_STEP == METADATA_RECORDS_PER_STEP - 1:
            yield


def _removals(image: ClusterImage, target: ClusterImage) -> Iterator[Message]:
    for name in image.features.levels:
        if name not in target.features.levels:
            yield FeatureLevelRecord(name=name, feature_level=0)
    for broker in image.brokers.by_id.values():
        if broker.id not in target.brokers.by_id:
            yield UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    for topic_id in image.topics.by_id:
        if topic_id not in target.topics.by_id:
            yield RemoveTopicRecord(topic_id=topic_id)
    for (kind, name), values in image.configs.by_resource.items():
        for key in values:
            if key not in target.configs.of(kind, name):
                yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=None)
    for entity, quotas in image.quotas.by_entity.items():
        parts = [ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key in quotas:
            if key not in target.quotas.by_entity.get(entity, {}):
                yield ClientQuotaRecord(entity=parts, key=key, remove=True)
    for acl_id in image.acls.by_id:
        if acl_id not in target.acls.by_id:
            yield RemoveAccessControlEntryRecord(id=acl_id)


def _remove_kept(delta: ImageDelta, image: ClusterImage, target: ClusterImage) -> None:
    for credential in image.scram.by_key:
        if credential not in target.scram.by_key:
            delta.open_scram().forget(credential)
    for key in image.tokens.by_key:
        if key not in target.tokens.by_key:
            delta.open_tokens().remove(key)
