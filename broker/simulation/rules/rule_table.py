"""All rules of a cluster, as a world takes them, and what the name of each says in full.

Most of them are looked at after each turn of a node. What that costs is a few numbers for each partition that
has not changed. The others belong to a client, to the operator or to the end of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.simulation.clients.transactional_producers import REFUSED
from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.cluster.cluster_world import ClusterWorld, Rule
from broker.simulation.cluster.operator_looks import BY_HAND
from broker.simulation.cluster.restarts import ENDS_BY_ITSELF
from broker.simulation.rules import (
    deletion_rules,
    fault_rules,
    fetch_rules,
    group_claims,
    offset_registers,
    refusal_rules,
    wellness,
)
from broker.simulation.rules import group_rules as groups
from broker.simulation.rules import log_rules as logs
from broker.simulation.rules import metadata_rules as metadata
from broker.simulation.rules import partition_rules as partitions
from broker.simulation.rules import transaction_rules as transactions
from broker.simulation.rules.partition_watch import PartitionWatch
from broker.simulation.rules.seen_partitions import SeenCluster
from broker.simulation.verdict import THE_NODE_FAILS

__all__ = ["RULES", "all_rules"]

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        partitions.TWO_LEADERS: "of all nodes that ever lived, each in one life, one leads in an epoch",
        partitions.ISR_OUTSIDE: "in every image and for every leader, who is in sync is a replica",
        partitions.OLD_EPOCH: "leader epoch and partition epoch grow, in images and where it is hosted",
        partitions.FENCED_LEADER: "in every image, it leads nothing and is in sync with no leader",
        partitions.ENDS_EARLY: "before a replica goes, those that have come for it are in sync",
        partitions.HIGH_WATERMARK_FALLS: "as long as one node leads in one epoch, what is committed stays so",
        partitions.HIGH_WATERMARK_OUTSIDE: "log start <= high watermark <= log end",
        partitions.JOINS_BEHIND: "in the life in which it joins, as the controller has registered it",
        partitions.NOT_HELD: "all that may be elected, as the leader has to reckon, hold what is committed",
        logs.GAP: "each batch begins where the one before ends, but where the cleaner has been",
        logs.EPOCH_FALLS: "no batch is of an earlier leader epoch than one before it",
        logs.EPOCHS_DISAGREE: "leader-epoch-checkpoint, as kept in memory, gives each batch its epoch",
        logs.WRONG_END: "the log end and the high watermark lie between the batches of the files",
        logs.CHANGED: "leaders and all in sync have exactly the batches that once were committed",
        logs.LOST: "a leader of a new epoch has all that leaders before it have committed",
        logs.CUT_OFF: "no replica cuts off what is committed and in its log",
        logs.AHEAD: "no follower takes more for committed than any leader has committed",
        deletion_rules.UNASKED: "logs of clients, and internal ones, begin at 0 or where somebody wants that",
        transactions.SEQUENCES: "of an idempotent producer, no batch is in a log twice, and none is left out",
        transactions.NOT_FENCED: "nothing of an older producer epoch comes behind a newer one",
        transactions.COORDINATOR_BACK: "no marker of an older coordinator comes behind one of a newer",
        transactions.WRONG_LAST_STABLE: "it is told by the batches and markers of the log alone",
        transactions.LAST_STABLE_FALLS: "as long as one node leads in one epoch",
        transactions.ABORTED_DIFFER: "the transaction indexes say what the batches and markers say",
        fetch_rules.GIVEN: "no other batch, and none that is not committed yet",
        fetch_rules.NAMED: "all of them, each with its first offset, and no other",
        refusal_rules.KNOWS: "it finds no position of a consumer within that out of range or diverging",
        refusal_rules.IN_ORDER: "a leader has the sequences of all that was acknowledged before",
        metadata.IMAGES_DIFFER: "whoever has replayed the same records has the same metadata",
        metadata.IMAGE_GOES_BACK: "in one life of a node its metadata only becomes newer",
        metadata.TWO_QUORUM_LEADERS: "of all nodes that ever lived, each in one life, one leads the quorum",
        metadata.QUORUM_EPOCH_FALLS: "in one life of a node",
        metadata.QUORUM_HIGH_WATERMARK_FALLS: "in one life of a node",
        metadata.METADATA_DIFFERS: "all replicas of the metadata log have the same committed batches",
        group_claims.ONE_OWNER: "of all who were ever told so, one owns a partition in a generation",
        offset_registers.STALE: "who has lost a partition to another member commits nothing in it any more",
        offset_registers.GOES_BACK: "a commit that is acknowledged is not below one before it",
        offset_registers.REMEMBERED: "who looks up what is committed is told the last commit",
        groups.KNOWN: "the newest coordinator has, when loaded and after each change, the last commit",
        groups.ONE_MEMBER: "of a consumer group, in what is assigned and in the target",
        groups.EPOCHS: "member epochs <= assignment epoch <= group epoch",
        groups.GIVEN_UP: "no partition goes to another member while one in the group takes it for its own",
        fault_rules.CONTAINED: "but by one of a disk, no request, connection or coordinator raises anything",
        fault_rules.DIRECTORY_FAILED: "no node gives one up whose disk has done all that it was asked for",
        fault_rules.MALFORMED: "no node closes a connection for what it was sent",
        THE_NODE_FAILS: "nothing that a node raises gets out of it, but what ends it with a sentence",
        ENDS_BY_ITSELF: "but over its disk, or where a controller was not to be found for too long",
        REFUSED: "of two with one transactional id, the older one neither writes nor ends a transaction",
        BY_HAND: "an offset that an operator has committed or deleted in a group is so when it is looked up",
        wellness.CLIENTS_FINISH: "each comes to its end, reads to the end, and writes once more",
        wellness.BECOMES_WELL: "all nodes are up and agree, all partitions are led, in sync and equal",
        groups.GROUPS_SETTLE: "each partition has one owner, who has read and committed all that is there",
        wellness.PROMISES: "the history of all clients has no anomaly (`histories`)",
    }
)
"""What each rule says, by its name."""


def all_rules(world: ClusterWorld, plan: ClusterPlan) -> list[Rule]:
    """For `world.rules`, before the first node starts."""
    cluster = SeenCluster(world.coverage, allows_unclean=plan.allows_unclean, losses=world.losses)
    fetch_rules.FetchRules(cluster, world)
    deletions = deletion_rules.DeletionRules(cluster)
    return [
        PartitionWatch(
            cluster,
            images=[partitions.RegistrationRules(cluster), metadata.ImageRules(cluster)],
            rules=[
                logs.BatchRules(cluster),
                partitions.LeaderRules(cluster),
                logs.CommitmentRules(cluster),
                deletions,
                refusal_rules.RefusalRules(cluster, world),
                transactions.TransactionRules(cluster),
            ],
        ),
        metadata.QuorumRules(cluster),
        deletions,
        fault_rules.FaultRules(world),
        groups.GroupRules(world, may_expire=plan.offsets_expire),
    ]
