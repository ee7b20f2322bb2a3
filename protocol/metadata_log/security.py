"""Security."""

from protocol.codec.message import Message, metadata_record
from protocol.primitives import Uuid, i8, i32, i64
from protocol.values import ZERO_UUID


@metadata_record(key=18, versions="0", flexible="0+")
class AccessControlEntryRecord(Message):
    """AccessControlEntryRecord."""

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
    """RemoveAccessControlEntryRecord."""

    id: Uuid = ZERO_UUID


@metadata_record(key=11, versions="0", flexible="0+")
class UserScramCredentialRecord(Message):
    """UserScramCredentialRecord."""

    name: str = ""
    mechanism: i8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: i32 = 0


@metadata_record(key=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord(Message):
    """RemoveUserScramCredentialRecord."""

    name: str = ""
    mechanism: i8 = 0


@metadata_record(key=10, versions="0", flexible="0+")
class DelegationTokenRecord(Message):
    """DelegationTokenRecord."""

    owner: str = ""
    requester: str = ""
    renewers: list[str] = []
    issue_timestamp: i64 = 0
    max_timestamp: i64 = 0
    expiration_timestamp: i64 = 0
    token_id: str = ""


@metadata_record(key=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord(Message):
    """RemoveDelegationTokenRecord."""

    token_id: str = ""
