"""What a controller listener serves: the one table of its APIs. ApiVersions is read from it.

A node that is a broker alone has a replica of the metadata log and no controller listener. Its own broker
reads the log by the two requests of `observer_handlers`, on the same loop.
"""

from __future__ import annotations

from typing import Final

from config.limits import REQUEST_MEMORY_BYTES
from controller.handlers import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    api_versions,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_quorum,
    describe_user_scram_credentials,
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
from controller.services import ControllerServices, ObserverServices
from protocol.registry import ApiKey
from protocol.serving import sasl_out_of_turn
from protocol.serving.handler_table import LISTENER_CONTROLLER, HandlerTable, ServedApi, serve

__all__ = ["controller_handlers", "observer_handlers"]

SERVED: Final[tuple[ServedApi[ControllerServices], ...]] = (
    serve(ApiKey.FETCH, fetch.handle),
    serve(ApiKey.SASL_HANDSHAKE, sasl_out_of_turn.handshake),
    serve(ApiKey.API_VERSIONS, api_versions.handle),
    serve(ApiKey.SASL_AUTHENTICATE, sasl_out_of_turn.authenticate),
    serve(ApiKey.CREATE_TOPICS, create_topics.handle),
    serve(ApiKey.DELETE_TOPICS, delete_topics.handle),
    serve(ApiKey.DESCRIBE_ACLS, describe_acls.handle, plain=False),
    serve(ApiKey.CREATE_ACLS, create_acls.handle),
    serve(ApiKey.DELETE_ACLS, delete_acls.handle),
    serve(ApiKey.DESCRIBE_CONFIGS, describe_configs.handle, plain=False),
    serve(ApiKey.ALTER_CONFIGS, alter_configs.handle),
    serve(ApiKey.CREATE_PARTITIONS, create_partitions.handle),
    serve(ApiKey.ELECT_LEADERS, elect_leaders.handle),
    serve(ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs.handle),
    serve(ApiKey.ALTER_PARTITION_REASSIGNMENTS, alter_partition_reassignments.handle),
    serve(ApiKey.LIST_PARTITION_REASSIGNMENTS, list_partition_reassignments.handle),
    serve(ApiKey.ALTER_CLIENT_QUOTAS, alter_client_quotas.handle),
    serve(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, describe_user_scram_credentials.handle, plain=False),
    serve(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, alter_user_scram_credentials.handle),
    serve(ApiKey.DESCRIBE_QUORUM, describe_quorum.handle),
    serve(ApiKey.UPDATE_FEATURES, update_features.handle),
    serve(ApiKey.ENVELOPE, envelope.handle),
    serve(ApiKey.FETCH_SNAPSHOT, fetch_snapshot.handle),
    serve(ApiKey.ALTER_PARTITION, alter_partition.handle, memory_bytes=REQUEST_MEMORY_BYTES),
    serve(ApiKey.DESCRIBE_CLUSTER, describe_cluster.handle),
    serve(ApiKey.BROKER_REGISTRATION, broker_registration.handle),
    serve(ApiKey.BROKER_HEARTBEAT, broker_heartbeat.handle),
    serve(ApiKey.UNREGISTER_BROKER, unregister_broker.handle),
    serve(ApiKey.ALLOCATE_PRODUCER_IDS, allocate_producer_ids.handle),
    serve(ApiKey.CONTROLLER_REGISTRATION, controller_registration.handle),
    serve(ApiKey.ASSIGN_REPLICAS_TO_DIRS, assign_replicas_to_dirs.handle),
    *(serve(key, raft_requests.handle) for key in raft_requests.NEEDED),
)
"""The APIs of the controller listener. All stable versions are served, unless `versions` says which. A
broker of Apache Kafka sends all its ISR changes in one AlterPartition request, which is decided in parts."""


def controller_handlers() -> HandlerTable:
    return HandlerTable(LISTENER_CONTROLLER, SERVED)


OF_THE_LOG: Final[tuple[ServedApi[ObserverServices], ...]] = (
    serve(ApiKey.FETCH, fetch.handle),
    serve(ApiKey.FETCH_SNAPSHOT, fetch_snapshot.handle),
)


def observer_handlers() -> HandlerTable:
    return HandlerTable(LISTENER_CONTROLLER, OF_THE_LOG)
