"""A whole quorum in one process, under one seed: the queue of what happens when, and all that it happens to.

    seed ──▶ fault plan ──▶ steps ──▶ machines (node + disk + clock) ──▶ network ──▶ machines …
                                        │
                                      invariants: after each event, everything must still hold

An event is a message that arrives, a timer of a machine, a sync that ends, or a step of the run. Time is
whole microseconds; events of the same moment come in the order in which they were posted. Nothing here looks
at the real clock, at real chance or at the order of a set, so a seed is a run: the same events in the same
order, wherever and however often it is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Any, Final

import msgspec

from broker.simulation.coverage import Coverage
from broker.simulation.quorum.fault_plan import VERBS, FaultPlan
from broker.simulation.quorum.invariants import Invariants
from broker.simulation.quorum.library import Electorate, Library
from broker.simulation.quorum.liveness import Liveness
from broker.simulation.quorum.machine import Machine
from broker.simulation.quorum.model_machine import ModelMachine
from broker.simulation.quorum.network import LISTENER, Network, Token
from broker.simulation.quorum.observed_log import ObservedLog
from broker.simulation.quorum.promise_invariants import error_of
from broker.simulation.quorum.steps import Step, play, verb_of
from broker.simulation.quorum.trace import Trace
from broker.simulation.seeded_random import SeededRandom
from controller.raft.config import RaftConfig
from controller.raft.identity import Address, ReplicaKey
from controller.raft.log_port import SnapshotControl
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.quorum import VotersRecord
from protocol.records.builder import SimpleRecord, build_batch
from protocol.values import ZERO_UUID

__all__ = ["IDLE_BITS", "World"]

CLUSTER_ID: Final = "simulated-quorum-00001"
PORT: Final = 9093
ODDS: Final = 0xFFFF
PAYLOADS: Final = 64
IDLE_BITS: Final = 0x300
"""An append with these random bits changes nothing."""
REMOVE_VOTER: Final = VERBS.index("remove-voter")
WIPE: Final = VERBS.index("wipe")
MOVE: Final = VERBS.index("move")


MakeMachine = Callable[["World", int, RaftConfig, SnapshotControl | None], Machine]
"""(world, number, config, what `storage format` wrote for it) -> the machine."""


class World:
    """One run. `run` it once; then look at `invariants`, `coverage`, `events` and `steps`."""

    def __init__(
        self,
        seed: int,
        fault_plan: FaultPlan,
        steps: Sequence[Step] | None = None,
        trace: Trace | None = None,
        make_machine: MakeMachine = ModelMachine,
    ) -> None:
        """steps: those of an earlier run, to be done again; None makes some up. trace: gets the transcript,
        if it is wanted. make_machine: what the replicas run on."""
        self.seed = seed
        self._make_machine = make_machine
        self.fault_plan = fault_plan
        self.drawn_plan = fault_plan
        """The fault plan, outside of the phases without faults."""
        self.now = 0
        self.events = 0
        self.coverage = Coverage()
        self.trace = trace
        self.steps: list[Step] = []
        """What has befallen the quorum so far."""
        self.patience = fault_plan.fetch_timeout_ms / 1_000
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._posted = 0
        self._told = None if steps is None else list(steps)
        self._plan = SeededRandom(seed, "plan")
        self._calms = SeededRandom(seed, "calms")
        self._disk_word = SeededRandom(seed, "disks").word
        self._calm: Liveness | None = None
        self._requests = 0
        self._appends = 0
        self._payloads: list[bytearray] = []
        self.network = Network(self, SeededRandom(seed, "network"))
        self.invariants = Invariants(self)
        self.library = Library()
        self.machines: list[Machine] = []
        self.addresses: dict[tuple[str, int], Machine] = {}
        self.moved: dict[int, None] = {}
        """Machines, by number, that have another address than at the beginning."""
        self.lost_disks: dict[ReplicaKey, ObservedLog] = {}
        """What was on a disk when a replica lost it."""
        self.first_electorate: Electorate = ()
        self._build()

    # The beginning

    def _build(self) -> None:
        fault_plan = self.fault_plan
        count = fault_plan.voters + fault_plan.spares + fault_plan.observers
        controllers = range(1, fault_plan.voters + fault_plan.spares + 1)
        addresses = {id_: Address(f"n{id_}", PORT) for id_ in controllers}
        voters = {id_: addresses[id_] for id_ in controllers[: fault_plan.voters]}
        record = VotersRecord(voters=[_voter_entry(id_, address) for id_, address in voters.items()])
        first = SnapshotControl(1, record) if fault_plan.dynamic else None
        if fault_plan.dynamic:
            self.first_electorate = tuple(ReplicaKey(id_, directory_of(id_, 0)) for id_ in voters)
        else:
            self.first_electorate = tuple(ReplicaKey(id_, ZERO_UUID) for id_ in voters)
        voters_stay = not (
            fault_plan.weights[REMOVE_VOTER] or fault_plan.weights[WIPE] or fault_plan.weights[MOVE]
        )
        servers = tuple((voters if voters_stay else addresses).values())
        for number in range(count):
            id_ = number + 1
            is_controller = number < len(controllers)
            config = RaftConfig(
                node=ReplicaKey(id_, directory_of(id_, 0)),
                cluster_id=CLUSTER_ID,
                listener=LISTENER,
                endpoints=MappingProxyType({LISTENER: addresses[id_]} if is_controller else {}),
                static_voters=MappingProxyType({} if fault_plan.dynamic else voters),
                bootstrap_servers=servers if fault_plan.dynamic else (),
                can_be_voter=is_controller,
                auto_join=fault_plan.auto_join and is_controller,
                election_timeout_ms=fault_plan.election_timeout_ms,
                election_backoff_max_ms=fault_plan.election_timeout_ms,
                fetch_timeout_ms=fault_plan.fetch_timeout_ms,
                request_timeout_ms=fault_plan.fetch_timeout_ms,
                fetch_max_bytes=fault_plan.fetch_bytes,
                fetch_snapshot_max_bytes=fault_plan.chunk_bytes,
            )
            machine = self._make_machine(self, number, config, first if number < fault_plan.voters else None)
            self.machines.append(machine)
            if is_controller:
                self.addresses[addresses[id_]] = machine

    # Time

    def post(self, delay: int, call: Callable[..., None], *arguments: Any) -> None:
        """Calls later; `delay` in microseconds."""
        self._posted += 1
        heappush(self._queue, (self.now + delay, self._posted, call, arguments))

    def run(self, events: int) -> None:
        """At least so many events, and then until the quorum has come to rest. Raises Violation."""
        for machine in self.machines:
            machine.start()
        self._next_step()
        while self._queue and (self.events < events or self._calm is not None):
            self._go_on(max(events - self.events, 1))
        self.calm_begins()
        while self._calm is not None:
            self._go_on(1)

    def _go_on(self, events: int) -> None:
        queue = self._queue
        number = 0
        try:
            for number in range(1, events + 1):  # noqa: B007
                if not queue:
                    return  # nobody waits for anything: an only voter, and no steps are left
                self.now, _, call, arguments = heappop(queue)
                call(*arguments)
        finally:
            self.events += number

    # The trace

    def _next_step(self) -> None:
        if self._told is not None:
            if self._told:
                step = self._told.pop(0)
                self.post(max(step.at - self.now, 0), self._step, step)
            return
        random = self._plan
        gap = 1 + random.below(self.drawn_plan.step_gap_ms * 2_000)
        verb = verb_of(random.weighted(self.drawn_plan.weights))
        self.post(gap, self._step, Step(self.now + gap, verb, random.below(1 << 16), random.below(1 << 32)))

    def _step(self, step: Step) -> None:
        if self._calm is None:
            self.steps.append(step)
            play(self, step)
        self._next_step()

    def calm_begins(self) -> None:
        if self._calm is None:
            self._calm = Liveness(self, self._calms.below(1 << 16))

    def calm_ends(self) -> None:
        self._calm = None
        self.fault_plan = self.drawn_plan
        self.trace_line(None, "the quiet period is over")

    def trace_line(self, machine: Machine | None, text: str) -> None:
        if self.trace is not None:
            self.trace.line(self.now, machine, text)

    def trace_state(self, machine: Machine) -> None:
        if self.trace is not None:
            self.trace.line(self.now, machine, self.state_of(machine))

    # Chance, for the parts

    def chance_of(self, machine: Machine) -> SeededRandom:
        return SeededRandom(self.seed, f"node {machine.id} life {machine.life}")

    def stalls(self) -> bool:
        return self.fault_plan.stall > 0 and self._disk_word() & ODDS < self.fault_plan.stall

    def stall_time(self) -> int:
        return 1 + self._disk_word() % 300_000

    def sync_time(self) -> int:
        return 1 + self._disk_word() % self.fault_plan.sync

    def next_request_id(self) -> int:
        self._requests += 1
        return self._requests

    # Machines

    @staticmethod
    def role_name(machine: Machine) -> str:
        """As in `Role`, spelled as a word; Observer for one that only looks on."""
        node = machine.node
        name = node.role.name.capitalize()
        return "Observer" if name == "Follower" and node.is_observer else name

    def state_of(self, machine: Machine) -> str:
        if not machine.is_up:
            return "down"
        node = machine.node
        leader = f"n{node.leader.leader_id}" if node.leader.leader_id >= 0 else "none"
        return (
            f"{self.role_name(machine)} of epoch {node.leader.epoch}, leader {leader}, "
            f"log [{machine.disk.start_offset}..{node.end_offset}), committed {node.high_watermark}"
        )

    def replica(self, key: ReplicaKey) -> Machine | None:
        """The machine that still is this replica."""
        if not 0 < key.id <= len(self.machines):
            return None
        machine = self.machines[key.id - 1]
        return machine if machine.key.matches(key) else None

    @staticmethod
    def has_majority(electorate: Electorate, machines: Sequence[Machine]) -> bool:
        present = sum(any(each.key.matches(key) for each in machines) for key in electorate)
        return 2 * present > len(electorate)

    def _electorates(self) -> list[Electorate]:
        """All sets of voters that any disk names, committed last or not yet."""
        found = {self.first_electorate: True} if not self.fault_plan.dynamic else {}
        for machine in self.machines:
            found |= dict.fromkeys(machine.disk.electorates(self.invariants.ledger.end_offset), True)
        return list(found)

    def can_decide(self, machines: Sequence[Machine]) -> bool:
        """Whether these are a majority of every set of voters that may count, and can be found where those
        say."""
        found = [each for each in machines if self._is_where_expected(each)]
        return all(self.has_majority(electorate, found) for electorate in self._electorates())

    def _is_where_expected(self, machine: Machine) -> bool:
        address = machine.config.endpoints.get(LISTENER)
        return all(each.disk.address_of(machine.key) in (None, address) for each in self.machines)

    def can_spare(self, machine: Machine) -> bool:
        return self.can_decide([each for each in self.machines if each is not machine])

    def wipe(self, machine: Machine) -> None:
        self.lost_disks[machine.key] = machine.disk
        directory = directory_of(machine.id, machine.life)
        machine.lose_disk(msgspec.structs.replace(machine.config, node=ReplicaKey(machine.id, directory)))

    def move(self, machine: Machine, address: Address) -> None:
        """Another address from now on; whoever starts later has it among its bootstrap servers."""
        del self.addresses[next(iter(machine.config.endpoints.values()))]
        self.moved[machine.number] = None
        self.addresses[address] = machine
        machine.config = msgspec.structs.replace(
            machine.config, endpoints=MappingProxyType({LISTENER: address})
        )
        servers = tuple(self.addresses)
        for each in self.machines:
            each.config = msgspec.structs.replace(
                each.config, bootstrap_servers=tuple(Address(*server) for server in servers)
            )

    # Clients

    def append(self, leader: Machine, random_bits: int) -> None:
        """A client's append to who takes itself for the leader; every fourth changes nothing."""
        self._appends += 1
        leader.append((self._appends + random_bits) % PAYLOADS, is_news=random_bits & IDLE_BITS != IDLE_BITS)

    def payload(self, number: int) -> bytearray:
        """A client's batch, whose offsets and epoch whoever appends it fills in."""
        if not self._payloads:
            self._payloads = [_payload(each) for each in range(PAYLOADS)]
        return self._payloads[number]

    def client_answered(self, token: Token, message: Message) -> None:
        error = ErrorCode(error_of(message)).name
        self.coverage.count(f"{type(token.message).__name__[:-7]} of an operator: {error}")
        self.trace_line(None, f"the operator hears {error} to {type(token.message).__name__[:-7]}")


def directory_of(id_: int, generation: int) -> bytes:
    """A directory id that says whose it is."""
    return b"disk" + id_.to_bytes(4, "big") + generation.to_bytes(8, "big")


def _voter_entry(id_: int, address: Address) -> VotersRecord.Voter:
    return VotersRecord.Voter(
        voter_id=id_,
        voter_directory_id=directory_of(id_, 0),
        endpoints=[VotersRecord.Endpoint(name=LISTENER, host=address.host, port=address.port)],
        k_raft_version_feature=VotersRecord.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=1
        ),
    )


def _payload(number: int) -> bytearray:
    """A batch of one to three records."""
    return build_batch(
        SimpleRecord(value=f"{number}/{record}".encode(), timestamp=number)
        for record in range(1 + number % 3)
    )
