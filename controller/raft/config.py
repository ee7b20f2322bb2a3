"""The configuration of a raft node: its id, its addresses and its timeouts. Names are those of Kafka's
settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from controller.raft.identity import Address, ReplicaKey

__all__ = ["MAX_FETCH_WAIT_MS", "RaftConfig"]

MAX_FETCH_WAIT_MS: Final = 500
"""The time for which the leader may hold a follower's fetch until there is something new."""


class RaftConfig(msgspec.Struct, frozen=True):
    """Times are in milliseconds. All collections are ordered, and their order matters because it reaches the
    wire."""

    node: ReplicaKey
    cluster_id: str
    listener: str
    """The listener name by which controllers talk to each other: the first of controller.listener.names."""
    endpoints: Mapping[str, Address] = MappingProxyType({})
    """The addresses at which this node listens, by listener name. A broker has none, because nobody sends it
    requests of the quorum."""
    static_voters: Mapping[int, Address] = MappingProxyType({})
    """The voters of controller.quorum.voters. It is empty if the voters are in the log (kraft.version 1)."""
    bootstrap_servers: tuple[Address, ...] = ()
    """controller.quorum.bootstrap.servers: the addresses that are asked while the leader is unknown."""
    can_be_voter: bool = True
    """False for a broker, which always stays an observer."""
    auto_join: bool = False
    """controller.quorum.auto.join.enable: a controller that is an observer asks to become a voter (KIP-853,
    KIP-1186)."""
    min_kraft_version: int = 0
    max_kraft_version: int = 1
    election_timeout_ms: int = 1_000
    """controller.quorum.election.timeout.ms: an election may take this long, and a random time of at most as
    much again."""
    election_backoff_max_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    """controller.quorum.fetch.timeout.ms: a follower that reaches no leader for so long begins an election. A
    leader resigns if no majority has fetched from it for one and a half times as long (check quorum)."""
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20

    @property
    def check_quorum_timeout_ms(self) -> int:
        return self.fetch_timeout_ms * 3 // 2
