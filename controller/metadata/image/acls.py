"""The access control entries of the cluster (KIP-801), kept so that the entries of one resource are found at
once.

An entry is the record that made it (`AccessControlEntryRecord`): a resource pattern, and who may or may not
do what with the resources that it matches::

    LITERAL  "orders"    the resource of that name
    LITERAL  "*"         every resource of the type
    PREFIXED "orders-"   every resource whose name begins so (KIP-290)

`applying` finds the patterns that match a name by look-ups alone: the literal one, the star, and one for each
length that prefixed patterns of the type have. It never walks over all entries. Within a pattern the entries
are kept by principal, because a popular topic may have thousands of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from controller.metadata.image.mappings import copied
from protocol.codec.message import Message
from protocol.metadata_log.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord

__all__ = [
    "ALLOW",
    "ANY",
    "DENY",
    "LITERAL",
    "MATCH",
    "PREFIXED",
    "WILDCARD",
    "Acl",
    "AclPattern",
    "AclsDelta",
    "AclsImage",
    "ByPrincipal",
]

Acl = AccessControlEntryRecord

ANY: Final = 1
"""In filters: any resource type, pattern type, operation or permission."""
MATCH: Final = 2
"""In filters: patterns of every type that match the resource of that name."""
LITERAL: Final = 3
PREFIXED: Final = 4

DENY: Final = 2
ALLOW: Final = 3

WILDCARD: Final = "*"
"""As the name of a literal pattern: every resource. As a host: every host."""

AclPattern = tuple[int, int, str]
"""Resource type, pattern type and name."""

ByPrincipal = Mapping[str, tuple[Acl, ...]]
"""The entries of one pattern by principal (`User:alice`), in the order in which they were made."""

Patterns = Mapping[AclPattern, None]
"""Patterns in the order in which they were made, which a snapshot does not keep: so two of these are equal
whatever their order is."""

_Touched = dict[AclPattern, dict[str, tuple[Acl, ...]]]
"""The entries of the patterns that a delta changes, as they will be."""

_EMPTY: Final[ByPrincipal] = MappingProxyType({})
_NO_PATTERNS: Final[Patterns] = MappingProxyType({})
_NO_LENGTHS: Final[Mapping[int, int]] = MappingProxyType({})


class AclsImage(msgspec.Struct, frozen=True):
    """All access control entries.

    by_id: by the id of the record. by_pattern: the same entries by pattern and principal; a pattern without
    entries has no key. prefix_lengths: by resource type, the lengths of the names of its prefixed patterns,
    each with the number of patterns of that length. patterns_of: by resource type and principal, the patterns
    that have entries about that principal.
    """

    by_id: Mapping[bytes, Acl] = MappingProxyType({})
    by_pattern: Mapping[AclPattern, ByPrincipal] = MappingProxyType({})
    prefix_lengths: Mapping[int, Mapping[int, int]] = MappingProxyType({})
    patterns_of: Mapping[tuple[int, str], Patterns] = MappingProxyType({})

    def records(self) -> Iterator[Message]:
        for acl_id in sorted(self.by_id):
            yield self.by_id[acl_id]

    def applying(self, resource_type: int, name: str) -> Iterator[ByPrincipal]:
        """The entries of each pattern that matches a resource."""
        by_pattern = self.by_pattern
        found = by_pattern.get((resource_type, LITERAL, name))
        if found is not None:
            yield found
        for length in self.prefix_lengths.get(resource_type, _NO_LENGTHS):
            if length <= len(name):
                found = by_pattern.get((resource_type, PREFIXED, name[:length]))
                if found is not None:
                    yield found
        if name != WILDCARD:
            found = by_pattern.get((resource_type, LITERAL, WILDCARD))
            if found is not None:
                yield found

    def of_pattern(self, pattern: AclPattern) -> Iterator[Acl]:
        """The entries of one pattern."""
        for entries in self.by_pattern.get(pattern, _EMPTY).values():
            yield from entries

    def has(self, wanted: Acl) -> bool:
        """Whether there is an entry that says the same, whatever its id."""
        pattern = (wanted.resource_type, wanted.pattern_type, wanted.resource_name)
        same_principal = self.by_pattern.get(pattern, _EMPTY).get(wanted.principal, ())
        return any(_says(acl) == _says(wanted) for acl in same_principal)


class AclsDelta:
    """The changes since the base image: the new entry for each id, None for a removed one."""

    def __init__(self, base: AclsImage) -> None:
        self.base = base
        self.changed: dict[bytes, Acl | None] = {}

    def add(self, record: AccessControlEntryRecord) -> None:
        self.changed[record.id] = record

    def remove(self, record: RemoveAccessControlEntryRecord) -> None:
        self.changed[record.id] = None

    def apply(self) -> AclsImage:
        """Copies the three large mappings once, and of what they hold only what has changed."""
        by_id = copied(self.base.by_id)
        by_pattern = copied(self.base.by_pattern)
        touched: _Touched = {}
        for acl_id, acl in self.changed.items():
            former = by_id.pop(acl_id, None)
            if former is not None:
                _take_out(_opened(touched, by_pattern, former), former)
            if acl is not None:
                by_id[acl_id] = acl
                entries = _opened(touched, by_pattern, acl)
                entries[acl.principal] = (*entries.get(acl.principal, ()), acl)
        for pattern, entries in touched.items():
            if entries:
                by_pattern[pattern] = MappingProxyType(entries)
            else:
                by_pattern.pop(pattern, None)
        return AclsImage(
            MappingProxyType(by_id),
            MappingProxyType(by_pattern),
            self._prefix_lengths(touched),
            self._patterns_of(touched),
        )

    def _prefix_lengths(self, touched: _Touched) -> Mapping[int, Mapping[int, int]]:
        """The lengths of the base, and what touched patterns add to them and take from them."""
        lengths: dict[int, Mapping[int, int]] = copied(self.base.prefix_lengths)
        for pattern, entries in touched.items():
            resource_type, pattern_type, name = pattern
            more = bool(entries) - (pattern in self.base.by_pattern)
            if pattern_type != PREFIXED or not more:
                continue
            counts = copied(lengths.get(resource_type, _NO_LENGTHS))
            counts[len(name)] = counts.get(len(name), 0) + more
            if not counts[len(name)]:
                del counts[len(name)]
            lengths[resource_type] = MappingProxyType(counts)
            if not counts:
                del lengths[resource_type]
        return MappingProxyType(lengths)

    def _patterns_of(self, touched: _Touched) -> Mapping[tuple[int, str], Patterns]:
        """The patterns of the base by principal, and what touched patterns add to them and take from them."""
        opened: dict[tuple[int, str], dict[AclPattern, None]] = {}
        for pattern, entries in touched.items():
            before = self.base.by_pattern.get(pattern, _EMPTY)
            for who in (*before, *entries):
                if (who in before) == (who in entries):
                    continue
                key = (pattern[0], who)
                patterns = opened.get(key)
                if patterns is None:
                    patterns = opened[key] = copied(self.base.patterns_of.get(key, _NO_PATTERNS))
                if who in entries:
                    patterns[pattern] = None
                else:
                    patterns.pop(pattern, None)
        if not opened:
            return self.base.patterns_of
        patterns_of = copied(self.base.patterns_of)
        for key, patterns in opened.items():
            if patterns:
                patterns_of[key] = MappingProxyType(patterns)
            else:
                patterns_of.pop(key, None)
        return MappingProxyType(patterns_of)


def _says(acl: Acl) -> tuple[str, str, int, int]:
    """What an entry says of the resources of its pattern."""
    return acl.principal, acl.host, acl.operation, acl.permission_type


def _opened(
    touched: _Touched,
    by_pattern: Mapping[AclPattern, ByPrincipal],
    acl: Acl,
) -> dict[str, tuple[Acl, ...]]:
    """The entries of an entry's pattern, to be changed."""
    pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
    entries = touched.get(pattern)
    if entries is None:
        entries = touched[pattern] = copied(by_pattern.get(pattern, _EMPTY))
    return entries


def _take_out(entries: dict[str, tuple[Acl, ...]], acl: Acl) -> None:
    kept = tuple(each for each in entries.get(acl.principal, ()) if each.id != acl.id)
    if kept:
        entries[acl.principal] = kept
    else:
        entries.pop(acl.principal, None)
