"""DescribeGroups and ListGroups: what administrators are told about groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from broker.coordinator.classic.classic_group import ClassicGroup
from broker.coordinator.classic.states import GroupState
from config.values import trimmed
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsResponse
from protocol.messages.list_groups import ListGroupsResponse

CLASSIC_TYPE: Final = "classic"
NOT_FOUND_SINCE: Final = 6
"""The first version with an error for an unknown group. Earlier ones describe it as dead, without an error
(KIP-1043)."""


def describe_group(
    group_id: str, group: ClassicGroup | None, version: int, *, exists: bool
) -> DescribeGroupsResponse.DescribedGroup:
    """Describes a group and its members. The protocol and its metadata are shown only for a stable group. A
    group of another type is not found, like one that does not exist (`exists`: there is one of any type)."""
    described = DescribeGroupsResponse.DescribedGroup(group_id=group_id)
    if group is None:
        described.group_state = GroupState.DEAD.value
        if version >= NOT_FOUND_SINCE:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            why = "is not a classic group" if exists else "not found"
            described.error_message = f"Group {group_id} {why}."
        return described
    is_stable = group.state is GroupState.STABLE
    protocol = group.protocol_name if is_stable else None
    described.group_state = group.state.value
    described.protocol_type = group.protocol_type or ""
    described.protocol_data = protocol or ""
    described.members = [
        DescribeGroupsResponse.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(protocol) if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return described


def list_groups(
    groups: Iterable[ClassicGroup], states: Iterable[str], types: Iterable[str]
) -> Iterator[ListGroupsResponse.ListedGroup]:
    """The groups in one of the states and of one of the types; an empty filter means all. Upper and lower
    case do not matter, nor do blanks around a state."""
    wanted_states = {trimmed(state.lower()) for state in states}
    wanted_types = {kind.lower() for kind in types}
    if wanted_types and CLASSIC_TYPE not in wanted_types:
        return
    for group in groups:
        if not wanted_states or group.state.value.lower() in wanted_states:
            yield ListGroupsResponse.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC_TYPE,
            )
