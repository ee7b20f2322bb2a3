"""What a follower tells the leader about itself, besides fetching. KIP-853, KIP-1186.

A voter whose addresses or versions differ from the voters' record sends UpdateRaftVoter. With kraft.version 0
it does so once to each leader, which learns its directory by that. An observer that is a controller sends
AddRaftVoter if `controller.quorum.auto.join.enable` allows it. If a voter has the same id and another
directory, which is this node before it lost its disk, it sends RemoveRaftVoter for that voter first.

All of this is sent at most once in a fetch timeout. After a refusal it is sent again then.
"""

from __future__ import annotations

from types import MappingProxyType

from controller.raft.discovery import learn_from_answer
from controller.raft.identity import Address, Peer
from controller.raft.replica import Replica
from controller.raft.roles import Follower
from controller.raft.voters import Endpoints
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterRequest
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

__all__ = ["handle_update_answer", "poll_membership"]


def poll_membership(replica: Replica, state: Follower, leader: Peer) -> None:
    """Sends the request that is due, if none is under way."""
    if replica.now_ms < state.voter_update_deadline_ms:
        return
    request = _request(replica, state)
    if request is not None:
        if not replica.connections.is_idle:
            return  # sent when the fetch that is under way has been answered
        replica.ask(leader, request)
    state.voter_update_deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms


def _request(replica: Replica, state: Follower) -> Message | None:
    version = replica.history.version
    if replica.is_voter:
        if version > 0:
            is_due = replica.voters.differs_from(replica.as_voter())
        else:
            is_due = not state.has_updated_voter
        return _update_request(replica) if is_due else None
    if not replica.config.auto_join or not replica.config.can_be_voter or version == 0:
        return None
    known = replica.voters.by_id.get(replica.key.id)
    cluster_id = replica.config.cluster_id
    if known is not None:
        return RemoveRaftVoterRequest(cluster_id, known.key.id, known.key.directory_id)
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=replica.config.request_timeout_ms,
        voter_id=replica.key.id,
        voter_directory_id=replica.key.directory_id,
        listeners=[
            AddRaftVoterRequest.Listener(name=name, host=address.host, port=address.port)
            for name, address in replica.config.endpoints.items()
        ],
        ack_when_committed=False,
    )


def _update_request(replica: Replica) -> UpdateRaftVoterRequest:
    config = replica.config
    return UpdateRaftVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=replica.epoch,
        voter_id=config.node.id,
        voter_directory_id=config.node.directory_id,
        listeners=[
            UpdateRaftVoterRequest.Listener(name=name, host=address.host, port=address.port)
            for name, address in config.endpoints.items()
        ],
        k_raft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(
            min_supported_version=config.min_kraft_version, max_supported_version=config.max_kraft_version
        ),
    )


def handle_update_answer(replica: Replica, answer: UpdateRaftVoterResponse) -> bool:
    """Returns whether the peer answered as it should. A refusal is a proper answer."""
    leader = answer.current_leader
    if leader is not None:
        endpoints: Endpoints = replica.voters.endpoints_of(leader.leader_id)
        if leader.host:
            endpoints = MappingProxyType({replica.config.listener: Address(leader.host, leader.port)})
        handled = learn_from_answer(
            replica, answer.error_code, leader.leader_id, leader.leader_epoch, endpoints
        )
        if handled is not None:
            return handled
    if isinstance(replica.state, Follower) and answer.error_code == ErrorCode.NONE:
        replica.state.has_updated_voter = True
    return True
