"""What a seed makes of a cluster before anything happens: its nodes, its topics, its clients, its faults.

A plan is plain values, so a run can be written into a file with its steps and be made smaller: fewer nodes,
fewer clients, a shorter time.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from broker.simulation.cluster.simulated_node import NodePlace

__all__ = ["ClientPlan", "ClusterPlan", "TopicPlan"]


class TopicPlan(msgspec.Struct, frozen=True):
    """configs: the topic's own."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = {}


class ClientPlan(msgspec.Struct, frozen=True):
    """kind: a key of `clients.CLIENTS`. name: unique, also the name of its machine. options: what only that
    kind knows."""

    kind: str
    name: str
    topics: tuple[str, ...]
    group: str = ""
    options: Mapping[str, str] = {}


class ClusterPlan(msgspec.Struct, frozen=True):
    """places: nodes that are there from the beginning. features: levels that are finalized when the cluster
    is formatted, where they are not the newest.

    weights: of the verbs of `cluster_run.VERBS` that this run may draw; one without a weight does not happen.
    gap_ms: how long it is on average from one step to the next. duration_ms: of the time in which steps
    happen; the quiet time after it is not a part of it.

    min_insync_replicas: of every topic, internal ones included, when the run begins. allows_unclean: whether
    unclean elections may be allowed and more disks be lost than replication can bear, so that committed
    records may be lost. is_dynamic: voters can be added to the quorum and removed (KIP-853). has_other_ports:
    nodes may come back at another address. is_slow: see `slow_worlds`; by it alone nothing changes.
    is_flushed: what is written to any topic is on the disk before it is answered (`flush.messages` 1), and no
    step changes that, so the power of all nodes may fail at once.
    """

    places: tuple[NodePlace, ...]
    topics: tuple[TopicPlan, ...]
    clients: tuple[ClientPlan, ...]
    weights: Mapping[str, int]
    duration_ms: int
    gap_ms: int = 2_000
    features: Mapping[str, int] = {}
    min_insync_replicas: int = 2
    allows_unclean: bool = False
    is_dynamic: bool = False
    has_other_ports: bool = False
    is_slow: bool = False
    is_flushed: bool = False

    def with_properties(self, properties: Mapping[str, str]) -> ClusterPlan:
        """The plan whose nodes have these properties beside their own, or in their place."""
        places = tuple(
            msgspec.structs.replace(place, properties={**place.properties, **properties})
            for place in self.places
        )
        return msgspec.structs.replace(self, places=places)

    @property
    def offsets_expire(self) -> bool:
        """Whether those of a group without members are forgotten within the run."""
        return any("offsets.retention.minutes" in place.properties for place in self.places)
