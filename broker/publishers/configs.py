"""Dynamic configs of this broker (resource BROKER with its id) and of all brokers (the empty name).

The static file lies below them and never changes, so the config in force is made anew from it each time;
whoever depends on it is told in the order of registration. Settings that this release cannot use are left
out, and the config says which.
"""

from __future__ import annotations

from collections.abc import Callable

from config.broker_config import BrokerConfig
from controller.image.cluster_image import ClusterImage, ImageDelta
from controller.image.configs import ConfigResourceType

__all__ = ["BrokerConfigPublisher"]

ALL_BROKERS = ""

OnConfig = Callable[[ClusterImage, BrokerConfig], None]


class BrokerConfigPublisher:
    """`config` is what is in force now."""

    def __init__(self, static: BrokerConfig, node_id: int) -> None:
        self.config = static
        self._static = static
        self._own = (int(ConfigResourceType.BROKER), str(node_id))
        self._shared = (int(ConfigResourceType.BROKER), ALL_BROKERS)
        self._followers: list[OnConfig] = []

    def on_config(self, follower: OnConfig) -> None:
        """Calls back with each new config; not with the present one."""
        self._followers.append(follower)

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.configs is None:
            return
        if self._own not in delta.configs.changed and self._shared not in delta.configs.changed:
            return
        self.config = self._static.with_dynamic(image.configs.of(*self._own), image.configs.of(*self._shared))
        for follower in self._followers:
            follower(image, self.config)
