"""What befalls the network: ways are cut, machines isolated, links slow, connections reset.

Within a connection no byte is lost or comes out of turn; see `memory_network` for what a cut does to it.
Between connections they do come out of turn: who has given one up and made another may have his first request
arrive after the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.active_faults import healing
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.machine_faults import drawn_duration_ms
from broker.simulation.seeded_random import SeededRandom

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["NETWORK_VERBS"]

SHORTEST_DELAY_MS: Final = 5
LONGEST_DELAY_MS: Final = 5_000
SHORTEST_HOLD_MS: Final = 1_000
LONGEST_HOLD_MS: Final = 60_000
_MS: Final = 1_000_000

Ways = Sequence[tuple[str, str]]
"""Each from one machine to another."""


def _hosts(run: ClusterRun) -> list[str]:
    """All machines, the nodes' first."""
    return _nodes(run) + [client.name for client in run.world.clients]


def _nodes(run: ClusterRun) -> list[str]:
    return [node.place.host for node in run.world.nodes.values()]


def _one_and_others(run: ClusterRun, step: ClusterStep) -> tuple[str, list[str]]:
    """A node, and all other machines."""
    nodes = _nodes(run)
    one = nodes[step.whom % len(nodes)]
    return one, [host for host in _hosts(run) if host != one]


def _pair(run: ClusterRun, step: ClusterStep, random: SeededRandom) -> tuple[str, str]:
    """A node and another machine, in any order."""
    one, others = _one_and_others(run, step)
    other = random.one_of(others or [one])
    return (one, other) if random.below(2) else (other, one)


# Ways that are cut


def _cut(run: ClusterRun, step: ClusterStep, ways: Ways, duration_ms: int) -> None:
    network = run.world.network
    links = [network.links.of(*way) for way in ways]
    for link in links:
        link.cuts += 1

    def mend() -> None:
        for link in links:
            link.cuts -= 1
        network.flow()

    run.world.faults.begin(step.verb, duration_ms, mend)


def _both(one: Sequence[str], other: Sequence[str]) -> Ways:
    """All ways between two groups of machines."""
    return [way for here in one for there in other for way in ((here, there), (there, here))]


