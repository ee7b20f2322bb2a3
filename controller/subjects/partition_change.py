"""The one place where a change of a partition is put together, without eligible leader replicas (KIP-966).

Whoever wants a partition to change says what of it: another ISR, other replicas, a kind of election. The
rest follows, in this order, and it is the same whoever asked:

1. A reassignment ends as soon as it can: the replicas that are leaving go, when those that are coming are in
   the ISR. If fewer come than go, all that stay must be in the ISR: nobody's data gets rarer by a move.
2. A leader is elected from the ISR, by the kind of election. An unclean one becomes the whole ISR, and the
   partition is marked as recovering.
3. A replica that left may hold what others do not, and may still believe that it leads: so the leader epoch
   rises even if the leader stays.

Each change of the leader, to nobody too, raises the leader epoch (in replay).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

import msgspec

from controller.metadata.image.topics import NO_LEADER, NO_LEADER_CHANGE, PartitionRegistration
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.values import ZERO_UUID

__all__ = ["Election", "IsActive", "change_partition", "is_reassigning"]

RECOVERING = 1

IsActive = Callable[[int], bool]


class Election(Enum):
    """The rule by which a leader is elected.

    ONLINE: it stays while it can, else the first replica in the ISR that is active. PREFERRED: the first
    replica of the list if it is in the ISR and active, else as ONLINE. UNCLEAN: as ONLINE, and if nobody in
    the ISR can lead, the first active replica whatever its log holds.
    """

    ONLINE = auto()
    PREFERRED = auto()
    UNCLEAN = auto()


class _Target(msgspec.Struct):
    """The state that the partition shall have after the change."""

    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]


def is_reassigning(partition: PartitionRegistration) -> bool:
    return bool(partition.adding or partition.removing)


def change_partition(
    topic_id: bytes,
    index: int,
    partition: PartitionRegistration,
    *,
    is_active: IsActive,
    isr: tuple[int, ...] | None = None,
    replicas: tuple[int, ...] | None = None,
    removing: tuple[int, ...] | None = None,
    adding: tuple[int, ...] | None = None,
    election: Election = Election.ONLINE,
    directory_of: Callable[[int], bytes] = lambda broker_id: ZERO_UUID,
) -> PartitionChangeRecord | None:
    """The record of the change; None if nothing changes. What is left out stays as it is.

    is_active: who may lead. directory_of: where a replica lies that the partition did not have.
    """
    target = _Target(
        isr=partition.isr if isr is None else isr,
        replicas=partition.replicas if replicas is None else replicas,
        removing=partition.removing if removing is None else removing,
        adding=partition.adding if adding is None else adding,
    )
    _end_reassignment(target)
    record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    _elect(record, partition, target, election, is_active)
    if record.isr is None and target.isr and target.isr != partition.isr:
        record.isr = list(target.isr)
    if record.leader == NO_LEADER_CHANGE and any(r not in target.replicas for r in partition.replicas):
        record.leader = partition.leader
    _assign(record, partition, target, directory_of)
    unchanged = (
        record.leader == NO_LEADER_CHANGE
        and record.isr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
    )
    return None if unchanged else record


def _end_reassignment(target: _Target) -> None:
    """Completes the reassignment of the partition if all added replicas are in sync."""
    if not target.adding and not target.removing:
        return
    isr = tuple(replica for replica in target.isr if replica not in target.removing)
    replicas = tuple(replica for replica in target.replicas if replica not in target.removing)
    if not isr or not replicas or any(replica not in isr for replica in target.adding):
        return
    if len(target.adding) < len(target.removing) and any(replica not in isr for replica in replicas):
        return
    target.isr, target.replicas, target.removing, target.adding = isr, replicas, (), ()


def _elect(
    record: PartitionChangeRecord,
    partition: PartitionRegistration,
    target: _Target,
    election: Election,
    is_active: IsActive,
) -> None:
    def may_lead(replica: int) -> bool:
        return replica in target.isr and is_active(replica)

    candidates = [partition.leader, *target.replicas]
    if election is Election.PREFERRED:
        candidates.insert(0, target.replicas[0] if target.replicas else NO_LEADER)
    leader = next((replica for replica in candidates if may_lead(replica)), NO_LEADER)
    if leader == NO_LEADER and election is Election.UNCLEAN:
        leader = next((replica for replica in target.replicas if is_active(replica)), NO_LEADER)
        if leader != NO_LEADER:
            record.isr = [leader]
            if partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
    if leader != partition.leader:
        record.leader = leader


def _assign(
    record: PartitionChangeRecord,
    partition: PartitionRegistration,
    target: _Target,
    directory_of: Callable[[int], bytes],
) -> None:
    if target.replicas and target.replicas != partition.replicas:
        known = dict(zip(partition.replicas, partition.directories, strict=True))
        record.replicas = list(target.replicas)
        record.directories = [
            known[replica] if replica in known else directory_of(replica) for replica in target.replicas
        ]
    if target.removing != partition.removing:
        record.removing_replicas = list(target.removing)
    if target.adding != partition.adding:
        record.adding_replicas = list(target.adding)
