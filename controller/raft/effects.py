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
    "DropPart",
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
    """What a replica must not forget: its epoch, the replica for which it voted in it, and the leader of it.

    epoch never falls. Within an epoch, leader and vote change once, from nobody to somebody.
    """

    epoch: int = 0
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None


class Append(msgspec.Struct, frozen=True, gc=False):
    """Write these batches at the end of the log. base_offset is the log end offset before that, end_offset
    the one after it."""

    base_offset: int
    end_offset: int
    records: bytes
    """Whole batches, with the offsets, epochs and checksums that they have in the log."""


class Truncate(msgspec.Struct, frozen=True, gc=False):
    """Truncate the log to `offset`, which is not below the high watermark."""

    offset: int


class SnapshotChunk(msgspec.Struct, frozen=True, gc=False):
    """Write these bytes of the snapshot that is being fetched into its `.part` file. Position 0 creates the
    file anew. They need not be durable before the InstallSnapshot."""

    snapshot: SnapshotId
    position: int
    content: bytes


class InstallSnapshot(msgspec.Struct, frozen=True, gc=False):
    """The snapshot was fetched completely. Check it, sync it, rename it, then remove the whole log and begin
    it anew at snapshot.end_offset. Then call `RaftNode.snapshot_installed` with the snapshot's control
    records. If the snapshot is broken, change nothing, remove the `.part` file, and call it with None."""

    snapshot: SnapshotId


class DropPart(msgspec.Struct, frozen=True, gc=False):
    """Remove the `.part` file of this snapshot, which is not fetched any further."""

    snapshot: SnapshotId


class AdvanceLogStart(msgspec.Struct, frozen=True, gc=False):
    """The log now begins at snapshot.end_offset: records before it and older snapshots may be deleted."""

    snapshot: SnapshotId


LogOperation: TypeAlias = Append | Truncate | SnapshotChunk | DropPart | InstallSnapshot | AdvanceLogStart


class Request(msgspec.Struct, frozen=True, gc=False):
    """Send a request to a peer. Its answer goes to `RaftNode.receive_response(request_id, …)`. If there will
    be none (no connection, connection closed, no answer within timeout_ms),
    `RaftNode.request_failed(request_id, …)` is called. Exactly one of the two is called once; after a crash
    of this node neither is needed.

    The message is in the newest version. The driver sends the newest version that the peer can read, without
    the fields that may be ignored.
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
    """The effects of one input (see the head of this file). It belongs to the driver; the node keeps no
    reference to it."""

    hard_state: HardState | None
    log: list[LogOperation]
    sync: int
    """The number of the sync that covers all log operations up to this Ready. Numbers grow. To report a later
    sync covers the earlier ones, so one fdatasync may serve several."""
    messages: list[Outgoing]
    high_watermark: int | None
    leader: LeaderAndEpoch | None
    wake_at_ms: int
