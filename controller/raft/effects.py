"""What the node wants done, as data: one `Ready` for each input.

A Ready is executed from its first field to its last:

    hard_state       replace the quorum-state file; go on when it is durable
    log              change the log, in order; appends are written and not yet synced, all else is durable
    sync             if not 0: begin a sync of the log; tell `RaftNode.log_synced(sync)` when it has ended
    messages         requests to other replicas and answers to theirs, in order
    high_watermark   if not None: everything below is committed; apply it
    leader           if not None: announce it, after what is committed has been applied
    wake_at_ms       call `RaftNode.tick` then, or earlier, unless another input gives a newer time

While a hard state or a log operation other than an append is under way, no input may be given to the node: it
believes that the effects of its last Ready are there. A sync alone runs beside it. A crash may come between
any two effects, and within one; `RaftNode` is then made anew from what is on the disk.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from controller.raft.identity import NOBODY, LeaderAndEpoch, Peer, ReplicaKey, SnapshotId
from protocol.codec.message import Message

__all__ = [
    "AdvanceLogStart",
    "Answer",
    "Append",
    "HardState",
    "InstallSnapshot",
    "LogOperation",
    "Outgoing",
    "Ready",
    "Request",
    "SnapshotChunk",
    "Truncate",
]


class HardState(msgspec.Struct, frozen=True, gc=False):
    """What a replica may not forget: its epoch, whom it voted for in it, and who leads it.

    epoch never falls; within an epoch, leader and vote go from nobody to somebody and stay.
    """

    epoch: int = 0
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None


class Append(msgspec.Struct, frozen=True, gc=False):
    """Write these batches at the end of the log. base_offset is the log's end before, end_offset after."""

    base_offset: int
    end_offset: int
    records: bytes
    """Whole batches, with offsets, epochs and checksums as they are to lie there."""


class Truncate(msgspec.Struct, frozen=True, gc=False):
    """Cut off everything from `offset` on; the log ends there. offset >= high watermark."""

    offset: int


class SnapshotChunk(msgspec.Struct, frozen=True, gc=False):
    """Put these bytes of the snapshot that is being fetched into its `.part` file, which position 0 makes
    anew. Need not be durable before the InstallSnapshot."""

    snapshot: SnapshotId
    position: int
    content: bytes


class InstallSnapshot(msgspec.Struct, frozen=True, gc=False):
    """The snapshot is whole: check it, sync it, give it its name, then drop the whole log and begin it anew
    at snapshot.end_offset. Then call `RaftNode.snapshot_installed` with what is in it, or with None if it
    is no whole snapshot: nothing has then been changed, and the `.part` file goes."""

    snapshot: SnapshotId


class AdvanceLogStart(msgspec.Struct, frozen=True, gc=False):
    """The log now begins at snapshot.end_offset: what lies before, and older snapshots, may be deleted."""

    snapshot: SnapshotId


LogOperation: TypeAlias = Append | Truncate | SnapshotChunk | InstallSnapshot | AdvanceLogStart


class Request(msgspec.Struct, frozen=True, gc=False):
    """Ask a peer. Its answer goes to `RaftNode.receive_response(request_id, …)`, anything else that ends it
    (no connection, closed, no answer within timeout_ms) to `RaftNode.request_failed(request_id, …)`: exactly
    one of the two, once; neither is needed after a crash of this node.

    The message is the newest version's; the driver sends the newest that the peer can read, without the
    fields that may be ignored.
    """

    to: Peer
    request_id: int
    message: Message
    timeout_ms: int


class Answer(msgspec.Struct, frozen=True, gc=False):
    """Answer the request that came in with this token (`RaftNode.receive_request`)."""

    token: object
    message: Message


Outgoing: TypeAlias = Request | Answer


class Ready(msgspec.Struct, gc=False):
    """See the head of this file. Belongs to the driver; the node keeps no reference to it."""

    hard_state: HardState | None
    log: list[LogOperation]
    sync: int
    """Covers all log operations up to and with this Ready; numbers grow. Reporting a later one covers the
    earlier ones, so that one fdatasync may serve several."""
    messages: list[Outgoing]
    high_watermark: int | None
    leader: LeaderAndEpoch | None
    wake_at_ms: int
