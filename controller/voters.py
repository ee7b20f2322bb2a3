"""Who votes in the quorum, as the log itself says it (KIP-853).

With kraft.version 1 the voters are control records: first in the snapshot that `storage format` writes,
later in the log. The newest record below an offset counts there, committed or not. With kraft.version 0
there is no such record and the config says it (`controller.quorum.voters`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from controller.image.brokers import Endpoint
from protocol.codec.compiler import decode
from protocol.quorum.control_records import KRaftVersionRecord, VotersRecord
from protocol.records.control import ControlRecordType, control_type
from protocol.records.header import ReadBuffer, headers
from protocol.records.reader import records as read_records

__all__ = ["Voter", "VoterSet", "voters_in"]

PLAINTEXT = 0


class Voter(msgspec.Struct, frozen=True):
    """A voter is an id and the directory that its log lives in: an id with an empty disk is another voter."""

    id: int
    directory_id: bytes
    endpoints: Mapping[str, Endpoint]


class VoterSet(msgspec.Struct, frozen=True):
    """The voters by id, and the kraft.version in force with them."""

    by_id: Mapping[int, Voter] = MappingProxyType({})
    kraft_version: int = 0

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            voters=[
                VotersRecord.Voter(
                    voter_id=voter.id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[
                        VotersRecord.Endpoint(name=name, host=e.host, port=e.port)
                        for name, e in voter.endpoints.items()
                    ],
                    k_raft_version_feature=VotersRecord.KRaftVersionFeature(
                        min_supported_version=0, max_supported_version=1
                    ),
                )
                for voter in self.by_id.values()
            ]
        )

    @classmethod
    def from_record(cls, record: VotersRecord, kraft_version: int) -> VoterSet:
        voters = {}
        for entry in record.voters:
            endpoints = {e.name: Endpoint(e.host, e.port, PLAINTEXT) for e in entry.endpoints}
            voters[entry.voter_id] = Voter(
                entry.voter_id, entry.voter_directory_id, MappingProxyType(endpoints)
            )
        return cls(MappingProxyType(voters), kraft_version)


def voters_in(buffer: ReadBuffer, known: VoterSet) -> VoterSet:
    """The voters after the whole batches in the buffer; `known` holds before them."""
    version = known.kraft_version
    for position, header in headers(buffer):
        if not header.is_control:
            continue
        for record in read_records(buffer, position, check_crc=True):
            kind = control_type(record.key)
            if kind is ControlRecordType.KRAFT_VERSION:
                version = decode(KRaftVersionRecord, 0, record.value or b"").k_raft_version
                known = VoterSet(known.by_id, version)
            elif kind is ControlRecordType.KRAFT_VOTERS:
                known = VoterSet.from_record(decode(VotersRecord, 0, record.value or b""), version)
    return known
