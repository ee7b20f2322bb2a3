"""The APIs of a broker listener: the one list of its handlers. ApiVersions is read from it."""

from __future__ import annotations

from broker.handlers import (
    api_versions,
    consumer_group_heartbeat,
    create_topics,
    delete_groups,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_quorum,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from protocol.serving import LISTENER_BROKER, HandlerTable


def broker_handlers() -> HandlerTable:
    return HandlerTable(
        (
            api_versions,
            consumer_group_heartbeat,
            create_topics,
            delete_groups,
            delete_topics,
            describe_cluster,
            describe_configs,
            describe_groups,
            describe_quorum,
            describe_topic_partitions,
            fetch,
            find_coordinator,
            heartbeat,
            init_producer_id,
            join_group,
            leave_group,
            list_groups,
            list_offsets,
            metadata,
            offset_commit,
            offset_delete,
            offset_fetch,
            offset_for_leader_epoch,
            produce,
            sync_group,
        ),
        LISTENER_BROKER,
    )
