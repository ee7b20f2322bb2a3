"""Finalized feature levels: what the whole cluster may rely on.

`kraft.version` is not among them: it lives in control records of the log itself, because it says how to read
the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from controller.metadata.image.mappings import copied
from protocol.codec.message import Message
from protocol.metadata_log.cluster import FeatureLevelRecord

__all__ = [
    "ELIGIBLE_LEADER_REPLICAS",
    "GROUP_VERSION",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "TRANSACTION_VERSION",
    "FeaturesDelta",
    "FeaturesImage",
]

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
"""Level 1 switches eligible leader replicas on (KIP-966)."""

GROUP_VERSION: Final = "group.version"
"""Level 1 switches the consumer groups of KIP-848 on."""

TRANSACTION_VERSION: Final = "transaction.version"
"""Level 1 writes the records of `__transaction_state` so that later releases can add fields to them; level 2
raises a producer's epoch with each transaction, and Produce adds partitions to it (KIP-890)."""

NOT_FINALIZED: Final = 0


class FeaturesImage(msgspec.Struct, frozen=True):
    """Levels above zero by feature name, `metadata.version` among them; empty before the bootstrap
    records."""

    levels: Mapping[str, int] = MappingProxyType({})

    @property
    def metadata_version(self) -> int:
        """The finalized level of `metadata.version`; 0 before the bootstrap records."""
        return self.levels.get(METADATA_VERSION, NOT_FINALIZED)

    def level(self, name: str) -> int:
        return self.levels.get(name, NOT_FINALIZED)

    def records(self) -> Iterator[Message]:
        """The records that make this image. `metadata.version` is first, because it decides how the others
        are written."""
        names = sorted(self.levels, key=lambda name: (name != METADATA_VERSION, name))
        for name in names:
            yield FeatureLevelRecord(name=name, feature_level=self.levels[name])


class FeaturesDelta:
    """The changes to feature levels since the base image; level 0 removes the feature."""

    def __init__(self, base: FeaturesImage) -> None:
        self.base = base
        self.changed: dict[str, int] = {}

    def replay(self, record: FeatureLevelRecord) -> None:
        self.changed[record.name] = record.feature_level

    def apply(self) -> FeaturesImage:
        levels = copied(self.base.levels) | self.changed
        return FeaturesImage(MappingProxyType({name: level for name, level in levels.items() if level > 0}))
