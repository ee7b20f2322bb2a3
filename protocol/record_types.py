"""Which record types the logs have, and where their classes live: metadata, coordinators, remote log.

As in `registry`, the tables are plain text and a message module is imported when it is first asked for.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from protocol.codec.message import Message
from protocol.errors import ProtocolError
from protocol.registry import load_class

__all__ = [
    "LogRecord",
    "MetadataRecordType",
    "find_class",
    "group_log_record",
    "metadata_record",
    "remote_log_record",
    "share_log_record",
    "transaction_log_record",
]


class MetadataRecordType(IntEnum):
    """The record types of the metadata log. 6, 13 and 16 were never released."""

    REGISTER_BROKER_RECORD = 0
    UNREGISTER_BROKER_RECORD = 1
    TOPIC_RECORD = 2
    PARTITION_RECORD = 3
    CONFIG_RECORD = 4
    PARTITION_CHANGE_RECORD = 5
    FENCE_BROKER_RECORD = 7
    UNFENCE_BROKER_RECORD = 8
    REMOVE_TOPIC_RECORD = 9
    DELEGATION_TOKEN_RECORD = 10
    USER_SCRAM_CREDENTIAL_RECORD = 11
    FEATURE_LEVEL_RECORD = 12
    CLIENT_QUOTA_RECORD = 14
    PRODUCER_IDS_RECORD = 15
    BROKER_REGISTRATION_CHANGE_RECORD = 17
    ACCESS_CONTROL_ENTRY_RECORD = 18
    REMOVE_ACCESS_CONTROL_ENTRY_RECORD = 19
    NO_OP_RECORD = 20
    ZK_MIGRATION_STATE_RECORD = 21
    REMOVE_USER_SCRAM_CREDENTIAL_RECORD = 22
    BEGIN_TRANSACTION_RECORD = 23
    END_TRANSACTION_RECORD = 24
    ABORT_TRANSACTION_RECORD = 25
    REMOVE_DELEGATION_TOKEN_RECORD = 26
    REGISTER_CONTROLLER_RECORD = 27
    CLEAR_ELR_RECORD = 28


class LogRecord:
    """One record type of a coordinator's topic: the classes of its key and of its value."""

    __slots__ = ("module", "name", "type")

    def __init__(self, record_type: int, name: str, module: str) -> None:
        self.type = record_type
        self.name = name
        self.module = module

    def __repr__(self) -> str:
        return f"LogRecord({self.type} {self.name})"

    @property
    def key(self) -> type[Message]:
        return load_class(self.module, self.name + "Key")

    @property
    def value(self) -> type[Message]:
        return load_class(self.module, self.name + "Value")


def metadata_record(record_type: int) -> type[Message]:
    """The class of a metadata record type; a ProtocolError for one that we do not know."""
    return _record_class(_METADATA_RECORDS, record_type, "metadata")


def remote_log_record(record_type: int) -> type[Message]:
    """The class of a record of `__remote_log_metadata`. Raises ProtocolError for an unknown type."""
    return _record_class(_REMOTE_LOG_RECORDS, record_type, "remote log metadata")


def group_log_record(record_type: int) -> LogRecord:
    """The key and value classes of a record of `__consumer_offsets`. Raises ProtocolError for an unknown
    type."""
    return _log_record(_GROUP_LOG_RECORDS, record_type, "__consumer_offsets")


def transaction_log_record(record_type: int) -> LogRecord:
    """The key and value classes of a record of `__transaction_state`. Raises ProtocolError for an unknown
    type."""
    return _log_record(_TRANSACTION_LOG_RECORDS, record_type, "__transaction_state")


def share_log_record(record_type: int) -> LogRecord:
    """The key and value classes of a record of `__share_group_state`. Raises ProtocolError for an unknown
    type."""
    return _log_record(_SHARE_LOG_RECORDS, record_type, "__share_group_state")


def find_class(name: str) -> type[Message] | None:
    """The class of that name among all records, keys and values, upper and lower case alike; None if there
    is none."""
    wanted = name.lower()
    for module, class_name in (*_METADATA_RECORDS.values(), *_REMOTE_LOG_RECORDS.values()):
        if class_name.lower() == wanted:
            return load_class(module, class_name)
    for table in (_GROUP_LOG_RECORDS, _TRANSACTION_LOG_RECORDS, _SHARE_LOG_RECORDS):
        for record in table.values():
            for part in ("Key", "Value"):
                if f"{record.name}{part}".lower() == wanted:
                    return load_class(record.module, record.name + part)
    return None


def _record_class(table: Mapping[int, tuple[str, str]], record_type: int, log: str) -> type[Message]:
    found = table.get(record_type)
    if found is None:
        raise ProtocolError(f"there is no {log} record of type {record_type}")
    return load_class(*found)


def _log_record(table: Mapping[int, LogRecord], record_type: int, topic: str) -> LogRecord:
    found = table.get(record_type)
    if found is None:
        raise ProtocolError(f"there is no record of type {record_type} in {topic}")
    return found


