"""What a raft node is told once: who it is, where it listens, how long it waits. Names are Kafka's
settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from controller.raft.identity import Address, ReplicaKey

__all__ = ["MAX_FETCH_WAIT_MS", "RaftConfig"]

MAX_FETCH_WAIT_MS: Final = 500
"""How long a follower lets its fetch wait at the leader for something new."""


class RaftConfig(msgspec.Struct, frozen=True):
    """Times in milliseconds. All collections are ordered, and the order counts (it reaches the wire)."""

    node: ReplicaKey
    cluster_id: str
    listener: str
    """The listener name by which controllers talk to each other: the first of controller.listener.names."""
    endpoints: Mapping[str, Address] = MappingProxyType({})
    """Where this node listens, by listener name; empty for a broker, which nobody asks."""
    static_voters: Mapping[int, Address] = MappingProxyType({})
    """controller.quorum.voters; empty when the log knows the voters (kraft.version 1)."""
    bootstrap_servers: tuple[Address, ...] = ()
    """controller.quorum.bootstrap.servers: whom to ask while the leader is unknown."""
    can_be_voter: bool = True
    """False for a broker: an observer for ever."""
    auto_join: bool = False
    """controller.quorum.auto.join.enable: an observing controller asks to become a voter (KIP-853, 1186)."""
    min_kraft_version: int = 0
    max_kraft_version: int = 1
    election_timeout_ms: int = 1_000
    """controller.quorum.election.timeout.ms: a candidacy lasts this long and up to as much again."""
    election_backoff_max_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    """A follower that reaches no leader for so long stands for election; a leader that no majority fetches
    from for one and a half times as long resigns (check quorum)."""
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20

    @property
    def check_quorum_timeout_ms(self) -> int:
        return self.fetch_timeout_ms * 3 // 2
