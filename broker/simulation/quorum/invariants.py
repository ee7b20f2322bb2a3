"""The outside watcher: what must hold of a quorum at every moment, checked as it happens.

It sees what no replica sees: all disks, all messages, all lives. Each rule has a name, told by a `Violation`:

    one leader per epoch                        Raft 5.2; a life that ended leads no more
    elected by a majority of the voters         … of those that the winner's own log names
    nobody stands without a majority's pre-votes    KIP-996
    leader completeness                         a leader has all that is committed (Raft 5.4)
    log matching, epochs ascend in a log        Raft 5.3; see `history`
    committed entries are never lost, never changed
    an acknowledged append lies on a majority's disks    synced, at the moment when anybody announces it
    an old epoch's entries are not committed by counting    Raft 5.4.2
    the high watermark never falls              within a life
    epochs never fall, one vote per epoch       on each disk, over crashes too
    voters change one at a time                 Raft 6, KIP-853; the last change and the epoch's first entry
                                                are committed before the next
    the newest voters in the log count
    a snapshot holds what is committed          KIP-630

What replicas promise each other in messages is checked in `promise_invariants`, what must come to pass in the
end in `liveness`. Everything is incremental: an event costs a few comparisons, however long the log is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.simulation.quorum.library import Batch, Electorate, Ledger
from broker.simulation.quorum.network import Token
from broker.simulation.quorum.promise_invariants import PromiseInvariants
from broker.simulation.verdict import Violation
from controller.raft.effects import Outgoing, Ready
from controller.raft.identity import NOBODY, LeaderAndEpoch, ReplicaKey, SnapshotId
from controller.raft.transitions import Role
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from broker.simulation.quorum.machine import Machine
    from broker.simulation.quorum.world import World

__all__ = ["Invariants"]


class _Seen:
    """A machine's life as the watcher last saw it."""

    __slots__ = ("high_watermark", "leader", "role", "voters")

    def __init__(self) -> None:
        self.role: Role | None = None
        self.leader = LeaderAndEpoch(NOBODY, 0)
        self.high_watermark = -1
        self.voters: object = None


