"""Metadata records of access control, SCRAM credentials and delegation tokens."""

from protocol.codec.message import Message, metadata_record
from protocol.primitives import Uuid, i8, i32, i64
from protocol.values import ZERO_UUID


@metadata_record(key=18, versions="0", flexible="0+")
class AccessControlEntryRecord(Message):
    """An access control entry."""

    id: Uuid = ZERO_UUID
    resource_type: i8 = 0
    resource_name: str = ""
    pattern_type: i8 = 0
    principal: str = ""
    host: str = ""
    operation: i8 = 0
    permission_type: i8 = 0


@metadata_record(key=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord(Message):
    """An access control entry is removed, by its id."""

    id: Uuid = ZERO_UUID


@metadata_record(key=11, versions="0", flexible="0+")
class UserScramCredentialRecord(Message):
    """Holds what a server must know of a user's SCRAM password."""

    name: str = ""
    mechanism: i8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: i32 = 0


@metadata_record(key=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord(Message):
    """A user's SCRAM credential is removed."""

    name: str = ""
    mechanism: i8 = 0


@metadata_record(key=10, versions="0", flexible="0+")
class DelegationTokenRecord(Message):
    """A delegation token: created, renewed or set to expire."""

    owner: str = ""
    requester: str = ""
    renewers: list[str] = []
    issue_timestamp: i64 = 0
    max_timestamp: i64 = 0
    expiration_timestamp: i64 = 0
    token_id: str = ""


@metadata_record(key=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord(Message):
    """A delegation token is removed."""

    token_id: str = ""
