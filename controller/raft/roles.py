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
    """Knows no leader. At election_deadline_ms a voter begins to ask for votes; observers have none."""

    election_deadline_ms: int


class Tally(msgspec.Struct):
    """An election as its nominee counts it: every voter of the moment when it began is in one of the three,
    and nobody changes his mind."""

    voters: VoterSet
    granted: set[int]
    refused: set[int]

    @classmethod
    def begun(cls, voters: VoterSet, nominee: ReplicaKey) -> Tally:
        """It votes for itself, if it has a vote."""
        return cls(voters, {nominee.id} if voters.has(nominee) else set(), set())

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        """Those who have not answered cannot make a majority any more."""
        return len(self.voters) - len(self.refused) < self.voters.majority

    def unrecorded(self) -> list[ReplicaKey]:
        """Who is still to be asked, in the voters' order."""
        return [
            key
            for key in self.voters.replica_keys()
            if key.id not in self.granted and key.id not in self.refused
        ]


class Prospective(msgspec.Struct):
    """rounds: how many elections in a row this one is, from 1."""

    tally: Tally
    election_deadline_ms: int
    rounds: int


class Candidate(msgspec.Struct):
    """backoff_deadline_ms: not NEVER once the election is lost: then a new one is prepared."""

    tally: Tally
    election_deadline_ms: int
    rounds: int
    backoff_deadline_ms: int = NEVER


class Progress(msgspec.Struct):
    """How far a replica is, as the leader knows it. Times are -1 before the first fetch.

    end_offset: everything below is durable there, and equal to the leader's log; -1 before that is known.
    """

    key: ReplicaKey
    end_offset: int = UNKNOWN
    last_fetch_ms: int = UNKNOWN
    last_caught_up_ms: int = UNKNOWN
    leader_end_at_last_fetch: int = UNKNOWN


class DelayedRaftFetch(msgspec.Struct):
    """A fetch at the end of the log that waits for news."""

    token: object
    version: int
    listener: str
    request: FetchRequest
    replica: ReplicaKey
    deadline_ms: int


class AddingVoter(msgspec.Struct):
    """What is known of the voter to be added, until its record is written."""

    key: ReplicaKey
    endpoints: dict[str, Address]
    ack_when_committed: bool


class VoterOperation(msgspec.Struct):
    """The one voter change that is under way. offset: of its VotersRecord, -1 while it is not written;
    token None: it has been answered already."""

    token: object | None
    response: type[Message]
    deadline_ms: int
    offset: int = UNKNOWN
    adding: AddingVoter | None = None


class Leader(msgspec.Struct):
    """voters has exactly the voters in force. check_quorum_deadline_ms is put off each time when a majority
    has fetched since it was; fetched has the voters that did."""

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
    """A record of its own epoch is committed, and so everything before it."""
    wants_to_resign: bool = False
    told: tuple[int, int, bool] = (-1, -1, False)
    """(log end, high watermark, established) when all waiting fetches were answered last."""
    idle: tuple[int, int] = (0, 0)
    """From the one offset to before the other all records change nothing: the last such run."""
    operation: VoterOperation | None = None
    static_voters: VoterSet | None = None
    """With kraft.version 0: the voters as they will be written, with the directories that they have told."""

    def has_news(self, known_high_watermark: int, high_watermark: int) -> bool:
        """Whether something is committed that who knows of the lower one should hear of at once."""
        begun, ended = self.idle
        return known_high_watermark < high_watermark and not (
            begun <= known_high_watermark and high_watermark <= ended
        )


class Download(msgspec.Struct):
    """A snapshot on its way; position: so many bytes are here."""

    snapshot: SnapshotId
    position: int = 0
    is_whole: bool = False


class Follower(msgspec.Struct):
    """fetch_deadline_ms is put off by fetch_timeout_ms with each successful fetch from the leader."""

    fetch_timeout_ms: int
    fetch_deadline_ms: int
    voter_update_deadline_ms: int
    has_fetched: bool = False
    """The leader answered in this epoch: it is alive, and pre-votes are refused."""
    download: Download | None = None
    has_updated_voter: bool = False
    """The leader knows our directory and addresses (kraft.version 0)."""


class Resigned(msgspec.Struct):
    """successors: the voters, the one with the longest log first. unacknowledged: who does not know yet."""

    election_deadline_ms: int
    successors: list[ReplicaKey]
    unacknowledged: list[int]


RoleState: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned
