"""Rules of the quorum, each broken on purpose: what the watcher must notice.

A mutant replaces a function of the node (wherever it has been imported by name) by one that breaks a rule. It
is *caught* if a run under some seed ends with one of the rules that it is said to break. Where an earlier
rule would always strike first, it is blindfolded, so that the later one is seen to be able to strike as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from broker.simulation.quorum.model_machine import ModelMachine
from broker.simulation.quorum.promise_invariants import PromiseInvariants
from controller.raft import elections, epochs, following, leading, membership, progress, serving
from controller.raft.connections import Connections
from controller.raft.effects import AdvanceLogStart, HardState, Ready
from controller.raft.identity import NOBODY, ReplicaKey, SnapshotId
from controller.raft.log_view import FITS, Fit, LogView
from controller.raft.node import RaftNode
from controller.raft.replica import Replica
from controller.raft.role_changes import become_prospective
from controller.raft.roles import Follower, Leader, Prospective, Tally
from controller.raft.transitions import Role, RoleCause
from controller.raft.voters import VoterHistory, VoterSet
from controller.raft.wire import Caller, update_voter_answer
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from protocol.messages.vote import VoteRequest

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    name: str
    breaks: tuple[str, ...]
    """The rules, one of which must strike."""
    apply: Callable[[Patch], None]
    blindfold: tuple[str, ...] = ()
    """Methods of `PromiseInvariants` that look away."""

    def put_in(self, patch: Patch) -> None:
        self.apply(patch)
        for method in self.blindfold:
            patch.setattr(PromiseInvariants, method, lambda *_: None)


def everywhere(patch: Patch, function: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Also where it has been imported by name."""
    found = 0
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("controller.raft"):
            continue
        for attribute, value in list(vars(module).items()):
            if value is function:
                patch.setattr(module, attribute, replacement)
                found += 1
    assert found, function


# Votes


def _votes_twice(patch: Patch) -> None:
    def votes_for(replica: Replica, candidate: ReplicaKey) -> bool:
        return replica.role in (Role.UNATTACHED, Role.PROSPECTIVE) and candidate.id != replica.key.id

    patch.setattr(elections, "_votes_for", votes_for)


def _forgets_to_persist(patch: Patch) -> None:
    genuine = Replica._hard_state

    def hard_state(self: Replica) -> HardState | None:
        state = genuine(self)
        return state if state is None or state.voted is None else None

    patch.setattr(Replica, "_hard_state", hard_state)


def _forgets_its_life(patch: Patch) -> None:
    genuine = Replica.__init__

    def begin(self: Replica, config: Any, log: Any, hard_state: HardState | None, random_source: Any) -> None:
        genuine(self, config, log, None, random_source)

    patch.setattr(Replica, "__init__", begin)


def _votes_for_shorter_logs(patch: Patch) -> None:
    genuine = elections.handle_vote

    def handle(replica: Replica, caller: Caller, request: VoteRequest) -> None:
        asked = request.topics[0].partitions[0]
        latest_epoch = asked.replica_epoch if asked.pre_vote else asked.replica_epoch - 1
        longer = msgspec.structs.replace(asked, last_offset_epoch=latest_epoch, last_offset=1 << 40)
        topic = msgspec.structs.replace(request.topics[0], partitions=[longer])
        genuine(replica, caller, msgspec.structs.replace(request, topics=[topic]))

    _handles(patch, VoteRequest, handle)


def _handles(patch: Patch, kind: type[Message], handle: Callable[..., None]) -> None:
    from controller.raft import node

    patch.setattr(node, "_REQUESTS", {**node._REQUESTS, kind: handle})


