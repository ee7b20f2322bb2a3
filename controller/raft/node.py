"""One replica of the metadata quorum: every input is a method, every method returns a `Ready`.

Requests and responses are the wire's own messages (Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch,
FetchSnapshot, ApiVersions, AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter); records are batches as they lie in
the log. `now_ms` is monotonic and never falls; `wall_offset_ms`, which the driver may set at any time, makes
wall time of it for what leaves the node as a timestamp.
"""

from __future__ import annotations

from collections.abc import Sequence

from config.ports import Chance
from controller.raft.config import RaftConfig
from controller.raft.effects import HardState, Ready
from controller.raft.identity import LeaderAndEpoch, ReplicaKey, SnapshotId
from controller.raft.log_port import RaftLog, SnapshotControl
from protocol.codec.message import Message
from protocol.errors import ErrorCode

__all__ = ["AppendRefused", "RaftNode", "VersionChangeRefused"]


class AppendRefused(Exception):
    """This node does not lead that epoch (any more); nothing has been appended."""


class VersionChangeRefused(Exception):
    """kraft.version cannot be raised now; `error` is the code for the answer."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


class RaftNode:
    """The state of one replica in one life. After a crash a new one is made from what the disk has.

    May be read at any time (and by the simulator's checkers after every event): the properties below.
    """

    wall_offset_ms: int

    def __init__(self, config: RaftConfig, log: RaftLog, hard_state: HardState | None, chance: Chance) -> None:
        """hard_state: from quorum-state, None without the file. Reads the log's control records.

        Raises StartRefused for what an operator must put right (voters of the file and of the config that
        differ, no voters and nobody to ask)."""
        raise NotImplementedError

    # What it is

    @property
    def role(self) -> Role: ...  # Role.UNATTACHED, PROSPECTIVE, CANDIDATE, LEADER, FOLLOWER, RESIGNED

    @property
    def is_observer(self) -> bool: ...  # no voter as far as its own log (or config) knows

    @property
    def leader(self) -> LeaderAndEpoch: ...

    @property
    def voted(self) -> ReplicaKey | None: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def synced_offset(self) -> int: ...  # below it everything was reported durable by log_synced

    @property
    def high_watermark(self) -> int: ...  # -1 while unknown

    @property
    def voters(self) -> VoterSet: ...  # the newest in the log, committed or not

    @property
    def kraft_version(self) -> int: ...

    # What happens to it

    def start(self, now_ms: int) -> Ready:
        """The first input of a life."""

    def tick(self, now_ms: int) -> Ready:
        """Time has passed: what was due at Ready.wake_at_ms happens, if it is due."""

    def receive_request(
        self, token: object, message: Message, now_ms: int, *, version: int | None = None, listener: str = ""
    ) -> Ready:
        """A peer, an observer or an admin asks. The answer comes with `token` in this Ready or in a later
        one, exactly once (or never, if the node ends). version: of the API, None the newest; listener: the
        name of the one that it came by, "" the quorum's own."""

    def receive_response(self, request_id: int, message: Message, now_ms: int) -> Ready:
        """The answer to a request of this life; an unknown id is ignored."""

    def request_failed(self, request_id: int, error: ErrorCode, now_ms: int) -> Ready:
        """No answer will come. error: BROKER_NOT_AVAILABLE, NETWORK_EXCEPTION, REQUEST_TIMED_OUT, or
        UNSUPPORTED_VERSION if the peer cannot read the message."""

    def log_synced(self, sync: int, now_ms: int) -> Ready:
        """All that was asked for up to that Ready.sync is durable."""

    def snapshot_installed(
        self, snapshot: SnapshotId, control: SnapshotControl | None, now_ms: int
    ) -> Ready:
        """The outcome of an InstallSnapshot; None: it was broken."""

    # What the controller wants of it

    def append(self, epoch: int, batch: bytearray, now_ms: int) -> Ready:
        """One batch of the state machine, whose base offset and leader epoch are patched in here: the
        offset is `end_offset` before the call. Raises AppendRefused."""

    def snapshot_taken(self, snapshot: SnapshotId, now_ms: int) -> Ready:
        """The state machine's snapshot is durable under its name. snapshot.end_offset <= high watermark,
        at the end of a batch of snapshot.epoch."""

    def advance_log_start(self, snapshot: SnapshotId, now_ms: int) -> Ready:
        """The log before this snapshot is not kept any longer (the driver's retention says so). Gives an
        AdvanceLogStart."""

    def upgrade_kraft_version(self, epoch: int, version: int, *, validate_only: bool, now_ms: int) -> Ready:
        """UpdateFeatures for kraft.version, at the leader: 0 -> 1 writes the voters into the log. Raises
        VersionChangeRefused, AppendRefused."""

    def resign(self, epoch: int, now_ms: int) -> Ready:
        """The state machine cannot lead: let somebody else. Nothing if the epoch is over."""

    def shut_down(self, timeout_ms: int, now_ms: int) -> Ready:
        """A clean end: a leader tells the others whom it prefers, and stays until somebody else leads or the
        time is over. Then `is_shut_down`, and no more effects."""

    @property
    def is_shut_down(self) -> bool: ...
