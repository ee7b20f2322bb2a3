"""Control records."""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Message, Since, Struct, data
from protocol.primitives import Uuid, i16, i32, i64, u16
from protocol.values import ZERO_UUID


@data(versions="0", flexible="none")
class ControlRecordTypeSchema(Message):
    """ControlRecordTypeSchema."""

    type: i16 = 0


@data(versions="0-1", flexible="0+")
class LeaderChangeMessage(Message):
    """LeaderChangeMessage."""

    class Voter(Struct):
        voter_id: i32 = 0
        voter_directory_id: Annotated[Uuid, Since(1)] = ZERO_UUID

    version: i16 = 0
    leader_id: i32 = 0
    voters: list[Voter] = []
    granting_voters: list[Voter] = []


@data(versions="0", flexible="0+")
class SnapshotHeaderRecord(Message):
    """SnapshotHeaderRecord."""

    version: i16 = 0
    last_contained_log_timestamp: i64 = 0


@data(versions="0", flexible="0+")
class SnapshotFooterRecord(Message):
    """SnapshotFooterRecord."""

    version: i16 = 0


@data(versions="0", flexible="0+")
class KRaftVersionRecord(Message):
    """KRaftVersionRecord."""

    version: i16 = 0
    k_raft_version: i16 = 0


@data(versions="0", flexible="0+")
class VotersRecord(Message):
    """VotersRecord."""

    class Voter(Struct):
        voter_id: i32 = 0
        voter_directory_id: Uuid = ZERO_UUID
        endpoints: list["VotersRecord.Endpoint"] = []
        k_raft_version_feature: "VotersRecord.KRaftVersionFeature" = field(
            default_factory=lambda: VotersRecord.KRaftVersionFeature()
        )

    class Endpoint(Struct):
        name: str = ""
        host: str = ""
        port: u16 = 0

    class KRaftVersionFeature(Struct):
        min_supported_version: i16 = 0
        max_supported_version: i16 = 0

    version: i16 = 0
    voters: list[Voter] = []
