"""Client quotas as the metadata log has them; what they mean says `controller.metadata.client_quotas`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from controller.metadata.image.mappings import copied, with_changes
from protocol.codec.message import Message
from protocol.metadata_log.cluster import ClientQuotaRecord

__all__ = ["QuotaEntity", "QuotasDelta", "QuotasImage"]

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of entity type (user, client-id, ip) and name, None for the default; sorted by type."""


class QuotasImage(msgspec.Struct, frozen=True):
    """The client quotas by entity and quota key. An entity without quotas has no entry."""

    by_entity: Mapping[QuotaEntity, Mapping[str, float]] = MappingProxyType({})

    def records(self) -> Iterator[Message]:
        ordered = sorted(self.by_entity, key=lambda entity: [(kind, name or "") for kind, name in entity])
        for entity in ordered:
            parts = [
                ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
            ]
            for key, value in sorted(self.by_entity[entity].items()):
                yield ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


class QuotasDelta:
    """The changes to client quotas since the base image: for each entity the new value per key, None for a
    removed one."""

    def __init__(self, base: QuotasImage) -> None:
        self.base = base
        self.changed: dict[QuotaEntity, dict[str, float | None]] = {}

    def replay(self, record: ClientQuotaRecord) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        self.changed.setdefault(entity, {})[record.key] = None if record.remove else record.value

    def apply(self) -> QuotasImage:
        by_entity = copied(self.base.by_entity)
        for entity, changes in self.changed.items():
            values = with_changes(by_entity.get(entity, {}), changes)
            if values:
                by_entity[entity] = MappingProxyType(values)
            else:
                by_entity.pop(entity, None)
        return QuotasImage(MappingProxyType(by_entity))
