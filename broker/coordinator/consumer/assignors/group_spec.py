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
    """One member in the form in which an assignor gets it."""

    topic_ids: tuple[Uuid, ...]
    """The topics to which it subscribes and that exist."""
    assigned: Assignment = NO_PARTITIONS
    """The partitions of its last target assignment."""
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """The group in the form in which an assignor gets it."""

    members: Mapping[str, MemberSpec]
    """The members by id. If members are otherwise equal, the first comes first."""
    is_homogeneous: bool
    """Whether all members subscribe to the same names, whether such topics exist or not."""
    partition_counts: Mapping[Uuid, int]
    """The number of partitions of every topic to which a member subscribes."""


class Assignor(Protocol):
    """A function that gives each member its partitions. A member that gets none may be left out."""

    def __call__(self, group: GroupSpec) -> dict[str, Assignment]: ...
