"""Requests that a transcript makes by itself, as a peer, an observer or an operator that is not there.

Vote epoch=3 candidate=n9 log=4/2 [pre=yes]        Fetch epoch=1 from=5/1 replica=n9
BeginQuorumEpoch epoch=3 leader=n2                 EndQuorumEpoch epoch=3 leader=n2 successors=n1,n3
FetchSnapshot epoch=1 snapshot=5/1 position=0      AddRaftVoter voter=n4   RemoveRaftVoter voter=n2
UpdateRaftVoter epoch=1 voter=n2 port=9999         all: cluster=other, disk=7 (not its first)
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.simulation.quorum.machine import Machine
from broker.simulation.quorum.network import LISTENER
from broker.simulation.quorum.world import PORT, directory_of
from protocol.codec.message import Message
from protocol.messages.add_raft_voter import AddRaftVoterRequest
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from protocol.messages.vote import VoteRequest
from protocol.values import METADATA_TOPIC_ID

TOPIC = "__cluster_metadata"


def _id(name: str) -> int:
    return int(name.removeprefix("n"))


def _pair(text: str) -> tuple[int, int]:
    offset, epoch = text.split("/")
    return int(offset), int(epoch)


def request_by_hand(kind: str, options: Mapping[str, str], machine: Machine) -> Message:
    """For this machine; what is not said has a value that fits."""
    cluster_id = options.get("cluster", machine.config.cluster_id)
    generation = int(options.get("disk", 0))
    epoch = int(options.get("epoch", 0))
    match kind:
        case "Vote":
            return _vote(options, machine, cluster_id, generation)
        case "Fetch":
            return _fetch(options, cluster_id, generation)
        case "BeginQuorumEpoch":
            begun = BeginQuorumEpochRequest.PartitionData(
                voter_directory_id=directory_of(machine.id, generation),
                leader_id=_id(options["leader"]),
                leader_epoch=epoch,
            )
            endpoint = BeginQuorumEpochRequest.LeaderEndpoint(LISTENER, options["leader"], PORT)
            return BeginQuorumEpochRequest(
                cluster_id=cluster_id,
                voter_id=machine.id,
                topics=[BeginQuorumEpochRequest.TopicData(TOPIC, [begun])],
                leader_endpoints=[endpoint],
            )
        case "EndQuorumEpoch":
            names = [name for name in options.get("successors", "").split(",") if name]
            ended = EndQuorumEpochRequest.PartitionData(
                leader_id=_id(options["leader"]),
                leader_epoch=epoch,
                preferred_candidates=[
                    EndQuorumEpochRequest.ReplicaInfo(_id(name), directory_of(_id(name), 0)) for name in names
                ],
            )
            return EndQuorumEpochRequest(
                cluster_id=cluster_id, topics=[EndQuorumEpochRequest.TopicData(TOPIC, [ended])]
            )
        case "FetchSnapshot":
            return _fetch_snapshot(options, cluster_id)
    return _of_operators(kind, options, cluster_id, generation)


def _vote(options: Mapping[str, str], machine: Machine, cluster_id: str, generation: int) -> VoteRequest:
    last_offset, last_epoch = _pair(options.get("log", "0/0"))
    candidate = _id(options["candidate"])
    asked = VoteRequest.PartitionData(
        replica_epoch=int(options["epoch"]),
        replica_id=candidate,
        replica_directory_id=directory_of(candidate, 0),
        voter_directory_id=directory_of(machine.id, generation),
        last_offset_epoch=last_epoch,
        last_offset=last_offset,
        pre_vote=options.get("pre") == "yes",
    )
    topic = VoteRequest.TopicData(TOPIC, [asked])
    return VoteRequest(cluster_id=cluster_id, voter_id=machine.id, topics=[topic])


def _fetch(options: Mapping[str, str], cluster_id: str, generation: int) -> FetchRequest:
    offset, last_epoch = _pair(options.get("from", "0/0"))
    replica = _id(options.get("replica", "n99"))
    partition = FetchRequest.FetchPartition(
        current_leader_epoch=int(options.get("epoch", 0)),
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
        replica_directory_id=directory_of(replica, generation),
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=FetchRequest.ReplicaState(replica_id=replica),
        max_wait_ms=int(options.get("wait", 0)),
        topics=[FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _fetch_snapshot(options: Mapping[str, str], cluster_id: str) -> FetchSnapshotRequest:
    end_offset, snapshot_epoch = _pair(options["snapshot"])
    asked = FetchSnapshotRequest.PartitionSnapshot(
        current_leader_epoch=int(options.get("epoch", 0)),
        snapshot_id=FetchSnapshotRequest.SnapshotId(end_offset, snapshot_epoch),
        position=int(options.get("position", 0)),
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=_id(options.get("replica", "n99")),
        topics=[FetchSnapshotRequest.TopicSnapshot(TOPIC, [asked])],
    )


def _of_operators(kind: str, options: Mapping[str, str], cluster_id: str, generation: int) -> Message:
    voter = _id(options["voter"])
    directory_id = directory_of(voter, generation)
    host, port = options.get("host", f"n{voter}"), int(options.get("port", PORT))
    match kind:
        case "AddRaftVoter":
            return AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=int(options.get("timeout", 3_000)),
                voter_id=voter,
                voter_directory_id=directory_id,
                listeners=[AddRaftVoterRequest.Listener(options.get("listener", LISTENER), host, port)],
                ack_when_committed=options.get("acknowledge") != "early",
            )
        case "RemoveRaftVoter":
            return RemoveRaftVoterRequest(
                cluster_id=cluster_id, voter_id=voter, voter_directory_id=directory_id
            )
        case "UpdateRaftVoter":
            return UpdateRaftVoterRequest(
                cluster_id=cluster_id,
                current_leader_epoch=int(options["epoch"]),
                voter_id=voter,
                voter_directory_id=directory_id,
                listeners=[UpdateRaftVoterRequest.Listener(LISTENER, host, port)],
                k_raft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(0, 1),
            )
    raise ValueError(f"no request is called {kind}")
