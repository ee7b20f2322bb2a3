"""Partitions of this broker: created, led, followed, dropped; topics' configs go to their logs on the way.

It is two publishers. `retirement` comes before the metadata cache, the rest after it: what is deleted is let
go while the cache still shows it, what is new is made when the cache shows it already. In between some
partitions of a topic are here and others are not; but those that are here are always those of the topic that
the cache knows by that name.

Coordinators live on partitions of their own topics, so they are told where leadership changed, after the
partition itself knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

from controller.metadata.image.cluster_image import ClusterImage, ImageDelta

__all__ = ["ReplicasPublisher"]

Change = TypeVar("Change")


class Replicas(Protocol[Change]):
    """`broker.replication.replica_manager.ReplicaManager`, as far as it matters here."""

    def retire_in_steps(self, delta: ImageDelta, changes: list[Change], /) -> Iterator[None]: ...

    def apply_in_steps(
        self, image: ClusterImage, delta: ImageDelta | None, changes: list[Change], /
    ) -> Iterator[None]: ...


class ReplicasPublisher(Generic[Change]):
    """Hands each difference to the replica manager, and the changes of leadership to who follows them."""

    def __init__(self, replicas: Replicas[Change]) -> None:
        self._replicas = replicas
        self._followers: list[Callable[[Change], None]] = []
        self.retirement: Final = _Retirement(self)

    def on_leader_change(self, follower: Callable[[Change], None]) -> None:
        """Calls `follower` once for each partition of which this broker becomes leader or stops being it."""
        self._followers.append(follower)

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        for _ in self.publish_in_steps(delta, image):
            pass

    def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]:
        """A partition a step: a directory is made for each, and a request may create thousands."""
        changes: list[Change] = []
        yield from self._told(self._replicas.apply_in_steps(image, delta, changes), changes)

    def retire_in_steps(self, delta: ImageDelta) -> Iterator[None]:
        """Drops the partitions of deleted topics, before the metadata cache shows the new image."""
        changes: list[Change] = []
        yield from self._told(self._replicas.retire_in_steps(delta, changes), changes)

    def _told(self, steps: Iterator[None], changes: list[Change]) -> Iterator[None]:
        """The steps; what each of them changed is told before the next, and what the end changed after it."""
        for _ in steps:
            if changes:
                self._tell(changes)
            yield
        self._tell(changes)

    def _tell(self, changes: list[Change]) -> None:
        for change in changes:
            for follower in self._followers:
                follower(change)
        changes.clear()


class _Retirement:
    """The publisher that drops the partitions of deleted topics."""

    def __init__(self, replicas: ReplicasPublisher[Any]) -> None:
        self._replicas = replicas

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        for _ in self.publish_in_steps(delta, image):
            pass

    def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]:
        return self._replicas.retire_in_steps(delta)
