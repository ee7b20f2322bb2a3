"""From one image to another that was loaded whole: what changed between them.

A follower that was away so long that the log it needs is gone loads a snapshot. Its publishers still want a
difference, so one is made: first the records that take away what the snapshot does not have, then the
snapshot's own records, which replace what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.image.cluster_image import EMPTY_IMAGE, ClusterImage, ImageDelta, replay
from protocol.codec.message import Message
from protocol.metadata_log.brokers import UnregisterBrokerRecord
from protocol.metadata_log.configs import ConfigRecord
from protocol.metadata_log.features import FeatureLevelRecord
from protocol.metadata_log.quotas import ClientQuotaRecord
from protocol.metadata_log.topics import RemoveTopicRecord

__all__ = ["reload"]


def reload(
    image: ClusterImage, records: Sequence[Message], *, offset: int, epoch: int, timestamp_ms: int
) -> tuple[ClusterImage, ImageDelta]:
    """The snapshot's image, and the delta that leads there from `image`."""
    place = {"offset": offset, "epoch": epoch, "timestamp_ms": timestamp_ms}
    if image is EMPTY_IMAGE:
        return replay(EMPTY_IMAGE, records, **place)
    target, _ = replay(EMPTY_IMAGE, records, **place)
    delta = ImageDelta(image)
    for record in (*_removals(image, target), *records):
        delta.replay(record)
    _remove_kept(delta, image, target)
    return delta.apply(**place), delta


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


def _remove_kept(delta: ImageDelta, image: ClusterImage, target: ClusterImage) -> None:
    for key in image.acls.by_key:
        if key not in target.acls.by_key:
            delta.open_acls().remove(key)
    for key in image.scram.by_key:
        if key not in target.scram.by_key:
            delta.open_scram().remove(key)
    for key in image.tokens.by_key:
        if key not in target.tokens.by_key:
            delta.open_tokens().remove(key)
