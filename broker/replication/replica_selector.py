"""Which replica a consumer should read from: the leader, or one that is near it (KIP-392).

The leader chooses for each fetch that names a rack, if `replica.selector.class` says so. It names a replica
in the consumer's rack that is in the ISR and has the offset; the consumer reads there, up to that replica's
own high watermark, until it fails or its metadata ages. Kafka loads any Java class; here the name of its
rack-aware selector is understood, and that of its default, which always chooses the leader.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from broker.replication.partition import Partition
from broker.replication.roles import Leader
from config.setting import one_line
from controller.metadata.image.brokers import BrokerRegistration

__all__ = ["NO_PREFERRED_REPLICA", "RackAwareReplicaSelector", "replica_selector"]

NO_PREFERRED_REPLICA: Final = -1
"""Says that the consumer reads from the leader."""

_RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER: Final = "org.apache.kafka.common.replica.LeaderSelector"

_log = logging.getLogger("barnabas.replicas")


class RackAwareReplicaSelector:
    """Does what Kafka's class of this name does."""

    def select(
        self,
        partition: Partition,
        rack: str,
        fetch_offset: int,
        brokers: Mapping[int, BrokerRegistration],
        listener: str,
    ) -> int:
        """The broker from which a consumer in `rack` should read this offset; NO_PREFERRED_REPLICA for the
        leader, if this broker is it, and at every other broker.

        brokers: all that are registered. listener: through which the consumer came, and through which it must
        reach the replica.
        """
        state = partition.state
        if not isinstance(state, Leader) or _is_in(rack, brokers.get(state.leader_id), listener):
            return NO_PREFERRED_REPLICA
        near = [
            (replica.log_end_offset, replica.last_caught_up_time_ms, replica_id)
            for replica_id, replica in state.replicas.items()
            if replica_id in state.partition_state.isr
            and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
            and _is_in(rack, brokers.get(replica_id), listener)
        ]
        return max(near)[2] if near else NO_PREFERRED_REPLICA


def _is_in(rack: str, broker: BrokerRegistration | None, listener: str) -> bool:
    """Whether a broker is alive, in this rack, and reachable on the listener."""
    return broker is not None and not broker.fenced and broker.rack == rack and listener in broker.endpoints


def replica_selector(class_name: str | None) -> RackAwareReplicaSelector | None:
    """The selector that `replica.selector.class` names; None if the leader is always read from."""
    if class_name == _RACK_AWARE:
        return RackAwareReplicaSelector()
    if class_name and class_name != _LEADER:
        _log.warning(
            "replica.selector.class=%s is a Java class, and there is no JVM to load it: consumers read from "
            "leaders. %s is known here",
            one_line(class_name),
            _RACK_AWARE,
        )
    return None
