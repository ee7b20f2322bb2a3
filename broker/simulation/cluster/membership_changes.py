"""Nodes that join a running cluster and leave it, voters that change, and restarts of one node after another.

    add a broker        a new node with a new id is formatted and started; partitions move to it
    remove a broker     its partitions move away ─▶ it stops ─▶ nothing lies on it ─▶ it is unregistered
    rolling restart     each node stops in order, and the next one when it is back and in sync
    add a voter         a controller that observes the quorum is added; a new one where there is none
    remove a voter      one of those whom the quorum has beyond the number with which it began
    make a node plain   a voter that is a broker too leaves the quorum, and starts again as a broker alone

Each is a command of the administrator that goes on for long, while other things befall the cluster; what
waits for too long, or is not done when the trouble ends, is given up in a state in which the cluster is well.
A node that somebody else has stopped is waited for. Voters change in dynamic quorums only.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.simulation.cluster.cluster_changes import newest_image
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.partition_changes import some_of, usable_brokers
from broker.simulation.cluster.simulated_node import CONTROLLER_LISTENER, NodePlace, SimulatedNode
from broker.simulation.seeded_random import SeededRandom
from controller.metadata.image.cluster_image import ClusterImage
from controller.raft.identity import Address
from controller.raft.transitions import Role
from controller.raft.voters import Voter
from protocol.messages.describe_quorum import DescribeQuorumResponse

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = [
    "LOOK_EVERY_MS",
    "MEMBERSHIP_VERBS",
    "VOTERS",
    "has_directory",
    "may_change_voters",
    "moves_from_former_nodes",
    "quorum_now",
    "voters_now",
]

MOST_NEW_NODES: Final = 2
"""More than at the beginning, at any time."""
LEAST_BROKERS: Final = 3
"""As many as internal topics want replicas."""

LOOK_EVERY_MS: Final = 200
PATIENCE_MS: Final = 60_000
DOWN_FOR_GOOD_MS: Final = 40_000
"""After so long a broker that was stopped for good comes back, if something lies on it yet."""
LEAST_DOWN_MS: Final = 200
MOST_DOWN_MS: Final = 3_000
MOST_MOVED: Final = 4

ROLLING: Final = "rolling restart"
VOTERS: Final = "voters"
"""Names of what is done once at a time."""

RESTART_CONFIGS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "auto.leader.rebalance.enable": ("true", "false"),
        "leader.imbalance.check.interval.seconds": ("2", "30"),
        "num.replica.fetchers": ("1", "2", "3"),
        "replica.fetch.wait.max.ms": ("100", "500"),
        "replica.lag.time.max.ms": ("2000", "5000", "15000"),
    }
)
"""What a rolling restart may change in the nodes' files."""

Quorum = DescribeQuorumResponse.PartitionData
Replica = DescribeQuorumResponse.ReplicaState


async def _until(run: ClusterRun, holds: Callable[[], object], patience_ms: int = PATIENCE_MS) -> bool:
    """Looks until it is so; False if it was not in time, or the trouble is over."""
    deadline_ms = run.admin.now_ms() + patience_ms
    while not holds():
        if run.is_calm or run.admin.is_finishing or run.admin.now_ms() >= deadline_ms:
            return False
        await run.admin.sleep_ms(LOOK_EVERY_MS)
    return True


def _holds(image: ClusterImage | None, broker_id: int) -> list[tuple[str, int, tuple[int, ...]]]:
    """The partitions that have a replica on the broker, with all of their replicas."""
    if image is None:
        return []
    return [
        (name, index, partition.replicas)
        for name in sorted(image.topics.by_name)
        for index, partition in image.topics.by_name[name].partitions.items()
        if broker_id in partition.replicas
    ]


def _is_in_sync(run: ClusterRun, node: SimulatedNode) -> bool:
    """Whether it is up, unfenced if it is a broker, and in each ISR that it can be in."""
    image = newest_image(run.world)
    if not node.is_ready or image is None:
        return False
    if not node.place.is_broker:
        return True
    registered = image.brokers.get(node.node_id)
    return (
        registered is not None
        and not registered.fenced
        and all(
            node.node_id in image.topics.by_name[name].partitions[index].isr
            for name, index, _ in _holds(image, node.node_id)
        )
    )


