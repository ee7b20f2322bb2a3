"""Which configs may be set for a resource, and which are in force if nothing is set.

The controller knows its own static configs; what was set at run time for all brokers comes from the image. So
a new topic is shown with the values that it will have on the brokers, as long as their files agree with that
of the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from config.broker_config import BrokerConfig
from config.describe import DescribedConfig, describe_topic
from config.dynamic_client_metrics import validate_client_metrics
from config.dynamic_groups import validate_group_config
from config.errors import InvalidValue, RefusedChange
from config.topic_config import validate_topic_config
from config.values import java_whole, trimmed
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.configs import ConfigResourceType, ConfigsImage
from controller.metadata.image.features import ELIGIBLE_LEADER_REPLICAS
from controller.metadata.topic_names import name_fault
from controller.subjects.leadership import LeadershipRules
from controller.subjects.result import ControllerError
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsResponse

__all__ = ["ConfigRules"]

OVERRIDES_REMEMBERED: Final = 100

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

CLUSTER_DEFAULT = ""
"""The name of the broker resource that stands for the defaults of all brokers."""


Shown = CreateTopicsResponse.CreatableTopicConfigs
"""One config of the topic, as the CreateTopics response has it."""


class ConfigRules:
    """The rules that this controller's static configs and the dynamic ones of an image make together."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._shown: dict[tuple[tuple[str, str], ...], list[CreateTopicsResponse.CreatableTopicConfigs]] = {}
        self._shown_for: ConfigsImage | None = None
        self._in_force = config
        self._in_force_for: ConfigsImage | None = None

    def in_force(self, configs: ConfigsImage) -> BrokerConfig:
        """This node's config, with what the image sets for this broker and for all brokers. It is made when
        the configs have changed, for every heartbeat asks for it."""
        if configs is not self._in_force_for:
            node = str(self._config.node_id)
            own = configs.of(ConfigResourceType.BROKER, node)
            shared = configs.of(ConfigResourceType.BROKER, CLUSTER_DEFAULT)
            self._in_force = self._config.with_dynamic(own, shared) if own or shared else self._config
            self._in_force_for = configs
        return self._in_force

    def validate(self, image: ClusterImage, kind: int, name: str, settings: Mapping[str, str]) -> None:
        """Whether a resource may have these settings. Raises `ConfigError` (`RefusedChange` where Kafka
        answers INVALID_REQUEST) and ControllerError.

        A broker's settings were looked at by the broker whom the request reached, who knows its file.
        """
        if kind == ConfigResourceType.TOPIC:
            if not name:
                raise RefusedChange("Default topic resources are not allowed.")
            fault = name_fault(name)
            if fault is not None:
                raise ControllerError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
            validate_topic_config(settings, self.in_force(image.configs))
        elif kind == ConfigResourceType.BROKER:
            _check_broker_name(name)
        elif kind == ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise RefusedChange("Subscription name can't be empty")
            validate_client_metrics(settings)
        elif kind == ConfigResourceType.GROUP:
            if not name:
                raise RefusedChange("Default group resources are not allowed.")
            validate_group_config(settings, self.in_force(image.configs))

    def topic_config_fault(self, configs: ConfigsImage, overrides: Mapping[str, str]) -> str | None:
        """Kafka's sentence on the first thing that is wrong; None when a new topic may set all of it."""
        try:
            validate_topic_config(overrides, self.in_force(configs))
        except InvalidValue as fault:
            return str(fault)
        return None

    def effective_topic_configs(
        self, configs: ConfigsImage, overrides: Mapping[str, str]
    ) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
        """All configs of a topic with these overrides, by name; not to be changed, many topics share them.

        What is not overridden is the same for all topics while the image's configs do not change, and the
        topics of a request mostly override the same.
        """
        if self._shown_for is not configs or len(self._shown) > OVERRIDES_REMEMBERED:
            self._shown_for = configs
            self._shown = {(): [_shown(row) for row in describe_topic(self.in_force(configs), {})]}
        key = tuple(sorted(overrides.items()))
        shown = self._shown.get(key)
        if shown is None:
            rows = {row.name: row for row in self._shown[()]}
            own = describe_topic(self.in_force(configs), overrides, list(overrides))
            rows |= {row.name: _shown(row) for row in own}
            shown = self._shown[key] = [rows[name] for name in sorted(rows)]
        return shown

    def leadership(self, image: ClusterImage) -> LeadershipRules:
        """What the configs say about elections."""
        in_force = self.in_force(image.configs)
        otherwise = in_force.flag(UNCLEAN_ELECTION)
        minimum = in_force.integer(MIN_INSYNC_REPLICAS)
        topics = ConfigResourceType.TOPIC

        def allows_unclean(topic: str) -> bool:
            own = image.configs.of(topics, topic).get(UNCLEAN_ELECTION)
            return otherwise if own is None else trimmed(own).lower() == "true"

        def min_insync_replicas(topic: str) -> int | None:
            own = image.configs.of(topics, topic).get(MIN_INSYNC_REPLICAS)
            return minimum if own is None else int(trimmed(own))

        def no_minimum(topic: str) -> int | None:
            return None

        has_elr = image.features.level(ELIGIBLE_LEADER_REPLICAS) > 0
        return LeadershipRules(allows_unclean, min_insync_replicas if has_elr else no_minimum)

    @property
    def static_min_insync_replicas(self) -> int:
        """What this node's file says, or the default."""
        return self._config.integer(MIN_INSYNC_REPLICAS)


def _check_broker_name(name: str) -> None:
    if not name:
        return
    broker_id = java_whole(name)
    if broker_id is None:
        raise RefusedChange("Unable to parse broker name as a base 10 number.")
    if broker_id < 0:
        raise RefusedChange("Invalid negative broker ID.")


def _shown(row: DescribedConfig) -> CreateTopicsResponse.CreatableTopicConfigs:
    return Shown(row.name, row.value, row.read_only, int(row.source), row.sensitive)
