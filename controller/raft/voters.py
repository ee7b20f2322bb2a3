"""Who votes in the quorum, and since which offset: the voters' history as the log tells it (KIP-853).

With kraft.version 1 the voters are control records: in the snapshot that `storage format` writes, in later
snapshots, in the log. The newest record counts from the moment when it is in the log, committed or not; when
it is cut off again, the one before counts. So changes must go one at a time, and the node that makes them
waits for each to be committed (Ongaro's dissertation, 4.1). With kraft.version 0 the config says who votes,
by id alone, and nothing of it is in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from controller.raft.identity import Address, ReplicaKey
from protocol.codec.compiler import decode
from protocol.errors import InvariantViolated, ProtocolError
from protocol.quorum import KRaftVersionRecord, VotersRecord
from protocol.records.control import ControlRecordType, control_type
from protocol.records.errors import RecordsError
from protocol.records.header import ReadBuffer
from protocol.records.reader import records as read_records
from protocol.values import ZERO_UUID

__all__ = ["CONFIGURED", "NO_VOTERS", "Endpoints", "Voter", "VoterHistory", "VoterSet"]

Endpoints = Mapping[str, Address]
"""The addresses of a replica, by listener name."""

CONFIGURED: Final = -1
"""Stands for the offset of voters that are in no record of the log: they come from the config or from
`storage format`."""


class Voter(msgspec.Struct, frozen=True):
    """One voter. Its directory id is zero with kraft.version 0."""

    key: ReplicaKey
    endpoints: Endpoints
    min_version: int = 0
    max_version: int = 1

    def is_replica(self, key: ReplicaKey) -> bool:
        """Whether this voter is that replica. A voter without a directory id is any replica with its id."""
        return self.key.id == key.id and self.key.directory_id in (ZERO_UUID, key.directory_id)


class VoterSet(msgspec.Struct, frozen=True):
    """The voters by id. They keep the order of the record or of the config."""

    by_id: Mapping[int, Voter] = MappingProxyType({})

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        return cls(MappingProxyType({voter.key.id: voter for voter in voters}))

    @classmethod
    def static(cls, addresses: Mapping[int, Address], listener: str) -> VoterSet:
        """The voters of controller.quorum.voters: an id and one address each. Their versions are not known,
        so they count as version 0."""
        return cls.of(
            Voter(ReplicaKey(voter_id), MappingProxyType({listener: address}), 0, 0)
            for voter_id, address in addresses.items()
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls.of(
            Voter(
                ReplicaKey(entry.voter_id, entry.voter_directory_id),
                MappingProxyType({e.name: Address(e.host, e.port) for e in entry.endpoints}),
                entry.k_raft_version_feature.min_supported_version,
                entry.k_raft_version_feature.max_supported_version,
            )
            for entry in record.voters
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            voters=[
                VotersRecord.Voter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        VotersRecord.Endpoint(name=name, host=address.host, port=address.port)
                        for name, address in voter.endpoints.items()
                    ],
                    k_raft_version_feature=VotersRecord.KRaftVersionFeature(
                        min_supported_version=voter.min_version, max_supported_version=voter.max_version
                    ),
                )
                for voter in self.by_id.values()
            ]
        )

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def majority(self) -> int:
        """How many of the voters are a majority."""
        return len(self.by_id) // 2 + 1

    def has(self, key: ReplicaKey) -> bool:
        voter = self.by_id.get(key.id)
        return voter is not None and voter.is_replica(key)

    def is_only(self, key: ReplicaKey) -> bool:
        return len(self.by_id) == 1 and self.has(key)

    def replica_keys(self) -> list[ReplicaKey]:
        return [voter.key for voter in self.by_id.values()]

    def endpoints_of(self, voter_id: int) -> Endpoints:
        """The addresses of a voter. Empty if there is no voter with this id."""
        voter = self.by_id.get(voter_id)
        return MappingProxyType({}) if voter is None else voter.endpoints

    def with_voter(self, voter: Voter) -> VoterSet:
        """The set with this voter added, or put in the place of the one with the same id."""
        return VoterSet(MappingProxyType({**self.by_id, voter.key.id: voter}))

    def without(self, key: ReplicaKey) -> VoterSet | None:
        """The set without this voter. None if no voter has exactly this key, or if it is the last one."""
        voter = self.by_id.get(key.id)
        if voter is None or voter.key != key or len(self.by_id) == 1:
            return None
        return VoterSet.of(each for each in self.by_id.values() if each is not voter)

    def differs_from(self, voter: Voter) -> bool:
        """Whether the voter is in the set with other addresses or versions."""
        known = self.by_id.get(voter.key.id)
        return known is not None and known.is_replica(voter.key) and known != voter

    def supports(self, version: int) -> bool:
        return all(voter.min_version <= version <= voter.max_version for voter in self.by_id.values())


NO_VOTERS: Final = VoterSet()


class VoterHistory:
    """The voter sets and kraft.versions of the log, each with the offset of its record.

    Offsets ascend, and the last entries are in force. `voters` and `version` repeat them for speed.
    """

    __slots__ = ("_static", "_versions", "_voters", "version", "voters", "voters_offset")

    def __init__(self, static: VoterSet) -> None:
        self._static = static
        self._voters: list[tuple[int, VoterSet]] = []
        self._versions: list[tuple[int, int]] = []
        self.voters = static
        self.version = 0
        self.voters_offset: int | None = None
        """The offset at which the voters in force were written: -1 if `storage format` wrote them, None if
        they are not written anywhere."""

    def _refresh(self) -> None:
        self.voters_offset, self.voters = self._voters[-1] if self._voters else (None, self._static)
        self.version = self._versions[-1][1] if self._versions else 0

    def begin(self, offset: int, version: int, voters: VotersRecord | None) -> None:
        """The log begins anew at a snapshot that holds everything below `offset`."""
        self._voters = [] if voters is None else [(offset, VoterSet.from_record(voters))]
        self._versions = [(offset, version)] if version else []
        self._refresh()

    def read(self, buffer: ReadBuffer, position: int, base_offset: int) -> None:
        """Takes in a control batch from the end of the log. One that cannot be read ends the process: who
        votes is not known without it."""
        try:
            self._read(buffer, position, base_offset)
        except (ProtocolError, RecordsError) as fault:
            raise InvariantViolated(
                f"the control batch at offset {base_offset} can be read ({fault})"
            ) from fault
        self._refresh()

    def _read(self, buffer: ReadBuffer, position: int, base_offset: int) -> None:
        for number, record in enumerate(read_records(buffer, position, check_crc=False)):
            kind = control_type(record.key)
            if kind is ControlRecordType.KRAFT_VERSION:
                content = decode(KRaftVersionRecord, 0, record.value or b"")
                self._versions.append((base_offset + number, content.k_raft_version))
            elif kind is ControlRecordType.KRAFT_VOTERS:
                voters = VoterSet.from_record(decode(VotersRecord, 0, record.value or b""))
                self._voters.append((base_offset + number, voters))

    def truncate_from_end(self, end_offset: int) -> None:
        """Forgets the voters and versions of records that were truncated."""
        self._voters = [entry for entry in self._voters if entry[0] < end_offset]
        self._versions = [entry for entry in self._versions if entry[0] < end_offset]
        self._refresh()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forgets what lies before a snapshot. The entries that are in force there stay."""
        del self._voters[: _last_before(self._voters, start_offset)]
        del self._versions[: _last_before(self._versions, start_offset)]

    def at(self, end_offset: int) -> tuple[int, VoterSet | None]:
        """The kraft.version, and the voters or None, that are in force after the records below end_offset.
        They are written into a snapshot."""
        versions = [version for offset, version in self._versions if offset < end_offset]
        voters = [voters for offset, voters in self._voters if offset < end_offset]
        return versions[-1] if versions else 0, voters[-1] if voters else None

    def undecided(self, end_offset: int) -> list[VoterSet]:
        """The sets of voters of which one is in force if it is only known that the log below end_offset is
        committed: the last one below it, and all behind it."""
        return [voters for _, voters in self._voters[_last_before(self._voters, end_offset) :]]


def _last_before(entries: list[tuple[int, VoterSet]] | list[tuple[int, int]], start_offset: int) -> int:
    """The index of the last entry below the offset; 0 if there is none."""
    before = sum(1 for entry in entries if entry[0] < start_offset)
    return max(before - 1, 0)
