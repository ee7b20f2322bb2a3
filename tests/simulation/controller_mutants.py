"""Rules of the controller and of the metadata, each broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from broker.controller_channel import lifecycle
from broker.metadata.cache import MetadataCache
from broker.metadata.loader import MetadataLoader
from broker.simulation.cluster import cluster_run, restarts
from broker.simulation.rules import log_rules, metadata_rules, partition_rules
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.partition_index import PartitionIndex
from controller.metadata.image.topics import NO_LEADER_CHANGE, PartitionRegistration
from controller.raft.identity import NOBODY
from controller.raft.replica import Replica
from controller.raft.transitions import Role
from controller.subjects import alter_partition, brokers, partition_change
from controller.subjects.alter_partition import NO_EPOCH
from controller.subjects.partitions import broker_departs, broker_died
from controller.subjects.result import Decision
from protocol.errors import ErrorCode
from protocol.metadata_log.topics import PartitionChangeRecord
from tests.simulation.cluster_mutant import ClusterMutant, Patch, everywhere, wrapped
from tests.simulation.mutants import MUTANTS

__all__ = ["CONTROLLER_MUTANTS"]


def _quorums(name: str) -> Callable[[Patch], None]:
    """A mutant of the quorum, which is the same in a whole cluster."""
    return next(each for each in MUTANTS if each.name == name).apply


# AlterPartition


def _forgives(*forgiven: ErrorCode) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        def misfit(broker_id: int, partition: Any, wish: Any) -> Any:
            found = genuine(broker_id, partition, wish)
            return None if found is not None and found[0] in forgiven else found

        genuine = alter_partition._misfit
        patch.setattr(alter_partition, "_misfit", misfit)

    return apply


def takes_any_broker_epoch(patch: Patch) -> None:
    def ineligible(image: Any, states: Any) -> list[str]:
        unnamed = [msgspec.structs.replace(state, broker_epoch=NO_EPOCH) for state in states]
        return genuine(image, unnamed)

    genuine = alter_partition._ineligible
    patch.setattr(alter_partition, "_ineligible", ineligible)


def _takes_fenced_replicas(patch: Patch) -> None:
    patch.setattr(alter_partition, "_ineligible", lambda image, states: [])


# Changes of a partition


def _elects_anybody(patch: Patch) -> None:
    def elect(record: Any, partition: Any, target: Any, *rest: Any, **named: Any) -> None:
        isr, elr = target.isr, target.elr
        target.isr = target.replicas
        genuine(record, partition, target, *rest, **named)
        target.isr, target.elr = isr, elr
        if record.leader not in (NO_LEADER_CHANGE, -1) and record.leader not in isr:
            target.isr = (record.leader,)

    genuine = partition_change._elect
    patch.setattr(partition_change, "_elect", elect)


def _elects_outside_the_elr(patch: Patch) -> None:
    """When nobody is in sync any more, any replica that is there."""

    def elect(record: Any, partition: Any, target: Any, *rest: Any, **named: Any) -> None:
        if not target.isr:
            target.elr = target.replicas
        genuine(record, partition, target, *rest, **named)

    genuine = partition_change._elect
    patch.setattr(partition_change, "_elect", elect)


def _fills_no_elr(patch: Patch) -> None:
    def update(partition: Any, target: Any, min_isr: int, unclean_shutdown: int) -> None:
        target.elr = ()

    patch.setattr(partition_change, "_update_elr", update)


def _never_clears_the_elr(patch: Patch) -> None:
    def update(partition: Any, target: Any, min_isr: int, unclean_shutdown: int) -> None:
        genuine(partition, target, 1 + len(target.isr), unclean_shutdown)

    genuine = partition_change._update_elr
    patch.setattr(partition_change, "_update_elr", update)


def _ends_reassignments_early(patch: Patch) -> None:
    def end(target: Any) -> None:
        isr = tuple(each for each in target.isr if each not in target.removing)
        if isr and (target.adding or target.removing):
            target.replicas = tuple(each for each in target.replicas if each not in target.removing)
            target.isr, target.removing, target.adding = isr, (), ()

    patch.setattr(partition_change, "_end_reassignment", end)


def _leaves_removed_replicas_in_sync(patch: Patch) -> None:
    def end(target: Any) -> None:
        isr = target.isr
        genuine(target)
        target.isr = isr

    genuine = partition_change._end_reassignment
    patch.setattr(partition_change, "_end_reassignment", end)


def _keeps_the_leader_epoch(patch: Patch) -> None:
    def merge(genuine: Any, self: PartitionRegistration, record: Any) -> PartitionRegistration:
        merged: PartitionRegistration = genuine(self, record)
        return msgspec.structs.replace(merged, leader_epoch=self.leader_epoch)

    wrapped(patch, PartitionRegistration, "merge", merge)


def _takes_the_epoch_of_the_leader(patch: Patch) -> None:
    """An epoch that begins anew with each leader."""

    def merge(genuine: Any, self: PartitionRegistration, record: Any) -> PartitionRegistration:
        merged: PartitionRegistration = genuine(self, record)
        return msgspec.structs.replace(merged, leader_epoch=max(0, merged.leader))

    wrapped(patch, PartitionRegistration, "merge", merge)


# Brokers


def _overlooks_unclean_shutdowns(patch: Patch) -> None:
    everywhere(patch, broker_died, broker_departs)


def _fences_without_moves(patch: Patch) -> None:
    def fence(image: ClusterImage, broker: Any, rules: Any) -> Any:
        return Decision([brokers._change(broker, fenced=1)], None)

    everywhere(patch, brokers.fence_broker, fence)


def _leaves_the_new_life_in_sync(patch: Patch) -> None:
    """A broker that registers again stays where its former life was in sync."""

    def register(image: ClusterImage, request: Any, **named: Any) -> Any:
        with patch.context() as within:
            within.setattr(brokers, "broker_died", lambda *_: [])
            within.setattr(brokers, "broker_departs", lambda *_: [])
            return genuine(image, request, **named)

    genuine = brokers.register_broker
    everywhere(patch, genuine, register)


def _gives_up_at_the_first_refusal(patch: Patch) -> None:
    """A broker that starts, and is not registered at once."""
    genuine = lifecycle._refusal
    patch.setattr(lifecycle, "_refusal", lambda response: (genuine(response)[0], True))


def _forgets_partitions_in_the_index(patch: Patch) -> None:
    """Of the partitions that change in one batch, the last one stays as it was in the lists of the brokers.
    By these the controller finds what a fenced broker leaves."""

    def changed(genuine: Any, self: PartitionIndex, changes: Any) -> Any:
        return genuine(self, list(changes)[:-1])

    wrapped(patch, PartitionIndex, "changed", changed)


# Images


def _goes_back(patch: Patch) -> None:
    """A broker goes on from an image that it had before, now and then."""

    def replay(genuine: Any, self: MetadataLoader, batches: Any) -> Any:
        before = self.image
        yield from genuine(self, batches)
        if self.caught_up and before.offset > LATE_OFFSET:
            self._replayer.image = before

    wrapped(patch, MetadataLoader, "_replay", replay)


LATE_OFFSET = 40
"""By then a small cluster is ready."""


def _shows_what_was(patch: Patch) -> None:
    """Each third image is an earlier one."""
    shown: dict[MetadataCache, list[ClusterImage]] = {}

    def apply(genuine: Any, self: MetadataCache, image: ClusterImage, *rest: Any) -> None:
        images = shown.setdefault(self, [])
        images.append(image)
        is_late = image.offset > LATE_OFFSET and len(images) % 3 == 0
        genuine(self, images[-3] if is_late else image, *rest)

    wrapped(patch, MetadataCache, "apply", apply)


def _overlooks_a_record(patch: Patch) -> None:
    """Changes of partitions, on brokers only, when a small cluster is ready."""

    def replay(genuine: Any, self: MetadataLoader, batches: Any) -> Any:
        if self.caught_up and self.image.offset > LATE_OFFSET:
            batches = [
                each._replace(
                    records=[one for one in each.records if not isinstance(one, PartitionChangeRecord)]
                )
                for each in batches
            ]
        return genuine(self, batches)

    wrapped(patch, MetadataLoader, "_replay", replay)


# The quorum


def _leads_in_the_epoch_of_another(patch: Patch) -> None:
    """By its own vote, in the epoch that has a leader."""
    _quorums("wins with a minority")(patch)

    def begin(genuine: Any, self: Replica, epoch: int) -> None:
        if self.role is not Role.PROSPECTIVE or not self.epoch:
            genuine(self, epoch)
        else:
            self.leader_id = NOBODY

    def vote(genuine: Any, self: Replica, candidate: Any) -> None:
        if self.role is not Role.PROSPECTIVE or not self.epoch:
            genuine(self, candidate)

    wrapped(patch, Replica, "begin_epoch", begin)
    wrapped(patch, Replica, "vote", vote)


def _follows_in_the_epoch_before(patch: Patch) -> None:
    def follow(genuine: Any, self: Replica, *arguments: Any) -> None:
        genuine(self, *arguments)
        self.epoch = max(1, self.epoch - 1)

    wrapped(patch, Replica, "follow", follow)


def _takes_back_what_is_committed(patch: Patch) -> None:
    """Now and then."""

    def raise_high_watermark(genuine: Any, self: Replica, offset: int) -> bool:
        if offset > LATE_OFFSET and offset % 5 == 0 and self.high_watermark > offset - 5:
            self.high_watermark = offset - 5
            return True
        return bool(genuine(self, offset))

    wrapped(patch, Replica, "raise_high_watermark", raise_high_watermark)


CONTROLLER_MUTANTS = (
    ClusterMutant(
        "changes an ISR of an old leader epoch",
        partition_rules.JOINS_BEHIND,
        _forgives(ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INVALID_REQUEST),
        "wish of a former leader arrives",
        1,
    ),
    ClusterMutant(
        "takes replicas in by any broker epoch",
        partition_rules.JOINS_BEHIND,
        takes_any_broker_epoch,
        "old request arrives",
        1,
    ),
    ClusterMutant(
        "takes fenced replicas in",
        partition_rules.FENCED_LEADER,
        _takes_fenced_replicas,
        "newcomer is fenced",
        1,
    ),
    ClusterMutant(
        "elects any replica",
        log_rules.LOST,
        _elects_anybody,
        "follower is behind",
        1,
    ),
    ClusterMutant(
        "elects outside the ELR",
        log_rules.LOST,
        _elects_outside_the_elr,
        "all followers are behind",
        1,
    ),
    ClusterMutant(
        "fills no ELR",
        log_rules.LOST,
        _fills_no_elr,
        "last in sync fails",
        1,
    ),
    ClusterMutant(
        "never clears the ELR",
        log_rules.LOST,
        _never_clears_the_elr,
        "all followers are behind",
        1,
    ),
    ClusterMutant(
        "ends a reassignment too early",
        partition_rules.ENDS_EARLY,
        _ends_reassignments_early,
        "partition moves",
        1,
    ),
    ClusterMutant(
        "leaves removed replicas in the ISR",
        partition_rules.ISR_OUTSIDE,
        _leaves_removed_replicas_in_sync,
        "partition moves",
        1,
    ),
    ClusterMutant(
        "keeps the leader epoch when it elects",
        partition_rules.TWO_LEADERS,
        _keeps_the_leader_epoch,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "lets a leader epoch go back",
        partition_rules.OLD_EPOCH,
        _takes_the_epoch_of_the_leader,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "overlooks unclean shutdowns",
        log_rules.LOST,
        _overlooks_unclean_shutdowns,
        "eligible one loses its power",
        1,
    ),
    ClusterMutant(
        "leaves leaderships to fenced brokers",
        partition_rules.FENCED_LEADER,
        _fences_without_moves,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "leaves a new life in the ISR",
        partition_rules.FENCED_LEADER,
        _leaves_the_new_life_in_sync,
        "controller and follower restart",
        1,
    ),
    ClusterMutant(
        "gives up at the first refusal",
        restarts.ENDS_BY_ITSELF,
        _gives_up_at_the_first_refusal,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "forgets partitions in the index of brokers",
        partition_rules.FENCED_LEADER,
        _forgets_partitions_in_the_index,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "goes on from an earlier image",
        metadata_rules.IMAGES_DIFFER,
        _goes_back,
        "failures",
        1,
    ),
    ClusterMutant(
        "shows an earlier image",
        metadata_rules.IMAGE_GOES_BACK,
        _shows_what_was,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "overlooks records of the metadata",
        cluster_run.BECOMES_WELL,
        _overlooks_a_record,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "the quorum commits what it has sent",
        metadata_rules.METADATA_DIFFERS,
        _quorums("counts what it has sent"),
        "controller is deposed",
        2,
    ),
    ClusterMutant(
        "the quorum ignores divergence",
        metadata_rules.METADATA_DIFFERS,
        _quorums("ignores the diverging epoch"),
        "controller is deposed",
        1,
    ),
    ClusterMutant(
        "leads the quorum in the epoch of another",
        metadata_rules.TWO_QUORUM_LEADERS,
        _leads_in_the_epoch_of_another,
        "controller is deposed",
        1,
    ),
    ClusterMutant(
        "follows in the epoch before",
        metadata_rules.QUORUM_EPOCH_FALLS,
        _follows_in_the_epoch_before,
        "controller is deposed",
        1,
    ),
    ClusterMutant(
        "takes back what the quorum has committed",
        metadata_rules.QUORUM_HIGH_WATERMARK_FALLS,
        _takes_back_what_is_committed,
        "controller is deposed",
        1,
    ),
)
