"""Dynamic configs of this broker (resource BROKER with its id) and of all brokers (the empty name).

The static file lies below them and never changes, so the config in force is made anew from it each time;
whoever depends on it is told in the order of registration. Settings that this release cannot use are left
out, and the config says which. What does not go together (the controller does not know this broker's file and
may have let it in) changes nothing: the config stays as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from config.broker_config import BrokerConfig
from config.checks import check_relations
from config.errors import ConfigError
from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.metadata.image.configs import ConfigResourceType

__all__ = ["BrokerConfigPublisher"]

_log = logging.getLogger("barnabas.node")

ALL_BROKERS: Final = ""

OnConfig = Callable[[ClusterImage, BrokerConfig], None]


class BrokerConfigPublisher:
    """Applies dynamic configs of this broker and of all brokers. `config` holds the values that are in force
    now."""

    def __init__(self, static: BrokerConfig, node_id: int) -> None:
        self.config = static
        self._static = static
        self._own = (int(ConfigResourceType.BROKER), str(node_id))
        self._shared = (int(ConfigResourceType.BROKER), ALL_BROKERS)
        self._on_config: list[OnConfig] = []

    def on_config(self, callback: OnConfig) -> None:
        """Calls `callback` with each new config from now on; not with the present one."""
        self._on_config.append(callback)

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.configs is None:
            return
        if self._own not in delta.configs.changed and self._shared not in delta.configs.changed:
            return
        wanted = self._static.with_dynamic(image.configs.of(*self._own), image.configs.of(*self._shared))
        try:
            check_relations(wanted)
        except ConfigError as fault:
            _log.error("The dynamic configs of this broker could not be applied: %s", fault)
            return
        self.config = wanted
        for callback in self._on_config:
            callback(image, self.config)
