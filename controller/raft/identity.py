"""The small names that all of the quorum speaks with: who a replica is, where it listens, a place in the log.

A replica of the metadata log is an id *and* the directory that its log lives in (KIP-853): the same id with
an empty disk has forgotten what it voted, and is another replica. Quorums of kraft.version 0 know ids alone;
the directory is zero there, and zero matches every directory.
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
"""No replica: the leader of an epoch that has none (yet), the vote that was not given."""

EARLY_EPOCHS: Final = 1 << 30
"""An epoch below this is believed, however far it is ahead."""

LARGEST_LEAP: Final = 1_000
"""Above, nobody is believed who is more elections ahead. Epochs are int32, and kept on disk: a replica that
one request had brought to the last of them could never lead again (Apache Kafka ends in that election)."""


class ReplicaKey(NamedTuple):
    """directory_id: 16 bytes, zero if it is not known."""

    id: int
    directory_id: bytes = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """The same replica, as far as both say who they are."""
        return self.id == other.id and (
            self.directory_id == other.directory_id
            or self.directory_id == ZERO_UUID
            or other.directory_id == ZERO_UUID
        )


class Address(NamedTuple):
    """Where a listener can be reached."""

    host: str
    port: int


class Peer(NamedTuple):
    """Whom a request is for. A bootstrap server, whose id nobody knows yet, has an id of -2 or below; the
    address is then what counts."""

    id: int
    host: str
    port: int


class LeaderAndEpoch(NamedTuple):
    """leader_id is -1 while nobody leads the epoch, as far as this replica knows."""

    leader_id: int
    epoch: int


class SnapshotId(NamedTuple):
    """Names a snapshot: it holds everything below end_offset, the last of it written in epoch.

    (0, 0) is the one that `storage format` writes: it holds the first voters and no state.
    """

    end_offset: int
    epoch: int