# Brokers


def _new_place(run: ClusterRun, *, is_broker: bool, is_controller: bool) -> NodePlace | None:
    """Of a node with a new id and the properties of the others; None if there are enough nodes."""
    world = run.world
    if len(world.nodes) >= len(run.plan.places) + MOST_NEW_NODES:
        return None
    node_id = 1 + max([*world.nodes, *world.former_nodes])
    return NodePlace(node_id, is_broker, is_controller, run.plan.places[0].properties)


def _add_broker(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    is_controller = run.plan.is_dynamic and random.happens(0.3)
    place = _new_place(run, is_broker=True, is_controller=is_controller)
    if place is None:
        return None
    node = run.world.add_node(place)
    node.start()
    run.admin.carry_out(_settled(run, random, node))
    return f"{node} joins the cluster as {place.roles}"


async def _settled(run: ClusterRun, random: SeededRandom, node: SimulatedNode) -> None:
    """Some partitions get a replica on it instead of one that they have."""
    if not await _until(run, lambda: _is_in_sync(run, node)):
        return
    image = newest_image(run.world)
    partitions = [] if image is None else [
        (name, index, partition)
        for name in sorted(image.topics.by_name)
        for index, partition in image.topics.by_name[name].partitions.items()
        if node.node_id not in partition.replicas and not partition.adding and not partition.removing
    ]  # fmt: skip
    for name, index, partition in some_of(random, partitions, random.between(1, MOST_MOVED)):
        leaves = random.one_of(partition.replicas)
        wanted = [node.node_id if replica == leaves else replica for replica in partition.replicas]
        await run.admin.reassign(name, index, wanted)


def _remove_broker(run: ClusterRun, step: ClusterStep) -> str | None:
    random, image = step.random(), newest_image(run.world)
    if image is None:
        return None
    usable = usable_brokers(run, image)
    plain = [each for each in usable if not run.world.nodes[each].place.is_controller]
    least = max([LEAST_BROKERS, *(topic.replication_factor for topic in run.plan.topics)])
    if not plain or len(usable) <= least:
        return None
    node = run.world.nodes[random.one_of(plain)]
    run.admin.leaving[node.node_id] = None
    run.admin.carry_out(_removed(run, random, node))
    return f"{node} shall leave the cluster"


async def _removed(run: ClusterRun, random: SeededRandom, node: SimulatedNode) -> None:
    """It stays, unless nothing lies on it in the end."""
    world, node_id = run.world, node.node_id

    def is_gone() -> bool:
        return not node.is_up and not _holds(newest_image(world), node_id)

    if await _drained(run, random, node_id) and await _stopped(run, node, DOWN_FOR_GOOD_MS):
        await _drained(run, random, node_id)
        if is_gone() and not run.is_calm:
            world.remove_node(node)
            world.tell(f"{node} has left the cluster")
            world.coverage.count("brokers removed")
            await run.admin.unregister_broker(node_id)
            await _drained(run, random, node_id)
            return
    del run.admin.leaving[node_id]


async def _drained(run: ClusterRun, random: SeededRandom, broker_id: int) -> bool:
    """All of its partitions have moved to others; False if they have not in time."""
    deadline_ms = run.admin.now_ms() + PATIENCE_MS
    while True:
        image = newest_image(run.world)
        held = _holds(image, broker_id)
        if image is not None and not held:
            return True
        if run.is_calm or run.admin.now_ms() >= deadline_ms:
            return False
        if image is None:  # no broker is up
            await run.admin.sleep_ms(LOOK_EVERY_MS)
            continue
        for name, index, replicas in held:
            others = [each for each in usable_brokers(run, image) if each not in replicas]
            stay = [replica for replica in replicas if replica != broker_id]
            await run.admin.reassign(name, index, [*stay, *some_of(random, others, 1)])
        await _until(run, lambda: not _holds(newest_image(run.world), broker_id), LOOK_EVERY_MS * 10)


async def _stopped(run: ClusterRun, node: SimulatedNode, down_ms: int) -> bool:
    """It has stopped in order, and starts again after so long, if it is in the cluster then."""
    if not await _until(run, lambda: node.is_ready and not _is_stopping(node)):
        return False
    run.world.restarts.after(node, down_ms)
    node.machine.stop()
    return await _until(run, lambda: not node.is_up)


def _is_stopping(node: SimulatedNode) -> bool:
    return node.node is not None and node.node.is_stopping


def moves_from_former_nodes(run: ClusterRun) -> list[Coroutine[Any, None, object]]:
    """A command for each partition that has a replica on a broker which has left the cluster for good."""
    image = newest_image(run.world)
    moves: list[Coroutine[Any, None, object]] = []
    if image is None:
        return moves
    for former in run.world.former_nodes:
        for name, index, replicas in _holds(image, former):
            stay = [each for each in replicas if each not in run.world.former_nodes]
            others = [each for each in usable_brokers(run, image) if each not in replicas]
            lacking = max(min(LEAST_BROKERS, len(replicas)) - len(stay), 0)
            moves.append(run.admin.reassign(name, index, [*stay, *others[:lacking]]))
    return moves


# Restarts


def _rolling_restart(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    if ROLLING in run.admin.under_way:
        return None
    config = random.one_of(tuple(RESTART_CONFIGS)) if random.happens(0.5) else None
    value = None if config is None else random.one_of(RESTART_CONFIGS[config])
    changed = {} if config is None or value is None else {config: value}
    run.admin.under_way[ROLLING] = None
    run.admin.carry_out(_restarted(run, random, changed))
    return f"all nodes restart, one after the other{''.join(f', with {k}={v}' for k, v in changed.items())}"


async def _restarted(run: ClusterRun, random: SeededRandom, changed: Mapping[str, str]) -> None:
    for node in some_of(random, list(run.world.nodes.values()), len(run.world.nodes)):
        if node.node_id in run.admin.leaving:
            continue
        lives = node.lives
        node.place = msgspec.structs.replace(node.place, properties={**node.place.properties, **changed})
        if not await _stopped(run, node, random.between(LEAST_DOWN_MS, MOST_DOWN_MS)):
            break

        def is_back(node: SimulatedNode = node, lives: int = lives) -> bool:
            return node.lives > lives and _is_in_sync(run, node)

        if not await _until(run, is_back):
            break
        run.world.coverage.count("nodes restarted in order")
    del run.admin.under_way[ROLLING]


# Voters


async def quorum_now(run: ClusterRun) -> Quorum | None:
    """As the cluster describes it; None if it does not."""
    described = await run.admin.describe_quorum()
    return described.topics[0].partitions[0] if described is not None and described.topics else None


def may_change_voters(run: ClusterRun) -> bool:
    """Whether no other change of the quorum is under way, that of a voter's address included."""
    return (
        run.plan.is_dynamic
        and VOTERS not in run.admin.under_way
        and (not run.plan.has_other_ports or _all_are_known(run))
    )


def voters_now(run: ClusterRun) -> list[Voter]:
    """As the leader of the latest epoch has them; none while nobody leads."""
    replicas = [node.quorum_replica for node in run.world.nodes.values()]
    leading = [raft for raft in replicas if raft is not None and raft.role is Role.LEADER]
    return list(max(leading, key=lambda raft: raft.epoch).voters.by_id.values()) if leading else []


def _all_are_known(run: ClusterRun) -> bool:
    """Whether the leader of the quorum has the present address of every voter."""
    voters, nodes = voters_now(run), run.world.nodes
    return bool(voters) and all(
        (node := nodes.get(voter.key.id)) is not None
        and voter.endpoints[CONTROLLER_LISTENER] == Address(node.place.host, node.place.controller_port)
        for voter in voters
    )


def _first_voters(run: ClusterRun) -> int:
    return sum(place.is_controller for place in run.plan.places)


def _add_voter(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    if not may_change_voters(run):
        return None
    run.admin.under_way[VOTERS] = None
    run.admin.carry_out(_voter_added(run, random))
    return "a controller that only observes shall vote"


async def _voter_added(run: ClusterRun, random: SeededRandom) -> None:
    quorum = await quorum_now(run)
    if quorum is not None and len(quorum.current_voters) < _first_voters(run) + MOST_NEW_NODES:
        observer = _observer(run, quorum)
        place = None
        if observer is None:
            place = _new_place(run, is_broker=random.happens(0.5), is_controller=True)
        if place is not None:
            run.world.add_node(place).start()
            run.world.tell(f"{place.host} joins the cluster as {place.roles}")
        deadline_ms = run.admin.now_ms() + PATIENCE_MS
        while observer is None and place is not None and run.admin.now_ms() < deadline_ms:
            await run.admin.sleep_ms(LOOK_EVERY_MS)
            quorum = await quorum_now(run)
            observer = None if quorum is None else _observer(run, quorum)
        if observer is not None:
            at = run.world.nodes[observer.replica_id].place
            await run.admin.add_voter(
                observer.replica_id, observer.replica_directory_id, at.host, at.controller_port
            )
    del run.admin.under_way[VOTERS]


def _observer(run: ClusterRun, quorum: Quorum) -> Replica | None:
    """A controller of the cluster that does not vote."""
    voters = [voter.replica_id for voter in quorum.current_voters]
    for observer in quorum.observers:
        node = run.world.nodes.get(observer.replica_id)
        if (
            node is not None
            and node.place.is_controller
            and observer.replica_id not in voters
            and has_directory(node, observer)
        ):
            return observer
    return None


def has_directory(node: SimulatedNode, replica: Replica) -> bool:
    """Whether it is what lies on the node's disk. A leader remembers for some time what was there before."""
    raft = node.quorum_replica
    return raft is not None and raft.key.directory_id == replica.replica_directory_id


def _remove_voter(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    if not may_change_voters(run):
        return None
    run.admin.under_way[VOTERS] = None
    run.admin.carry_out(_voter_removed(run, random, makes_plain=False))
    return "a voter shall leave the quorum, if there are more than at the beginning"


def _make_plain(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    if not may_change_voters(run):
        return None
    run.admin.under_way[VOTERS] = None
    run.admin.carry_out(_voter_removed(run, random, makes_plain=True))
    return "a voter shall become a broker alone, if there are more than at the beginning"


async def _voter_removed(run: ClusterRun, random: SeededRandom, *, makes_plain: bool) -> None:
    quorum = await quorum_now(run)
    voters = [] if quorum is None else [*quorum.current_voters]
    if makes_plain:
        voters = [voter for voter in voters if _can_be_plain(run, voter.replica_id)]
    if quorum is not None and voters and len(quorum.current_voters) > _first_voters(run):
        voter = random.one_of(voters)
        answer = await run.admin.remove_voter(voter.replica_id, voter.replica_directory_id)
        node = run.world.nodes.get(voter.replica_id)
        is_removed = answer is not None and not getattr(answer, "error_code", 0)
        if makes_plain and node is not None and is_removed and await _stopped(run, node, MOST_DOWN_MS):
            node.place = msgspec.structs.replace(node.place, is_controller=False)
            run.world.coverage.count("combined nodes that became plain")
    del run.admin.under_way[VOTERS]


def _can_be_plain(run: ClusterRun, node_id: int) -> bool:
    """Of the first voters each stays a controller: nodes look for the quorum there."""
    node = run.world.nodes.get(node_id)
    is_first = any(place.node_id == node_id for place in run.world.voters.places)
    return node is not None and node.place.is_broker and not is_first


MEMBERSHIP_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "add a broker": Verb(_add_broker, 2),
        "remove a broker": Verb(_remove_broker, 2),
        "rolling restart": Verb(_rolling_restart, 2),
        "add a voter": Verb(_add_voter, 3),
        "remove a voter": Verb(_remove_voter, 2),
        "make a node plain": Verb(_make_plain, 1),
    }
)
