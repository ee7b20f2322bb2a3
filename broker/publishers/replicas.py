"""Partitions of this broker: created, led, followed, dropped; topics' configs go to their logs on the way.

Coordinators live on partitions of their own topics, so they are told where leadership changed, after the
partition itself knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from controller.image.cluster_image import ClusterImage, ImageDelta

__all__ = ["ReplicasPublisher"]

Change = TypeVar("Change")


class Replicas(Protocol[Change]):
    """`broker.replication.replica_manager.ReplicaManager`, as far as it matters here."""

    def apply_in_steps(
        self, image: ClusterImage, delta: ImageDelta | None, changes: list[Change], /
    ) -> Iterator[None]: ...


class ReplicasPublisher(Generic[Change]):
    """Hands each difference to the replica manager, and the changes of leadership to who follows them."""

    def __init__(self, replicas: Replicas[Change]) -> None:
        self._replicas = replicas
        self._followers: list[Callable[[Change], None]] = []

    def on_leader_change(self, follower: Callable[[Change], None]) -> None:
        """Calls back once for each partition whose leadership came here or left."""
        self._followers.append(follower)

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        for _ in self.publish_in_steps(delta, image):
            pass

    def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]:
        """A topic a step: a directory is made for each partition, and a request may create thousands."""
        changes: list[Change] = []
        for _ in self._replicas.apply_in_steps(image, delta, changes):
            for change in changes:
                for follower in self._followers:
                    follower(change)
            changes.clear()
            yield
