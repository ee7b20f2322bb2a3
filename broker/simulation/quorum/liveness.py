"""What must come to pass once faults have ended: the liveness of a quorum.

    faults ──▶ quiet period: electing ──▶ catching up ──▶ stable ──▶ faults again, or the end
                             │            │               │
                             │            │               └ for a while: the leader stays in its epoch
                             │            └ within a bound: all who can reach it have what is committed, and
                             │              it knows where each of them is that votes
                             └ within a bound: a leader, and a new append that is committed

In a quiet period a majority of the voters is up, on sound disks and well connected; messages are quick and
arrive.
Whether all replicas come back or just a core, with the others down, is drawn. The core holds a majority of
every set of voters that any disk names, since nobody outside can know which of them counts. Where a leader
goes on with the voter that it was asked to add before, and so needs one that is down, all come back.

    a healthy majority has a leader     an undisturbed quorum keeps its leader
    a healthy replica catches up        the voters' addresses follow the voters
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.simulation.quorum.fault_plan import without_faults
from broker.simulation.quorum.network import LISTENER
from broker.simulation.quorum.steps import leaders
from broker.simulation.verdict import Violation

if TYPE_CHECKING:
    from broker.simulation.quorum.machine import Machine
    from broker.simulation.quorum.world import World

__all__ = ["Liveness"]

LOOK_EVERY: Final = 50_000
ELECTING_BOUND_MS: Final = 15_000
CATCHING_UP_BOUND_MS: Final = 15_000
STABLE_MS: Final = 4_000


class Liveness:
    """One quiet period of one world. `is_over` when all of it has come to pass."""

    def __init__(self, world: World, random_bits: int) -> None:
        self._world = world
        self.is_over = False
        self._phase = "electing"
        self._since = world.now
        self._epoch = 0
        self._core = self._choose(random_bits)
        self._committed_before = world.invariants.ledger.end_offset
        self._begin()

    def _choose(self, random_bits: int) -> list[Machine]:
        """A core of healthy machines: no more than can decide, or all."""
        world = self._world
        core = list(world.machines)
        for number in range(len(core)):
            machine = world.machines[(number + random_bits) % len(world.machines)]
            without = [each for each in core if each is not machine]
            if random_bits >> 8 & 3 == 0 and world.can_decide(without):
                core = without
        return core

    def _begin(self) -> None:
        world = self._world
        self._last_faulty_message_at = world.now + world.network.longest_delay() + LOOK_EVERY
        world.fault_plan = without_faults(world.fault_plan)
        world.network.heal()
        world.coverage.count(
            "quiet period with a core" if len(self._core) < len(world.machines) else "quiet period"
        )
        world.trace_line(None, f"quiet period of {', '.join(map(str, self._core))}")
        for machine in world.machines:
            machine.set_rate(1_000)
            machine.crash_after = -1
            if machine not in self._core:
                machine.crash()
            elif not machine.is_up:
                world.coverage.count("restart")
                machine.start()
            elif machine.is_paused:
                machine.resume()
        world.post(LOOK_EVERY, self.look)

    def look(self) -> None:
        """Looks after the quorum now and then, and goes on to the next phase when it may."""
        world = self._world
        if len(self._core) < len(world.machines) and not world.can_decide(self._core):
            world.trace_line(None, "the voters have changed: all come back")
            self._core, self._phase, self._since = list(world.machines), "electing", world.now
        for machine in self._core:
            if not machine.is_up:  # it was asked to shut down before
                machine.start()
                self._phase, self._since = "electing", world.now
        match self._phase:
            case "electing":
                self._electing()
            case "catching up":
                self._catching_up()
            case _:
                self._stable()
        if not self.is_over:
            world.post(LOOK_EVERY, self.look)

    def _passed_ms(self) -> int:
        return (self._world.now - self._since) // 1_000

    def _next(self, phase: str) -> None:
        self._world.coverage.longest(f"longest {self._phase} ms", self._passed_ms())
        self._phase, self._since = phase, self._world.now

    def _electing(self) -> None:
        world = self._world
        for leader in leaders(world):
            world.append(leader, 0)
            committed = world.invariants.ledger.last
            if (
                committed is not None
                and committed.end_offset > self._committed_before
                and committed.epoch == leader.node.leader.epoch
                and not committed.is_control
            ):
                self._next("catching up")
                return
        if self._passed_ms() > ELECTING_BOUND_MS * world.patience:
            self._fail(
                "a healthy majority has a leader",
                f"after {self._passed_ms()} ms nothing new is committed; {self._state()}",
            )

    def _state(self) -> str:
        return "; ".join(f"{each} {self._world.state_of(each)}" for each in self._core)

    def _fail(self, rule: str, text: str) -> None:
        """The time is over: a violation, if there is a majority at all. A leader that was asked to remove
        voters may have written so while others had lost their disks or moved unheard: then nobody can help,
        and the quiet period is over."""
        if self._world.can_decide(self._core):
            raise Violation(rule, text)
        self._world.coverage.count("quiet period without a majority")
        self.is_over = True
        self._world.calm_ends()

    def _catching_up(self) -> None:
        world = self._world
        end_offset = world.invariants.ledger.end_offset
        behind = [each for each in self._core if each.applied_end < end_offset]
        followed = {each.node.leader for each in self._core}
        leading = leaders(world)
        leaving = [each for each in leading if each.node.is_observer]  # whose own removal is on its way
        if not behind and len(followed) == 1 and len(leading) == 1 and not leaving:
            self._voters_are_found(leading[0])
        elif self._passed_ms() > CATCHING_UP_BOUND_MS * world.patience:
            self._fail(
                "a healthy replica catches up",
                f"after {self._passed_ms()} ms {', '.join(map(str, behind))} lack what is committed up to "
                f"{end_offset}; {self._state()}",
            )

    def _voters_are_found(self, leader: Machine) -> None:
        """Each voter tells the leader where it listens (KIP-853). A leader that does not know it goes on, as
        the others fetch from it; but whoever needs a majority later may not find one."""
        world, voters = self._world, leader.node.voters
        moved: list[str] = []
        for each in self._core:
            address = each.config.endpoints.get(LISTENER)
            if address is None or not voters.has(each.key):
                continue
            known = voters.endpoints_of(each.id).get(LISTENER)
            if known != address:
                moved.append(f"{each} is at {address} and not at {known}")
            elif each.number in world.moved:
                world.coverage.count("looked at: voter that has moved")
        if not moved:
            self._epoch = leader.node.leader.epoch
            self._next("stable")
        elif self._passed_ms() > CATCHING_UP_BOUND_MS * world.patience:
            raise Violation(
                "the voters' addresses follow the voters",
                f"after {self._passed_ms()} ms {'; '.join(moved)}, as {leader} has it; {self._state()}",
            )

    def _stable(self) -> None:
        world = self._world
        epoch = max(each.node.leader.epoch for each in self._core)
        if epoch != self._epoch and world.now < self._last_faulty_message_at:
            self._next("electing")  # a vote that was asked for among faults has arrived only now
        elif epoch != self._epoch:
            text = f"epoch {self._epoch} became {epoch}; {self._state()}"
            raise Violation("an undisturbed quorum keeps its leader", text)
        elif self._passed_ms() >= STABLE_MS * world.patience:
            self._next("over")
            self.is_over = True
            world.calm_ends()
