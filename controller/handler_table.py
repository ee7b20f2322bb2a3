"""The APIs of the controller listener: the one list of its handlers."""

from __future__ import annotations

from controller.handlers import (
    add_raft_voter,
    allocate_producer_ids,
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    assign_replicas_to_dirs,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    elect_leaders,
    end_quorum_epoch,
    envelope,
    fetch,
    fetch_snapshot,
    incremental_alter_configs,
    list_partition_reassignments,
    remove_raft_voter,
    unregister_broker,
    update_features,
    update_raft_voter,
    vote,
)
from protocol.serving.handler_table import LISTENER_CONTROLLER, HandlerTable

__all__ = ["controller_handlers"]


def controller_handlers() -> HandlerTable:
    """The APIs of the controller listener."""
    return HandlerTable(
        (
            add_raft_voter,
            allocate_producer_ids,
            alter_configs,
            alter_partition_reassignments,
            api_versions,
            assign_replicas_to_dirs,
            begin_quorum_epoch,
            broker_heartbeat,
            broker_registration,
            controller_registration,
            create_partitions,
            create_topics,
            delete_topics,
            describe_cluster,
            describe_configs,
            describe_quorum,
            elect_leaders,
            end_quorum_epoch,
            envelope,
            fetch,
            fetch_snapshot,
            incremental_alter_configs,
            list_partition_reassignments,
            remove_raft_voter,
            unregister_broker,
            update_features,
            update_raft_voter,
            vote,
        ),
        LISTENER_CONTROLLER,
    )
