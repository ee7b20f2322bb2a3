"""What a broker listener serves: the one table of its APIs. ApiVersions is read from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_records,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    end_txn,
    fetch,
    find_coordinator,
    forwarding,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from broker.metadata.kept_topics import KeptTopics
from config.limits import (
    FETCH_MEMORY_BYTES,
    JOIN_MEMORY_BYTES,
    OFFSET_FETCH_MEMORY_BYTES,
    ONE_STEP_MEMORY_BYTES,
    PRODUCE_MEMORY_BYTES,
)
from protocol.produce_frames import encode_produce_response
from protocol.registry import ApiKey
from protocol.serving import sasl_out_of_turn
from protocol.serving.handler_table import LISTENER_BROKER, HandlerTable, ServedApi, serve

if TYPE_CHECKING:
    from broker.services import BrokerServices

SERVED: Final[tuple[ServedApi[BrokerServices], ...]] = (
    serve(
        ApiKey.PRODUCE,
        produce.handle,
        memory_bytes=PRODUCE_MEMORY_BYTES,
        framing=lambda: encode_produce_response,
    ),
    serve(ApiKey.FETCH, fetch.handle, memory_bytes=FETCH_MEMORY_BYTES),
    serve(ApiKey.LIST_OFFSETS, list_offsets.handle),
    serve(ApiKey.METADATA, metadata.handle, plain=metadata.is_plain, framing=lambda: KeptTopics().frame),
    serve(ApiKey.OFFSET_COMMIT, offset_commit.handle),
    serve(
        ApiKey.OFFSET_FETCH,
        offset_fetch.handle,
        memory_bytes=OFFSET_FETCH_MEMORY_BYTES,
        plain=offset_fetch.is_plain,
    ),
    serve(ApiKey.FIND_COORDINATOR, find_coordinator.handle),
    serve(ApiKey.JOIN_GROUP, join_group.handle, memory_bytes=JOIN_MEMORY_BYTES),
    serve(ApiKey.HEARTBEAT, heartbeat.handle),
    serve(ApiKey.LEAVE_GROUP, leave_group.handle),
    serve(ApiKey.SYNC_GROUP, sync_group.handle),
    serve(ApiKey.DESCRIBE_GROUPS, describe_groups.handle, plain=False),
    serve(ApiKey.LIST_GROUPS, list_groups.handle, plain=False),
    serve(ApiKey.SASL_HANDSHAKE, sasl_out_of_turn.handshake),
    serve(ApiKey.API_VERSIONS, api_versions.handle),
    serve(ApiKey.DELETE_RECORDS, delete_records.handle),
    serve(ApiKey.INIT_PRODUCER_ID, init_producer_id.handle, versions=(0, 5)),
    serve(ApiKey.OFFSET_FOR_LEADER_EPOCH, offset_for_leader_epoch.handle),
    serve(ApiKey.ADD_PARTITIONS_TO_TXN, add_partitions_to_txn.handle, memory_bytes=ONE_STEP_MEMORY_BYTES),
    serve(ApiKey.ADD_OFFSETS_TO_TXN, add_offsets_to_txn.handle),
    serve(ApiKey.END_TXN, end_txn.handle),
    serve(ApiKey.WRITE_TXN_MARKERS, write_txn_markers.handle),
    serve(ApiKey.TXN_OFFSET_COMMIT, txn_offset_commit.handle),
    serve(ApiKey.DESCRIBE_ACLS, describe_acls.handle, plain=False),
    serve(ApiKey.DESCRIBE_CONFIGS, describe_configs.handle, plain=False),
    serve(ApiKey.ALTER_CONFIGS, alter_configs.handle, keeps_frame=True),
    serve(ApiKey.ALTER_REPLICA_LOG_DIRS, alter_replica_log_dirs.handle, memory_bytes=ONE_STEP_MEMORY_BYTES),
    serve(ApiKey.DESCRIBE_LOG_DIRS, describe_log_dirs.handle, plain=False),
    serve(ApiKey.SASL_AUTHENTICATE, sasl_out_of_turn.authenticate),
    serve(ApiKey.DELETE_GROUPS, delete_groups.handle, memory_bytes=ONE_STEP_MEMORY_BYTES),
    serve(ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs.handle, keeps_frame=True),
    serve(ApiKey.OFFSET_DELETE, offset_delete.handle, memory_bytes=ONE_STEP_MEMORY_BYTES),
    serve(ApiKey.DESCRIBE_CLIENT_QUOTAS, describe_client_quotas.handle, plain=False),
    serve(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, describe_user_scram_credentials.handle, plain=False),
    serve(ApiKey.DESCRIBE_CLUSTER, describe_cluster.handle),
    serve(ApiKey.DESCRIBE_PRODUCERS, describe_producers.handle, plain=False),
    serve(ApiKey.DESCRIBE_TRANSACTIONS, describe_transactions.handle, plain=False),
    serve(ApiKey.LIST_TRANSACTIONS, list_transactions.handle, plain=False),
    serve(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        consumer_group_heartbeat.handle,
        memory_bytes=ONE_STEP_MEMORY_BYTES,
    ),
    serve(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        consumer_group_describe.handle,
        memory_bytes=ONE_STEP_MEMORY_BYTES,
        plain=False,
    ),
    serve(ApiKey.LIST_CONFIG_RESOURCES, list_config_resources.handle, plain=False),
    serve(ApiKey.DESCRIBE_TOPIC_PARTITIONS, describe_topic_partitions.handle, plain=False),
    *(serve(key, forwarding.handle, keeps_frame=True) for key in forwarding.FORWARDED),
)
"""All stable versions of an API, unless `versions` says which."""


def broker_handlers() -> HandlerTable:
    return HandlerTable(LISTENER_BROKER, SERVED)
