"""The voters with whom a quorum begins, as `storage format --initial-controllers` is told (KIP-853).

0@example.com:8082:JEXY6aqzQY-32P5TStzaFg,1@[::1]:8083:MvDxzVmcRsaTz33bUuRU6A
│ │                 └ directory id, which the node's own metadata directory then gets
│ └ where the first of its controller listeners is
└ node.id
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from controller.raft.identity import Address, ReplicaKey
from controller.raft.voters import Voter
from protocol.values import uuid_from_text

__all__ = ["MalformedVoters", "parse_initial_voters"]

_VOTER: Final = re.compile(r"(\d+)@(\[[^\]]+\]|[^:\[\]]+):(\d+):([A-Za-z0-9_-]{22})")
LARGEST_PORT: Final = 65535


class MalformedVoters(Exception):
    """The text is not a list of voters. The message is one line for the operator."""


def parse_initial_voters(text: str, listener: str) -> Sequence[Voter]:
    """The voters in the order of the text. Raises MalformedVoters."""
    voters: dict[int, Voter] = {}
    for entry in text.split(","):
        match = _VOTER.fullmatch(entry.strip())
        if match is None or int(match[3]) > LARGEST_PORT:
            raise MalformedVoters(
                f"Unable to parse {entry.strip()!r} as a controller: it must be id@hostname:port:directory"
            )
        node_id = int(match[1])
        if node_id in voters:
            raise MalformedVoters(f"Node id {node_id} was specified twice")
        address = Address(match[2].strip("[]"), int(match[3]))
        key = ReplicaKey(node_id, uuid_from_text(match[4]))
        voters[node_id] = Voter(key, MappingProxyType({listener: address}))
    return tuple(voters.values())
