"""The smaller parts of the raft node beside models too dumb to be wrong; and the simulator's own parts.

A log of the model is a list of epochs, one record each; voters are found by looking through the whole log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.simulation.quorum.disk import Disk, DiskSnapshot, whole_snapshot
from broker.simulation.quorum.library import Library
from broker.simulation.seeded_random import SeededRandom
from broker.simulation.shrinking import shortest
from controller.raft.config import RaftConfig
from controller.raft.effects import Append
from controller.raft.identity import Address, ReplicaKey, SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.log_view import LogView
from controller.raft.node import RaftNode
from controller.raft.progress import commit_what_a_majority_has
from controller.raft.roles import Leader, Progress, Tally
from controller.raft.transitions import Role
from controller.raft.voters import Voter, VoterHistory, VoterSet
from protocol.codec.compiler import encode
from protocol.errors import InvariantViolated
from protocol.primitives import Records
from protocol.quorum import KRaftVersionRecord
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.control import ControlRecordType, build_control_batch

LISTENER = "CONTROLLER"


# Two logs that part somewhere


@dataclass
class _Alike:
    """A `RaftLog` of which only the epochs matter; all records are alike."""

    log: list[int] = field(default_factory=list)
    start_offset: int = 0

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.log)

    def epochs(self) -> list[tuple[int, int]]:
        found: dict[int, int] = {}
        for offset, epoch in enumerate(self.log, self.start_offset):
            found.setdefault(epoch, offset)
        return list(found.items())

    def read(self, offset: int, max_bytes: int) -> Records:
        return b""

    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        records = [SimpleRecord(value=b"x", timestamp=0)] * (self.end_offset - offset)
        return bytes(build_batch(records, base_offset=offset, leader_epoch=self.log[-1]))

    def snapshots(self) -> list[SnapshotId]:
        return []

    def snapshot_control(self, snapshot: SnapshotId) -> SnapshotControl:
        return SnapshotControl()

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        return b""

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        return None


def _two_logs(common: list[int], one: list[int], other: list[int]) -> tuple[list[int], list[int]]:
    """As leaders write them: epochs ascend, and an epoch has one leader, so the logs share what they have of
    one only from its beginning on."""
    base = sorted(common)
    floor = base[-1] if base else 1
    return base + [floor + 2 * each for each in sorted(one)], base + [
        floor + 2 * each + 1 for each in sorted(other)
    ]


few = st.lists(st.integers(1, 4), max_size=8)


@given(few, few, few)
def test_two_logs_meet_where_they_part(common: list[int], one: list[int], other: list[int]) -> None:
    """Fetching and cutting back ends at the longest common beginning, and never cuts into it."""
    leader, follower = _two_logs(common, one, other)
    ours = LogView(_Alike(leader))
    theirs = LogView(_Alike(follower))
    shared = sum(1 for a, b in zip(leader, follower, strict=False) if a == b)
    for _ in range(len(follower) + 1):
        fit = ours.fit(theirs.end_offset, theirs.last_epoch)
        assert fit.snapshot is None
        if fit.diverging is None:
            break
        epoch, end_offset = fit.diverging
        known, local_end = theirs.end_offset_for(epoch) if epoch > 0 else (epoch, end_offset)
        cut = min(local_end, end_offset) if known == epoch else local_end
        assert shared <= cut < theirs.end_offset
        theirs.truncate(cut)
    else:
        pytest.fail("they never met")
    assert theirs.end_offset == shared


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 3), st.integers(0, 1)),
            st.tuples(st.just("truncate"), st.integers(0, 6), st.just(0)),
            st.tuples(st.just("execute"), st.just(0), st.just(0)),
            st.tuples(st.just("synced"), st.integers(0, 3), st.just(0)),
        ),
        max_size=40,
    )
)
def test_a_log_view_beside_a_list(steps: list[tuple[str, int, int]]) -> None:
    """Offsets, epochs and what is synced, whatever is appended, cut, executed and synced when."""
    view = LogView(_Alike())
    log: list[int] = []
    epoch, durable = 1, 0
    syncs: dict[int, int] = {}
    for verb, number, more in steps:
        if verb == "append":
            epoch += more
            log += [epoch] * number
            view.append(b"x", len(log), epoch)
        elif verb == "truncate" and number < len(log):
            del log[number:]
            view.truncate(number)
            durable = min(durable, number)
            syncs = {sync: min(end, number) for sync, end in syncs.items()}
        elif verb == "execute":
            operations, sync = view.take()
            if sync:
                syncs[sync] = len(log)
                assert any(isinstance(each, Append) for each in operations)
        elif verb == "synced" and syncs:
            sync = sorted(syncs)[min(number, len(syncs) - 1)]
            durable = max(durable, *(end for each, end in syncs.items() if each <= sync))
            syncs = {each: end for each, end in syncs.items() if each > sync}
            view.synced(sync)
        assert view.end_offset == len(log)
        assert view.last_epoch == (log[-1] if log else 0)
        assert view.synced_offset == durable


# Voters


def _voter(id_: int, disk: int = 0) -> Voter:
    key = ReplicaKey(id_, bytes(15) + bytes([disk + 1]))
    return Voter(key, MappingProxyType({LISTENER: Address(f"n{id_}", 9093)}))


def _control(offset: int, *, version: int | None, voters: VoterSet | None) -> bytes:
    records = []
    if version is not None:
        records.append(
            (ControlRecordType.KRAFT_VERSION, encode(KRaftVersionRecord(k_raft_version=version), 0))
        )
    if voters is not None:
        records.append((ControlRecordType.KRAFT_VOTERS, encode(voters.to_record(), 0)))
    return bytes(build_control_batch(records, timestamp_ms=0, base_offset=offset, leader_epoch=1))


voter_sets = st.sets(st.integers(1, 5), min_size=1).map(lambda ids: VoterSet.of(map(_voter, sorted(ids))))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("voters"), voter_sets, st.integers(0, 3)),
            st.tuples(st.just("version"), st.integers(1, 2), st.integers(0, 3)),
            st.tuples(st.just("cut"), st.just(0), st.integers(0, 12)),
        ),
        max_size=20,
    ),
    st.integers(0, 14),
)
def test_voters_beside_a_walk_through_the_log(steps: list[tuple[str, object, int]], asked: int) -> None:
    static = VoterSet.static({9: Address("n9", 9093)}, LISTENER)
    history = VoterHistory(static)
    log: dict[int, tuple[str, object]] = {}
    end_offset = 0
    for verb, value, number in steps:
        if verb == "cut":
            end_offset = min(end_offset, number)
            log = {offset: entry for offset, entry in log.items() if offset < end_offset}
            history.truncate_from_end(end_offset)
            continue
        end_offset += number  # records of others
        if isinstance(value, VoterSet):
            history.read(_control(end_offset, version=None, voters=value), 0, end_offset)
        elif isinstance(value, int):
            history.read(_control(end_offset, version=value, voters=None), 0, end_offset)
        log[end_offset] = (verb, value)
        end_offset += 1

    def newest(kind: str, below: int) -> object:
        found = [value for offset, (verb, value) in sorted(log.items()) if verb == kind and offset < below]
        return found[-1] if found else None

    assert history.voters == (newest("voters", end_offset) or static)
    assert history.version == (newest("version", end_offset) or 0)
    assert history.at(asked) == (newest("version", asked) or 0, newest("voters", asked))


@given(voter_sets, st.sets(st.integers(1, 5)), st.sets(st.integers(1, 5)))
def test_an_election_beside_counting(voters: VoterSet, granted: set[int], refused: set[int]) -> None:
    tally = Tally(voters, granted & set(voters.by_id), (refused - granted) & set(voters.by_id))
    undecided = len(voters) - len(tally.granted) - len(tally.refused)
    assert tally.is_won == (2 * len(tally.granted) > len(voters))
    assert tally.is_lost == (2 * (len(tally.granted) + undecided) <= len(voters))
    assert not (tally.is_won and tally.is_lost)


# What is committed


class _LowestRandomSource:
    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def below(self, bound: int) -> int:
        return 0

    def fraction(self) -> float:
        return 0.0


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=7),
    st.integers(1, 6),
    st.integers(0, 6),
)
def test_what_a_majority_has_beside_counting(fetched: list[int], old: int, new: int) -> None:
    """A leader has `old` records of epochs before and then `new` of its own. It commits as far as more than
    half of the voters have fetched, counting itself, if that reaches into its own epoch."""
    count = len(fetched) + 1
    config = RaftConfig(
        node=ReplicaKey(1),
        cluster_id="cluster",
        listener=LISTENER,
        static_voters=MappingProxyType({id_: Address(f"n{id_}", 1) for id_ in range(1, count + 1)}),
    )
    replica = RaftNode(config, _Alike([1] * old + [2] * new), None, _LowestRandomSource())._replica
    replica.epoch, replica.leader_id = 2, 1
    voters = {each.key.id: Progress(each.key) for each in replica.voters.by_id.values()}
    ends = [min(each, old + new) for each in fetched]
    for id_, end_offset in enumerate(ends, 2):
        voters[id_].end_offset = end_offset
    replica.role = Role.LEADER
    replica.state = Leader(
        epoch_start_offset=old,
        counted=replica.voters,
        voters=voters,
        observers={},
        check_quorum_deadline_ms=0,
        begin_epoch_deadline_ms=0,
        fetched=set(),
        waiting=[],
    )
    expected = 0
    for offset in range(old + 1, old + new + 1):
        if 2 * sum(1 for end in [*ends, old + new] if end >= offset) > count:
            expected = offset
    assert commit_what_a_majority_has(replica) == (expected > 0)
    assert replica.high_watermark == expected
    assert not commit_what_a_majority_has(replica)


# The simulator's own parts


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=10),
    st.integers(0, 10),
    st.integers(0, 1 << 12),
    st.integers(0, 12),
)
def test_a_crash_leaves_what_was_synced_and_whole_batches(
    sizes: list[int], synced: int, luck: int, cut: int
) -> None:
    disk = Disk(Library())
    ends = [0]
    for number, size in enumerate(sizes):
        records = [SimpleRecord(value=b"%d" % number, timestamp=0)] * size
        batch = bytes(build_batch(records, base_offset=disk.end_offset, leader_epoch=1))
        disk.append(disk.end_offset, disk.end_offset + size, batch)
        ends.append(disk.end_offset)
        if number == synced:
            disk.begin_sync(1)
    durable = ends[min(synced + 1, len(sizes))] if synced < len(sizes) else 0
    if cut < len(sizes):
        disk.truncate(ends[cut])
        durable = min(durable, ends[cut])
    disk.end_sync(1)
    assert disk.synced_end == durable
    before = disk.end_offset
    disk.crash(luck)
    assert durable <= disk.end_offset <= before
    assert disk.end_offset in ends
    assert disk.synced_end == disk.end_offset


@given(st.integers(1, 1 << 40), st.integers(0, 400), st.integers(0, 500), st.integers(1, 255))
def test_a_broken_snapshot_is_seen(end_offset: int, filling: int, where: int, change: int) -> None:
    id_ = SnapshotId(end_offset, 3)
    snapshot = DiskSnapshot.of(id_, -5, SnapshotControl(1, VoterSet.of([_voter(1)]).to_record()), filling)
    assert whole_snapshot(id_, snapshot.content) == snapshot
    assert whole_snapshot(SnapshotId(end_offset, 4), snapshot.content) is None
    broken = bytearray(snapshot.content)
    broken[where % len(broken)] ^= change
    assert whole_snapshot(id_, bytes(broken)) is None
    assert whole_snapshot(id_, snapshot.content[:-1]) is None


@given(st.sets(st.integers(0, 40)), st.integers(0, 60))
def test_the_shortest_story_has_what_is_needed_and_nothing_else(needed: set[int], more: int) -> None:
    steps = list(range(41 + more))
    found = shortest(steps, lambda candidate: needed <= set(candidate), largest_trials=5_000)
    assert found == sorted(needed)


@given(st.integers(0, 1 << 40), st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_dice_keep_to_their_bounds(seed: int, weights: list[int]) -> None:
    weights = [*weights, 1]
    random, again = SeededRandom(seed, "a"), SeededRandom(seed, "a")
    for _ in range(100):
        assert 3 <= random.between(3, 9) <= 9
        assert 0 <= random.fraction() < 1
        assert weights[random.weighted(weights)] > 0
        assert len(random.random_bytes(13)) == 13
    assert [again.below(1000) for _ in range(80)] != [SeededRandom(seed, "b").below(1000) for _ in range(80)]
    assert not random.happens(0.0)
    assert random.happens(1.0)


def test_a_log_that_cannot_be_is_an_error_of_ours() -> None:
    view = LogView(_Alike([1, 2]))
    with pytest.raises(InvariantViolated):
        view.append(b"x", 3, 1)
    with pytest.raises(InvariantViolated):
        view.truncate(2)
