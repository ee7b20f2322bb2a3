"""A group under random clients, time-outs, restarts and a log that refuses, against a simple model.

The model knows what clients were told. Whatever happens:

* in one generation one member leads, and all are told the same;
* who is told an assignment is told the leader's, as it was stored;
* who has synced and shows that it lives is in the group;
* nobody waits for an answer that nothing will give;
* what the log holds makes the same group and the same offsets again;
* no timer rings again and again without the clock moving, whatever time-outs clients name;
* left alone, everybody is set free and the group empties.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.coordinator.classic.classic_group import ClassicGroup, ClassicGroupMember
from broker.coordinator.classic.states import GroupState
from broker.coordinator.group_operation import DeadlineKind, GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.serving.pending import Pending
from tests.support.rigs.group_world import GroupWorld

SESSION_MS = 10_000
REBALANCE_MS = 20_000
LONGEST_MS = 2**31 - 1
SESSIONS_MS = (SESSION_MS, SESSION_MS, SESSION_MS, 0, 1, 600_000)
REBALANCES_MS = (REBALANCE_MS, REBALANCE_MS, REBALANCE_MS, 0, 0, -1, 1, LONGEST_MS)
"""Clients may name any time-out: none at all, less than none, and three weeks."""
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=1_000,
    group_max_size=4,
    group_min_session_timeout_ms=0,
    offsets_retention_ms=10**15,
    offsets_retention_check_interval_ms=LONGEST_MS,
)
CLIENTS = 5
UUID_SUFFIX_LENGTH = 37
PROTOCOLS = (
    (("range", b"r"), ("sticky", b"s")),
    (("sticky", b"s"), ("range", b"r")),
    (("range", b"r2"),),
)


class Client:
    """What one client knows of itself. Instances 0 and 1 are static members."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.instance = f"static-{number}" if number < 2 else None
        self.session_ms = SESSION_MS
        """The shortest it has ever named."""
        self.forget()
        self.joining: Pending[Any] | None = None
        self.syncing: Pending[Any] | None = None

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.leads: list[str] | None = None
        """As leader: the members of its generation."""
        self.synced = False
        self.heard_ms = 0


