"""Names that all of the quorum uses: the identity of a replica, its address, and a place in the log.

A replica of the metadata log is an id *and* the directory that its log lives in (KIP-853): the same id with
an empty disk has forgotten its votes, and is another replica. Quorums of kraft.version 0 know ids alone; the
directory is zero there, and zero matches every directory.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from protocol.values import ZERO_UUID

__all__ = [
    "EARLY_EPOCHS",
    "LARGEST_LEAP",
    "NOBODY",
    "Address",
    "LeaderAndEpoch",
    "Peer",
    "ReplicaKey",
    "SnapshotId",
]

NOBODY: Final = -1
"""Stands for no replica: the leader of an epoch that has none yet, or a vote that was not given."""

EARLY_EPOCHS: Final = 1 << 30
"""A peer is believed in an epoch below this, however far that is ahead of the own epoch."""

LARGEST_LEAP: Final = 1_000
"""In later epochs no peer is believed that is more elections ahead than this. Epochs are int32 and kept on
disk. A replica that one request had brought to the last of them could never lead again (Apache Kafka's
process ends in that election)."""


class ReplicaKey(NamedTuple):
    """The id of a replica and of its directory. directory_id has 16 bytes, which are zero if it is not
    known."""

    id: int
    directory_id: bytes = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Whether both name the same replica, as far as both are known."""
        return self.id == other.id and (
            self.directory_id == other.directory_id
            or self.directory_id == ZERO_UUID
            or other.directory_id == ZERO_UUID
        )


class Address(NamedTuple):
    """The address at which a listener is reached."""

    host: str
    port: int


class Peer(NamedTuple):
    """The replica to which a request goes. A bootstrap server, whose id is not known yet, has an id of -2 or
    below and is told apart by its address."""

    id: int
    host: str
    port: int


class LeaderAndEpoch(NamedTuple):
    """leader_id is -1 while the epoch has no leader that this replica knows."""

    leader_id: int
    epoch: int


class SnapshotId(NamedTuple):
    """Names a snapshot: it holds everything below end_offset, the last of it written in epoch.

    (0, 0) is the one that `storage format` writes: it holds the first voters and no state.
    """

    end_offset: int
    epoch: int
