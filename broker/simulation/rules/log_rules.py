"""What must hold of the logs of a partition, of each and beside each other.

    offsets are contiguous                      but where the cleaner has been
    leader epochs in a log never fall
    the list of leader epochs says what the log says
    a log ends with its last batch
    committed records are never changed         whoever leads, is in the ISR of the newest image, or has been
                                                told that so much is committed, has exactly these batches
    committed records are never lost            a leader of a new epoch has all of them
    only what is not committed is cut off
    a follower's high watermark is not above what is committed

What is committed is learnt from the leaders: where the high watermark of one grows, the batches of its log
below it are committed. Where a run may lose committed records (`ClusterPlan.allows_unclean`), a leader that
lacks some cuts the reference, and logs of earlier epochs are not held to it any more.
"""

from __future__ import annotations

from typing import Final

from broker.simulation.rules.committed_logs import Difference
from broker.simulation.rules.seen_partitions import SeenCluster, SeenPartition, SeenReplica
from broker.simulation.verdict import Violation
from controller.metadata.image.topics import RECOVERING

__all__ = [
    "AHEAD",
    "CHANGED",
    "CUT_OFF",
    "EPOCHS_DISAGREE",
    "EPOCH_FALLS",
    "GAP",
    "LOST",
    "WRONG_END",
    "BatchRules",
    "CommitmentRules",
]

GAP: Final = "offsets are contiguous"
EPOCH_FALLS: Final = "leader epochs in a log never fall"
EPOCHS_DISAGREE: Final = "the list of leader epochs says what the log says"
WRONG_END: Final = "a log ends with its last batch"
CHANGED: Final = "committed records are never changed"
LOST: Final = "committed records are never lost"
CUT_OFF: Final = "only what is not committed is cut off"
AHEAD: Final = "a follower's high watermark is not above what is committed"


class BatchRules:
    """Each log by itself."""

    def __init__(self, cluster: SeenCluster) -> None:
        self._count = cluster.coverage.count

    def changed(self, replica: SeenReplica) -> None:
        """See `partition_watch.PartitionRule`."""
        log, end_offset = replica.log, replica.now.log_end_offset
        # A log may be cut behind a batch that the cleaner has taken away.
        was_merged = log.end_offset < end_offset <= replica.partition.committed.merged_end
        if log.end_offset != end_offset and not (log.is_unreadable or was_merged):
            raise Violation(WRONG_END, f"{replica} ends at {end_offset}, its files at {log.end_offset}")
        if replica.judged < len(log.batches):
            self._judge(replica, replica.judged)

    def _judge(self, replica: SeenReplica, begin: int) -> None:
        self._count("looked at: batches of a log")
        batches, epochs = replica.log.batches, replica.hosted.log.leader_epochs
        merged_end, log_start = replica.partition.committed.merged_end, replica.now.log_start_offset
        previous = batches[begin - 1] if begin else None
        for number in range(begin, len(batches)):
            batch = batches[number]
            if previous is not None:
                expected = previous.last_offset + 1
                if batch.base_offset != expected and not expected < batch.base_offset <= merged_end:
                    raise Violation(GAP, f"{replica} has {batch} after {previous}")
                if batch.epoch < previous.epoch:
                    raise Violation(EPOCH_FALLS, f"{replica} has {batch} after {previous}")
            if (previous is None or batch.epoch != previous.epoch) and batch.last_offset >= log_start:
                offset = max(batch.base_offset, log_start)
                if epochs.epoch_of(offset) != batch.epoch:
                    raise Violation(
                        EPOCHS_DISAGREE, f"{replica} has {batch}, and in its list {epochs.entries()}"
                    )
            previous = batch


