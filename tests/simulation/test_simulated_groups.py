"""Two groups, one of each protocol, on three nodes: members leave, die and come back, and so does the
coordinator's broker; and the rules of coordinators strike where a coordinator is changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import pytest

from broker.coordinator.group_shard import GroupShard
from broker.coordinator.offsets.offset_records import OffsetAndMetadata
from broker.simulation.clients.admin_client import AdminClient
from broker.simulation.clients.client_kinds import make_client
from broker.simulation.clients.group_consumer import GroupConsumer
from broker.simulation.cluster.client_faults import CLIENT_VERBS
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_steps import ClusterStep
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import NodePlace, SimulatedNode
from broker.simulation.histories.checker import check
from broker.simulation.histories.history import History
from broker.simulation.rules.group_rules import GIVEN_UP, KNOWN, GroupRules
from broker.simulation.verdict import Violation, without_logs
from storage.memory_files import Torn

SEED: Final = 5
TOPIC: Final = "read"
PARTITIONS: Final = 5
GROUPS: Final = {"classic": [TOPIC], "newer": [TOPIC]}
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "500",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1500",
}
LIMIT_MS: Final = 60_000
EVERY_THIRD: Final = 3


class Story:
    """A cluster with a producer and six consumers, two of them static members."""

    def __init__(self) -> None:
        self.world = ClusterWorld(SEED, [NodePlace(number, True, True, PROPERTIES) for number in (1, 2, 3)])
        self.rules = GroupRules(self.world)
        self.world.rules.append(self.rules)
        self.consumers: list[GroupConsumer] = []

    def start(self) -> None:
        world = self.world
        world.start_all()
        hosts = [node.place.host for node in world.brokers]
        admin = AdminClient(world, ClientPlan("admin", "admin", ()), hosts)
        admin.start()
        admin.carry_out(admin.create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"}))
        world.loop.run_until(self.is_topic_known, limit_ms=LIMIT_MS)
        self.writer = make_client(world, ClientPlan("producer", "w", (TOPIC,)), hosts)
        self.writer.start()
        for number in range(2 * EVERY_THIRD):
            kind, group = (("classic_consumer", "classic"), ("consumer", "newer"))[number % 2]
            options = {"leaves_per_hour": "120", "stalls_per_hour": "30", "session_ms": "6000"}
            if number >= 2 * EVERY_THIRD - 2:
                options["instance"] = f"static-{number}"
            plan = ClientPlan(kind, f"c{number}", (TOPIC,), group, options)
            consumer = make_client(world, plan, hosts)
            assert isinstance(consumer, GroupConsumer)
            self.consumers.append(consumer)
            consumer.start()

    def is_topic_known(self) -> bool:
        images = [node.image for node in self.world.brokers]
        return all(image is not None and TOPIC in image.topics.by_name for image in images)

    def coordinator(self, group: str) -> tuple[GroupShard, SimulatedNode]:
        self.world.loop.run_until(lambda: self.rules._newest_shard(group), limit_ms=LIMIT_MS)
        found = self.rules._newest_shard(group)
        assert found is not None
        return found

    def crash_coordinator(self, group: str) -> None:
        _, node = self.coordinator(group)
        node.machine.cut_power(lambda _, __: Torn(0))
        self.world.loop.run_for(4_000)
        node.start()
        self.world.loop.run_for(8_000)

    def crash(self, consumer: GroupConsumer) -> None:
        consumer.kill()
        self.world.loop.run_for(3_000)
        consumer.come_back()
        self.world.loop.run_for(5_000)

    def settle(self) -> None:
        for consumer in self.consumers:
            consumer.is_steady = True
        self.writer.finish()
        self.world.loop.run_until(lambda: self.writer.is_over, limit_ms=LIMIT_MS)
        self.world.loop.run_until(self._is_settled, limit_ms=2 * LIMIT_MS)

    def _is_settled(self) -> bool:
        """Everything has an owner, and each consumer has something: one that was away comes back."""
        have_some = all(consumer.owned for consumer in self.consumers)
        return have_some and self.rules.reason_unsettled(GROUPS) is None


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    with without_logs():
        told = Story()
        told.start()
        told.world.loop.run_for(8_000)
        told.crash_coordinator("newer")
        for consumer in told.consumers[-2:]:
            told.crash(consumer)
        told.crash_coordinator("classic")
        told.crash(told.consumers[0])
        told.settle()
        yield told


def test_groups_survive_their_coordinators_and_settle(story: Story) -> None:
    counts = story.world.coverage.counts
    assert counts["group coordinators: moved"] >= 2
    assert counts["commits: ok"] > 50
    assert counts["classic consumers: distributed as the leader"] > 2
    assert counts["consumers: gave partitions up"] > 2
    for group in GROUPS:
        assert len(story.rules.claims.generations(group)) > 3
        owners = {claim.process for claim in story.rules.claims.of_group(group)}
        assert len(owners) == EVERY_THIRD


def test_what_the_groups_were_given_is_what_was_written(story: Story) -> None:
    history = History(story.world.history)
    verdict = check(history)
    assert verdict.is_clean, verdict.stories
    assert verdict.counts["records seen"] > 100
    assert history.group_operations


def strikes(story: Story, rule: str, node: SimulatedNode, mend: Callable[[], None]) -> None:
    story.rules._seen.clear()
    with pytest.raises(Violation) as caught:
        story.rules.after_turn(node)
    assert caught.value.rule == rule
    mend()
    story.rules._seen.clear()
    story.rules.after_turn(node)


def test_a_consumer_that_a_step_kills_comes_back(story: Story) -> None:
    run: Any = SimpleNamespace(world=story.world, clients=story.consumers, is_calm=False)
    verb = CLIENT_VERBS["kill a consumer"]
    told = verb.play(run, ClusterStep(0, "kill a consumer", 1, 7))
    assert told is not None
    assert told.startswith("c1 is killed")
    assert story.consumers[1].is_over
    assert verb.heal is not None
    verb.heal(run)
    assert not story.consumers[1].is_over
    story.settle()


def test_a_coordinator_that_forgets_a_commit(story: Story) -> None:
    shard, node = story.coordinator("classic")
    committed = shard.offset_metadata.committed
    kept = committed.get("classic", TOPIC, 0)
    committed.set("classic", TOPIC, 0, OffsetAndMetadata(0), None)
    strikes(story, KNOWN, node, lambda: committed.set("classic", TOPIC, 0, kept, None))


def test_a_coordinator_that_hands_on_what_was_not_given_up(story: Story) -> None:
    shard, node = story.coordinator("newer")
    group = shard.group_metadata.consumers.groups["newer"]
    place, owner = next(iter(group.owners.items()))
    group.owners[place] = next(member for member in group.members if member != owner)
    strikes(story, GIVEN_UP, node, lambda: group.owners.__setitem__(place, owner))