def _wins_with_a_minority(patch: Patch) -> None:
    patch.setattr(Tally, "is_won", property(lambda self: len(self.granted) >= len(self.voters) // 2))


def _asks_for_no_pre_votes(patch: Patch) -> None:
    def stand(replica: Replica, cause: RoleCause) -> None:
        become_prospective(replica, cause)
        state = replica.state
        if isinstance(state, Prospective):
            state.tally.granted |= set(state.tally.voters.by_id)
        elections._go_on_if_won(replica)

    everywhere(patch, elections.stand, stand)


def _would_vote_for_anybody(patch: Patch) -> None:
    patch.setattr(elections, "_would_vote", lambda replica: replica.role is not Role.LEADER)


def _never_stands(patch: Patch) -> None:
    everywhere(patch, elections.stand, lambda replica, cause: None)
    patch.setattr(Replica, "random_election_deadline_ms", lambda self: self.now_ms + 10_000_000)


# Commitment


def _commit(
    count: Callable[[Replica, Leader], list[int]], *, from_own_epoch: bool = True
) -> Callable[[Replica], bool]:
    """`commit_what_a_majority_has` with other numbers."""

    def commit(replica: Replica) -> bool:
        state = replica.leading()
        progress.follow_voters(replica, state)
        own = state.voters.get(replica.key.id)
        if own is not None:
            own.end_offset = replica.log.synced_offset
        offset = sorted(count(replica, state), reverse=True)[len(state.voters) // 2]
        if offset <= state.epoch_start_offset and (from_own_epoch or offset < 0):
            return False
        was_established, state.is_established = state.is_established, True
        return replica.raise_high_watermark(offset) or not was_established

    return commit


def _ends(_: Replica, state: Leader) -> list[int]:
    return [each.end_offset for each in state.voters.values()]


def _counts_old_epochs(patch: Patch) -> None:
    everywhere(patch, progress.commit_what_a_majority_has, _commit(_ends, from_own_epoch=False))


def _counts_observers(patch: Patch) -> None:
    def ends(replica: Replica, state: Leader) -> list[int]:
        return _ends(replica, state) + [each.end_offset for each in state.observers.values()]

    everywhere(patch, progress.commit_what_a_majority_has, _commit(ends))


def _counts_its_unsynced_log(patch: Patch) -> None:
    def ends(replica: Replica, state: Leader) -> list[int]:
        return [
            replica.log.end_offset if each.key.id == replica.key.id else each.end_offset
            for each in state.voters.values()
        ]

    everywhere(patch, progress.commit_what_a_majority_has, _commit(ends))


def _counts_what_is_sent(patch: Patch) -> None:
    """As if whoever fetches had what it gets."""

    def ends(replica: Replica, state: Leader) -> list[int]:
        return [
            max(each.end_offset, replica.log.synced_offset if each.last_fetch_ms >= 0 else -1)
            for each in state.voters.values()
        ]

    everywhere(patch, progress.commit_what_a_majority_has, _commit(ends))


def _old_voters_decide(patch: Patch) -> None:
    everywhere(patch, progress.follow_voters, lambda replica, state: None)


def _fetches_unsynced(patch: Patch) -> None:
    patch.setattr(following, "_may_ask", lambda replica: True)


def _lowers_the_high_watermark(patch: Patch) -> None:
    def raise_high_watermark(self: Replica, offset: int) -> bool:
        if offset < 0:
            return False
        self.high_watermark = min(offset, self.log.end_offset)
        return True

    patch.setattr(Replica, "raise_high_watermark", raise_high_watermark)


def _commits_what_it_lacks(patch: Patch) -> None:
    def raise_high_watermark(self: Replica, offset: int) -> bool:
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    patch.setattr(Replica, "raise_high_watermark", raise_high_watermark)


# Logs


def _skips_truncation(patch: Patch) -> None:
    patch.setattr(following, "_truncate_to_common_epoch", lambda *_: None)


def _ignores_divergence(patch: Patch) -> None:
    def fit(self: LogView, offset: int, epoch: int) -> Fit:
        return FITS if self.start_offset <= offset else genuine(self, offset, epoch)

    genuine = LogView.fit
    patch.setattr(LogView, "fit", fit)


def _cuts_too_much(patch: Patch) -> None:
    def cut_back(replica: Replica, epoch: int, end_offset: int) -> None:
        if replica.log.start_offset < replica.log.end_offset:
            replica.log.truncate(replica.log.start_offset)
            replica.history.truncate_from_end(replica.log.start_offset)
            replica.high_watermark = min(replica.high_watermark, replica.log.start_offset)

    patch.setattr(following, "_truncate_to_common_epoch", cut_back)


def _cuts_within_a_batch(patch: Patch) -> None:
    genuine = LogView.truncate

    def truncate(self: LogView, offset: int) -> None:
        genuine(self, offset)
        last = self.operations[-1]
        self.operations[-1] = msgspec.structs.replace(last, offset=offset + 1)

    patch.setattr(LogView, "truncate", truncate)


def _leaves_a_gap(patch: Patch) -> None:
    genuine = LogView.append

    def append(self: LogView, records: bytes, end_offset: int, epoch: int) -> None:
        genuine(self, records, end_offset + 1, epoch)

    patch.setattr(LogView, "append", append)


def _changes_what_it_serves(patch: Patch) -> None:
    """The leader's own epoch in the place of the record's, which no checksum covers."""
    genuine = serving._try

    def try_(replica: Replica, *arguments: Any) -> Any:
        answer = genuine(replica, *arguments)
        partition = answer.responses[0].partitions[0]
        if partition.records:
            content = bytearray(bytes(partition.records))  # type: ignore[arg-type]
            content[12:16] = replica.epoch.to_bytes(4, "big")
            partition.records = bytes(content)
        return answer

    patch.setattr(serving, "_try", try_)


def _skips_a_byte_of_a_snapshot(patch: Patch) -> None:
    genuine = LogView.add_chunk

    def add_chunk(self: LogView, snapshot: Any, position: int, content: bytes) -> None:
        genuine(self, snapshot, position + 1 if position else 0, content)

    patch.setattr(LogView, "add_chunk", add_chunk)


def _gives_up_what_has_not_come(patch: Patch) -> None:
    """As if the first part of every snapshot had been received already."""

    def give_up_download(self: Replica) -> None:
        state = self.state
        if isinstance(state, Follower) and state.download is not None and not state.download.is_whole:
            self.log.drop_part(state.download.snapshot)
            state.download = None

    patch.setattr(Replica, "give_up_download", give_up_download)


def _keeps_what_is_not_committed(patch: Patch) -> None:
    genuine = ModelMachine.take_snapshot

    def take_snapshot(self: ModelMachine, back: int) -> bool:
        applied_end, self.applied_end = self.applied_end, self.disk.end_offset
        try:
            return genuine(self, 0)
        finally:
            self.applied_end = applied_end

    def snapshot_taken(self: RaftNode, snapshot: Any, now_ms: int) -> Ready:
        self._replica.log.snapshot_taken(snapshot)
        return self._settle(now_ms)

    patch.setattr(ModelMachine, "take_snapshot", take_snapshot)
    patch.setattr(RaftNode, "snapshot_taken", snapshot_taken)


def _begins_at_no_snapshot(patch: Patch) -> None:
    genuine = LogView.advance_start

    def advance_start(self: LogView, snapshot: SnapshotId) -> None:
        genuine(self, snapshot)
        self.operations[-1] = AdvanceLogStart(SnapshotId(snapshot.end_offset, snapshot.epoch + 7))

    patch.setattr(LogView, "advance_start", advance_start)


# Epochs, voters, waiting


def _serves_old_epochs(patch: Patch) -> None:
    genuine = serving.leader_only_error

    def leader_only_error(replica: Replica, epoch: int) -> ErrorCode:
        return genuine(replica, max(epoch, replica.epoch))

    everywhere(patch, serving.leader_only_error, leader_only_error)


def _believes_old_leaders(patch: Patch) -> None:
    patch.setattr(epochs, "_fault", lambda replica, leader_id, epoch: ErrorCode.NONE)


def _changes_two_voters_at_once(patch: Patch) -> None:
    patch.setattr(membership, "_obstacle", lambda replica, doing: None)


def _forgets_where_voters_are(patch: Patch) -> None:
    """The leader answers a voter that has told another address, and does nothing else."""

    def handle(replica: Replica, caller: Caller, request: UpdateRaftVoterRequest) -> None:
        replica.answer(caller.token, update_voter_answer(replica, caller, ErrorCode.NONE))

    _handles(patch, UpdateRaftVoterRequest, handle)


def _tells_nobody_where_it_is(patch: Patch) -> None:
    patch.setattr(VoterSet, "differs_from", lambda self, voter: False)


def _changes_voters_too_early(patch: Patch) -> None:
    genuine = membership._obstacle

    def obstacle(replica: Replica, doing: str) -> tuple[ErrorCode, str] | None:
        state = replica.leading()
        was, state.is_established = state.is_established, True
        found = genuine(replica, doing)
        state.is_established = was
        return found

    patch.setattr(membership, "_obstacle", obstacle)


def _overlooks_voters(patch: Patch) -> None:
    genuine = VoterHistory.read

    def read(self: VoterHistory, buffer: Any, position: int, base_offset: int) -> None:
        if base_offset < 3:
            genuine(self, buffer, position, base_offset)

    patch.setattr(VoterHistory, "read", read)


def _forgets_who_fetches(patch: Patch) -> None:
    everywhere(patch, progress.note_following, lambda replica, key: None)


def _forgets_that_it_follows(patch: Patch) -> None:
    """Its fetch timeout is not put off, and nobody says that its leader is alive."""

    def reached(replica: Replica, state: Follower) -> None:
        state.has_fetched = False

    patch.setattr(following, "_reached_leader", reached)


def _waits_without_waiting(patch: Patch) -> None:
    patch.setattr(Connections, "next_wake_ms", lambda self, peers, now_ms: now_ms)


def _stumbles(patch: Patch) -> None:
    genuine = leading.append

    def append(replica: Replica, batches: bytearray, *, is_news: bool) -> None:
        if replica.epoch > 2 and replica.leader_id != NOBODY:
            raise KeyError(replica.epoch)
        genuine(replica, batches, is_news=is_news)

    patch.setattr(leading, "append", append)


MUTANTS = (
    Mutant("votes twice in an epoch", ("one vote per epoch", "hard state before messages"), _votes_twice),
    Mutant(
        "votes twice, and two lead",
        ("one leader per epoch",),
        _votes_twice,
        blindfold=("_voted", "elected"),
    ),
    Mutant("sends its vote before it is on the disk", ("hard state before messages",), _forgets_to_persist),
    Mutant(
        "forgets epoch and vote in a restart", ("epochs never fall", "one vote per epoch"), _forgets_its_life
    ),
    Mutant("votes for shorter logs", ("only an up-to-date candidate gets votes",), _votes_for_shorter_logs),
    Mutant(
        "votes for shorter logs, and one leads",
        ("leader completeness",),
        _votes_for_shorter_logs,
        blindfold=("_answering_vote", "stands", "elected"),
    ),
    Mutant(
        "wins with a minority",
        ("elected by a majority of the voters", "nobody stands without a majority's pre-votes"),
        _wins_with_a_minority,
    ),
    Mutant(
        "wins with a minority, and leads",
        ("elected by a majority of the voters",),
        _wins_with_a_minority,
        blindfold=("stands",),
    ),
    Mutant(
        "asks for no pre-votes", ("nobody stands without a majority's pre-votes",), _asks_for_no_pre_votes
    ),
    Mutant(
        "would vote for anybody",
        ("a follower that hears its leader refuses pre-votes",),
        _would_vote_for_anybody,
    ),
    Mutant("never stands", ("a healthy majority has a leader",), _never_stands),
    Mutant(
        "commits old epochs by counting",
        ("an old epoch's entries are not committed by counting",),
        _counts_old_epochs,
    ),
    Mutant("counts observers", ("an acknowledged append lies on a majority's disks",), _counts_observers),
    Mutant(
        "counts its own unsynced log",
        ("an acknowledged append lies on a majority's disks",),
        _counts_its_unsynced_log,
    ),
    Mutant(
        "counts what it has sent",
        ("an acknowledged append lies on a majority's disks",),
        _counts_what_is_sent,
    ),
    Mutant(
        "lets the old voters decide",
        ("an acknowledged append lies on a majority's disks",),
        _old_voters_decide,
    ),
    Mutant("fetches before it has synced", ("a fetch acknowledges only what is synced",), _fetches_unsynced),
    Mutant("lets the high watermark fall", ("the high watermark never falls",), _lowers_the_high_watermark),
    Mutant("commits what it does not have", ("a high watermark is within the log",), _commits_what_it_lacks),
    Mutant("skips truncation", ("a healthy replica catches up", "log matching"), _skips_truncation),
    Mutant("ignores the diverging epoch", ("log matching", "epochs ascend in a log"), _ignores_divergence),
    Mutant("cuts off what is committed", ("committed entries are never lost",), _cuts_too_much),
    Mutant("cuts within a batch", ("a log is truncated at a batch",), _cuts_within_a_batch),
    Mutant("leaves a gap in its log", ("appends are whole and without gaps",), _leaves_a_gap),
    Mutant(
        "changes what it serves",
        ("log matching", "committed entries are never changed"),
        _changes_what_it_serves,
    ),
    Mutant(
        "skips a byte of a snapshot", ("a snapshot's chunks follow each other",), _skips_a_byte_of_a_snapshot
    ),
    Mutant(
        "gives up a snapshot of which nothing has come",
        ("what is dropped of a snapshot has been received",),
        _gives_up_what_has_not_come,
    ),
    Mutant("begins its log at no snapshot", ("a log begins at a snapshot",), _begins_at_no_snapshot),
    Mutant(
        "keeps a snapshot of what is not committed",
        ("a snapshot holds what is committed",),
        _keeps_what_is_not_committed,
    ),
    Mutant("serves old epochs", ("old epochs are refused",), _serves_old_epochs),
    Mutant("believes leaders of old epochs", ("old epochs are refused",), _believes_old_leaders),
    Mutant("changes two voters at once", ("voters change one at a time",), _changes_two_voters_at_once),
    Mutant(
        "changes voters before its epoch is committed",
        ("voters change one at a time",),
        _changes_voters_too_early,
    ),
    Mutant(
        "forgets where voters are",
        ("the voters' addresses follow the voters",),
        _forgets_where_voters_are,
    ),
    Mutant(
        "tells nobody where it is",
        ("the voters' addresses follow the voters",),
        _tells_nobody_where_it_is,
    ),
    Mutant("overlooks voters in what it fetches", ("the newest voters in the log count",), _overlooks_voters),
    Mutant(
        "forgets who fetches from it",
        ("an undisturbed quorum keeps its leader", "a healthy majority has a leader"),
        _forgets_who_fetches,
    ),
    Mutant(
        "forgets that it follows",
        ("an undisturbed quorum keeps its leader", "a healthy majority has a leader"),
        _forgets_that_it_follows,
        blindfold=("fetched",),
    ),
    Mutant("waits without waiting", ("a node that waits does not spin",), _waits_without_waiting),
    Mutant("stumbles over an epoch", ("the node does not fail",), _stumbles),
)
