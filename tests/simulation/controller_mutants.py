"""Rules of the controller and of the metadata, each broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from broker.metadata.loader import MetadataLoader
from broker.simulation.cluster import cluster_run
from broker.simulation.rules import log_rules, metadata_rules, partition_rules
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import NO_LEADER_CHANGE, PartitionRegistration
from controller.subjects import alter_partition, brokers, partition_change
from controller.subjects.alter_partition import NO_EPOCH
from controller.subjects.partitions import broker_departs, broker_died
from controller.subjects.result import Decision
from protocol.errors import ErrorCode
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


# Images


def _goes_back(patch: Patch) -> None:
    """What a publisher is given is the image before."""

    def replay(genuine: Any, self: MetadataLoader, batches: Any) -> Any:
        before = self.image
        yield from genuine(self, batches)
        if before.offset > 60 and before.offset % 7 == 0:
            self._replayer.image = before

    wrapped(patch, MetadataLoader, "_replay", replay)


def _overlooks_the_last_record(patch: Patch) -> None:
    """Of a long batch, on brokers only."""

    def replay(genuine: Any, self: MetadataLoader, batches: Any) -> Any:
        return genuine(self, [each._replace(records=each.records[:3]) for each in batches])

    wrapped(patch, MetadataLoader, "_replay", replay)


_LOST = (log_rules.LOST, log_rules.CHANGED, log_rules.CUT_OFF, partition_rules.JOINS_BEHIND)
_NOT_HELD = partition_rules.NOT_HELD

CONTROLLER_MUTANTS = (
    ClusterMutant(
        "changes an ISR of an old partition epoch",
        (_NOT_HELD, partition_rules.FENCED_LEADER, *_LOST),
        _forgives(ErrorCode.INVALID_UPDATE_VERSION),
        "failures",
        1,
    ),
    ClusterMutant(
        "changes an ISR of an old leader epoch",
        (_NOT_HELD, partition_rules.FENCED_LEADER, *_LOST),
        _forgives(ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INVALID_REQUEST),
        "failures",
        1,
    ),
    ClusterMutant(
        "takes replicas in by any broker epoch", (_NOT_HELD, *_LOST), takes_any_broker_epoch, "power cuts", 1
    ),
    ClusterMutant(
        "takes fenced replicas in", (partition_rules.FENCED_LEADER,), _takes_fenced_replicas, "failures", 1
    ),
    ClusterMutant(
        "elects any replica", (*_LOST, partition_rules.FENCED_LEADER), _elects_anybody, "failures", 1
    ),
    ClusterMutant("elects outside the ELR", _LOST, _elects_outside_the_elr, "failures", 1),
    ClusterMutant("fills no ELR", (*_LOST, cluster_run.BECOMES_WELL), _fills_no_elr, "power cuts", 1),
    ClusterMutant("never clears the ELR", _LOST, _never_clears_the_elr, "failures", 1),
    ClusterMutant(
        "ends a reassignment too early",
        (partition_rules.ENDS_EARLY,),
        _ends_reassignments_early,
        "moves",
        1,
    ),
    ClusterMutant(
        "leaves removed replicas in the ISR",
        (partition_rules.ISR_OUTSIDE,),
        _leaves_removed_replicas_in_sync,
        "moves",
        1,
    ),
    ClusterMutant(
        "keeps the leader epoch when it elects",
        (partition_rules.TWO_LEADERS,),
        _keeps_the_leader_epoch,
        "failures",
        1,
    ),
    ClusterMutant(
        "lets a leader epoch go back",
        (partition_rules.OLD_EPOCH,),
        _takes_the_epoch_of_the_leader,
        "failures",
        1,
    ),
    ClusterMutant("overlooks unclean shutdowns", _LOST, _overlooks_unclean_shutdowns, "power cuts", 1),
    ClusterMutant(
        "leaves leaderships to fenced brokers",
        (partition_rules.FENCED_LEADER,),
        _fences_without_moves,
        "failures",
        1,
    ),
    ClusterMutant(
        "leaves a new life in the ISR",
        (partition_rules.FENCED_LEADER, *_LOST),
        _leaves_the_new_life_in_sync,
        "power cuts",
        1,
    ),
    ClusterMutant(
        "goes back to an earlier image", (metadata_rules.IMAGE_GOES_BACK,), _goes_back, "failures", 1
    ),
    ClusterMutant(
        "overlooks records of the metadata",
        (metadata_rules.IMAGES_DIFFER,),
        _overlooks_the_last_record,
        "failures",
        1,
    ),
    ClusterMutant(
        "two lead the quorum",
        (metadata_rules.TWO_QUORUM_LEADERS,),
        _quorums("votes twice in an epoch"),
        "quorum",
        1,
    ),
    ClusterMutant(
        "the quorum forgets its epoch",
        (metadata_rules.TWO_QUORUM_LEADERS, metadata_rules.QUORUM_EPOCH_FALLS),
        _quorums("forgets epoch and vote in a restart"),
        "quorum",
        1,
    ),
    ClusterMutant(
        "the quorum believes old leaders",
        (metadata_rules.QUORUM_EPOCH_FALLS,),
        _quorums("believes leaders of old epochs"),
        "quorum",
        1,
    ),
    ClusterMutant(
        "the quorum's high watermark falls",
        (metadata_rules.QUORUM_HIGH_WATERMARK_FALLS,),
        _quorums("lets the high watermark fall"),
        "quorum",
        1,
    ),
    ClusterMutant(
        "the quorum commits what it has sent",
        (metadata_rules.METADATA_DIFFERS, metadata_rules.IMAGES_DIFFER),
        _quorums("counts what it has sent"),
        "quorum",
        1,
    ),
    ClusterMutant(
        "the quorum ignores divergence",
        (metadata_rules.METADATA_DIFFERS,),
        _quorums("ignores the diverging epoch"),
        "quorum",
        1,
    ),
)
