"""A member of a consumer group, as its two records say it.

A member is never changed: each record gives another one. The fields before `state` lie in the record of kind
5, the others in that of kind 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from broker.coordinator.consumer.member_states import MemberState
from protocol.group_log.consumer_groups import ConsumerGroupMemberMetadataValue
from protocol.primitives import Uuid

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""The epoch with which a static member leaves for a while. Its partitions are kept for it until its session
ends."""

PartitionEpochs = Mapping[Uuid, Mapping[int, int]]
"""For each topic and partition, the member epoch in which the partition was assigned. A topic without
partitions is left out."""
NOTHING: Final[PartitionEpochs] = MappingProxyType({})


class ConsumerGroupMember(msgspec.Struct, frozen=True):
    """One member. `member_epoch` is the assignment epoch to which it was reconciled."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """The client's address as Java prints it, with a slash in front."""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = None
    """The classic protocol's fields, of a member that uses it."""
    state: MemberState = MemberState.STABLE
    member_epoch: int = 0
    previous_member_epoch: int = -1
    assigned: PartitionEpochs = NOTHING
    pending_revocation: PartitionEpochs = NOTHING
    """The partitions that it has to give up before it goes on."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def owned(self) -> Iterator[tuple[Uuid, int]]:
        """All partitions that no other member may have: its assignment, and what it has not given up yet."""
        for partitions in (self.assigned, self.pending_revocation):
            for topic_id, epochs in partitions.items():
                for partition in epochs:
                    yield topic_id, partition

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """The epoch since which it has had the partition; None if it has not."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    def replaced_by(self, member_id: str) -> ConsumerGroupMember:
        """The same static member under another id. It begins at epoch 0 with the same partitions."""
        return msgspec.structs.replace(
            self, member_id=member_id, member_epoch=JOINING_EPOCH, previous_member_epoch=0
        )

    def left_for_a_while(self) -> ConsumerGroupMember:
        return msgspec.structs.replace(
            self,
            member_epoch=STATIC_LEAVING_EPOCH,
            assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in self.assigned.items()},
            pending_revocation=NOTHING,
        )


def holds(partitions: PartitionEpochs, owned: Iterable[tuple[Uuid, Iterable[int]]]) -> bool:
    """Whether all owned partitions are among these partitions."""
    return all(
        topic_id in partitions and all(partition in partitions[topic_id] for partition in numbers)
        for topic_id, numbers in owned
    )
