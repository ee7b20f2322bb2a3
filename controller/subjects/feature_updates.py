"""Feature levels raised and lowered at run time (KIP-584, KIP-778, KIP-1022).

A level is taken only if every node that is registered can run it: this controller, the brokers, the other
controllers. A voter that the config names and that has never registered may be an older one. All updates of a
request are decided one after the other, and the first fault refuses them all.

::

    wished < 0 ─▶ no
    a node cannot run it ─▶ no, and which
    wished < current, and it was called an upgrade ─▶ no
    wished > current, and it was called a downgrade ─▶ no
    metadata.version    lower only if no level above the target added anything to the log's records
    kraft.version       is raised in the log itself, and never lowered
    others              a FeatureLevelRecord; 0 switches the feature off

Eligible leader replicas want one `min.insync.replicas` for all: who switches them on writes the one in force
down for the cluster, if none is, and takes away those of single brokers. Switched off they are forgotten
partition by partition, with the next change of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from controller.metadata.image.brokers import VersionRange
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.image.features import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, METADATA_VERSION
from controller.metadata.metadata_version import CONTROLLER_REGISTRATION_LEVEL, loses_metadata
from controller.metadata.supported_features import dependency_fault
from controller.subjects.result import ControllerError
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.metadata_log.cluster import ConfigRecord, FeatureLevelRecord

__all__ = [
    "FeatureChange",
    "FeatureUpdate",
    "UpgradeType",
    "one_min_insync_replicas",
    "refused_for_all",
    "requested_updates",
    "update_features",
]

UPGRADE_TYPES_SINCE: Final = 1
"""The first version of UpdateFeatures in which a request says what kind of change it wants."""

KAFKA_FEATURES: Final = ("share.version", "streams.version")
"""The features of Kafka that are not supported here; a request may disable them, which changes nothing."""

DISABLED: Final = VersionRange(0, 0)
PREFIX: Final = "The update failed for all features since the following feature had an error: "


class UpgradeType(IntEnum):
    """The kind of change that a client asks for; UNKNOWN stands for any other code."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The level that a client asks for, and the kind of change that this may be."""

    level: int
    upgrade_type: UpgradeType


class FeatureChange(msgspec.Struct, frozen=True):
    """The decision. kraft_version: the level to which the log raises it, None if it was not asked for."""

    records: Sequence[Message] = ()
    kraft_version: int | None = None


def requested_updates(request: UpdateFeaturesRequest, version: int) -> dict[str, FeatureUpdate]:
    """The requested updates by feature; of several updates of one feature the last counts.

    Version 0 may say that a level may go down; as in Kafka nobody listens, and every wish is an upgrade.
    """
    updates = {}
    for each in request.feature_updates:
        kind = UpgradeType.UPGRADE
        if version >= UPGRADE_TYPES_SINCE:
            known = each.upgrade_type in UpgradeType.__members__.values()
            kind = UpgradeType(each.upgrade_type) if known else UpgradeType.UNKNOWN
        updates[each.feature] = FeatureUpdate(each.max_version_level, kind)
    return updates


def update_features(
    image: ClusterImage,
    updates: Mapping[str, FeatureUpdate],
    *,
    node_id: int,
    supported: Mapping[str, VersionRange],
    static_voters: Sequence[int],
    kraft_version: int,
    min_insync_replicas: int,
) -> FeatureChange:
    """node_id, supported: this controller and what it can run. static_voters: the controllers that the config
    names, which must have registered. kraft_version: the one in force. min_insync_replicas: that of this
    controller's file, or the default.

    Raises INVALID_UPDATE_VERSION with Kafka's sentence on the first fault.
    """
    records: list[Message] = []
    raised: int | None = None
    for name, update in updates.items():
        current = kraft_version if name == KRAFT_VERSION else image.features.level(name)
        reason = _not_supported(image, name, update.level, node_id, supported)
        _check(name, update, current, reason or _not_registered(image, node_id, static_voters), supported)
        if name == KRAFT_VERSION:
            raised = _kraft_version(update, current)
        else:
            if name == METADATA_VERSION:
                _check_metadata_version(update, current)
            _check_dependency(image, updates, name, update.level)
            records.append(FeatureLevelRecord(name=name, feature_level=update.level))
    switched_on = updates.get(ELIGIBLE_LEADER_REPLICAS)
    if switched_on is not None and switched_on.level > 0:
        records = [*one_min_insync_replicas(image, min_insync_replicas), *records]
    return FeatureChange(records, raised)


