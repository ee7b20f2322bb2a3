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
    """Gives each change of the image to the replica manager, and reports the changes of leadership."""

    def __init__(self, replicas: Replicas[Change]) -> None:
        self._replicas = replicas
        self._on_leader_change: list[Callable[[Change], None]] = []
        self.retirement: Final = _Retirement(self)

    def on_leader_change(self, callback: Callable[[Change], None]) -> None:
        """Calls `callback` once for each partition of which this broker becomes leader or stops being it."""
        self._on_leader_change.append(callback)

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        for _ in self.publish_in_steps(delta, image):
            pass

    def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]:
        """A partition a step: a directory is made for each, and a request may create thousands."""
        changes: list[Change] = []
        yield from self._notify_all(self._replicas.apply_in_steps(image, delta, changes), changes)

    def retire_in_steps(self, delta: ImageDelta) -> Iterator[None]:
        """Drops the partitions of deleted topics, before the metadata cache shows the new image."""
        changes: list[Change] = []
        yield from self._notify_all(self._replicas.retire_in_steps(delta, changes), changes)

    def _notify_all(self, steps: Iterator[None], changes: list[Change]) -> Iterator[None]:
        """Runs the steps, and calls the callbacks with what each of them changed before the next one."""
        for _ in steps:
            if changes:
                self._notify(changes)
            yield
        self._notify(changes)

    def _notify(self, changes: list[Change]) -> None:
        for change in changes:
            for callback in self._on_leader_change:
                callback(change)
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