class CommitmentRules:
    """Logs beside each other: what is committed is in all of them that count."""

    def __init__(self, cluster: SeenCluster) -> None:
        self._allows_unclean = cluster.allows_unclean
        self._losses = cluster.losses
        self._count = cluster.coverage.count

    def changed(self, replica: SeenReplica) -> None:
        """See `partition_watch.PartitionRule`."""
        partition, now = replica.partition, replica.now
        if now.leader_epoch < partition.unclean_epoch:
            return
        if replica.log.cut_offset is not None:
            self._was_cut(replica, replica.log.cut_offset)
        if replica.leader is not None:
            if replica.led_epoch != now.leader_epoch:
                replica.led_epoch = now.leader_epoch
                self._begins_to_lead(replica)
            is_latest = now.leader_epoch >= partition.latest_epoch
            self._verify(replica, partition.committed.end_offset if is_latest else now.high_watermark)
            if now.high_watermark > partition.committed.end_offset:
                self._commits(replica)
            return
        newest = partition.newest
        is_in_sync = newest is not None and replica.node_id in newest.isr
        if partition.unclean_epoch >= 0 and not is_in_sync:
            return  # it may have been told of what is lost now
        if now.high_watermark > partition.committed.end_offset:
            raise Violation(
                AHEAD,
                f"{replica} takes all below {now.high_watermark} for committed, no leader has committed more "
                f"than what is below {partition.committed.end_offset}",
            )
        self._verify(replica, partition.committed.end_offset if is_in_sync else now.high_watermark)

    def _was_cut(self, replica: SeenReplica, cut_offset: int) -> None:
        self._count("looked at: truncation of a log")
        committed_end = min(replica.verified_before, replica.partition.committed.end_offset)
        if cut_offset >= committed_end or replica.now.log_start_offset >= committed_end:
            return
        if replica.partition.unclean_epoch >= 0:
            self._count("committed records are cut off after an unclean election")
            return
        raise Violation(
            CUT_OFF,
            f"{replica} is cut at {cut_offset} in epoch {replica.now.leader_epoch}, and all below "
            f"{committed_end} is committed and was in it",
        )

    def _begins_to_lead(self, replica: SeenReplica) -> None:
        self._count("looked at: log of a new leader")
        committed = replica.partition.committed
        if replica.now.log_end_offset < committed.end_offset:
            last = committed.batches[-1]
            self._is_lost(replica, replica.now.log_end_offset, LOST, f"the last one committed is {last}")

    def _is_lost(self, replica: SeenReplica, offset: int, rule: str, text: str) -> None:
        """The leader lacks what is committed from an offset on."""
        partition, epoch = replica.partition, replica.now.leader_epoch
        if not self._allows_unclean:
            raise Violation(
                rule, f"{replica} leads in epoch {epoch} and ends at {replica.now.log_end_offset}; {text}"
            )
        newest = partition.newest
        is_shown = newest is not None and newest.leader_recovery_state == RECOVERING
        cause = "an unclean election" if is_shown else "lost disks"
        self._count(f"committed records lost by {cause}")
        partition.committed.cut(offset)
        partition.unclean_epoch = epoch
        self._losses[partition.topic, partition.index] = None
        for each in partition.replicas.values():
            each.verified_end = min(each.verified_end, offset)

    def _verify(self, replica: SeenReplica, end_offset: int) -> None:
        """The log is what is committed, as far as it goes and up to an offset."""
        if replica.verified_end >= end_offset:
            return
        self._count("looked at: log beside what is committed")
        committed = replica.partition.committed
        try:
            replica.verified_end = committed.agreed_end(
                replica.log, replica.verified_end, replica.now.log_start_offset, end_offset
            )
        except Difference as difference:
            if replica.leader is not None:
                self._is_lost(replica, difference.committed.base_offset, CHANGED, str(difference))
            elif replica.partition.unclean_epoch < 0:
                raise Violation(CHANGED, f"{replica}: {difference}") from difference

    def _commits(self, replica: SeenReplica) -> None:
        """The high watermark of this leader is the highest that there has been."""
        partition, now = replica.partition, replica.now
        partition.committed.extend(replica.log, now.high_watermark)
        end_offset = partition.committed.end_offset
        replica.verified_end = end_offset
        self._count("looked at: commitment by a leader")
        is_whole = not replica.log.is_unreadable and now.high_watermark > partition.committed.merged_end
        if end_offset != now.high_watermark and is_whole:
            raise Violation(
                WRONG_END, f"{replica}: the high watermark {now.high_watermark} is within a batch of its log"
            )
        for other in partition.replicas.values():
            if other is replica or not other.is_live:
                continue
            if other.leader is not None and other.now.leader_epoch > now.leader_epoch:
                self._begins_to_lead(other)
                self._verify(other, end_offset)
            elif self._is_counted(replica, other, partition):
                self._verify(other, end_offset)

    @staticmethod
    def _is_counted(replica: SeenReplica, other: SeenReplica, partition: SeenPartition) -> bool:
        """Whether the other one follows this leader and is in sync."""
        newest, leader = partition.newest, replica.leader
        if leader is None or other.now.leader_epoch != replica.now.leader_epoch:
            return False
        isr = leader.partition_state.maximal_isr if newest is None else newest.isr
        return other.node_id in isr
