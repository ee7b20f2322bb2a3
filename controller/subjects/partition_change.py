"""The one place where a change of a partition is put together.

Whoever wants a partition to change says what of it: another ISR, other replicas, a kind of election. The
rest follows, in this order, and it is the same whoever asked:

1. A reassignment ends as soon as it can: the replicas that are leaving go, when those that are coming are in
   the ISR. If fewer come than go, all that stay must be in the ISR: nobody's data gets rarer by a move.
2. With eligible leader replicas (KIP-966), a replica that leaves an ISR smaller than `min.insync.replicas`
   stays eligible: nothing can be acknowledged without it any more, so it has all that was. The list is
   emptied when the ISR is large enough again. A replica whose broker died loses its place in it.
3. A leader is elected from the ISR, or from the eligible replicas when the ISR is empty, by the kind of
   election. One that is elected in an unclean way, or from the eligible ones, becomes the whole ISR; after an
   unclean election the partition is marked as recovering. If nobody is left in either list, the last leader
   may lead again as soon as its broker is there (`last_known_elr` names it).
4. A replica that left may hold what others do not, and may still believe that it leads: so the leader epoch
   rises even if the leader stays.

Each change of the leader, to nobody too, raises the leader epoch (in replay).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

import msgspec

from controller.metadata.image.topics import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    PartitionRegistration,
)
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.values import ZERO_UUID

__all__ = ["Election", "IsActive", "change_partition", "is_reassigning"]

IsActive = Callable[[int], bool]

NO_DIRECTORIES: Final[Mapping[int, bytes]] = MappingProxyType({})


class Election(Enum):
    """The rule by which a leader is elected.

    ONLINE: it stays while it can, else the first eligible replica that is active. PREFERRED: the first
    replica of the list if it is eligible and active, else as ONLINE. UNCLEAN: as ONLINE, and if nobody who is
    eligible can lead, the first active replica whatever its log holds.
    """

    ONLINE = auto()
    PREFERRED = auto()
    UNCLEAN = auto()


class _Target(msgspec.Struct):
    """The state that the partition will have after the change."""

    isr: tuple[int, ...]
    elr: tuple[int, ...]
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
    min_isr: int | None = None,
    unclean_shutdown: int = NO_LEADER,
    leader_recovery_state: int = NO_RECOVERY_CHANGE,
    directories: Mapping[int, bytes] = NO_DIRECTORIES,
    directory_of: Callable[[int], bytes] = lambda broker_id: ZERO_UUID,
) -> PartitionChangeRecord | None:
    """The record of the change; None if nothing changes. What is left out stays as it is.

    is_active: who may lead. min_isr: the topic's effective `min.insync.replicas`, None while eligible leader
    replicas are switched off. unclean_shutdown: the broker that died and may have lost what it had not
    flushed. directories: where replicas lie from now on; directory_of: where one lies that the partition did
    not have.
    """
    target = _Target(
        isr=partition.isr if isr is None else isr,
        elr=partition.elr,
        replicas=partition.replicas if replicas is None else replicas,
        removing=partition.removing if removing is None else removing,
        adding=partition.adding if adding is None else adding,
    )
    _end_reassignment(target)
    if min_isr is not None:
        _update_elr(partition, target, min_isr, unclean_shutdown)
    record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    _elect(record, partition, target, election, is_active, elr_enabled=min_isr is not None)
    if record.leader == NO_LEADER_CHANGE and any(r not in target.replicas for r in partition.replicas):
        record.leader = partition.leader
    elr = () if record.isr is not None or min_isr is None else target.elr
    if elr != partition.elr:
        record.eligible_leader_replicas = list(elr)
    may_set_isr = record.isr is None and (bool(target.isr) or min_isr is not None)
    if may_set_isr and target.isr != partition.isr:
        record.isr = list(target.isr)
    if min_isr is not None:
        _remember_leader(record, partition)
    _assign(record, partition, target, directories, directory_of)
    if leader_recovery_state not in (NO_RECOVERY_CHANGE, partition.leader_recovery_state):
        record.leader_recovery_state = leader_recovery_state
    return None if _is_empty(record) else record


def _is_empty(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state == NO_RECOVERY_CHANGE
        and record.isr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
    )


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


def _update_elr(
    partition: PartitionRegistration, target: _Target, min_isr: int, unclean_shutdown: int
) -> None:
    if len(target.isr) >= min_isr:
        target.elr = ()
        return
    were_in_sync = sorted({*partition.elr, *partition.isr})
    elr = tuple(r for r in were_in_sync if r not in target.isr and r != unclean_shutdown)
    # The order of the list means nothing: it is not written again for that.
    target.elr = partition.elr if set(elr) == set(partition.elr) else elr


def _elect(
    record: PartitionChangeRecord,
    partition: PartitionRegistration,
    target: _Target,
    election: Election,
    is_active: IsActive,
    *,
    elr_enabled: bool,
) -> None:
    eligible = target.isr or target.elr
    candidates = [partition.leader, *target.replicas]
    if election is Election.PREFERRED:
        candidates.insert(0, target.replicas[0] if target.replicas else NO_LEADER)
    leader = next((r for r in candidates if r in eligible and is_active(r)), NO_LEADER)
    unclean = False
    if leader == NO_LEADER:
        last = partition.last_known_elr
        if elr_enabled and not eligible and len(last) == 1 and is_active(last[0]):
            leader, unclean = last[0], True
        elif election is Election.UNCLEAN:
            leader = next((replica for replica in target.replicas if is_active(replica)), NO_LEADER)
            unclean = leader != NO_LEADER
    if leader == partition.leader:
        return
    record.leader = leader
    if unclean:
        record.isr = [leader]
        if partition.leader_recovery_state != RECOVERING:
            record.leader_recovery_state = RECOVERING
    elif leader in target.elr:
        target.isr = (leader,)
        target.elr = tuple(replica for replica in target.elr if replica != leader)


def _remember_leader(record: PartitionChangeRecord, partition: PartitionRegistration) -> None:
    """Keeps the last leader of a partition that nobody leads any more, until it is led again."""
    if record.leader == NO_LEADER and not partition.last_known_elr:
        record.last_known_elr = [partition.leader]
    elif record.leader >= 0 and partition.last_known_elr:
        record.last_known_elr = []


def _assign(
    record: PartitionChangeRecord,
    partition: PartitionRegistration,
    target: _Target,
    directories: Mapping[int, bytes],
    directory_of: Callable[[int], bytes],
) -> None:
    if target.replicas and (directories or target.replicas != partition.replicas):
        known = {**dict(zip(partition.replicas, partition.directories, strict=True)), **directories}
        placed = tuple(known[r] if r in known else directory_of(r) for r in target.replicas)
        if placed != partition.directories:
            record.directories = list(placed)
        if target.replicas != partition.replicas:
            record.replicas = list(target.replicas)
    if target.removing != partition.removing:
        record.removing_replicas = list(target.removing)
    if target.adding != partition.adding:
        record.adding_replicas = list(target.adding)
