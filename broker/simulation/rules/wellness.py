"""Whether a cluster is well: what must come to pass some time after all trouble is over.

    nodes         all are up; the brokers are registered and not fenced
    quorum        one controller leads, the others follow it and have as much of its log; it knows at which
                  address each voter is
    images        all brokers and controllers have the same metadata, but for records that say nothing; a
                  controller has listed the partitions of each broker as the metadata says
    partitions    led, all replicas in sync, nothing being reassigned; all logs equal, and all is committed
    coordinators  all partitions of the internal topics are loaded where they are led
    transactions  none is open, neither in a log nor by what its coordinator knows

It looks at a moment: something that happens by itself now and then (a record of the idle quorum, a marker)
may be under way just then. So it is asked until it finds nothing, or until that took too long. What does not
hang on clients (nodes, quorum, and who leads and is in sync) must come to pass while they are at work, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.runtime.coordinator_context import CoordinatorState
from broker.coordinator.transaction.transaction_coordinator import TRANSACTION_TOPIC
from broker.coordinator.transaction.transaction_descriptions import TransactionFilter
from broker.coordinator.transaction.transaction_states import TransactionState
from broker.replication.partition import Partition
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import CONTROLLER_LISTENER, SimulatedNode
from broker.simulation.rules.metadata_rules import different_subjects
from broker.simulation.rules.partition_watch import PartitionWatch
from broker.simulation.rules.seen_logs import SeenLog, first_above
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import NO_LEADER, PartitionRegistration, TopicImage, TopicsImage
from controller.raft.identity import Address
from controller.raft.node import RaftNode
from controller.raft.transitions import Role

__all__ = ["BECOMES_WELL", "CLIENTS_FINISH", "PROMISES", "reason_not_steady", "reason_not_well"]

BECOMES_WELL: Final = "the cluster is well when the trouble is over"
CLIENTS_FINISH: Final = "clients finish when the trouble is over"
PROMISES: Final = "what clients were told holds"
"""Rules of the end of a run, which `cluster_run` looks at."""

IDLE_RECORDS: Final = 10
"""By so many records images may differ that say the same: an idle quorum writes one now and then, and the
next one tells that it is committed."""

_UNENDED: Final = TransactionFilter(
    states=tuple(
        each.label for each in TransactionState if each is TransactionState.ONGOING or each.is_prepared
    )
)


def reason_not_well(world: ClusterWorld) -> str | None:
    """One sentence; None if all is well. It costs as much as reading the headers of all logs, if all else is
    well."""
    return _first_reason(
        world,
        _nodes,
        _quorum,
        _images,
        _indexes,
        _registrations,
        _hosted,
        _coordinators,
        _transactions,
        _logs,
    )


def reason_not_steady(world: ClusterWorld) -> str | None:
    """The same of what is to be so although clients are at work: that all nodes are up, registered and not
    fenced, the quorum is led, and partitions are led and in sync."""
    return _first_reason(world, _nodes, _quorum, _registrations)


def _first_reason(world: ClusterWorld, *looks: Callable[[ClusterWorld], Iterator[str]]) -> str | None:
    return next((reason for look in looks for reason in look(world)), None)


def _nodes(world: ClusterWorld) -> Iterator[str]:
    for node in world.nodes.values():
        if not node.is_ready:
            yield f"{node} is not ready" if node.is_up else f"{node} is down"


def _quorum(world: ClusterWorld) -> Iterator[str]:
    """Controllers that were removed from the quorum and still run follow it too."""
    replicas = [(node, node.quorum_replica) for node in world.nodes.values() if node.place.is_controller]
    known = {str(node): raft.leader for node, raft in replicas if raft is not None}
    if len(set(known.values())) != 1:
        yield f"controllers know different leaders: {known}"
    leading = [node for node, raft in replicas if raft is not None and raft.role is Role.LEADER]
    if len(leading) != 1:
        yield f"these controllers lead the quorum: {leading}"
    ends = {str(node): raft.end_offset for node, raft in replicas if raft is not None}
    if len(set(ends.values())) != 1:
        yield f"controllers have different log ends: {ends}"
    for node, raft in replicas:
        if world.voters.is_dynamic and raft is not None and raft.role is Role.LEADER:
            yield from _moved_voters(world, node, raft)


def _moved_voters(world: ClusterWorld, leader: SimulatedNode, raft: RaftNode) -> Iterator[str]:
    """Each tells the leader where it listens, and the quorum's log says so (KIP-853)."""
    for voter in raft.voters.by_id.values():
        node = world.nodes.get(voter.key.id)
        if node is None or node.quorum_replica is None or not voter.is_replica(node.quorum_replica.key):
            continue
        address = Address(node.place.host, node.place.controller_port)
        known = voter.endpoints.get(CONTROLLER_LISTENER)
        if known != address:
            yield f"{leader}, which leads the quorum, looks for {node} at {known}, it is at {address}"


def _image(world: ClusterWorld) -> ClusterImage | None:
    """The newest one."""
    images = [
        node.controller.controller.image for node in world.nodes.values() if node.controller is not None
    ]
    return max(images, key=lambda image: image.offset, default=None)


def _images(world: ClusterWorld) -> Iterator[str]:
    newest = _image(world)
    for node in world.nodes.values():
        broker, controller = node.broker, node.controller
        images = [] if controller is None else [controller.controller.image]
        if broker is not None:
            images += [broker.loader.image, broker.metadata.image]
            if broker.loader.image.offset < (newest.offset if newest else 0) - IDLE_RECORDS:
                yield f"{node} has the metadata up to {broker.loader.image.offset}"
        for image in images:
            different = [] if newest is None else different_subjects(image, newest)
            if different:
                yield f"{node} has other {', '.join(different)} than the newest metadata"


def _indexes(world: ClusterWorld) -> Iterator[str]:
    """The lists of partitions, by brokers, that a controller takes from one image to the next are those that
    it would make now."""
    for node in world.nodes.values():
        topics = None if node.controller is None else node.controller.controller.image.topics
        if topics is None or topics.known_index is None:
            continue
        if topics.known_index != TopicsImage(topics.by_name, topics.by_id).index:
            yield f"{node} has other lists of the brokers' partitions than its metadata makes"


def _registrations(world: ClusterWorld) -> Iterator[str]:
    image = _image(world)
    if image is None:
        return
    for node in world.brokers:
        registration = image.brokers.get(node.node_id)
        if registration is None:
            yield f"{node} is not registered"
        elif not registration.active:
            yield f"{node} is {'fenced' if registration.fenced else 'shutting down'}"
    for topic in image.topics.by_name.values():
        for index, partition in topic.partitions.items():
            reason = _reason_of(partition, world)
            if reason is not None:
                yield f"{topic.name}-{index} {reason}: {partition}"


def _reason_of(partition: PartitionRegistration, world: ClusterWorld) -> str | None:
    if partition.leader == NO_LEADER:
        return None if _waits_for_the_gone(partition, world) else "has no leader"
    if partition.adding or partition.removing:
        return "is being reassigned"
    if sorted(partition.isr) != sorted(partition.replicas):
        return "has replicas that are not in sync"
    return None


def _waits_for_the_gone(partition: PartitionRegistration, world: ClusterWorld) -> bool:
    """Whether all who may lead it have left the cluster for good. Nobody at all may lead it only where
    committed records may be lost: else somebody has forgotten who has them."""
    holders = (*partition.isr, *partition.elr)
    if not holders:
        return world.may_lose_records
    return not any(each in world.nodes for each in holders)


def _hosts(world: ClusterWorld) -> dict[tuple[str, int], dict[int, Partition]]:
    """By partition and node."""
    found: dict[tuple[str, int], dict[int, Partition]] = {}
    for node in world.nodes.values():
        for hosted in node.partitions:
            found.setdefault((hosted.topic, hosted.index), {})[node.node_id] = hosted
    return found


def _led(world: ClusterWorld) -> Iterator[tuple[str, PartitionRegistration, dict[int, Partition]]]:
    """Name, registration and hosts of each partition with a leader."""
    image, hosts = _image(world), _hosts(world)
    for topic in () if image is None else image.topics.by_name.values():
        for index, partition in topic.partitions.items():
            if partition.leader != NO_LEADER:
                yield f"{topic.name}-{index}", partition, hosts.get((topic.name, index), {})


