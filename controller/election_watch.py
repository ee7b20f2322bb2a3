"""Counts the elections that are committed, and logs them at the active controller.

An election is unclean if the new leader was neither in the ISR nor in the ELR: acknowledged records may be
lost, so each such partition is logged. Of the others only the number is logged.
"""

from __future__ import annotations

import logging

from controller.metadata.image.cluster_image import ImageDelta
from controller.metadata.image.topics import NO_LEADER, PartitionRegistration, TopicDelta

__all__ = ["ElectionWatch"]

_log = logging.getLogger("barnabas.controller")


class ElectionWatch:
    """unclean: elections of leaders that may lack acknowledged records. from_eligible: elections of eligible
    leader replicas (KIP-966). Both count from the start of this process."""

    def __init__(self) -> None:
        self.unclean = 0
        self.from_eligible = 0

    def committed(self, delta: ImageDelta, *, tells: bool) -> None:
        """Counts the elections in what was committed. tells: this controller is the active one, and logs
        them."""
        if delta.topics is None:
            return
        elected = lost = 0
        for topic in delta.topics.changed.values():
            for index, after in topic.partitions.items():
                before = topic.base.partitions.get(index)
                if before is None or before.leader == after.leader:
                    continue
                if after.leader == NO_LEADER:
                    lost += 1
                else:
                    elected += 1
                    self._elected(topic, index, before, after, tells=tells)
        if tells and (elected or lost):
            _log.info(
                "%d partition(s) have another leader now, and %d have lost theirs without a successor",
                elected,
                lost,
            )

    def _elected(
        self,
        topic: TopicDelta,
        index: int,
        before: PartitionRegistration,
        after: PartitionRegistration,
        *,
        tells: bool,
    ) -> None:
        if after.leader in before.isr:
            return
        if after.leader in before.elr:
            self.from_eligible += 1
            return
        self.unclean += 1
        # The last leader of all, back after an unclean shutdown, has what it had; nobody else has more.
        is_last_leader = after.leader in before.last_known_elr
        if tells and not is_last_leader:
            _log.warning(
                "Unclean election: %s-%d is led by broker %d in leader epoch %d, which was neither in the "
                "ISR %s nor eligible %s; acknowledged records may be lost",
                topic.name,
                index,
                after.leader,
                after.leader_epoch,
                list(before.isr),
                list(before.elr),
            )
