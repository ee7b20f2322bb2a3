"""DescribeQuorum (55): leader, voters and observers of the metadata log. KIP-595, KIP-836, KIP-853.

Versions 0-2. 1 brings times, 2 directory ids, error messages and the voters' endpoints. Exactly partition 0
of `__cluster_metadata` is described; any other choice is UNKNOWN_TOPIC_OR_PARTITION throughout, as in
Kafka. Needs DESCRIBE on the cluster.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.log import METADATA_PARTITION, QuorumView, ReplicaProgress
from controller.metadata.topic_names import METADATA_TOPIC
from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from protocol.serving.authorization import Operation
from protocol.serving.request_context import RequestContext

PartitionData = DescribeQuorumResponse.PartitionData

DIRECTORIES_SINCE: Final = 2


def handle(
    services: ControllerServices, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    if not context.allows_cluster(Operation.DESCRIBE):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=error, error_message=error.message)
    asked = [(topic.topic_name, [p.partition_index for p in topic.partitions]) for topic in request.topics]
    if asked != [(METADATA_TOPIC, [METADATA_PARTITION])]:
        return _unknown(asked)
    quorum = services.log.quorum(context.now_ms)
    if not quorum.leads:
        partition = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    else:
        partition = _describe(quorum, context.version)
    response = DescribeQuorumResponse(
        topics=[DescribeQuorumResponse.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )
    if context.version >= DIRECTORIES_SINCE:
        response.nodes = _nodes(quorum)
    return response


def _describe(quorum: QuorumView, version: int) -> PartitionData:
    return PartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=quorum.leader.leader_id,
        leader_epoch=quorum.leader.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_replica(progress, version) for progress in quorum.voters],
        observers=[_replica(progress, version) for progress in quorum.observers],
    )


def _replica(progress: ReplicaProgress, version: int) -> DescribeQuorumResponse.ReplicaState:
    state = DescribeQuorumResponse.ReplicaState(
        replica_id=progress.replica_id,
        log_end_offset=progress.log_end_offset,
        last_fetch_timestamp=progress.last_fetch_ms,
        last_caught_up_timestamp=progress.last_caught_up_ms,
    )
    if version >= DIRECTORIES_SINCE:
        state.replica_directory_id = progress.directory_id
    return state


def _nodes(quorum: QuorumView) -> list[DescribeQuorumResponse.Node]:
    return [
        DescribeQuorumResponse.Node(
            node_id=node_id,
            listeners=[
                DescribeQuorumResponse.Listener(name=name, host=endpoint.host, port=endpoint.port)
                for name, endpoint in quorum.endpoints[node_id].items()
            ],
        )
        for node_id in sorted(quorum.endpoints)
    ]


def _unknown(asked: list[tuple[str, list[int]]]) -> DescribeQuorumResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponse.TopicData(
                topic_name=name,
                partitions=[
                    PartitionData(partition_index=index, error_code=error, error_message=error.message)
                    for index in partitions
                ],
            )
            for name, partitions in asked
        ]
    )
