"""A calm cluster to which single verbs are done, one after the other, until a live broker's image says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.simulation.cluster.address_changes import ADDRESS_VERBS
from broker.simulation.cluster.cluster_changes import CHANGE_VERBS, newest_image
from broker.simulation.cluster.cluster_plan import ClusterPlan, TopicPlan
from broker.simulation.cluster.cluster_run import ClusterRun
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.directory_moves import DIRECTORY_MOVE_VERBS
from broker.simulation.cluster.disk_losses import DISK_LOSS_VERBS
from broker.simulation.cluster.feature_changes import FEATURE_VERBS
from broker.simulation.cluster.membership_changes import MEMBERSHIP_VERBS
from broker.simulation.cluster.partition_changes import PARTITION_VERBS
from broker.simulation.cluster.simulated_node import DATA, NodePlace
from broker.simulation.verdict import without_logs
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import PartitionRegistration

VERBS: Mapping[str, Verb] = {
    **CHANGE_VERBS,
    **PARTITION_VERBS,
    **MEMBERSHIP_VERBS,
    **FEATURE_VERBS,
    **DISK_LOSS_VERBS,
    **ADDRESS_VERBS,
    **DIRECTORY_MOVE_VERBS,
}
TOPIC = "flights"
TRIES = 2_000


class ChangingCluster:
    """Some nodes, of which the first three are voters, and one topic. told: what the verbs said."""

    def __init__(
        self,
        *,
        nodes: int = 4,
        seed: int = 1,
        is_dynamic: bool = False,
        unclean: bool = False,
        directories: str = DATA,
        has_other_ports: bool = False,
    ):
        properties = {"log.dirs": directories}
        places = tuple(NodePlace(number, True, number <= 3, properties) for number in range(1, nodes + 1))
        topics = (TopicPlan(TOPIC, 2, 3, {"min.insync.replicas": "2"}),)
        plan = ClusterPlan(
            places,
            topics,
            (),
            {},
            60_000,
            is_dynamic=is_dynamic,
            allows_unclean=unclean,
            has_other_ports=has_other_ports,
        )
        self.run = ClusterRun(seed, plan, ())
        self.told: list[str] = []
        with without_logs():
            self.run.start()
            self.run.admin.carry_out(self.run.admin.create_topic(TOPIC, 2, 3, topics[0].configs))
        self.until(lambda image: TOPIC in image.topics.by_name)

    @property
    def image(self) -> ClusterImage:
        image = newest_image(self.run.world)
        assert image is not None
        return image

    @property
    def digest(self) -> str:
        return self.run.world.network.digest

    def partition(self, index: int = 0, topic: str = TOPIC) -> PartitionRegistration:
        return self.image.topics.by_name[topic].partitions[index]

    def until(self, holds: Callable[[ClusterImage], object], limit_ms: int = 60_000) -> None:
        with without_logs():
            self.run.world.loop.run_until(lambda: holds(self.image), limit_ms=limit_ms)

    def pass_by(self, duration_ms: int) -> None:
        with without_logs():
            self.run.world.loop.run_for(duration_ms)

    def play(self, verb: str, bits: int = 0, whom: int = 0) -> str:
        """With the next random bits for which it finds something to do."""
        for each in range(bits, bits + TRIES):
            told = VERBS[verb].play(self.run, ClusterStep(0, verb, whom, each))
            if told is not None:
                self.told.append(told)
                return told
        raise AssertionError(f"{verb} found nothing to do")

    def heal(self, verb: str) -> None:
        heal = VERBS[verb].heal
        assert heal is not None
        heal(self.run)
