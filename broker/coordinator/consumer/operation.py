"""What an operation on a consumer group works with, and what it leaves behind.

It works with the time, the settings of the group and the topics that there are. It leaves records, and says
whose deadlines begin, move or end; so it can be tested by looking at what it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.result import CoordinatorRecord
from config.values import trimmed
from protocol.errors import ErrorCode
from protocol.primitives import Uuid

if TYPE_CHECKING:
    from broker.coordinator.consumer.migration import Downgrade


class GroupRefusal(Exception):
    """The request is answered with an error, and no record of the operation is written."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class TopicsView(Protocol):
    """The topics of the metadata image, for consumer groups."""

    def topic_id(self, name: str) -> Uuid | None: ...

    def topic_name(self, topic_id: Uuid) -> str | None: ...

    def topic_names(self) -> list[str]: ...

    def partition_count(self, name: str) -> int | None: ...

    def topic_hash(self, name: str) -> int | None:
        """A signed 64-bit hash that differs where the topic's id, partitions or racks differ; None for a
        topic that does not exist."""
        ...

    @property
    def newest_topic_version(self) -> int:
        """The offset of the first metadata image that had the topic which was created last."""
        ...


class ConsumerGroupSettings(msgspec.Struct, frozen=True):
    """The configs `group.consumer.*` with Kafka's defaults; times in ms. Those that a group may set for
    itself are in `GroupTimes`."""

    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors, of which the first is the default."""
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_migration_policy: str = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        return self.group_consumer_migration_policy.lower() in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        return self.group_consumer_migration_policy.lower() in ("downgrade", "bidirectional")

    @property
    def is_migration_disabled(self) -> bool:
        return self.group_consumer_migration_policy.lower() == "disabled"


class GroupTimes(NamedTuple):
    """The settings of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def group_times(settings: ConsumerGroupSettings, overrides: Mapping[str, str]) -> GroupTimes:
    """The settings of a group that sets `overrides`: its own values, clamped to the bounds of the broker,
    else the broker's, which need not lie within those bounds."""
    if not overrides:
        return GroupTimes(
            settings.group_consumer_session_timeout_ms,
            settings.group_consumer_heartbeat_interval_ms,
            settings.group_consumer_assignment_interval_ms,
        )
    return GroupTimes(*(_clamped(settings, overrides, name) for name in GroupTimes._fields))


def _clamped(settings: ConsumerGroupSettings, overrides: Mapping[str, str], name: str) -> int:
    text = overrides.get("consumer." + name.replace("_", "."))
    if text is None:
        value: int = getattr(settings, f"group_consumer_{name}")
        return value
    least: int = getattr(settings, f"group_consumer_min_{name}")
    most: int = getattr(settings, f"group_consumer_max_{name}")
    return max(least, min(most, int(trimmed(text))))


class RebalanceTime(NamedTuple):
    """How long a member may stay in an epoch in which it has to give up partitions."""

    timeout_ms: int
    epoch: int


class ConsumerOperation(msgspec.Struct, gc=False, eq=False):
    """An operation on a group, for one request or deadline."""

    now: CurrentTime
    settings: ConsumerGroupSettings
    times: GroupTimes
    topics: TopicsView
    make_uuid: Callable[[], Uuid]
    records: list[CoordinatorRecord] = []
    """The records to write. None of them is written if the operation raises GroupRefusal."""
    session_of: list[tuple[str, int]] = []
    """Members whose session begins anew, with its length."""
    rebalance_of: list[tuple[str, RebalanceTime | None]] = []
    """Members with the time that they have to give up partitions; None if there is nothing to give up."""
    gone: list[str] = []
    """Members whose deadlines are all removed."""
    refresh: Sequence[str] = ()
    """Expressions that are to be matched in later turns of the loop."""
    join_of: list[tuple[str, int | None]] = []
    """Classic members with the time that they have to join again, from the first time that they are told;
    None if they have joined."""
    sync_of: list[tuple[str, int | None]] = []
    """Classic members with the time that they have for SyncGroup; None if they have sent it."""
    becomes: Downgrade | None = None
    """The classic group that takes the group's place."""
    classic_max_size: int = 2**31 - 1
    """`group.max.size`."""
