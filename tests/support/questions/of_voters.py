"""Questions about who votes in the metadata quorum. None of them changes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from protocol.codec.message import Message
from protocol.messages.add_raft_voter import AddRaftVoterRequest
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from protocol.registry import ApiKey
from tests.support.questions.question import NOBODY, Case, World

K: Final = ApiKey
ZERO: Final = b"\0" * 16


def _add(
    voter_id: int, directory_id: bytes = NOBODY, *listeners: str, cluster: str | None = None
) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        where = [AddRaftVoterRequest.Listener(name, "localhost", 9) for name in listeners]
        return AddRaftVoterRequest(cluster, 10_000, voter_id, directory_id, where)

    return request


def _remove(
    voter_id: int, directory_id: bytes = NOBODY, *, cluster: str | None = None
) -> Callable[[World, int], Message]:
    return lambda world, version: RemoveRaftVoterRequest(cluster, voter_id, directory_id)


CASES: Final = (
    Case("add a voter of another cluster", K.ADD_RAFT_VOTER, _add(7, NOBODY, "CONTROLLER", cluster="other")),
    Case("add a voter that cannot be", K.ADD_RAFT_VOTER, _add(-1, NOBODY, "CONTROLLER")),
    Case("add a voter without a directory", K.ADD_RAFT_VOTER, _add(7, ZERO, "CONTROLLER")),
    Case("add a voter that nobody can reach", K.ADD_RAFT_VOTER, _add(7)),
    Case("add a voter by another listener", K.ADD_RAFT_VOTER, _add(7, NOBODY, "OTHER")),
    Case("remove a voter of another cluster", K.REMOVE_RAFT_VOTER, _remove(1, cluster="other")),
    Case("remove a voter that cannot be", K.REMOVE_RAFT_VOTER, _remove(-1)),
    Case("remove a voter without a directory", K.REMOVE_RAFT_VOTER, _remove(1, ZERO)),
)
