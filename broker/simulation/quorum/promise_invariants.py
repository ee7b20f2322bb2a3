"""What replicas promise each other in messages, and must then keep.

hard state before messages          who votes, asks for votes or leads has it on disk first
one vote per epoch                  for ever, whatever crashes come between
only an up-to-date candidate gets votes     Raft 5.4.1
a follower that hears its leader refuses pre-votes      KIP-996
a fetch acknowledges only what is synced        of a replica that is or may become a voter
old epochs are refused              Raft 5.1: no request of an earlier epoch is served
elected by a majority of the voters
nobody stands without a majority's pre-votes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.simulation.quorum.library import Electorate
from broker.simulation.quorum.network import Token
from broker.simulation.verdict import Violation
from controller.raft.effects import Answer, Outgoing, Request
from controller.raft.identity import ReplicaKey
from controller.raft.transitions import Role
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterResponse
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from protocol.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from broker.simulation.quorum.machine import Machine
    from broker.simulation.quorum.world import World

__all__ = ["PromiseInvariants", "epoch_of", "error_of"]

NO_ERROR: Final = int(ErrorCode.NONE)
UNKNOWN_EPOCH: Final = -1


def error_of(message: Message) -> int:
    """The error code of an answer, the partition's if it has one."""
    match message:
        case FetchResponse():
            return message.error_code or (
                message.responses[0].partitions[0].error_code if message.responses else NO_ERROR
            )
        case VoteResponse() | BeginQuorumEpochResponse() | EndQuorumEpochResponse() | FetchSnapshotResponse():
            return message.error_code or (
                message.topics[0].partitions[0].error_code if message.topics else NO_ERROR
            )
        case AddRaftVoterResponse() | RemoveRaftVoterResponse() | UpdateRaftVoterResponse():
            return message.error_code
    return NO_ERROR


def epoch_of(message: Message) -> int:
    """The epoch in which a request was made; -1 if it has none."""
    match message:
        case FetchRequest():
            return message.topics[0].partitions[0].current_leader_epoch
        case VoteRequest():
            return message.topics[0].partitions[0].replica_epoch
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return message.topics[0].partitions[0].leader_epoch
        case FetchSnapshotRequest():
            return message.topics[0].partitions[0].current_leader_epoch
    return UNKNOWN_EPOCH


