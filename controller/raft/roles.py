"""What a replica remembers in each role; all of it is gone with the role.

Deadlines are in the node's monotonic milliseconds; NEVER is later than all of them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from controller.raft.identity import Address, ReplicaKey, SnapshotId
from controller.raft.voters import VoterSet
from protocol.codec.message import Message
from protocol.messages.fetch import FetchRequest

__all__ = [
    "NEVER",
    "AddingVoter",
    "Candidate",
    "DelayedRaftFetch",
    "Download",
    "Follower",
    "Leader",
    "Progress",
    "Prospective",
    "Resigned",
    "RoleState",
    "Tally",
    "Unattached",
    "VoterOperation",
]

NEVER: Final = 1 << 62
UNKNOWN: Final = -1


class Unattached(msgspec.Struct):
    """The replica knows no leader. At election_deadline_ms a voter begins to ask for votes; observers have no
    such deadline."""

    election_deadline_ms: int


class Tally(msgspec.Struct):
    """The votes of an election. Every voter of the moment in which it began is in one of the three sets, and
    none changes its mind."""

    voters: VoterSet
    granted: set[int]
    refused: set[int]

    @classmethod
    def begun(cls, voters: VoterSet, nominee: ReplicaKey) -> Tally:
        """A new election. The replica votes for itself, if it is a voter."""
        return cls(voters, {nominee.id} if voters.has(nominee) else set(), set())

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        """Whether the voters that have not answered cannot make a majority any more."""
        return len(self.voters) - len(self.refused) < self.voters.majority

    def unrecorded(self) -> list[ReplicaKey]:
        """The voters that are still to be asked, in the order of the voters."""
        return [
            key
            for key in self.voters.replica_keys()
            if key.id not in self.granted and key.id not in self.refused
        ]


class Prospective(msgspec.Struct):
    """The replica asks whether it would win an election. rounds: how many elections in a row this one is,
    from 1."""

    tally: Tally
    election_deadline_ms: int
    rounds: int


class Candidate(msgspec.Struct):
    """The replica asks for votes. backoff_deadline_ms: after a lost election, the time at which the next one
    is prepared; NEVER before that."""

    tally: Tally
    election_deadline_ms: int
    rounds: int
    backoff_deadline_ms: int = NEVER


class Progress(msgspec.Struct):
    """How far a replica has fetched, as the leader knows it. Times are -1 before the first fetch.

    end_offset: everything below it is durable on the replica, and equal to the leader's log; -1 before that
    is known.
    """

    key: ReplicaKey
    end_offset: int = UNKNOWN
    last_fetch_ms: int = UNKNOWN
    last_caught_up_ms: int = UNKNOWN
    leader_end_at_last_fetch: int = UNKNOWN


class DelayedRaftFetch(msgspec.Struct):
    """A fetch at the end of the log that waits for something new."""

    token: object
    version: int
    listener: str
    request: FetchRequest
    replica: ReplicaKey
    deadline_ms: int


class AddingVoter(msgspec.Struct):
    """What is known of the voter that is being added, until its record is written."""

    key: ReplicaKey
    endpoints: dict[str, Address]
    ack_when_committed: bool


class VoterOperation(msgspec.Struct):
    """The change of voters that is under way; there is at most one. offset: that of its VotersRecord, -1
    until it is written. token: None if it has been answered already."""

    token: object | None
    response: type[Message]
    deadline_ms: int
    offset: int = UNKNOWN
    adding: AddingVoter | None = None


class Leader(msgspec.Struct):
    """voters holds exactly the voters in force. check_quorum_deadline_ms is put off each time when a majority
    has fetched since it was put off last; fetched holds the voters that have fetched since then."""

    epoch_start_offset: int
    counted: VoterSet
    """The set of voters whose progress `voters` holds."""
    voters: dict[int, Progress]
    observers: dict[ReplicaKey, Progress]
    check_quorum_deadline_ms: int
    begin_epoch_deadline_ms: int
    fetched: set[int]
    waiting: list[DelayedRaftFetch]
    is_established: bool = False
    """Whether a record of its own epoch is committed, and so everything before it."""
    wants_to_resign: bool = False
    told: tuple[int, int, bool] = (-1, -1, False)
    """The log end, the high watermark and `is_established` at the time when all waiting fetches were answered
    last."""
    idle: tuple[int, int] = (0, 0)
    """The last range of offsets in which all records change nothing: its first offset, and the offset behind
    it."""
    operation: VoterOperation | None = None
    static_voters: VoterSet | None = None
    """With kraft.version 0, the voters as they will be written into the log, with the directories that they
    have told."""

    def has_news(self, known_high_watermark: int, high_watermark: int) -> bool:
        """Whether something is committed of which a replica that knows the lower high watermark should hear
        at once."""
        begun, ended = self.idle
        return known_high_watermark < high_watermark and not (
            begun <= known_high_watermark and high_watermark <= ended
        )


class Download(msgspec.Struct):
    """A snapshot that is being fetched. position: the number of bytes that have been received."""

    snapshot: SnapshotId
    position: int = 0
    is_whole: bool = False


class Follower(msgspec.Struct):
    """fetch_deadline_ms is put off by fetch_timeout_ms with each successful fetch from the leader."""

    fetch_timeout_ms: int
    fetch_deadline_ms: int
    voter_update_deadline_ms: int
    has_fetched: bool = False
    """Whether the leader has answered a fetch in this epoch. It is then alive, and pre-votes are refused."""
    is_caught_up: bool = False
    """Whether this log had, when the leader was last heard of, everything of which it says that it is
    committed."""
    download: Download | None = None
    has_updated_voter: bool = False
    """Whether the leader knows the directory and the addresses of this replica (kraft.version 0)."""


class Resigned(msgspec.Struct):
    """successors: the voters, the one with the longest log first. unacknowledged: the voters that have not
    acknowledged the resignation."""

    election_deadline_ms: int
    successors: list[ReplicaKey]
    unacknowledged: list[int]


RoleState: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned
