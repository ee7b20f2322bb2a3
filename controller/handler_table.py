"""What a controller listener serves: the one table of its APIs. ApiVersions is read from it."""

from __future__ import annotations

from typing import Final

from controller.handlers import (
    allocate_producer_ids,
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    assign_replicas_to_dirs,
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
    envelope,
    fetch,
    fetch_snapshot,
    incremental_alter_configs,
    list_partition_reassignments,
    raft_requests,
    unregister_broker,
    update_features,
)
from controller.services import ControllerServices
from protocol.registry import ApiKey
from protocol.serving.handler_table import LISTENER_CONTROLLER, HandlerTable, ServedApi, serve

__all__ = ["controller_handlers"]

SERVED: Final[tuple[ServedApi[ControllerServices], ...]] = (
    serve(ApiKey.FETCH, fetch.handle),
    serve(ApiKey.API_VERSIONS, api_versions.handle),
    serve(ApiKey.CREATE_TOPICS, create_topics.handle),
    serve(ApiKey.DELETE_TOPICS, delete_topics.handle),
    serve(ApiKey.DESCRIBE_CONFIGS, describe_configs.handle),
    serve(ApiKey.ALTER_CONFIGS, alter_configs.handle),
    serve(ApiKey.CREATE_PARTITIONS, create_partitions.handle),
    serve(ApiKey.ELECT_LEADERS, elect_leaders.handle),
    serve(ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs.handle),
    serve(ApiKey.ALTER_PARTITION_REASSIGNMENTS, alter_partition_reassignments.handle),
    serve(ApiKey.LIST_PARTITION_REASSIGNMENTS, list_partition_reassignments.handle),
    serve(ApiKey.DESCRIBE_QUORUM, describe_quorum.handle),
    serve(ApiKey.UPDATE_FEATURES, update_features.handle),
    serve(ApiKey.ENVELOPE, envelope.handle),
    serve(ApiKey.FETCH_SNAPSHOT, fetch_snapshot.handle),
    serve(ApiKey.DESCRIBE_CLUSTER, describe_cluster.handle),
    serve(ApiKey.BROKER_REGISTRATION, broker_registration.handle),
    serve(ApiKey.BROKER_HEARTBEAT, broker_heartbeat.handle),
    serve(ApiKey.UNREGISTER_BROKER, unregister_broker.handle),
    serve(ApiKey.ALLOCATE_PRODUCER_IDS, allocate_producer_ids.handle),
    serve(ApiKey.CONTROLLER_REGISTRATION, controller_registration.handle),
    serve(ApiKey.ASSIGN_REPLICAS_TO_DIRS, assign_replicas_to_dirs.handle),
    *(serve(key, raft_requests.handle) for key in raft_requests.NEEDED),
)
"""All stable versions of an API, unless `versions` says which."""


def controller_handlers() -> HandlerTable:
    return HandlerTable(LISTENER_CONTROLLER, SERVED)