class PromiseInvariants:
    """Votes and pre-votes of a whole world, and per machine what it heard from its leader."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._votes: dict[tuple[ReplicaKey, int], int] = {}
        """(who votes, in which epoch) -> for whom."""
        self._pre_votes: dict[tuple[int, int], dict[ReplicaKey, bool]] = {}
        """(who asks, in which epoch) -> who would vote for it."""
        self._heard: dict[int, tuple[int, int]] = {}
        """By machine: the epoch whose leader has answered a fetch since the machine follows it, and until
        when, by the machine's clock, that counts: a fetch timeout later it hears its leader no more."""
        self._fetching: dict[int, Message] = {}
        """By machine: the fetch that it has asked as a follower."""

    def life_began(self, machine: Machine) -> None:
        self.stopped_following(machine)

    def stopped_following(self, machine: Machine) -> None:
        """It has not heard from its leader for too long: what it heard before does not count."""
        self._heard.pop(machine.number, None)
        self._fetching.pop(machine.number, None)

    def connection_broke(self, machine: Machine, token: Token) -> None:
        """To the leader that it follows: until that one answers again it has heard nothing."""
        if token.message is self._fetching.get(machine.number):
            self._heard.pop(machine.number, None)

    def fetched(self, machine: Machine, token: Token, message: FetchResponse) -> None:
        """An answer to a fetch is taken; it counts if it answers what the machine asked as a follower."""
        if (
            message.error_code
            or not message.responses
            or token.message is not self._fetching.get(machine.number)
        ):
            return
        partition = message.responses[0].partitions[0]
        leader = partition.current_leader
        if partition.error_code or leader is None:
            return
        if machine.node.leader == (leader.leader_id, leader.leader_epoch):
            self._heard[machine.number] = (
                leader.leader_epoch,
                machine.now_ms() + machine.config.fetch_timeout_ms,
            )

    # Messages

    def sending(self, machine: Machine, outgoing: Outgoing) -> None:
        if isinstance(outgoing, Request):
            self._asking(machine, outgoing.message)
        else:
            self._answering(machine, outgoing)

    def _asking(self, machine: Machine, message: Message) -> None:
        if isinstance(message, FetchRequest):
            if machine.node.role is Role.FOLLOWER:
                self._fetching[machine.number] = message
            offset = message.topics[0].partitions[0].fetch_offset
            if offset > machine.disk.synced_end and machine.config.can_be_voter:
                raise Violation(
                    "a fetch acknowledges only what is synced",
                    f"{machine} fetches from {offset}, synced is {machine.disk.synced_end}",
                )
        elif isinstance(message, VoteRequest):
            asked = message.topics[0].partitions[0]
            if asked.pre_vote:
                self._pre_votes.setdefault((machine.id, asked.replica_epoch), {})[machine.key] = True
            else:
                self._voted(machine, asked.replica_epoch, machine.id)
        elif isinstance(message, BeginQuorumEpochRequest):
            led = message.topics[0].partitions[0]
            state = machine.disk.hard_state
            if state is None or state.epoch != led.leader_epoch:
                raise Violation("hard state before messages", f"{machine} leads {led}, on disk is {state}")

    def _voted(self, machine: Machine, epoch: int, candidate: int) -> None:
        state = machine.disk.hard_state
        if state is None or state.epoch != epoch or state.voted is None or state.voted.id != candidate:
            raise Violation(
                "hard state before messages",
                f"{machine} votes for n{candidate} in epoch {epoch}, on disk is {state}",
            )
        before = self._votes.setdefault((machine.key, epoch), candidate)
        if before != candidate:
            raise Violation(
                "one vote per epoch", f"{machine} voted for n{before} and n{candidate} in epoch {epoch}"
            )

    def _answering(self, machine: Machine, answer: Answer) -> None:
        token, message = answer.token, answer.message
        if not isinstance(token, Token):
            return
        error = error_of(message)
        if error != NO_ERROR:
            self._world.coverage.count(f"{type(message).__name__[:-8]}: {ErrorCode(error).name}")
            return
        epoch, known = epoch_of(token.message), machine.epoch_before
        if UNKNOWN_EPOCH < epoch < known and not isinstance(message, VoteResponse):
            raise Violation(
                "old epochs are refused",
                f"{machine} of epoch {known} serves a {type(token.message).__name__} of epoch {epoch}",
            )
        if isinstance(message, VoteResponse):
            self._answering_vote(machine, token, message)
        elif isinstance(message, EndQuorumEpochResponse):
            self.stopped_following(machine)  # by its leader's own word

    def _answering_vote(self, machine: Machine, token: Token, message: VoteResponse) -> None:
        if not message.topics[0].partitions[0].vote_granted or not isinstance(token.message, VoteRequest):
            return
        asked = token.message.topics[0].partitions[0]
        disk, coverage = machine.disk, self._world.coverage
        if (asked.last_offset_epoch, asked.last_offset) < (disk.last_epoch, disk.end_offset):
            raise Violation(
                "only an up-to-date candidate gets votes",
                f"n{asked.replica_id} ends at {asked.last_offset} of epoch {asked.last_offset_epoch}, "
                f"{machine} at {disk.end_offset} of {disk.last_epoch}",
            )
        if not asked.pre_vote:
            coverage.count("vote granted")
            self._voted(machine, asked.replica_epoch, asked.replica_id)
            return
        coverage.count("pre-vote granted")
        node = machine.node
        epoch, until_ms = self._heard.get(machine.number, (-1, 0))
        if (
            node.role is Role.FOLLOWER
            and epoch == node.leader.epoch == asked.replica_epoch
            and machine.now_ms() < until_ms
        ):
            raise Violation(
                "a follower that hears its leader refuses pre-votes",
                f"{machine} follows {node.leader} and would vote for n{asked.replica_id}",
            )
        self._pre_votes.setdefault((asked.replica_id, asked.replica_epoch), {})[machine.key] = True

    # Elections

    def stands(self, machine: Machine, epoch: int) -> None:
        """A machine is a candidate now."""
        electorate = machine.disk.voters.electorate or self._world.first_electorate
        granted = self._pre_votes.get((machine.id, epoch - 1), {})
        voters = _number_among(electorate, [*granted, machine.key])
        if 2 * voters <= len(electorate):
            raise Violation(
                "nobody stands without a majority's pre-votes",
                f"{machine} stands in epoch {epoch} with {voters} pre-votes of {len(electorate)} voters",
            )

    def elected(self, machine: Machine, epoch: int, electorate: Electorate) -> None:
        votes = [
            key for (key, voted_in), whom in self._votes.items() if voted_in == epoch and whom == machine.id
        ]
        voters = _number_among(electorate, [*votes, machine.key])
        if 2 * voters <= len(electorate):
            raise Violation(
                "elected by a majority of the voters",
                f"{machine} leads epoch {epoch} with the votes of {[key.id for key in votes]} of voters "
                f"{[key.id for key in electorate]}",
            )


def _number_among(electorate: Electorate, keys: Sequence[ReplicaKey]) -> int:
    """How many of the electorate are among the keys."""
    return sum(any(key.matches(each) for key in keys) for each in electorate)
