"""The `quorum-state` file: what a voter must not forget between two lives, one line of JSON.

    data_version 1, kraft.version 1 (KIP-853): the voters are in the log
    {"leaderId":1,"leaderEpoch":4,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

    data_version 0, kraft.version 0: the voters are in the config and repeated here
    {"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,
     "currentVoters":[{"voterId":1}],"data_version":0}

leaderId and votedId are -1 for nobody, never both set in our own files. It is replaced atomically before the
node acts on what it says.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from config.ports import Files
from protocol.values import ZERO_UUID, uuid_from_text, uuid_to_text

__all__ = [
    "QUORUM_STATE_FILE",
    "MalformedQuorumState",
    "QuorumStateFile",
    "decode",
    "encode",
    "read",
    "write",
]

QUORUM_STATE_FILE: Final = "quorum-state"
NOBODY: Final = -1
LATEST_DATA_VERSION: Final = 1


class MalformedQuorumState(Exception):
    """The quorum-state file does not hold what it must. The text names the file and what is wrong."""


class QuorumStateFile(msgspec.Struct, frozen=True):
    """The content of the file. A fresh voter has leader_epoch 0 and no leader."""

    leader_epoch: int = 0
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: bytes = ZERO_UUID
    data_version: int = LATEST_DATA_VERSION
    voters: tuple[int, ...] = ()


def encode(state: QuorumStateFile) -> bytes:
    """Encodes the file as Kafka does: the keys in this order, without blanks and without a newline."""
    if state.data_version == 0:
        content: dict[str, object] = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in state.voters],
        }
    else:
        content = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": uuid_to_text(state.voted_directory_id),
        }
    content["data_version"] = state.data_version
    return json.dumps(content, separators=(",", ":")).encode("ascii")


def write(files: Files, directory: str, state: QuorumStateFile) -> None:
    """Replaces the file, which is synced when this returns."""
    files.write_atomically(f"{directory}/{QUORUM_STATE_FILE}", encode(state))


def read(files: Files, directory: str) -> QuorumStateFile | None:
    """Reads the file. None for a voter that has never taken part in an election. Raises MalformedQuorumState
    and OSError."""
    path = f"{directory}/{QUORUM_STATE_FILE}"
    return decode(files.read_bytes(path), path) if files.exists(path) else None


def decode(data: bytes, path: str) -> QuorumStateFile:
    """Decodes the file. Raises MalformedQuorumState, which names the file by its path."""
    try:
        content = json.loads(data)
        version = int(content["data_version"])
        if not 0 <= version <= LATEST_DATA_VERSION:
            raise ValueError(f"data_version {version} is not one of 0 and 1")
        voted_directory = content.get("votedDirectoryId")
        return QuorumStateFile(
            leader_epoch=int(content["leaderEpoch"]),
            leader_id=int(content.get("leaderId", NOBODY)),
            voted_id=int(content.get("votedId", NOBODY)),
            voted_directory_id=uuid_from_text(voted_directory) if voted_directory else ZERO_UUID,
            data_version=version,
            voters=tuple(int(voter["voterId"]) for voter in content.get("currentVoters") or ()),
        )
    except (ValueError, KeyError, TypeError) as fault:
        raise MalformedQuorumState(f"{path} is no quorum-state file: {fault}") from fault
