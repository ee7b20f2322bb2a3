"""A quorum whose every message is delivered by hand: the world behind the transcripts.

Machines, disks, nodes and the watcher with all its invariants are the simulator's own; only time and the
network obey commands. Each command prints what came of it, one line for each thing that happened:

    n1  Candidate of epoch 1, leader none, log [0..0), committed 0
    n1  remembers epoch 1, voted n1
    n1  writes [0..1)/1
    n1  commits up to 1
    n2  ◀ n1  Vote epoch=1 candidate=n1 log=0/0
    n1  ◀ n2  Vote answer granted leader=none epoch=1

Each command is a method `do_…`, its docstring says how it is written. Every command takes `only=Vote,voters`:
of what it prints, the lines with one of these words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from broker.simulation.quorum.fault_plan import VERBS, FaultPlan
from broker.simulation.quorum.invariants import Invariants
from broker.simulation.quorum.library import Batch
from broker.simulation.quorum.machine import Machine
from broker.simulation.quorum.message_texts import in_words
from broker.simulation.quorum.model_machine import NEVER, ModelMachine
from broker.simulation.quorum.network import Network, Token, supported_features
from broker.simulation.quorum.steps import Step, play
from broker.simulation.quorum.trace import Trace
from broker.simulation.quorum.world import IDLE_BITS, World
from broker.simulation.seeded_random import SeededRandom
from controller.raft.effects import Answer, Ready, Request
from controller.raft.identity import SnapshotId
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from tests.simulation.asked_by_hand import request_by_hand
from tests.simulation.transcript_file import Command

LIVE_STEP_MS: Final = 10
LARGEST_ROUNDS: Final = 400
"""A quorum that has not come to rest after so many is turning in circles."""

QUIET: Final = FaultPlan(
    voters=3, observers=0, spares=0, dynamic=True, auto_join=False, election_timeout_ms=1_000,
    fetch_timeout_ms=2_000, chunk_bytes=1 << 20, fetch_bytes=1 << 20, latency=1, jitter=1, drop=0, repeat=0,
    slow=0, corrupt=0, sync=1, stall=0, step_gap_ms=1_000, weights=tuple(0 for _ in VERBS),
)  # fmt: skip


class _Lines(Trace):
    """A trace without times: what a transcript prints."""

    def line(self, now: int, machine: Machine | None, text: str) -> None:
        self.lines.append(text if machine is None else f"{machine}  {text}")

    def take(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


class _TellingWatch(Invariants):
    """Tells what is written, and holds it to the rules."""

    def persisting(self, machine: Machine, ready: Ready) -> None:
        super().persisting(machine, ready)
        state = ready.hard_state
        if state is not None:
            voted = "" if state.voted is None else f", voted n{state.voted.id}"
            leader = "" if state.leader_id < 0 else f", leader n{state.leader_id}"
            machine.world.trace_line(machine, f"remembers epoch {state.epoch}{leader}{voted}")

    def appended(self, machine: Machine, batches: list[Batch]) -> None:
        super().appended(machine, batches)
        for batch in batches:
            voters = ""
            if batch.voters is not None:
                voters = f" voters={','.join(f'n{key.id}' for key in batch.voters.electorate)}"
            machine.world.trace_line(machine, f"writes {_place(batch)}{voters}")

    def truncated(self, machine: Machine, offset: int, gone: list[Batch]) -> None:
        super().truncated(machine, offset, gone)
        machine.world.trace_line(machine, f"cuts off {' '.join(map(_place, gone)) or f'at {offset}'}")

    def installed(self, machine: Machine, id_: SnapshotId, *, is_whole: bool) -> None:
        super().installed(machine, id_, is_whole=is_whole)
        if not is_whole:
            machine.world.trace_line(machine, f"refuses the broken snapshot {id_.end_offset}/{id_.epoch}")

    def committed(self, machine: Machine, end_offset: int) -> None:
        super().committed(machine, end_offset)
        machine.world.trace_line(machine, f"commits up to {end_offset}")


def _place(batch: Batch) -> str:
    return f"[{batch.base_offset}..{batch.end_offset})/{batch.epoch}"


class _Flying(msgspec.Struct, eq=False):
    """A message under way. source and target by number; failed: no answer will come."""

    source: Machine | None
    target: Machine
    message: Message
    arrive: Callable[[], None]


class _HandNetwork(Network):
    """Keeps everything until it is told."""

    def __init__(self, world: World, random: SeededRandom) -> None:
        super().__init__(world, random)
        self.flying: list[_Flying] = []

    def send(self, source: Machine, request: Request) -> None:
        world = self._world
        token = Token(source, source.life, request.request_id, request.message)
        target = world.addresses.get((request.to.host, request.to.port))
        if target is None:
            self._fail(token, ErrorCode.BROKER_NOT_AVAILABLE)
            return

        def arrive() -> None:
            if not target.is_up:
                self._fail(token, ErrorCode.BROKER_NOT_AVAILABLE)
            elif isinstance(request.message, ApiVersionsRequest):
                self.answer(target, Answer(token, supported_features()))
            else:
                target.request_arrived(token)

        self.flying.append(_Flying(source, target, request.message, arrive))

    def answer(self, source: Machine, answer: Answer) -> None:
        token = answer.token
        if not isinstance(token, Token):
            return
        asking: Machine | None = token.source
        if asking is None:
            self._world.trace_line(source, f"▶ {in_words(answer.message)}")
            return
        arrive = self._arrival(token, answer.message)
        self.flying.append(_Flying(source, asking, answer.message, arrive))

    def _arrival(self, token: Token, message: Message) -> Callable[[], None]:
        def arrive() -> None:
            machine: Machine = token.source
            if machine.life == token.life:
                machine.response_arrived(token, message)

        return arrive


class QuorumByHand(World):
    """`run_command` is all that it does."""

    def __init__(self, fault_plan: FaultPlan, seed: int = 1) -> None:
        self.told = _Lines()
        self._held: list[tuple[Machine, Callable[[], None]]] = []
        self._holding: dict[int, bool] = {}
        super().__init__(seed, fault_plan, steps=(), trace=self.told)
        self.hands = _HandNetwork(self, SeededRandom(seed, "network"))
        self.network = self.hands
        self.invariants = _TellingWatch(self)

    def post(self, delay: int, call: Callable[..., None], *arguments: Any) -> None:
        """Only syncs come later here; alarms ring when `pass` says so."""
        owner = getattr(call, "__self__", None)
        if isinstance(owner, Machine) and call.__name__ == "_synced":
            self._held.append((owner, lambda: call(*arguments)))

    # Commands

    def run_command(self, command: Command) -> list[str]:
        verb = command.verb.replace("-", "_")
        getattr(self, f"do_{verb}")(command)
        self.finish_syncs()
        lines = self.told.take()
        if "only" in command.options:
            words = command.options["only"].split(",")
            lines = [line for line in lines if any(word in line for word in words)]
        return lines

    def _machines(self, words: list[str]) -> list[ModelMachine]:
        names = words or map(str, self.machines)
        return [self._machine(word) for word in names]

    def _machine(self, word: str) -> ModelMachine:
        machine = self.machines[int(word.removeprefix("n")) - 1]
        assert isinstance(machine, ModelMachine)
        return machine

    def do_start(self, command: Command) -> None:
        """start [n1 …]: begins a life."""
        for machine in self._machines(command.words):
            machine.start()

    def do_crash(self, command: Command) -> None:
        """crash n1 [after=3] [kept=2]: the power fails (after 3 effects); 2 unsynced batches stay."""
        machine = self._machine(command.words[0])
        machine.random_bits = int(command.options.get("kept", 0))
        if "after" in command.options:
            machine.crash_after = int(command.options["after"])
        else:
            machine.crash()

    def do_hold(self, command: Command) -> None:
        """hold n1: its disk does not finish syncs until `sync n1`."""
        self._holding[self._machine(command.words[0]).number] = True

    def do_sync(self, command: Command) -> None:
        """sync n1: its disk finishes what it holds, and syncs at once again."""
        self._holding.pop(self._machine(command.words[0]).number, None)

    def finish_syncs(self) -> None:
        while due := [each for each in self._held if each[0].number not in self._holding]:
            self._held = [each for each in self._held if each[0].number in self._holding]
            for _, call in due:
                call()

    def do_pass(self, command: Command) -> None:
        """pass 500 [n1 …]: so many milliseconds go by, on all clocks or on these."""
        machines = self._machines(command.words[1:])
        left_ms = int(command.words[0])
        while left_ms > 0:
            due = [each.alarm_in_ms() for each in machines if each.is_up and each.alarm_in_ms() < NEVER]
            step_ms = min([left_ms, *(max(each, 1) for each in due)])
            left_ms -= step_ms
            for machine in machines:
                machine.put_forward(step_ms)
            for machine in machines:
                machine.look_at_clock()
            self.finish_syncs()

    def do_wait_for(self, command: Command) -> None:
        """wait-for n1 Prospective: its clock alone goes on until it is that."""
        machine = self._machine(command.words[0])
        for _ in range(LARGEST_ROUNDS):
            if self.role_name(machine) == command.words[1]:
                return
            machine.put_forward(max(1, machine.alarm_in_ms()))
            machine.look_at_clock()
            self.finish_syncs()
        self.trace_line(machine, f"is still {self.state_of(machine)}")

    def do_elect(self, command: Command) -> None:
        """elect n1: it stands, everything arrives, and what each is then is printed."""
        self.do_wait_for(Command(line=f"wait-for {command.words[0]} Prospective"))
        self._settle([])
        self.told.take()
        self.do_state(Command(line="state"))

    def do_live(self, command: Command) -> None:
        """live 3000 [without=n3,n4] [quiet]: time goes by for all, and messages arrive at once."""
        without = command.options.get("without", "").split(",")
        for _ in range(int(command.words[0]) // LIVE_STEP_MS):
            machines = self._machines([])
            for machine in machines:
                machine.put_forward(LIVE_STEP_MS)
            for machine in machines:
                machine.look_at_clock()
            self._settle(without)
        if "quiet" in command.words:
            self.told.take()

    def _chosen(self, command: Command) -> list[_Flying]:
        """from=n1 to=n2 kind=Vote: those under way that fit; without options all."""
        options = command.options
        return [
            each
            for each in self.hands.flying
            if options.get("from", str(each.source)) == str(each.source)
            and options.get("to", str(each.target)) == str(each.target)
            and in_words(each.message).startswith(options.get("kind", ""))
        ]

    def do_deliver(self, command: Command) -> None:
        """deliver [from=n1] [to=n2] [kind=Vote]: what is under way arrives; what it causes waits."""
        for flying in self._chosen(command):
            self.hands.flying.remove(flying)
            self._arrive(flying)

    def do_repeat(self, command: Command) -> None:
        """repeat [from=n1] [to=n2] [kind=Vote]: it arrives, and will arrive once more."""
        for flying in self._chosen(command):
            self._arrive(flying)

    def _arrive(self, flying: _Flying) -> None:
        source = "" if flying.source is None else f"{flying.source}  "
        self.trace_line(flying.target, f"◀ {source}{in_words(flying.message)}")
        flying.arrive()
        self.finish_syncs()

    def do_drop(self, command: Command) -> None:
        """drop [from=n1] [to=n2] [kind=Vote]: what is under way is lost."""
        for flying in self._chosen(command):
            self.hands.flying.remove(flying)
            self.trace_line(flying.target, f"✗ {flying.source}  {in_words(flying.message)}")

    def do_corrupt(self, command: Command) -> None:
        """corrupt: every chunk of a snapshot that is under way has a wrong byte."""
        for flying in self._chosen(command):
            topics = getattr(flying.message, "topics", [])
            for topic in topics:
                for partition in topic.partitions:
                    content = bytearray(partition.unaligned_records)
                    content[len(content) // 2] ^= 0xFF
                    partition.unaligned_records = bytes(content)
            self.trace_line(flying.target, f"⚡ {flying.source}  {in_words(flying.message)}")

    def do_settle(self, command: Command) -> None:
        """settle [without=n3] [quiet]: everything arrives, until nothing is under way."""
        self._settle(command.options.get("without", "").split(","))
        if "quiet" in command.words:
            self.told.take()

    def _settle(self, without: list[str]) -> None:
        for _ in range(LARGEST_ROUNDS):
            self.finish_syncs()
            due = [
                each
                for each in self.hands.flying
                if str(each.source) not in without and str(each.target) not in without
            ]
            if not due:
                break
            for flying in due:
                self.hands.flying.remove(flying)
                self._arrive(flying)

    def do_state(self, command: Command) -> None:
        """state [n1 …]: what each is."""
        for machine in self._machines(command.words):
            self.trace_line(machine, self.state_of(machine))

    def do_log(self, command: Command) -> None:
        """log [n1 …]: what lies on the disk."""
        for machine in self._machines(command.words):
            disk = machine.disk
            batches = " ".join(_place(batch) for batch in disk.batches)
            snapshots = "".join(f", snapshot {each.end_offset}/{each.epoch}" for each in disk.snapshots())
            self.trace_line(machine, f"log from {disk.start_offset}: {batches or 'empty'}{snapshots}")

    def do_flying(self, command: Command) -> None:
        """flying: what is under way."""
        for flying in self._chosen(command):
            self.trace_line(flying.source, f"→ {flying.target}  {in_words(flying.message)}")

    def do_append(self, command: Command) -> None:
        """append n1 [2] [idle=yes]: a client appends so many batches of one record each; idle: a record that
        changes nothing."""
        machine = self._machine(command.words[0])
        for _ in range(int(command.words[1]) if len(command.words) > 1 else 1):
            if self.role_name(machine) != "Leader":
                self.trace_line(machine, "refuses the append: it does not lead")
                return
            self._appends = -1  # always the same batch, of one record
            self.append(machine, IDLE_BITS if "idle" in command.options else 0)

    def do_ask(self, command: Command) -> None:
        """ask n1 Vote epoch=3 candidate=n9 log=4/2: somebody asks, and hears the answer."""
        machine = self._machine(command.words[0])
        request = request_by_hand(command.words[1], command.options, machine)
        machine.request_arrived(Token(None, 0, self.next_request_id(), request))

    def do_snapshot(self, command: Command) -> None:
        """snapshot n1: keeps what is committed; trim n1: drops the log before it."""
        if not self._machine(command.words[0]).take_snapshot(int(command.options.get("back", 0))):
            self.told.line(0, None, "nothing new to keep")

    def do_trim(self, command: Command) -> None:
        if not self._machine(command.words[0]).trim():
            self.told.line(0, None, "nothing to drop")

    def do_step(self, command: Command) -> None:
        """step resign 0 0: one of the simulator's own steps."""
        verb, whom, random_bits = command.words
        play(self, Step(0, verb, int(whom), int(random_bits)))


def quorum_of(command: Command) -> QuorumByHand:
    """quorum voters=3 [spares=1] [observers=1] [static] [auto-join] [chunk=64] [fetch=100] [seed=1]"""
    options = command.options
    fault_plan = msgspec.structs.replace(
        QUIET,
        voters=int(options.get("voters", 3)),
        spares=int(options.get("spares", 0)),
        observers=int(options.get("observers", 0)),
        chunk_bytes=int(options.get("chunk", QUIET.chunk_bytes)),
        fetch_bytes=int(options.get("fetch", QUIET.fetch_bytes)),
        dynamic="static" not in command.words,
        auto_join="auto-join" in command.words,
    )
    quorum = QuorumByHand(fault_plan, int(options.get("seed", 1)))
    if "stopped" not in command.words:
        for machine in quorum.machines:
            machine.start()
    return quorum