def _hosted(world: ClusterWorld) -> Iterator[str]:
    for name, registration, hosts in _led(world):
        if sorted(hosts) != sorted(registration.replicas):
            yield f"{name} is hosted by {sorted(hosts)}, its replicas are {registration.replicas}"
            continue
        for node_id, hosted in hosts.items():
            if hosted.is_offline:
                yield f"{name} is offline on node {node_id}"
            elif hosted.is_leader != (node_id == registration.leader):
                yield f"{name} is led by {registration.leader}, node {node_id} does not know"
        ends = {each: (hosts[each].log.log_end_offset, hosts[each].log.high_watermark) for each in hosts}
        if len({number for pair in ends.values() for number in pair}) != 1:
            yield f"{name} has different log ends and high watermarks, by node: {ends}"
        for node_id, hosted in () if world.losses else hosts.items():
            if len(hosted.log.producer_state.transactions):
                yield f"{name} has an open transaction on node {node_id}"
            elif hosted.log.last_stable_offset != hosted.log.high_watermark:
                yield f"{name} has a last stable offset below its high watermark on node {node_id}"


def _coordinators(world: ClusterWorld) -> Iterator[str]:
    image = _image(world)
    for node in world.brokers:
        if image is None or node.broker is None:
            continue
        services = node.broker.services
        loaded = {
            GROUP_TOPIC: services.groups.loaded_partitions(),
            TRANSACTION_TOPIC: services.transactions.loaded_partitions(),
        }
        for name, partitions in loaded.items():
            topic = image.topics.by_name.get(name)
            led = [] if topic is None else _led_by(node, topic)
            if partitions != led:
                yield f"{node} leads {led} of {name} and has loaded {partitions}"


def _transactions(world: ClusterWorld) -> Iterator[str]:
    """By what coordinators know: each has ended, its end is recorded, and no group waits for its marker. Else
    a producer is told for ever that another transaction is under way, or a group that its offsets are not
    stable."""
    for node in () if world.losses else world.brokers:
        if node.broker is None:
            continue
        for listed in node.broker.services.transactions.list_transactions(_UNENDED) or ():
            if listed is not None:
                yield f"{listed.transactional_id} is in {listed.transaction_state} by what {node} knows"
        for index, context in node.broker.services.groups.contexts.items():
            if context.state is CoordinatorState.ACTIVE and context.shard.offset_metadata.pending.by_producer:
                yield f"offsets in {GROUP_TOPIC}-{index} wait for the end of a transaction on {node}"


def _led_by(node: SimulatedNode, topic: TopicImage) -> list[int]:
    return sorted(index for index, each in topic.partitions.items() if each.leader == node.node_id)


def _logs(world: ClusterWorld) -> Iterator[str]:
    """Batch for batch, but where the cleaner may have been: of these replicas, or of one that they have
    copied from and that is none any more."""
    for name, _, hosts in _led(world):
        logs: dict[int, SeenLog] = {}
        for node_id, hosted in hosts.items():
            logs[node_id] = SeenLog(hosted.log, world.nodes[node_id].machine.files)
            logs[node_id].look()
        begin = max(hosted.log.log_start_offset for hosted in hosts.values())
        begin = max(begin, *(log.merged_end for log in logs.values()), _merged_end(world, hosts))
        contents = {node_id: log.batches[first_above(log.lasts, begin) :] for node_id, log in logs.items()}
        first_id, first = next(iter(contents.items()))
        for node_id, batches in contents.items():
            if batches != first:
                yield f"{name} is not the same on nodes {first_id} and {node_id} from offset {begin} on"


def _merged_end(world: ClusterWorld, hosts: dict[int, Partition]) -> int:
    """Of all replicas that there ever were of this partition."""
    watch = next((rule for rule in world.rules if isinstance(rule, PartitionWatch)), None)
    hosted = next(iter(hosts.values()))
    if watch is None:
        return 0
    return watch.cluster.partition(hosted.topic, hosted.topic_id, hosted.index).committed.merged_end
