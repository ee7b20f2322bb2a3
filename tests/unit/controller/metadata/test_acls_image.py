"""The image of the access control entries: what is found is what a walk over all entries finds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controller.metadata.acl_filters import AclFilter, matching
from controller.metadata.image.acls import (
    ALLOW,
    ANY,
    DENY,
    LITERAL,
    MATCH,
    PREFIXED,
    Acl,
    AclPattern,
    AclsDelta,
    AclsImage,
    ByPrincipal,
)
from controller.metadata.image.cluster_image import EMPTY_IMAGE, image_records, replay
from controller.metadata.image.reload import reload
from protocol.metadata_log.security import RemoveAccessControlEntryRecord

NAMES = ("*", "a", "ab", "abc", "b")
PRINCIPALS = ("User:ann", "User:*", "Role:ann")

acls = st.builds(
    Acl,
    id=st.sampled_from([bytes([number]) * 16 for number in range(1, 12)]),
    resource_type=st.sampled_from([2, 3]),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from([LITERAL, PREFIXED]),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(["*", "10.0.0.1"]),
    operation=st.sampled_from([2, 3, 8]),
    permission_type=st.sampled_from([DENY, ALLOW]),
)
removals = st.builds(
    RemoveAccessControlEntryRecord, id=st.sampled_from([bytes([n]) * 16 for n in range(1, 12)])
)
batches = st.lists(st.lists(acls | removals, max_size=8), max_size=5)


def grown(parts: Iterable[Sequence[Acl | RemoveAccessControlEntryRecord]]) -> AclsImage:
    """The image after batches of records. Only what is there is removed, as in a log."""
    image = AclsImage()
    for part in parts:
        delta, known = AclsDelta(image), set(image.by_id)
        for record in part:
            if isinstance(record, Acl):
                known.add(record.id)
                delta.add(record)
            elif record.id in known:
                known.discard(record.id)
                delta.remove(record)
        image = delta.apply()
    return image


def applies(acl: Acl, resource_type: int, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in ("*", name)


@given(batches)
def test_the_entries_of_a_resource_are_those_that_a_walk_finds(
    parts: list[list[Acl | RemoveAccessControlEntryRecord]],
) -> None:
    image = grown(parts)
    for kind, name in itertools.product((2, 3, 4), ("a", "abcd", "b", "ba", "c", "*", "")):
        found = [
            acl.id for entries in image.applying(kind, name) for each in entries.values() for acl in each
        ]
        assert sorted(found) == sorted(acl.id for acl in image.by_id.values() if applies(acl, kind, name))


@given(batches)
def test_an_image_is_what_its_records_make(parts: list[list[Acl | RemoveAccessControlEntryRecord]]) -> None:
    image = grown(parts)
    records = list(image.records())
    assert [record.id for record in records] == sorted(image.by_id)  # type: ignore[attr-defined]
    again = grown([records])  # type: ignore[list-item]
    assert (again.by_id, again.prefix_lengths) == (image.by_id, image.prefix_lengths)
    for pattern, entries in image.by_pattern.items():
        assert {who: set(map(_text, each)) for who, each in entries.items()} == {
            who: set(map(_text, each)) for who, each in again.by_pattern[pattern].items()
        }
    assert again.by_pattern.keys() == image.by_pattern.keys()
    for each in (image, again):
        assert {key: set(patterns) for key, patterns in each.patterns_of.items()} == expected_patterns(image)
        assert sum(map(len, each.patterns_of.values())) == sum(map(len, image.by_pattern.values()))


def expected_patterns(image: AclsImage) -> dict[tuple[int, str], set[AclPattern]]:
    found: dict[tuple[int, str], set[AclPattern]] = {}
    for pattern, entries in image.by_pattern.items():
        for who in entries:
            found.setdefault((pattern[0], who), set()).add(pattern)
    return found


def prefixed(name: str, number: int) -> Acl:
    return Acl(bytes([number]) * 16, 2, name, PREFIXED, "User:ann", "*", 3, ALLOW)


class Unwalked(dict[AclPattern, ByPrincipal]):
    """Patterns that are looked up, and may be copied, but not walked over in Python."""

    def __iter__(self) -> Iterator[AclPattern]:
        raise AssertionError("all patterns are walked over")

    def copy(self) -> Unwalked:
        return Unwalked(self.items())


def test_one_change_does_not_count_all_prefixes_anew() -> None:
    image = grown([[prefixed(name, number) for number, name in enumerate(("abc", "abd", "abe", "x"))]])
    delta = AclsDelta(msgspec.structs.replace(image, by_pattern=MappingProxyType(Unwalked(image.by_pattern))))
    delta.add(prefixed("xy", 7))
    delta.remove(RemoveAccessControlEntryRecord(bytes([3]) * 16))
    assert delta.apply().prefix_lengths == {2: {3: 3, 2: 1}}


def _text(acl: Acl) -> str:
    return repr(acl)


FILTERS = st.builds(
    AclFilter,
    resource_type=st.sampled_from([ANY, 2, 3]),
    name=st.sampled_from([None, *NAMES, "abcd"]),
    pattern_type=st.sampled_from([ANY, MATCH, LITERAL, PREFIXED]),
    principal=st.sampled_from([None, *PRINCIPALS]),
    host=st.sampled_from([None, "*", "10.0.0.1"]),
    operation=st.sampled_from([ANY, 2, 3]),
    permission_type=st.sampled_from([ANY, DENY, ALLOW]),
)


def is_meant(acl: Acl, wanted: AclFilter) -> bool:
    """Kafka's rules, entry by entry."""
    if wanted.resource_type not in (ANY, acl.resource_type):
        return False
    if wanted.pattern_type not in (ANY, MATCH, acl.pattern_type):
        return False
    if wanted.name is not None:
        if wanted.pattern_type == MATCH:
            if not applies(acl, acl.resource_type, wanted.name):
                return False
        elif acl.resource_name != wanted.name:
            return False
    return (
        wanted.principal in (None, acl.principal)
        and wanted.host in (None, acl.host)
        and wanted.operation in (ANY, acl.operation)
        and wanted.permission_type in (ANY, acl.permission_type)
    )


@given(batches, FILTERS)
def test_a_filter_finds_what_a_walk_finds(
    parts: list[list[Acl | RemoveAccessControlEntryRecord]], wanted: AclFilter
) -> None:
    image = grown(parts)
    found = [each for each in matching(image, wanted) if each is not None]
    assert len({pattern for pattern, _ in found}) == len(found), "each pattern once"
    ids = [acl.id for _, entries in found for acl in entries]
    assert sorted(ids) == sorted(acl.id for acl in image.by_id.values() if is_meant(acl, wanted))


def test_it_is_a_part_of_the_cluster_s_image_and_of_its_snapshots() -> None:
    one, other = (Acl(bytes([number]) * 16, 2, "t", LITERAL, "User:a", "*", 3, ALLOW) for number in (1, 2))
    image, delta = replay(EMPTY_IMAGE, [other, one], offset=1, epoch=1)
    assert delta.acls is not None
    assert list(image_records(image)) == [one, other]
    image, _ = replay(image, [RemoveAccessControlEntryRecord(id=one.id)], offset=2, epoch=1)
    assert list(image.acls.by_id) == [other.id]
    reloaded, change = reload(image, [one], offset=3, epoch=1, timestamp_ms=0)
    assert list(reloaded.acls.by_id) == [one.id]
    assert change.acls is not None
    assert change.acls.changed == {other.id: None, one.id: one}
    assert [len(entries) for entries in reloaded.acls.applying(2, "t")] == [1]
