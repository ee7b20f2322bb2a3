"""Which access control entries a filter means: DescribeAcls lists them, DeleteAcls removes them. KIP-140,
KIP-290.

A filter that names its resource is answered by look-ups; one that leaves the type or the name open walks over
all patterns, and says so between them (None), so that a long walk need not hold up others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import msgspec

from controller.metadata.image.acls import (
    ALLOW,
    ANY,
    DENY,
    LITERAL,
    MATCH,
    PREFIXED,
    WILDCARD,
    Acl,
    AclPattern,
    AclsImage,
)
from protocol.serving.authorization import Operation, ResourceType

__all__ = ["AclFilter", "code_name", "matching", "unknown_part"]

UNKNOWN: Final = "UNKNOWN"


class PatternType(IntEnum):
    """The types of resource patterns, in Kafka's codes."""

    MATCH = MATCH
    LITERAL = LITERAL
    PREFIXED = PREFIXED


class Permission(IntEnum):
    """The permissions of an entry, in Kafka's codes."""

    DENY = DENY
    ALLOW = ALLOW


class AclFilter(msgspec.Struct, frozen=True):
    """What the entries have that are meant. `ANY` and None stand for everything."""

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int


_NAMES: Final[Mapping[type[IntEnum], Mapping[int, str]]] = MappingProxyType(
    {
        codes: MappingProxyType({ANY: "ANY"} | {int(each): each.name for each in codes})
        for codes in (ResourceType, PatternType, Operation, Permission)
    }
)


def code_name(codes: type[IntEnum], code: int) -> str:
    """The name of a code in Kafka's sentences."""
    return _NAMES[codes].get(code, UNKNOWN)


def unknown_part(wanted: AclFilter) -> str | None:
    """Kafka's name for the half of a filter that holds an unknown code; None if there is none."""
    if wanted.resource_type not in _NAMES[ResourceType] or wanted.pattern_type not in _NAMES[PatternType]:
        return "patternFilter"
    if wanted.operation not in _NAMES[Operation] or wanted.permission_type not in _NAMES[Permission]:
        return "entryFilter"
    return None


def matching(acls: AclsImage, wanted: AclFilter) -> Iterator[tuple[AclPattern, list[Acl]] | None]:
    """The entries that a filter means, by pattern; None for a pattern without any."""
    for pattern in _patterns(acls, wanted):
        found = [acl for acl in _entries(acls, pattern, wanted) if _is_meant(acl, wanted)]
        yield (pattern, found) if found else None


def _patterns(acls: AclsImage, wanted: AclFilter) -> Iterator[AclPattern]:
    kind, name = wanted.resource_type, wanted.name
    if kind == ANY or name is None:
        for pattern in acls.by_pattern:
            if kind in (ANY, pattern[0]) and _matches(pattern, wanted):
                yield pattern
        return
    candidates: dict[AclPattern, None] = {(kind, LITERAL, name): None, (kind, PREFIXED, name): None}
    if wanted.pattern_type == MATCH:
        candidates[kind, LITERAL, WILDCARD] = None
        for length in acls.prefix_lengths.get(kind, ()):
            candidates[kind, PREFIXED, name[:length]] = None
    for pattern in candidates:
        if pattern in acls.by_pattern and _matches(pattern, wanted):
            yield pattern


def _matches(pattern: AclPattern, wanted: AclFilter) -> bool:
    """Whether a filter means a pattern of a resource type that fits."""
    _, kind, name = pattern
    if wanted.pattern_type not in (ANY, MATCH, kind):
        return False
    if wanted.name is None:
        return True
    if wanted.pattern_type != MATCH:
        return name == wanted.name
    if kind == LITERAL:
        return name in (wanted.name, WILDCARD)
    return wanted.name.startswith(name)


def _entries(acls: AclsImage, pattern: AclPattern, wanted: AclFilter) -> Iterator[Acl]:
    if wanted.principal is None:
        return acls.of_pattern(pattern)
    return iter(acls.by_pattern[pattern].get(wanted.principal, ()))


def _is_meant(acl: Acl, wanted: AclFilter) -> bool:
    return (
        wanted.host in (None, acl.host)
        and wanted.operation in (ANY, acl.operation)
        and wanted.permission_type in (ANY, acl.permission_type)
    )
