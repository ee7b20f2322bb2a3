"""What an assignor is told of a group, and what it answers.

Racks are not among it: no assignor of Apache Kafka 4.3.1 looks at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from protocol.primitives import Uuid

Assignment = Mapping[Uuid, tuple[int, ...]]
"""Partitions by topic. A topic without partitions is left out."""
NO_PARTITIONS: Final[Assignment] = MappingProxyType({})


class MemberSpec(NamedTuple):
    """One member as an assignor sees it."""

    topic_ids: tuple[Uuid, ...]
    """Topics that it subscribes and that exist."""
    assigned: Assignment = NO_PARTITIONS
    """What the last target assignment gave it."""
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """The group as an assignor sees it."""

    members: Mapping[str, MemberSpec]
    """By member id. Where members are otherwise equal, the first comes first."""
    is_homogeneous: bool
    """All members subscribe the same names, whether such topics exist or not."""
    partition_counts: Mapping[Uuid, int]
    """Of every topic that a member subscribes."""


class Assignor(Protocol):
    """A function that gives each member its partitions. A member that gets none may be left out."""

    def __call__(self, group: GroupSpec) -> dict[str, Assignment]: ...