def _cut_one_way(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    source, target = _pair(run, step, random)
    duration_ms = drawn_duration_ms(random)
    _cut(run, step, [(source, target)], duration_ms)
    return f"nothing comes from {source} to {target} for {duration_ms} ms"


def _cut_both_ways(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    one, other = _pair(run, step, random)
    duration_ms = drawn_duration_ms(random)
    _cut(run, step, _both([one], [other]), duration_ms)
    return f"{one} and {other} do not hear each other for {duration_ms} ms"


def _isolate(run: ClusterRun, step: ClusterStep) -> str | None:
    """From everybody, or so that it hears the others and is not heard, or the other way round."""
    random = step.random()
    one, others = _one_and_others(run, step)
    duration_ms = drawn_duration_ms(random)
    ways = random.one_of(
        (_both([one], others), [(one, other) for other in others], [(other, one) for other in others])
    )
    _cut(run, step, ways, duration_ms)
    how = (
        "is isolated" if len(ways) > len(others) else f"{'is not heard' if ways[0][0] == one else 'is deaf'}"
    )
    return f"{one} {how} for {duration_ms} ms"


def _split(run: ClusterRun, step: ClusterStep) -> str | None:
    """Each machine is on one of both sides; nodes are on both of them."""
    random = step.random()
    nodes, hosts = _nodes(run), _hosts(run)
    if len(nodes) < 2:
        return None
    sides: tuple[list[str], list[str]] = ([], [])
    for number, host in enumerate(hosts):
        here, there = sides if random.below(2) else sides[::-1]
        is_last_node = number == len(nodes) - 1
        (there if is_last_node and not there else here).append(host)
    duration_ms = drawn_duration_ms(random)
    _cut(run, step, _both(*sides), duration_ms)
    return f"{', '.join(sides[0])} and {', '.join(sides[1])} are apart for {duration_ms} ms"


def _isolate_from_clients(run: ClusterRun, step: ClusterStep) -> str | None:
    one, _ = _one_and_others(run, step)
    clients = [client.name for client in run.world.clients]
    if not clients:
        return None
    duration_ms = drawn_duration_ms(step.random())
    _cut(run, step, _both([one], clients), duration_ms)
    return f"{one} is cut off from the clients for {duration_ms} ms"


def _isolate_from_controllers(run: ClusterRun, step: ClusterStep) -> str | None:
    """A leader that clients still reach while the controllers elect another one."""
    one, _ = _one_and_others(run, step)
    places = [node.place for node in run.world.nodes.values()]
    controllers = [place.host for place in places if place.is_controller and place.host != one]
    if not controllers:
        return None
    duration_ms = drawn_duration_ms(step.random())
    _cut(run, step, _both([one], controllers), duration_ms)
    return f"{one} is cut off from {', '.join(controllers)} for {duration_ms} ms"


# Links that are slow, and connections that break


def _slow_link(run: ClusterRun, step: ClusterStep) -> str | None:
    """Between two machines, or of one to all others."""
    random = step.random()
    one, others = _one_and_others(run, step)
    others = others if random.below(2) else [random.one_of(others or [one])]
    most_ms = drawn_duration_ms(random, SHORTEST_DELAY_MS, LONGEST_DELAY_MS)
    delay = (random.below(most_ms) * _MS, most_ms * _MS)
    duration_ms = drawn_duration_ms(random)
    links = [run.world.network.links.of(*way) for way in _both([one], others)]
    for link in links:
        link.delays.append(delay)

    def mend() -> None:
        for link in links:
            link.delays.remove(delay)

    run.world.faults.begin(step.verb, duration_ms, mend)
    return f"between {one} and {', '.join(others)} it takes up to {most_ms} ms, for {duration_ms} ms"


def _reset_connections(run: ClusterRun, step: ClusterStep) -> str | None:
    """What is under way on them is lost."""
    random, network = step.random(), run.world.network
    one, others = _one_and_others(run, step)
    others = [other for other in others if network.channels(one, other)]
    if not others:
        return None
    others = others if random.below(2) else [random.one_of(others)]
    ends = [end for other in others for end in network.channels(one, other)]
    for end in ends:
        end.reset()
        run.world.coverage.count("connections broken")
    return f"{len(ends)} connections of {one} with {', '.join(others)} are reset"


def _lose_answers(run: ClusterRun, step: ClusterStep) -> str | None:
    """The request is carried out, and its connection is reset in place of the answer. So whoever asked asks
    again."""
    random = step.random()
    one, others = _one_and_others(run, step)
    other, count = random.one_of(others or [one]), random.between(1, 3)
    link = run.world.network.links.of(one, other)
    link.resets = count
    run.world.faults.begin(step.verb, drawn_duration_ms(random), partial(setattr, link, "resets", 0))
    return f"the next {count} answers of {one} to {other} are lost with their connections"


def _hold_connections(run: ClusterRun, step: ClusterStep) -> str | None:
    """What one side sends on the connections that are there now arrives late; new ones are not held. So a
    request arrives when its sender has long given it up, and perhaps sent it again."""
    random, network = step.random(), run.world.network
    one, others = _one_and_others(run, step)
    others = [other for other in others if network.channels(one, other)]
    if not others:
        return None
    other = random.one_of(others)
    source, target = (one, other) if random.below(2) else (other, one)
    ends = network.channels(source, target)
    duration_ms = drawn_duration_ms(random, SHORTEST_HOLD_MS, LONGEST_HOLD_MS)
    for end in ends:
        end.holds += 1

    def mend() -> None:
        for end in ends:
            end.holds -= 1
        network.flow()

    run.world.faults.begin(step.verb, duration_ms, mend)
    return f"what {source} sends on its {len(ends)} connections with {target} is held for {duration_ms} ms"


def _refuse_connections(run: ClusterRun, step: ClusterStep) -> str | None:
    one, others = _one_and_others(run, step)
    duration_ms = drawn_duration_ms(step.random())
    links = [run.world.network.links.of(other, one) for other in others]
    for link in links:
        link.refusals += 1

    def mend() -> None:
        for link in links:
            link.refusals -= 1

    run.world.faults.begin(step.verb, duration_ms, mend)
    return f"new connections to {one} are refused for {duration_ms} ms"


def _verb(name: str, play: Callable[[ClusterRun, ClusterStep], str | None], weight: int) -> tuple[str, Verb]:
    return name, Verb(play, weight, healing(name))


NETWORK_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    dict(
        (
            _verb("cut one way", _cut_one_way, 5),
            _verb("cut both ways", _cut_both_ways, 5),
            _verb("isolate", _isolate, 6),
            _verb("split", _split, 4),
            _verb("isolate from clients", _isolate_from_clients, 2),
            _verb("isolate from controllers", _isolate_from_controllers, 5),
            _verb("slow link", _slow_link, 5),
            _verb("reset connections", _reset_connections, 4),
            _verb("lose answers", _lose_answers, 6),
            _verb("hold connections", _hold_connections, 5),
            _verb("refuse connections", _refuse_connections, 2),
        )
    )
)
