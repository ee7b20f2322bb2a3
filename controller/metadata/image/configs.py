"""Dynamic configs: what was set at run time for topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import msgspec

from controller.metadata.image.mappings import copied, with_changes
from protocol.codec.message import Message
from protocol.metadata_log.cluster import ConfigRecord

__all__ = ["ConfigResourceType", "ConfigsDelta", "ConfigsImage", "Resource"]


class ConfigResourceType(IntEnum):
    """Kafka's codes of the types of resources that have configs (not those of resources that are
    authorized)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


Resource = tuple[int, str]
"""The type and the name of a resource. The name of a broker is its id in decimal; the empty name of a broker
stands for the default of the cluster."""

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigsImage(msgspec.Struct, frozen=True):
    """The dynamic configs of each resource, by config name. A resource without configs has no entry."""

    by_resource: Mapping[Resource, Mapping[str, str]] = MappingProxyType({})

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The configs that are set for this resource itself; defaults and wider scopes are left to the
        caller."""
        return self.by_resource.get((int(resource_type), name), NOTHING)

    def records(self) -> Iterator[Message]:
        for resource_type, name in sorted(self.by_resource):
            for key, value in sorted(self.by_resource[resource_type, name].items()):
                yield ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)


class ConfigsDelta:
    """The changes to configs: for each resource, the new value by name, None for a config that was
    removed."""

    def __init__(self, base: ConfigsImage) -> None:
        self.base = base
        self.changed: dict[Resource, dict[str, str | None]] = {}

    def replay(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        self.changed.setdefault(resource, {})[record.name] = record.value

    def forget(self, resource: Resource) -> None:
        """Removes the configs of a deleted topic, for which there are no records of their own."""
        for name in self.base.by_resource.get(resource, NOTHING):
            self.changed.setdefault(resource, {})[name] = None
        for name in self.changed.get(resource, ()):
            self.changed[resource][name] = None

    def apply(self) -> ConfigsImage:
        by_resource = copied(self.base.by_resource)
        for resource, changes in self.changed.items():
            values = with_changes(by_resource.get(resource, NOTHING), changes)
            if values:
                by_resource[resource] = MappingProxyType(values)
            else:
                by_resource.pop(resource, None)
        return ConfigsImage(MappingProxyType(by_resource))
