"""A partition through moves, elections, leaving brokers and altered ISRs: what holds after each change."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.metadata.image.brokers import BrokerRegistration, BrokersImage
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.partition_index import Group
from controller.metadata.image.topics import (
    NO_LEADER,
    RECOVERED,
    PartitionRegistration,
    TopicImage,
    TopicsImage,
)
from controller.subjects.elections import PREFERRED, UNCLEAN, Elections
from controller.subjects.leadership import LeadershipRules
from controller.subjects.partition_change import change_partition
from controller.subjects.partitions import broker_departs, elect
from controller.subjects.reassignment import alter_reassignments
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.metadata_log.topics import PartitionChangeRecord

BROKERS: Final = (1, 2, 3)
TOPIC_ID: Final = b"t" * 16

Step = tuple[str, Any]

replicas = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("move"), replicas),
        st.tuples(st.just("cancel"), st.none()),
        st.tuples(st.just("in sync"), st.sampled_from(BROKERS)),
        st.tuples(st.just("out of sync"), st.sampled_from(BROKERS)),
        st.tuples(st.just("goes"), st.sampled_from(BROKERS)),
        st.tuples(st.just("comes"), st.sampled_from(BROKERS)),
        st.tuples(st.just("elect"), st.sampled_from([PREFERRED, UNCLEAN])),
    ),
    max_size=40,
)


class World:
    """One partition and three brokers, some of them fenced."""

    def __init__(self, first: list[int], *, unclean: bool, min_isr: int | None = None) -> None:
        self.fenced: set[int] = set()
        self.unclean = unclean
        self.min_isr = min_isr
        self.partition = PartitionRegistration(
            replicas=tuple(first), directories=(bytes(16),) * len(first), isr=tuple(first), leader=first[0]
        )

    @property
    def image(self) -> ClusterImage:
        brokers = {
            broker: BrokerRegistration(
                broker,
                1,
                bytes(16),
                MappingProxyType({}),
                MappingProxyType({}),
                None,
                broker in self.fenced,
                False,
            )
            for broker in BROKERS
        }
        topic = TopicImage("t", TOPIC_ID, MappingProxyType({0: self.partition}))
        topics = TopicsImage(MappingProxyType({"t": topic}), MappingProxyType({TOPIC_ID: topic}))
        return ClusterImage(brokers=BrokersImage(MappingProxyType(brokers)), topics=topics)

    @property
    def rules(self) -> LeadershipRules:
        return LeadershipRules(lambda _: self.unclean, lambda _: self.min_isr)

    @property
    def effective_min_isr(self) -> int | None:
        return None if self.min_isr is None else min(self.min_isr, len(self.partition.replicas))

    def is_active(self, broker: int) -> bool:
        return broker not in self.fenced

    def take(self, kind: str, value: Any) -> list[Any]:
        """The records that a step leads to."""
        match kind:
            case "move" | "cancel":
                cls = AlterPartitionReassignmentsRequest
                request = cls(1, True, [cls.ReassignableTopic("t", [cls.ReassignablePartition(0, value)])])
                return list(alter_reassignments(self.image, request, self.rules).records)
            case "elect":
                wanted = ElectLeadersRequest(value, [ElectLeadersRequest.TopicPartitions("t", [0])])
                return list(Elections(wanted, lambda _: self.rules).decide(self.image).records)
            case "goes":
                if value in self.fenced:
                    return []
                records = broker_departs(self.image, value, self.rules)
                self.fenced.add(value)
                return records
            case "comes":
                if value not in self.fenced:
                    return []
                leaderless = self.image.topics.index.partitions(Group.LED_BY)
                records = elect(self.image, leaderless, self.rules, arriving=value)
                self.fenced.remove(value)
                return records
        return self._alter_isr(kind, value)

    def _alter_isr(self, kind: str, broker: int) -> list[Any]:
        """As the leader would ask it."""
        partition = self.partition
        if partition.leader == NO_LEADER or broker == partition.leader or not self.is_active(broker):
            return []
        isr = tuple(each for each in partition.isr if each != broker)
        if kind == "in sync" and broker in partition.replicas:
            isr += (broker,)
        change = change_partition(
            TOPIC_ID, 0, partition, isr=isr, is_active=self.is_active, min_isr=self.effective_min_isr
        )
        return [] if change is None else [change]


@settings(max_examples=300, deadline=None)
@given(first=replicas, unclean=st.booleans(), min_isr=st.sampled_from([None, None, 1, 2, 3]), taken=steps)
def test_what_holds_after_each_change(
    first: list[int], unclean: bool, min_isr: int | None, taken: list[Step]
) -> None:
    world = World(first, unclean=unclean, min_isr=min_isr)
    for kind, value in taken:
        before = world.partition
        records = world.take(kind, value)
        assert len(records) <= 1, "one partition, one change"
        for record in records:
            assert isinstance(record, PartitionChangeRecord)
            world.partition = before.merge(record)
            check_change(before, world.partition)
            if kind == "move":
                check_awaited(before, world.partition, set(value))
            if kind not in ("move", "cancel") and before.adding and not world.partition.adding:
                assert set(before.adding) <= set(world.partition.isr), "a move ends when all have come"
        check_state(world)
        if kind == "move" and records:
            assert set(value) <= set(world.partition.replicas), "nobody who is wanted is left out"
        if kind == "move":
            for again in world.take(kind, value):
                lists = again.replicas, again.adding_replicas, again.removing_replicas
                assert lists == (None, None, None), "the same request once more moves nothing"


def check_awaited(before: PartitionRegistration, after: PartitionRegistration, wanted: set[int]) -> None:
    newcomers = wanted - set(before.replicas)
    awaited = newcomers or set(before.adding) & wanted
    has_ended = not newcomers and not after.adding and awaited <= set(after.isr)
    assert set(after.adding) == awaited or has_ended, "who comes is awaited"


def check_change(before: PartitionRegistration, after: PartitionRegistration) -> None:
    gone = set(before.replicas) - set(after.replicas)
    moved = before.leader != after.leader
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch == before.leader_epoch + (1 if moved or gone else 0)
    assert (before.replicas, before.isr, before.leader, before.adding, before.removing, before.elr) != (
        after.replicas,
        after.isr,
        after.leader,
        after.adding,
        after.removing,
        after.elr,
    ), "a change changes something"


def check_state(world: World) -> None:
    partition = world.partition
    held = set(partition.replicas)
    assert len(held) == len(partition.replicas) == len(partition.directories)
    assert partition.isr or partition.elr or world.min_isr is not None, (
        "somebody has all that was acknowledged"
    )
    assert not set(partition.isr) & set(partition.elr)
    assert not partition.elr or (world.min_isr is not None and len(partition.isr) < world.min_isr)
    assert set(partition.isr) <= held
    assert len(set(partition.isr)) == len(partition.isr)
    adding, removing = set(partition.adding), set(partition.removing)
    assert adding <= held
    assert removing < held or not removing
    assert not adding & removing
    if partition.leader == NO_LEADER:
        eligible = held & set(partition.isr or partition.elr)
        assert not any(world.is_active(broker) for broker in eligible), "who is in sync and there leads"
    else:
        assert partition.leader in partition.isr
        assert world.is_active(partition.leader)
    if (adding or removing) and partition.leader_recovery_state == RECOVERED and world.min_isr is None:
        # An unclean election makes its own ISR; what it completes ends when the leader has recovered.
        staying = held - removing
        in_sync = set(partition.isr) - removing
        done = bool(in_sync) and adding <= in_sync and (len(adding) >= len(removing) or staying <= in_sync)
        assert not done, "a move that can end has ended"