class Invariants:
    """Watches one world. `ledger` is what is committed; `promises` remembers votes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ledger = Ledger()
        self.promises = PromiseInvariants(world)
        self.leaders: dict[int, tuple[int, int]] = {}
        """By epoch: the machine and the life of it that leads."""
        self._electorates: dict[int, list[tuple[int, Electorate]]] = {}
        """By epoch: (high watermark when they came, who votes), in the leader's log's order."""
        self._epoch_starts: dict[int, int] = {}
        """By epoch: the end of its leader's first batch in it."""
        self._named: dict[tuple[int, int], bool] = {}
        """Batches that changed the voters and have been judged."""
        self._seen: list[_Seen] = []
        self._states: dict[int, int] = {}
        """By end offset: the fingerprint of the state of who has applied so much."""
        self._snapshots: dict[SnapshotId, int] = {}
        """The fingerprint of the image in each snapshot."""
        self.fingerprint = 0

    # Lives

    def started(self, machine: Machine) -> None:
        while len(self._seen) <= machine.number:
            self._seen.append(_Seen())
        self._seen[machine.number] = _Seen()
        self.promises.life_began(machine)
        if machine.disk.start_offset > self.ledger.end_offset:
            raise Violation(
                "a snapshot holds what is committed",
                f"{machine} begins at {machine.disk.start_offset}, committed is {self.ledger.end_offset}",
            )

    def ended(self, machine: Machine) -> None:
        self._seen[machine.number] = _Seen()

    # Effects, as they are executed

    def persisting(self, machine: Machine, ready: Ready) -> None:
        before, after = machine.disk.hard_state, ready.hard_state
        if after is None or before is None:
            return
        if after.epoch < before.epoch:
            raise Violation("epochs never fall", f"{machine}: {before} became {after}")
        if after.epoch == before.epoch:
            if before.voted is not None and after.voted is not None and not before.voted.matches(after.voted):
                raise Violation("one vote per epoch", f"{machine}: {before} became {after}")
            if before.leader_id not in (NOBODY, after.leader_id):
                raise Violation("one leader per epoch", f"{machine}: {before} became {after}")

    def appended(self, machine: Machine, batches: list[Batch]) -> None:
        self._world.coverage.count("append")
        for batch in batches:
            epoch = batch.epoch
            if epoch not in self._epoch_starts:
                self._epoch_starts[epoch] = batch.end_offset
            if batch.voters is not None and (batch.base_offset, epoch) not in self._named:
                self._named[(batch.base_offset, epoch)] = True
                self._voters_changed(machine, batch)

    def _voters_changed(self, machine: Machine, batch: Batch) -> None:
        """The leader has just written other voters into its log."""
        node = machine.node
        world = self._world
        after = batch.voters
        if after is None:
            return
        committed_end = node.high_watermark
        previous = self._electorates_of(machine, batch.epoch)
        before, now = previous[-1][1], after.electorate
        changed = [key for key in before if not _among(key, now)] + [
            key for key in now if not _among(key, before)
        ]
        rule = "voters change one at a time"
        if len(changed) > 1:
            raise Violation(rule, f"{machine} changes {len(changed)} at {batch.base_offset}: {changed}")
        if changed:
            world.coverage.count("voter added" if len(now) > len(before) else "voter removed")
            since = machine.disk.voters_since_before(batch)
            if since > committed_end:
                raise Violation(rule, f"{machine} at {batch.base_offset}: the change before is not committed")
            if self._epoch_starts[batch.epoch] > committed_end:
                raise Violation(rule, f"{machine} at {batch.base_offset}: nothing of its epoch is committed")
        else:
            world.coverage.count("voter updated")
        previous.append((committed_end, now))

    def truncated(self, machine: Machine, offset: int, gone: list[Batch]) -> None:
        self._world.coverage.count("truncation")
        if gone:
            self._world.coverage.count("batches truncated")
        for batch in gone:
            # One in an older epoch, which nobody counted, may go with its leader for a while.
            if self.ledger.has_since(batch, machine.node.leader.epoch):
                raise Violation(
                    "committed entries are never lost", f"{machine} truncates {batch} at {offset}"
                )

    def installed(self, machine: Machine, id_: SnapshotId, *, is_whole: bool) -> None:
        if not is_whole:
            self._world.coverage.count("snapshot refused as broken")
            return
        self._world.coverage.count("snapshot load")
        self._world.trace_line(machine, f"loads the snapshot {id_.end_offset}-{id_.epoch}")
        self._is_committed(machine, id_)

    def trimmed(self, machine: Machine, id_: SnapshotId) -> None:
        self._world.coverage.count("log start advanced")
        self._is_committed(machine, id_)

    def _is_committed(self, machine: Machine, id_: SnapshotId) -> None:
        """The snapshot is a prefix of what is committed."""
        batch = self.ledger.at(id_.end_offset)
        if id_.end_offset and (batch is None or batch.epoch != id_.epoch):
            raise Violation(
                "a snapshot holds what is committed", f"{machine} has {id_}, the ledger has {batch} there"
            )

    def sending(self, machine: Machine, outgoing: Outgoing) -> None:
        self.promises.sending(machine, outgoing)

    def response_taken(self, machine: Machine, token: Token, message: Message) -> None:
        if isinstance(message, FetchResponse):
            self.promises.fetched(machine, token, message)

    def request_failed(self, machine: Machine, token: Token, error: ErrorCode) -> None:
        if isinstance(token.message, FetchRequest) and error is not ErrorCode.REQUEST_TIMED_OUT:
            self.promises.connection_broke(machine, token)

    # Commitment

    def committed(self, machine: Machine, end_offset: int) -> None:
        """A replica announces that everything below is committed."""
        disk, ledger = machine.disk, self.ledger
        epoch = machine.node.leader.epoch
        if machine.applied_end < disk.start_offset:
            if ledger.chain_at(disk.start_offset) != disk.start_chain:
                raise Violation("committed entries are never changed", f"{machine}: its snapshot differs")
            machine.applied_end, machine.applied_chain = disk.start_offset, disk.start_chain
        if end_offset > disk.end_offset:
            raise Violation("a high watermark is within the log", f"{machine}: {end_offset}")
        extended = None
        index = disk.index_from(machine.applied_end)
        known = ledger.index_from(machine.applied_end)
        while index < len(disk.batches) and (batch := disk.batches[index]).end_offset <= end_offset:
            if known < len(ledger.batches):
                if ledger.batches[known] is not batch:
                    raise Violation(
                        "committed entries are never changed",
                        f"{machine} has {batch} where {ledger.batches[known]} is committed",
                    )
            else:
                ledger.extend(batch, epoch)
                extended = batch
            machine.applied_end, machine.applied_chain = batch.end_offset, batch.chain
            index += 1
            known += 1
        if extended is not None:
            self._lies_on_majority(machine, extended, epoch)
        if self.leaders.get(epoch) == (machine.number, machine.life):
            self._committed_by_leader(machine, end_offset, epoch)

    def _committed_by_leader(self, machine: Machine, end_offset: int, epoch: int) -> None:
        self._world.coverage.count("commit")
        index = machine.disk.index_from(end_offset - 1)
        if end_offset > machine.disk.start_offset and machine.disk.batches[index].epoch != epoch:
            raise Violation(
                "an old epoch's entries are not committed by counting",
                f"{machine} commits up to {end_offset}, {machine.disk.batches[index]}, as leader of {epoch}",
            )

    def _lies_on_majority(self, machine: Machine, batch: Batch, epoch: int) -> None:
        history = self._electorates.get(epoch)
        if history is None:
            raise Violation("one leader per epoch", f"{machine} commits in epoch {epoch}, which nobody leads")
        judged = False
        for index in range(len(history) - 1, -1, -1):
            since, electorate = history[index]
            judged = self._held_by_majority(batch, electorate)
            if judged or batch.end_offset > since:
                break
        if not judged:
            electorate = history[-1][1]
            ends = {str(each): each.disk.synced_end for each in self._world.machines}
            raise Violation(
                "an acknowledged append lies on a majority's disks",
                f"{machine} announces {batch}; voters {[key.id for key in electorate]}, synced ends {ends}",
            )

    def _held_by_majority(self, batch: Batch, electorate: Electorate) -> bool:
        """A disk that was lost since counts as well: nobody else votes in its name, so those who never had
        the batch stay a minority."""
        world = self._world
        count = 0
        for key in electorate:
            holder = world.replica(key)
            disk = world.lost_disks.get(key) if holder is None else holder.disk
            if disk is not None and disk.holds(batch, disk.synced_end):
                count += 1
        return 2 * count > len(electorate)

    # States

    def applied(self, machine: Machine, end_offset: int, fingerprint: int) -> None:
        """A state machine has applied everything below end_offset."""
        known = self._states.setdefault(end_offset, fingerprint)
        if known != fingerprint:
            raise Violation(
                "who has applied the same log has the same state", f"{machine} differs at {end_offset}"
            )

    def applied_at(self, machine: Machine, end_offset: int) -> int:
        """The fingerprint of the state there, for who takes it from a snapshot."""
        known = self._states.get(end_offset)
        if known is None:
            raise Violation(
                "a snapshot holds what is committed", f"{machine} has one that ends at {end_offset}"
            )
        return known

    def snapshot_seen(self, machine: Machine, id_: SnapshotId, fingerprint: int) -> None:
        """A machine writes this snapshot, or has read it."""
        known = self._snapshots.setdefault(id_, fingerprint)
        if known != fingerprint:
            raise Violation(
                "who has applied the same log has the same state", f"{machine} has another snapshot {id_}"
            )

    # Each Ready

    def turned(self, machine: Machine) -> None:
        """Its hard state is on the disk; nothing else has been done."""
        seen = self._seen[machine.number]
        role, leader = machine.node.role, machine.node.leader
        if role is not seen.role or leader != seen.leader:
            self._changed(machine, seen, role, leader)

    def executed(self, machine: Machine) -> None:
        """All that the node has wanted so far is done."""
        node = machine.node
        seen = self._seen[machine.number]
        high_watermark = node.high_watermark
        if high_watermark < seen.high_watermark:
            raise Violation(
                "the high watermark never falls", f"{machine}: {seen.high_watermark} became {high_watermark}"
            )
        seen.high_watermark = high_watermark
        if node.voters is not seen.voters:
            self._voters_are_newest(machine, seen)
        self.fingerprint = hash(
            (self.fingerprint, self._world.now, machine.number, seen.leader, node.end_offset, high_watermark)
        )

    def _voters_are_newest(self, machine: Machine, seen: _Seen) -> None:
        voters = machine.node.voters
        seen.voters = voters
        in_log = machine.disk.voters.electorate
        if in_log and tuple(each.key for each in voters.by_id.values()) != in_log:
            raise Violation(
                "the newest voters in the log count",
                f"{machine} takes {list(voters.by_id)}, its log says {in_log}",
            )

    def _changed(self, machine: Machine, seen: _Seen, role: Role, leader: LeaderAndEpoch) -> None:
        world = self._world
        if leader.epoch < seen.leader.epoch:
            raise Violation("epochs never fall", f"{machine}: {seen.leader} became {leader}")
        name = world.role_name(machine)
        if role is not seen.role:
            before = "start" if seen.role is None else seen.role.name.capitalize()
            world.coverage.count(f"{before} > {name}")
        world.trace_state(machine)
        if name not in ("Follower", "Observer"):
            self.promises.stopped_following(machine)
        if name == "Leader":
            self._leads(machine, leader.epoch)
        elif name == "Candidate" and (role is not seen.role or leader != seen.leader):
            self.promises.stands(machine, leader.epoch)
        seen.role, seen.leader = role, leader

    def _leads(self, machine: Machine, epoch: int) -> None:
        who = (machine.number, machine.life)
        before = self.leaders.setdefault(epoch, who)
        if before != who:
            raise Violation(
                "one leader per epoch", f"{machine} (life {machine.life}) and {before} lead {epoch}"
            )
        world = self._world
        world.coverage.count("election")
        last = self.ledger.last_before(epoch)  # a later epoch may be ahead of it: its votes came late
        if last is not None and not machine.disk.holds(last, machine.disk.end_offset):
            raise Violation("leader completeness", f"{machine} leads {epoch} and does not have {last}")
        self.promises.elected(machine, epoch, self._electorates_of(machine, epoch)[0][1])

    def _electorates_of(self, machine: Machine, epoch: int) -> list[tuple[int, Electorate]]:
        """The epoch's, begun with what its leader's log named before it."""
        known = self._electorates.get(epoch)
        if known is None:
            in_log = machine.disk.voters_before_epoch(epoch).electorate
            known = self._electorates[epoch] = [(-1, in_log or self._world.first_electorate)]
        return known


def _among(key: ReplicaKey, electorate: Electorate) -> bool:
    return any(each.matches(key) for each in electorate)
