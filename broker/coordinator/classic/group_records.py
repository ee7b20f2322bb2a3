"""How a classic group lies in `__consumer_offsets`, under the key of type 2 of `group_keys`.

value  protocol type, generation, protocol, leader, time of the last change of state, and for each member
       its ids, client, timeouts, subscription and assignment. Version 3 is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.coordinator.classic.classic_group import ClassicGroup, ClassicGroupMember
from broker.coordinator.group_keys import SHORT, group_key, value_version
from broker.coordinator.runtime.result import CoordinatorRecord
from protocol.codec.compiler import decode, encode
from protocol.errors import ProtocolError
from protocol.group_log.classic_groups import GroupMetadataValue

GROUP_VERSION: Final = 3
NO_REBALANCE_TIMEOUT: Final = -1
"""Stands in a record before version 1, which has no rebalance timeout: the session timeout is used."""


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The record of a group in its current generation, with these assignments by member id."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_timestamp_ms,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return _group_record(group.group_id, value)


def new_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """The record of a group that a client has just asked to join: it exists, and nothing more is known."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=group.state_timestamp_ms,
    )
    return _group_record(group.group_id, value)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(group_key(group_id), None)


def _group_record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(group_key(group_id), SHORT.pack(GROUP_VERSION) + encode(value, GROUP_VERSION))


def read_group_metadata(value: bytes) -> GroupMetadataValue:
    """Reads the record of a group. Raises ProtocolError for bytes that are no group, or of an unknown
    version."""
    version = value_version(value, "a group", GroupMetadataValue.declaration.versions.last)
    return decode(GroupMetadataValue, version, value[2:])


def read_group(group_id: str, value: bytes) -> ClassicGroup:
    """The group that a record holds: Stable with its members, or Empty. Raises ProtocolError like
    `read_group_metadata`."""
    stored = read_group_metadata(value)
    group = ClassicGroup(
        group_id,
        generation=stored.generation,
        protocol_type=stored.protocol_type or None,
        protocol_name=stored.protocol,
        leader_id=stored.leader,
        state_timestamp_ms=stored.current_state_timestamp,
    )
    for entry in stored.members:
        if entry.member_id in group.members or entry.group_instance_id in group.static_members:
            raise ProtocolError(f"group {group_id} was stored with the member {entry.member_id} twice")
        member = ClassicGroupMember(
            member_id=entry.member_id,
            group_instance_id=entry.group_instance_id,
            client_id=entry.client_id,
            client_host=entry.client_host,
            rebalance_timeout_ms=entry.session_timeout
            if entry.rebalance_timeout == NO_REBALANCE_TIMEOUT
            else entry.rebalance_timeout,
            session_timeout_ms=entry.session_timeout,
            protocols=((stored.protocol or "", entry.subscription),),
            assignment=entry.assignment,
        )
        group.add(member, stored.protocol_type, None)
    group.all_read()
    return group
