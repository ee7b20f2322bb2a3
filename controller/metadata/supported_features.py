"""Which feature levels work here, and what follows for nodes and for the start.

Only what is built and tested is listed: clients act on these levels (a producer changes its transactions'
protocol with `transaction.version`, a consumer asks for the new group protocol with `group.version`), so a
level that is promised too early breaks them. A finalized level outside of the range stops the start, and ends
a controller that learns of it from another one: the log may hold records that we would not understand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from controller.metadata.image.brokers import VersionRange
from controller.metadata.image.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    FeaturesImage,
)
from controller.metadata.metadata_version import (
    DEFAULT_ELIGIBLE_LEADERS_LEVEL,
    DEFAULT_GROUP_VERSION_LEVEL,
    DEFAULT_TRANSACTION_VERSION_LEVEL,
    ELIGIBLE_LEADERS_LEVEL,
    LATEST_METADATA_VERSION,
    LOWEST_METADATA_VERSION,
)
from protocol.errors import EndsProcess

__all__ = [
    "SUPPORTED_FEATURES",
    "UnsupportedCluster",
    "default_levels",
    "dependency_fault",
    "unsupported_levels",
    "way_back",
]


class UnsupportedCluster(EndsProcess):
    """The cluster's metadata needs what this release does not have. The text is one line for the operator:
    it stops the start, and a node that learns of it later ends."""


SUPPORTED_FEATURES: Final[Mapping[str, VersionRange]] = MappingProxyType(
    {
        METADATA_VERSION: VersionRange(LOWEST_METADATA_VERSION, LATEST_METADATA_VERSION),
        KRAFT_VERSION: VersionRange(0, 1),
        ELIGIBLE_LEADER_REPLICAS: VersionRange(0, 1),
        GROUP_VERSION: VersionRange(0, 1),
        TRANSACTION_VERSION: VersionRange(0, 2),
    }
)

_ON_IN_NEW_CLUSTERS_SINCE: Final[Mapping[str, int]] = MappingProxyType(
    {
        ELIGIBLE_LEADER_REPLICAS: DEFAULT_ELIGIBLE_LEADERS_LEVEL,
        GROUP_VERSION: DEFAULT_GROUP_VERSION_LEVEL,
        TRANSACTION_VERSION: DEFAULT_TRANSACTION_VERSION_LEVEL,
    }
)
"""The `metadata.version` from which on a new cluster begins with the highest level of a feature, as in
Kafka."""


def default_levels(metadata_version: int) -> Mapping[str, int]:
    """The levels with which a new cluster begins at a `metadata.version`, as in Kafka, of the other supported
    features. Levels of 0 are left out."""
    return {
        name: SUPPORTED_FEATURES[name].highest
        for name, since in _ON_IN_NEW_CLUSTERS_SINCE.items()
        if metadata_version >= since
    }


def dependency_fault(name: str, level: int, metadata_version: int) -> str | None:
    """Kafka's sentence on a level that needs a higher `metadata.version`."""
    if name != ELIGIBLE_LEADER_REPLICAS or level == 0 or metadata_version >= ELIGIBLE_LEADERS_LEVEL:
        return None
    return (
        f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level "
        f"{ELIGIBLE_LEADERS_LEVEL}"
    )


def unsupported_levels(features: FeaturesImage, supported: Mapping[str, VersionRange]) -> list[str]:
    """A sentence for each finalized level that `supported` does not cover. Empty if there is none."""
    sentences = []
    for name in sorted(features.levels):
        level = features.levels[name]
        known = supported.get(name)
        if known is None:
            sentences.append(f"{name} is finalized at level {level}, and this version does not know it")
        elif not known.covers(level):
            sentences.append(
                f"{name} is finalized at level {level}, and this version supports "
                f"{known.lowest} to {known.highest}"
            )
    return sentences


def way_back(features: FeaturesImage, supported: Mapping[str, VersionRange], bootstrap: str) -> str:
    """The commands that an operator types, with the release that has finalized the levels, so that all of
    them work here.

    One command lowers what is to be lowered, a second one raises what is too low. bootstrap: the option of
    the tool that says where the cluster is.
    """
    lowered: dict[str, int] = {}
    raised: dict[str, int] = {}
    for name, level in sorted(features.levels.items()):
        known = supported.get(name, VersionRange(0, 0))
        if level > known.highest:
            lowered[name] = known.highest
        elif level < known.lowest:
            raised[name] = known.lowest
    commands = []
    if lowered and not any(lowered.values()):
        commands.append(_command(bootstrap, "disable", [*lowered]))
    elif lowered:
        commands.append(_command(bootstrap, "downgrade", [f"{name}={lowered[name]}" for name in lowered]))
    if raised:
        commands.append(_command(bootstrap, "upgrade", [f"{name}={raised[name]}" for name in raised]))
    return " && ".join(commands)


def _command(bootstrap: str, what: str, features: Sequence[str]) -> str:
    return " ".join(["kafka-features.sh", bootstrap, what, *(f"--feature {each}" for each in features)])