_METADATA_RECORDS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        0: ("protocol.metadata_log.registrations", "RegisterBrokerRecord"),
        1: ("protocol.metadata_log.registrations", "UnregisterBrokerRecord"),
        2: ("protocol.metadata_log.topics", "TopicRecord"),
        3: ("protocol.metadata_log.topics", "PartitionRecord"),
        4: ("protocol.metadata_log.cluster", "ConfigRecord"),
        5: ("protocol.metadata_log.topics", "PartitionChangeRecord"),
        7: ("protocol.metadata_log.registrations", "FenceBrokerRecord"),
        8: ("protocol.metadata_log.registrations", "UnfenceBrokerRecord"),
        9: ("protocol.metadata_log.topics", "RemoveTopicRecord"),
        10: ("protocol.metadata_log.security", "DelegationTokenRecord"),
        11: ("protocol.metadata_log.security", "UserScramCredentialRecord"),
        12: ("protocol.metadata_log.cluster", "FeatureLevelRecord"),
        14: ("protocol.metadata_log.cluster", "ClientQuotaRecord"),
        15: ("protocol.metadata_log.cluster", "ProducerIdsRecord"),
        17: ("protocol.metadata_log.registrations", "BrokerRegistrationChangeRecord"),
        18: ("protocol.metadata_log.security", "AccessControlEntryRecord"),
        19: ("protocol.metadata_log.security", "RemoveAccessControlEntryRecord"),
        20: ("protocol.metadata_log.cluster", "NoOpRecord"),
        21: ("protocol.metadata_log.cluster", "ZkMigrationStateRecord"),
        22: ("protocol.metadata_log.security", "RemoveUserScramCredentialRecord"),
        23: ("protocol.metadata_log.cluster", "BeginTransactionRecord"),
        24: ("protocol.metadata_log.cluster", "EndTransactionRecord"),
        25: ("protocol.metadata_log.cluster", "AbortTransactionRecord"),
        26: ("protocol.metadata_log.security", "RemoveDelegationTokenRecord"),
        27: ("protocol.metadata_log.registrations", "RegisterControllerRecord"),
        28: ("protocol.metadata_log.topics", "ClearElrRecord"),
    }
)

_REMOTE_LOG_RECORDS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        0: ("protocol.remote_log", "RemoteLogSegmentMetadataRecord"),
        1: ("protocol.remote_log", "RemoteLogSegmentMetadataUpdateRecord"),
        2: ("protocol.remote_log", "RemotePartitionDeleteMetadataRecord"),
        3: ("protocol.remote_log", "RemoteLogSegmentMetadataSnapshotRecord"),
    }
)

_GROUP_LOG_RECORDS: Final[Mapping[int, LogRecord]] = MappingProxyType(
    {
        entry.type: entry
        for entry in (
            LogRecord(0, "LegacyOffsetCommit", "protocol.group_log.offsets"),
            LogRecord(1, "OffsetCommit", "protocol.group_log.offsets"),
            LogRecord(2, "GroupMetadata", "protocol.group_log.classic_groups"),
            LogRecord(3, "ConsumerGroupMetadata", "protocol.group_log.consumer_groups"),
            LogRecord(4, "ConsumerGroupPartitionMetadata", "protocol.group_log.consumer_groups"),
            LogRecord(5, "ConsumerGroupMemberMetadata", "protocol.group_log.consumer_groups"),
            LogRecord(6, "ConsumerGroupTargetAssignmentMetadata", "protocol.group_log.consumer_groups"),
            LogRecord(7, "ConsumerGroupTargetAssignmentMember", "protocol.group_log.consumer_groups"),
            LogRecord(8, "ConsumerGroupCurrentMemberAssignment", "protocol.group_log.consumer_groups"),
            LogRecord(10, "ShareGroupMemberMetadata", "protocol.group_log.share_groups"),
            LogRecord(11, "ShareGroupMetadata", "protocol.group_log.share_groups"),
            LogRecord(12, "ShareGroupTargetAssignmentMetadata", "protocol.group_log.share_groups"),
            LogRecord(13, "ShareGroupTargetAssignmentMember", "protocol.group_log.share_groups"),
            LogRecord(14, "ShareGroupCurrentMemberAssignment", "protocol.group_log.share_groups"),
            LogRecord(15, "ShareGroupStatePartitionMetadata", "protocol.group_log.share_groups"),
            LogRecord(16, "ConsumerGroupRegularExpression", "protocol.group_log.consumer_groups"),
            LogRecord(17, "StreamsGroupMetadata", "protocol.group_log.streams_groups"),
            LogRecord(19, "StreamsGroupMemberMetadata", "protocol.group_log.streams_groups"),
            LogRecord(20, "StreamsGroupTargetAssignmentMetadata", "protocol.group_log.streams_groups"),
            LogRecord(21, "StreamsGroupTargetAssignmentMember", "protocol.group_log.streams_groups"),
            LogRecord(22, "StreamsGroupCurrentMemberAssignment", "protocol.group_log.streams_groups"),
            LogRecord(23, "StreamsGroupTopology", "protocol.group_log.streams_groups"),
        )
    }
)

_TRANSACTION_LOG_RECORDS: Final[Mapping[int, LogRecord]] = MappingProxyType(
    {entry.type: entry for entry in (LogRecord(0, "TransactionLog", "protocol.transaction_log"),)}
)

_SHARE_LOG_RECORDS: Final[Mapping[int, LogRecord]] = MappingProxyType(
    {
        entry.type: entry
        for entry in (
            LogRecord(0, "ShareSnapshot", "protocol.share_log"),
            LogRecord(1, "ShareUpdate", "protocol.share_log"),
        )
    }
)