class GroupMachine(RuleBasedStateMachine):
    """Each rule is something that a client, the clock or the log does."""

    @initialize()
    def begin(self) -> None:
        self.world = GroupWorld(SETTINGS)
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.offsets: dict[int, int] = {}
        self.lives: list[ClassicGroup] = []
        """The group objects there have been: generations count within one."""
        self.leaders: dict[tuple[int, int], str] = {}
        self.assignments: dict[tuple[int, int], list[dict[str, bytes]]] = {}
        self.waiting: list[tuple[str, Pending[Any]]] = []
        self.refused: set[tuple[int, int]] = set()
        """Lives and generations in which the log has refused a write. That a group is empty then is perhaps
        known in memory only, which does no harm: nobody is in it."""

    # Helpers

    @property
    def group(self) -> ClassicGroup | None:
        return self.world.shard("g").group_metadata.groups.get("g")

    def life(self) -> int:
        group = self.group
        if group is None:
            return -1
        if not self.lives or self.lives[-1] is not group:
            self.lives.append(group)
        return len(self.lives)

    def name(self, client: Client, member_id: str) -> str:
        """Who a member is, beyond its id: a static one is its instance."""
        return member_id[:-UUID_SUFFIX_LENGTH] if member_id.startswith("static-") else member_id

    def settle(self) -> None:
        """Let clients read what they were answered."""
        for client in self.clients:
            if client.joining is not None and client.joining.done:
                response, client.joining = client.joining.response, None
                self.joined(client, response)
            if client.syncing is not None and client.syncing.done:
                response, client.syncing = client.syncing.response, None
                self.got_assignment(client, response)
        self.waiting = [(what, pending) for what, pending in self.waiting if not pending.done]

    def joined(self, client: Client, response: Any) -> None:
        error = ErrorCode(response.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            assert client.instance is None
            client.member_id = response.member_id
            return
        if error is not ErrorCode.NONE:
            self.failed(client, error)
            return
        client.member_id, client.generation = response.member_id, response.generation_id
        client.synced, client.heard_ms = False, self.world.clock.monotonic_ms()
        leads = response.leader == response.member_id
        members = [member.member_id for member in response.members]
        client.leads = members if leads else None
        if leads:
            assert response.member_id in members
        else:
            assert response.members == []
        key = (self.life(), response.generation_id)
        leader = self.name(client, response.leader)
        if self.group is None:
            return  # the log has refused it meanwhile; nothing tells one such group from the next
        assert self.leaders.setdefault(key, leader) == leader, "two leaders in one generation"

    def got_assignment(self, client: Client, response: Any) -> None:
        error = ErrorCode(response.error_code)
        if error is not ErrorCode.NONE:
            self.failed(client, error)
            return
        client.synced, client.heard_ms = True, self.world.clock.monotonic_ms()
        group = self.group
        assert group is not None
        given = self.assignments[self.life(), client.generation]
        own = client.member_id if client.instance is None else client.instance
        shares = [share.get(own, b"") for share in given]
        assert response.assignment in shares, "an assignment that no leader gave"

    def failed(self, client: Client, error: ErrorCode) -> None:
        client.synced, client.leads = False, None
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        ):
            client.forget()
        if error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            client.generation = -1

    def note(self, what: str, answer: Any) -> Pending[Any]:
        if isinstance(answer, Pending):
            if not answer.done:
                self.waiting.append((what, answer))
            return answer
        done: Pending[Any] = Pending()
        done.complete(answer)
        return done

    # Clients

    @rule(
        number=st.integers(0, CLIENTS - 1),
        protocols=st.sampled_from(PROTOCOLS),
        version=st.sampled_from((3, 9)),
        session_ms=st.sampled_from(SESSIONS_MS),
        rebalance_ms=st.sampled_from(REBALANCES_MS),
    )
    def join(
        self,
        number: int,
        protocols: tuple[tuple[str, bytes], ...],
        version: int,
        session_ms: int,
        rebalance_ms: int,
    ) -> None:
        client = self.clients[number]
        if client.joining is not None or client.syncing is not None:
            return
        answer = self.world.join(
            "g", client.member_id, instance=client.instance, protocols=protocols,
            version=9 if client.instance else version, session_ms=session_ms, rebalance_ms=rebalance_ms,
        )  # fmt: skip
        client.session_ms = min(client.session_ms, session_ms)
        client.synced = False
        client.joining = self.note("join", answer)
        self.settle()

    @rule(number=st.integers(0, CLIENTS - 1))
    def sync(self, number: int) -> None:
        client = self.clients[number]
        if client.generation < 0 or client.joining is not None or client.syncing is not None:
            return
        shares: dict[str, bytes] = {}
        if client.leads is not None:
            shares = {member: f"{client.generation}/{member}".encode() for member in client.leads}
            by_name = {
                member if not member.startswith("static-") else self.name(client, member): share
                for member, share in shares.items()
            }
            self.assignments.setdefault((self.life(), client.generation), []).append(by_name)
        answer = self.world.sync(client.member_id, client.generation, shares, instance=client.instance)
        client.syncing = self.note("sync", answer)
        self.settle()

    @rule(number=st.integers(0, CLIENTS - 1))
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        if client.generation < 0 or client.joining is not None or client.syncing is not None:
            return
        error = self.world.heartbeat(client.member_id, client.generation, instance=client.instance)
        if error is ErrorCode.NONE:
            client.heard_ms = self.world.clock.monotonic_ms()
        elif error is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.failed(client, error)

    @rule(number=st.integers(0, CLIENTS - 1))
    def leave(self, number: int) -> None:
        client = self.clients[number]
        if not client.member_id or client.joining is not None or client.syncing is not None:
            return
        answer = self.note("leave", self.world.groups.leave("g", [_identity(client)]))
        if answer.response is not None:
            assert answer.response.members[0].error_code in (0, 25, 82)
        client.forget()
        self.settle()

    @rule(number=st.integers(0, CLIENTS - 1))
    def crash(self, number: int) -> None:
        """The client is gone without a word; a static one will be back under its instance."""
        client = self.clients[number]
        for pending in (client.joining, client.syncing):
            if pending is not None:
                pending.cancel()
        self.clients[number] = Client(number)
        self.settle()

    @precondition(lambda self: self.world.log.held is None)
    @rule(rebalance_ms=st.sampled_from(REBALANCES_MS), back=st.booleans())
    def static_members_work(self, rebalance_ms: int, back: bool) -> None:
        """Both join and sync; perhaps they come back at once, which tells the group their new time-outs and
        disturbs nobody."""
        for number in (0, 1):
            self.crash(number)
            self.join(number, PROTOCOLS[0], 9, SESSION_MS, REBALANCE_MS)
        self.time_passes(milliseconds=3_000)
        for number in (0, 1, 0):
            self.sync(number)
        for number in (0, 1) if back else ():
            self.crash(number)
            self.join(number, PROTOCOLS[0], 9, SESSION_MS, rebalance_ms)

    @rule(partition=st.integers(0, 2), offset=st.integers(0, 1000), number=st.integers(-1, CLIENTS - 1))
    def commit(self, partition: int, offset: int, number: int) -> None:
        client = self.clients[number] if number >= 0 else Client(9)
        if client.joining is not None or client.syncing is not None or self.world.log.held is not None:
            return
        error = self.world.commit_error(
            offset, partition=partition, member_id=client.member_id, generation=client.generation,
            instance=client.instance if client.member_id else None,
        )  # fmt: skip
        if error is ErrorCode.NONE:
            self.offsets[partition] = offset
            client.heard_ms = self.world.clock.monotonic_ms()

    # Time, log and coordinator

    @rule(milliseconds=st.sampled_from((1, 500, 1_000, 3_000, 9_999, 20_001)))
    def time_passes(self, milliseconds: int) -> None:
        self.world.timers.advance(milliseconds)
        self.settle()

    @precondition(lambda self: self.world.log.held is None)
    @rule()
    def the_log_becomes_slow(self) -> None:
        self.world.log.held = []

    @precondition(lambda self: bool(self.world.log.held))
    @rule(error=st.sampled_from((ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS)))
    def the_log_decides(self, error: ErrorCode) -> None:
        if error and self.group is not None:
            self.refused.add((self.life(), self.group.generation))
        self.world.log.decide(error)
        self.settle()

    @precondition(lambda self: self.world.log.held is not None)
    @rule()
    def the_log_catches_up(self) -> None:
        while self.world.log.held:
            self.world.log.decide()
        self.world.log.held = None
        self.settle()

    @rule()
    def the_coordinator_moves(self) -> None:
        while self.world.log.held:
            self.world.log.decide(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.world.log.held = None
        self.settle()
        before = self.life()
        self.world.restart()
        self.settle()
        assert self.waiting == [], "somebody still waits for the old coordinator"
        for client in self.clients:
            # What was in memory alone is lost; whoever was in it will hear so.
            group = self.group
            if (
                group is None
                or client.member_id not in group.members
                or group.generation != client.generation
            ):
                client.synced = False
            client.leads = None
            client.heard_ms = self.world.clock.monotonic_ms()
        if self.group is not None:
            stored = self.assignments.get((before, self.group.generation))
            if stored is not None:
                self.assignments[self.life(), self.group.generation] = list(stored)

    # What must hold

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        group = self.group
        parked: list[Any] = []
        if group is not None:
            parked += [m.parked_join.waiting for m in group.members.values() if m.parked_join is not None]
            parked += [m.parked_sync for m in group.members.values() if m.parked_sync is not None]
        written = bool(self.world.log.held)
        for what, pending in self.waiting:
            assert pending.done or pending in parked or (what == "leave" and written), what

    @invariant()
    def whoever_lives_is_in(self) -> None:
        group = self.group
        time = self.world.clock.monotonic_ms()
        for client in self.clients:
            if client.synced and time - client.heard_ms < client.session_ms and group is not None:
                is_current = group.state is GroupState.STABLE and group.generation == client.generation
                has_place = (
                    client.instance is None or group.static_members.get(client.instance) == client.member_id
                )
                assert not is_current or not has_place or client.member_id in group.members

    @invariant()
    def the_group_is_sound(self) -> None:
        group = self.group
        if group is None:
            return
        members = group.members
        deadlines = self.world.shard("g").deadlines
        assert group.awaiting_join == sum(member.parked_join is not None for member in members.values())
        assert (group.leader_id in members) if members else group.leader_id is None
        assert set(group.pending_sync) <= set(members)
        assert not set(group.pending_members) & set(members)
        assert group.static_members == {
            m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None
        }
        for name, count in group._supporters.items():
            assert count == sum(
                any(name == own for own, _ in member.protocols) for member in members.values()
            )
        assert (group.state is GroupState.EMPTY) == (
            not members
        ) or group.state is GroupState.PREPARING_REBALANCE
        for member in members.values():
            is_waiting = member.parked_join is not None or member.parked_sync is not None
            assert is_waiting or (DeadlineKind.SESSION, "g", member.member_id) in deadlines, (
                "an immortal member"
            )
        if group.state is GroupState.PREPARING_REBALANCE:
            assert (DeadlineKind.JOIN_PHASE, "g", "") in deadlines, "a join phase without an end"
        if group.state is GroupState.COMPLETING_REBALANCE and group.pending_sync:
            assert (DeadlineKind.SYNC_PHASE, "g", "") in deadlines, "a sync phase without an end"

    @rule()
    def the_log_makes_the_same_group(self) -> None:
        if self.world.log.held:
            return
        other = self.world.coordinator()
        other.elected(other.partition_for("g"), 0)
        self.world.timers.run_soon()
        mine, theirs = self.group, self.world.shard("g", other).group_metadata.groups.get("g")
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None and mine.state in (GroupState.STABLE, GroupState.EMPTY):
            is_known = mine.state is GroupState.STABLE or (self.life(), mine.generation) not in self.refused
            assert _remembered(theirs) == _remembered(mine) or not is_known
        live = self.world.shard("g").offset_metadata.committed.topics("g")
        loaded = self.world.shard("g", other).offset_metadata.committed.topics("g")
        assert {index: entry.offset for index, entry in loaded.get("t", {}).items()} == self.offsets
        assert live == loaded
        other.close()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        while self.world.log.held:
            self.world.log.decide()
        self.world.log.held = None
        self.settle()
        self.world.timers.advance(5 * LONGEST_MS)
        self.settle()
        assert self.waiting == []
        group = self.group
        assert group is None or group.state is GroupState.EMPTY
        assert group is None or not group.pending_members


def _identity(client: Client) -> LeaveGroupRequest.MemberIdentity:
    return LeaveGroupRequest.MemberIdentity(client.member_id, client.instance)


def _remembered(group: ClassicGroup) -> Any:
    """All that a group's record tells. A rebalance timeout of -1 is none there: then the session's counts."""
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        [
            (m.member_id, m.group_instance_id, m.client_id, m.client_host, _patience(m),
             m.session_timeout_ms, m.metadata(group.protocol_name), m.assignment)
            for m in group.members.values()
        ],
    )  # fmt: skip


def _patience(member: ClassicGroupMember) -> int:
    told = member.rebalance_timeout_ms
    return member.session_timeout_ms if told == -1 else told


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
