"""What befalls the nodes' machines: processes are killed and paused, the power fails, disks are lost.

A node that goes down is started again after a time that the step draws; calm starts it at once. What the
budget of losses does not allow is a smaller fault in its place: a power cut becomes a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.active_faults import healing
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.coverage import Coverage
from broker.simulation.seeded_random import SeededRandom
from storage.memory_files import Torn

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["MACHINE_VERBS", "Tear", "drawn_duration_ms", "end_with_a_disk", "start_all_now", "whose_turn"]

SHORTEST_MS: Final = 200
LONGEST_MS: Final = 40_000
MOST_CHANGES_BITS: Final = 10
ARMED_MS: Final = 20_000
"""For so long a crash that was planned waits for its change of a file."""
_MS: Final = 1_000_000


def drawn_duration_ms(random: SeededRandom, least_ms: int = SHORTEST_MS, most_ms: int = LONGEST_MS) -> int:
    """Short ones as often as long ones, by orders of magnitude: half of them are shorter than the geometric
    mean of both ends."""
    most_ms = min(most_ms, least_ms << random.below((most_ms // least_ms).bit_length() + 1))
    return random.between(least_ms, most_ms)


def whose_turn(run: ClusterRun, step: ClusterStep) -> SimulatedNode | None:
    """The running node that a step is meant for."""
    nodes = [node for node in run.world.nodes.values() if node.is_up]
    return nodes[step.whom % len(nodes)] if nodes else None


def _kill(run: ClusterRun, step: ClusterStep) -> str | None:
    node = whose_turn(run, step)
    if node is None or not run.budget.may_end(node):
        return None
    down_ms = drawn_duration_ms(step.random())
    run.world.restarts.after(node, down_ms)
    node.machine.kill()
    return f"kill -9 of {node}, which starts again after {down_ms} ms"


def _stop(run: ClusterRun, step: ClusterStep) -> str | None:
    """A controlled shutdown, as SIGTERM asks for it. A node that may have registered without having heard of
    it cannot tell the controller later that it has ended in order."""
    node = whose_turn(run, step)
    if node is None or node.node is None or node.node.is_stopping or node.machine.is_still:
        return None
    if not node.is_ready and not run.budget.may_end(node):
        return None
    down_ms = drawn_duration_ms(step.random())
    run.world.restarts.after(node, down_ms)
    node.machine.stop()
    return f"{node} is asked to stop, and starts again {down_ms} ms after that"


def _cut_power(run: ClusterRun, step: ClusterStep) -> str | None:
    node = whose_turn(run, step)
    if node is None:
        return None
    random = step.random()
    down_ms = drawn_duration_ms(random)
    how = end_without_order(run, node, random, down_ms)
    return None if how is None else f"{node} {how}, and starts again after {down_ms} ms"


def end_without_order(run: ClusterRun, node: SimulatedNode, random: SeededRandom, down_ms: int) -> str | None:
    """Cuts the power, or kills the process where the budget allows no more; says which, None for neither."""
    if not run.budget.may_end(node):
        return None
    run.world.restarts.after(node, down_ms)
    if not run.budget.may_lose_power(node):
        run.world.coverage.count("a power cut that became a kill")
        node.machine.kill()
        return "is killed, as its power must not be cut now"
    run.budget.power_lost(node)
    tear = Tear(run.world.coverage, random)
    node.machine.cut_power(tear.leaves, keep_names=random.below(3) > 0)
    return "loses its power"


class Tear:
    """What one power cut leaves of what was written and not synced: nothing, all, or of each file a part,
    sometimes with zeros behind it.

    No bit is wrong in what is left. The checksum of a batch does not cover its base offset and its leader
    epoch, in Kafka's format, so a wrong bit there would be believed.
    """

    def __init__(self, coverage: Coverage, random: SeededRandom) -> None:
        self._coverage = coverage
        self._random = random
        self._kind = random.below(4)

    def leaves(self, _: str, unsynced_bytes: int) -> Torn:
        """A `storage.memory_files.TearPlan`."""
        random, count = self._random, self._coverage.count
        if self._kind == 0:
            self._lose(unsynced_bytes)
            return Torn(0)
        if self._kind == 1:
            return Torn(unsynced_bytes)
        kept_bytes = random.below(unsynced_bytes + 1)
        gone_bytes = unsynced_bytes - kept_bytes
        self._lose(gone_bytes)
        zero_bytes = random.below(gone_bytes + 1) if random.below(4) == 0 else 0
        if kept_bytes and gone_bytes:
            count("torn writes")
        if zero_bytes:
            count("zeros behind a torn write")
        return Torn(kept_bytes, zero_bytes)

    def _lose(self, size_bytes: int) -> None:
        self._coverage.add({"bytes lost in a power cut": size_bytes})


def _crash(run: ClusterRun, step: ClusterStep) -> str | None:
    """Arms the machine: its life ends between two changes of its files, if so many come in time."""
    node = whose_turn(run, step)
    if node is None or node.machine.trouble.is_armed or not run.budget.may_end(node):
        return None
    random, trouble = step.random(), node.machine.trouble
    changes = 1 + random.below(1 << random.below(MOST_CHANGES_BITS))
    trouble.end_after(changes, _end_of_crash(run, node, random))
    run.world.faults.begin("crash", ARMED_MS, trouble.disarm)
    return f"{node} crashes before its {changes}. change of a file from now"


def _crash_at_start(run: ClusterRun, step: ClusterStep) -> str | None:
    """Ends a life, and arms the machine for the next one: while it recovers its logs, or soon after."""
    node = whose_turn(run, step)
    if node is None or node.machine.trouble.is_armed:
        return None
    random, trouble = step.random(), node.machine.trouble
    changes = 1 + random.below(1 << random.below(MOST_CHANGES_BITS))
    down_ms = drawn_duration_ms(random, most_ms=ARMED_MS // 4)
    how = end_without_order(run, node, random, down_ms)
    if how is None:
        return None
    trouble.end_after(changes, _end_of_crash(run, node, random), next_life=True)
    run.world.faults.begin("crash at start", ARMED_MS, trouble.disarm)
    return f"{node} {how}, and crashes again before its {changes}. change of a file"


def _end_of_crash(run: ClusterRun, node: SimulatedNode, random: SeededRandom) -> Callable[[], bool]:
    """Ends the life of an armed machine when its time has come, if the budget allows it then."""
    is_power_cut, down_ms = random.below(2) > 0, drawn_duration_ms(random)

    def end() -> bool:
        is_starting = node.machine.is_starting
        if is_power_cut:
            has_ended = end_without_order(run, node, random, down_ms) is not None
        else:
            has_ended = run.budget.may_end(node)
            if has_ended:
                run.world.restarts.after(node, down_ms)
                node.machine.kill()
        when = "crash of a node that starts" if is_starting else "crash between two changes of files"
        run.world.coverage.count(when if has_ended else "crash put off")
        return has_ended

    return end


def _lose_disk(run: ClusterRun, step: ClusterStep) -> str | None:
    """Only of nodes that are no controllers: a voter that has forgotten its vote and its log could give the
    vote again, and vote for somebody who lacks what was committed."""
    world = run.world
    nodes = [node for node in world.brokers if not node.place.is_controller]
    if not nodes:
        return None
    node = nodes[step.whom % len(nodes)]
    if not run.budget.may_lose(node):
        return None
    end_with_a_disk(run, node, step)
    node.machine.lose_disk()
    node.format()
    return f"{node} loses its disk, and starts with an empty one"


def end_with_a_disk(
    run: ClusterRun, node: SimulatedNode, step: ClusterStep, most_ms: int = LONGEST_MS
) -> None:
    """Kills a node that is about to lose a disk, and counts the loss. Whoever is down already stays so for as
    long as was drawn then."""
    if node.is_up:
        run.world.restarts.after(node, drawn_duration_ms(step.random(), most_ms=most_ms))
        node.machine.kill()
    run.budget.lost(node)


def _pause(run: ClusterRun, step: ClusterStep) -> str | None:
    node = whose_turn(run, step)
    if node is None or node.machine.is_still:
        return None
    duration_ms = drawn_duration_ms(step.random())
    node.machine.stand_still(duration_ms * _MS)
    run.world.faults.begin("pause", duration_ms, node.machine.go_on)
    return f"{node} stands still for {duration_ms} ms"


def start_all_now(run: ClusterRun) -> None:
    run.world.restarts.start_all_now()


MACHINE_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "kill": Verb(_kill, 10, start_all_now),
        "stop": Verb(_stop, 6, start_all_now),
        "cut power": Verb(_cut_power, 10, start_all_now),
        "crash": Verb(_crash, 10, healing("crash")),
        "crash at start": Verb(_crash_at_start, 6, healing("crash at start")),
        "lose disk": Verb(_lose_disk, 3, start_all_now),
        "pause": Verb(_pause, 6, healing("pause")),
    }
)
