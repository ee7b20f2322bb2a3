"""What may be set for a topic, and what holds when nothing is set.

The controller knows its own static configs; what was set at run time for all brokers comes from the image.
So a new topic is shown with the values that it will have on the brokers, as long as their files agree with
this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from config.broker_config import BrokerConfig
from config.describe import DescribedConfig, describe_topic
from config.errors import InvalidValue
from config.topic_config import validate_topic_config
from controller.image.cluster_image import ClusterImage
from controller.image.configs import ConfigResourceType, ConfigsImage

__all__ = ["ConfigEntry", "ConfigRules"]

CLUSTER_DEFAULT = ""
"""The name of the broker resource that stands for all brokers."""


class ConfigEntry(NamedTuple):
    """One config as CreateTopics tells it. source is Kafka's code of where the value comes from."""

    name: str
    value: str | None
    read_only: bool
    source: int
    sensitive: bool


class ConfigRules:
    """The rules as this controller's static configs and an image's dynamic ones make them."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def in_force(self, configs: ConfigsImage) -> BrokerConfig:
        """This node's configs with what the image sets for it and for all brokers."""
        node = str(self._config.node_id)
        own = configs.of(ConfigResourceType.BROKER, node)
        shared = configs.of(ConfigResourceType.BROKER, CLUSTER_DEFAULT)
        if not own and not shared:
            return self._config
        return self._config.with_dynamic(own, shared)

    def topic_config_fault(self, configs: Mapping[str, str]) -> str | None:
        """Kafka's sentence on the first thing that is wrong; None when all may be set."""
        try:
            validate_topic_config(configs, self._config)
        except InvalidValue as fault:
            return str(fault)
        return None

    def effective_topic_configs(
        self, configs: ConfigsImage, overrides: Mapping[str, str]
    ) -> list[ConfigEntry]:
        """All configs of a topic with these overrides, by name."""
        return [_entry(row) for row in describe_topic(self.in_force(configs), overrides)]

    def unclean_elections(self, image: ClusterImage) -> Callable[[str], bool]:
        """Whether a topic's partitions may be led by a replica outside of the ISR."""
        name = "unclean.leader.election.enable"
        otherwise = self.in_force(image.configs).flag(name)

        def allows(topic: str) -> bool:
            own = image.configs.of(ConfigResourceType.TOPIC, topic).get(name)
            return otherwise if own is None else own.strip().lower() == "true"

        return allows


def _entry(row: DescribedConfig) -> ConfigEntry:
    return ConfigEntry(row.name, row.value, row.read_only, int(row.source), row.sensitive)