def one_min_insync_replicas(image: ClusterImage, min_insync_replicas: int) -> list[Message]:
    """The records that leave the cluster with one `min.insync.replicas` for all brokers."""
    name, kind = "min.insync.replicas", ConfigResourceType.BROKER
    records: list[Message] = []
    if name not in image.configs.of(kind, ""):
        value = str(min_insync_replicas)
        records.append(ConfigRecord(resource_type=kind, resource_name="", name=name, value=value))
    for resource_type, broker in sorted(image.configs.by_resource):
        if resource_type == kind and broker and name in image.configs.of(kind, broker):
            records.append(ConfigRecord(resource_type=kind, resource_name=broker, name=name, value=None))
    return records


def _check_dependency(
    image: ClusterImage, updates: Mapping[str, FeatureUpdate], name: str, level: int
) -> None:
    proposed = updates.get(METADATA_VERSION)
    metadata_version = image.features.metadata_version if proposed is None else proposed.level
    fault = dependency_fault(name, level, metadata_version)
    if fault is not None:
        raise _invalid(name, level, fault)


def _check(
    name: str,
    update: FeatureUpdate,
    current: int,
    not_supported: str | None,
    supported: Mapping[str, VersionRange],
) -> None:
    """not_supported: why a node cannot run the level, or may not be able to."""
    level, kind = update
    if kind is UpgradeType.UNKNOWN:
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    if not_supported is not None:
        raise _invalid(name, level, not_supported)
    if level < current and kind is UpgradeType.UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    if level > current and kind is not UpgradeType.UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")
    if name not in supported and name not in KAFKA_FEATURES:
        raise _invalid(name, level, f"Feature {name} not found.")


def _not_supported(
    image: ClusterImage, name: str, level: int, node_id: int, supported: Mapping[str, VersionRange]
) -> str | None:
    """Names the node that cannot run the level: this controller is looked at first, then brokers, then other
    controllers."""
    reason = _outside(level, f"Local controller {node_id}", supported.get(name, DISABLED))
    if reason is not None:
        return reason
    for broker_id in sorted(image.brokers.by_id):
        offered = image.brokers.by_id[broker_id].features.get(name, DISABLED)
        reason = _outside(level, f"Broker {broker_id}", offered)
        if reason is not None:
            return reason
    for controller_id in sorted(image.controllers.by_id):
        if controller_id == node_id:
            continue
        offered = image.controllers.by_id[controller_id].features.get(name, DISABLED)
        reason = _outside(level, f"Controller {controller_id}", offered)
        if reason is not None:
            return reason
    return None


def _not_registered(image: ClusterImage, node_id: int, static_voters: Sequence[int]) -> str | None:
    """Names a voter of the config that has never said what it can run, if controllers register at all."""
    if image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        return None
    for voter_id in sorted(static_voters):
        if voter_id != node_id and voter_id not in image.controllers.by_id:
            return f"controller {voter_id} has not registered, and may not support this feature"
    return None


def _outside(level: int, who: str, offered: VersionRange) -> str | None:
    if offered.covers(level):
        return None
    if offered.highest == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {offered.lowest}-{offered.highest}"


def _kraft_version(update: FeatureUpdate, current: int) -> int:
    if update.level < current:
        raise _invalid(KRAFT_VERSION, update.level, "Can't downgrade the version of this feature.")
    return update.level


def _check_metadata_version(update: FeatureUpdate, current: int) -> None:
    level, kind = update
    if level >= current or not loses_metadata(current, level):
        return
    reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    if kind is UpgradeType.UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    raise refused_for_all(f"Unsupported metadata.version downgrade from {current} to {level}. {reason}")


def _invalid(name: str, level: int, reason: str) -> ControllerError:
    return refused_for_all(f"Invalid update version {level} for feature {name}. {reason}")


def refused_for_all(sentence: str, error: ErrorCode = ErrorCode.INVALID_UPDATE_VERSION) -> ControllerError:
    """The refusal of all updates of a request. sentence: why one of them is not possible."""
    return ControllerError(error, PREFIX + sentence)
