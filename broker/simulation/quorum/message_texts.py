"""Messages of the quorum in one line each, for transcripts that people read and compare.

Only what the quorum's rules look at is said; what has its usual value is left out.
"""

from __future__ import annotations

from controller.raft.identity import ReplicaKey
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.records.header import headers

__all__ = ["in_words"]


def in_words(message: Message) -> str:
    """`Vote epoch=4 candidate=n2 log=17/3`: offsets with their epochs after the slash."""
    match message:
        case VoteRequest():
            return _vote(message)
        case VoteResponse():
            return _vote_answer(message)
        case FetchRequest():
            return _fetch(message)
        case FetchResponse():
            return _fetch_answer(message)
        case FetchSnapshotRequest() | FetchSnapshotResponse():
            return _snapshot(message)
        case BeginQuorumEpochRequest():
            partition = message.topics[0].partitions[0]
            return f"BeginQuorumEpoch epoch={partition.leader_epoch} leader=n{partition.leader_id}"
        case EndQuorumEpochRequest():
            ended = message.topics[0].partitions[0]
            names = ",".join(f"n{each.candidate_id}" for each in ended.preferred_candidates)
            return f"EndQuorumEpoch epoch={ended.leader_epoch} leader=n{ended.leader_id} successors={names}"
        case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
            return _quorum_answer(message)
    return _of_operators(message)


def _name(message: Message) -> str:
    return type(message).__name__.removesuffix("Request").removesuffix("Response")


def _error(code: int) -> str:
    return "" if code == 0 else f" {ErrorCode(code).name}"


def _whose(leader_id: int, epoch: int) -> str:
    return f" leader={f'n{leader_id}' if leader_id >= 0 else 'none'} epoch={epoch}"


def _vote(message: VoteRequest) -> str:
    partition = message.topics[0].partitions[0]
    return (
        f"{'PreVote' if partition.pre_vote else 'Vote'} epoch={partition.replica_epoch} "
        f"candidate=n{partition.replica_id} log={partition.last_offset}/{partition.last_offset_epoch}"
    )


def _vote_answer(message: VoteResponse) -> str:
    if message.error_code or not message.topics:
        return f"Vote answer{_error(message.error_code)}"
    partition = message.topics[0].partitions[0]
    verdict = "granted" if partition.vote_granted else "refused"
    error = _error(partition.error_code)
    return f"Vote answer{error or ' ' + verdict}{_whose(partition.leader_id, partition.leader_epoch)}"


def _fetch(message: FetchRequest) -> str:
    partition = message.topics[0].partitions[0]
    return (
        f"Fetch epoch={partition.current_leader_epoch} from={partition.fetch_offset}/"
        f"{partition.last_fetched_epoch}"
    )


def _fetch_answer(message: FetchResponse) -> str:
    if message.error_code or not message.responses:
        return f"Fetch answer{_error(message.error_code)}"
    partition = message.responses[0].partitions[0]
    words = [f"Fetch answer{_error(partition.error_code)}"]
    if partition.current_leader is not None:
        words.append(
            _whose(partition.current_leader.leader_id, partition.current_leader.leader_epoch).strip()
        )
    if partition.diverging_epoch is not None and partition.diverging_epoch.epoch >= 0:
        words.append(f"diverging={partition.diverging_epoch.end_offset}/{partition.diverging_epoch.epoch}")
    elif partition.snapshot_id is not None and partition.snapshot_id.end_offset >= 0:
        words.append(f"snapshot={partition.snapshot_id.end_offset}/{partition.snapshot_id.epoch}")
    elif not partition.error_code:
        words.append(f"committed={partition.high_watermark}")
        content = bytes(partition.records or b"")  # type: ignore[arg-type]
        words += [
            f"[{h.base_offset}..{h.next_offset})/{h.partition_leader_epoch}" for _, h in headers(content)
        ]
    return " ".join(words)


def _snapshot(message: FetchSnapshotRequest | FetchSnapshotResponse) -> str:
    if isinstance(message, FetchSnapshotResponse):
        if message.error_code or not message.topics:
            return f"FetchSnapshot answer{_error(message.error_code)}"
        answer = message.topics[0].partitions[0]
        size_bytes = len(bytes(answer.unaligned_records))  # type: ignore[arg-type]
        leader = answer.current_leader
        return (
            f"FetchSnapshot answer{_error(answer.error_code)}"
            f"{_whose(leader.leader_id, leader.leader_epoch) if leader is not None else ''}"
            f" {answer.snapshot_id.end_offset}/{answer.snapshot_id.epoch}"
            f" {size_bytes} bytes at {answer.position} of {answer.size}"
        )
    asked = message.topics[0].partitions[0]
    return (
        f"FetchSnapshot epoch={asked.current_leader_epoch} {asked.snapshot_id.end_offset}/"
        f"{asked.snapshot_id.epoch} from {asked.position}"
    )


def _quorum_answer(message: BeginQuorumEpochResponse | EndQuorumEpochResponse) -> str:
    if message.error_code or not message.topics:
        return f"{_name(message)} answer{_error(message.error_code)}"
    partition = message.topics[0].partitions[0]
    leader = _whose(partition.leader_id, partition.leader_epoch)
    return f"{_name(message)} answer{_error(partition.error_code)}{leader}"


def _of_operators(message: Message) -> str:
    """What changes the voters, and asks what a replica can do."""
    match message:
        case AddRaftVoterRequest():
            key = ReplicaKey(message.voter_id, message.voter_directory_id)
            later = "" if message.ack_when_committed else " acknowledged-early"
            return f"AddRaftVoter {_replica(key)}{later}"
        case RemoveRaftVoterRequest():
            return f"RemoveRaftVoter {_replica(ReplicaKey(message.voter_id, message.voter_directory_id))}"
        case UpdateRaftVoterRequest():
            key = ReplicaKey(message.voter_id, message.voter_directory_id)
            where = ",".join(f"{each.host}:{each.port}" for each in message.listeners)
            return f"UpdateRaftVoter epoch={message.current_leader_epoch} {_replica(key)} at={where}"
        case UpdateRaftVoterResponse():
            leader = message.current_leader
            whose = "" if leader is None else _whose(leader.leader_id, leader.leader_epoch)
            return f"UpdateRaftVoter answer{_error(message.error_code)}{whose}"
        case AddRaftVoterResponse() | RemoveRaftVoterResponse():
            return f"{_name(message)} answer{_error(message.error_code) or ' NONE'}"
        case ApiVersionsRequest():
            return "ApiVersions"
        case ApiVersionsResponse():
            features = ",".join(
                f"{each.name}:{each.min_version}-{each.max_version}" for each in message.supported_features
            )
            return f"ApiVersions answer{_error(message.error_code)} {features}"
    return _name(message)


def _replica(key: ReplicaKey) -> str:
    """`n4`, with the number of its disk if that is not its first."""
    generation = int.from_bytes(key.directory_id[8:], "big")
    return f"n{key.id}" if not generation else f"n{key.id}.{generation}"
