"""An authorizer that allows nothing: what each API answers, what it leaves out, and that it changes
nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.handlers import (
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.messages.produce import ProduceRequest
from tests.support.rigs.handler_rig import HandlerRig, now, topic_id

TOPIC_DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
CLUSTER_DENIED = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
GROUP_DENIED = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def codes(response: Any) -> list[int]:
    """All error codes of a response, wherever they are."""
    found: list[int] = []

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                walk(item)
        elif hasattr(value, "__struct_fields__"):
            if getattr(value, "error_code", 0):
                found.append(value.error_code)
            for field in value.__struct_fields__:
                walk(getattr(value, field))

    walk(response)
    return found


CASES: dict[str, tuple[Any, int, Callable[[HandlerRig], Any], list[int]]] = {
    "produce": (
        produce,
        12,
        lambda rig: ProduceRequest(
            acks=1,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name,
                    partition_data=[ProduceRequest.PartitionProduceData(0, memoryview(rig.batch()))],
                )
                for name in ("t", "nobody")
            ],
        ),
        [TOPIC_DENIED, TOPIC_DENIED],
    ),
    "fetch": (
        fetch,
        12,
        lambda rig: FetchRequest(
            topics=[
                FetchRequest.FetchTopic(name, partitions=[FetchRequest.FetchPartition()])
                for name in ("t", "x")
            ]
        ),
        [TOPIC_DENIED, TOPIC_DENIED],
    ),
    "list offsets": (
        list_offsets,
        7,
        lambda rig: ListOffsetsRequest(
            -1,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name, [ListOffsetsRequest.ListOffsetsPartition(0, -1, -1)]
                )
                for name in ("t", "x")
            ],
        ),
        [TOPIC_DENIED, TOPIC_DENIED],
    ),
    "offset for leader epoch": (
        offset_for_leader_epoch,
        4,
        lambda rig: OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    name, [OffsetForLeaderEpochRequest.OffsetForLeaderPartition()]
                )
                for name in ("t", "x")
            ]
        ),
        [TOPIC_DENIED, TOPIC_DENIED],
    ),
    "metadata of all": (metadata, 12, lambda rig: MetadataRequest(None), []),
    "metadata by name": (
        metadata,
        12,
        lambda rig: MetadataRequest(
            [MetadataRequest.MetadataRequestTopic(name=name) for name in ("t", "nobody")]
        ),
        [TOPIC_DENIED, TOPIC_DENIED],
    ),
    "pages of all topics": (describe_topic_partitions, 0, lambda rig: DescribeTopicPartitionsRequest(), []),
    "a page of named topics": (
        describe_topic_partitions,
        0,
        lambda rig: DescribeTopicPartitionsRequest(
            [DescribeTopicPartitionsRequest.TopicRequest(name) for name in ("t", "nobody")]
        ),
        [TOPIC_DENIED, TOPIC_DENIED],
    ),
    "the cluster": (describe_cluster, 2, lambda rig: DescribeClusterRequest(True), []),
    "configs": (
        describe_configs,
        4,
        lambda rig: DescribeConfigsRequest(
            [DescribeConfigsRequest.DescribeConfigsResource(kind, "t", None) for kind in (2, 4, 8, 16, 32)]
        ),
        [TOPIC_DENIED, CLUSTER_DENIED, CLUSTER_DENIED, CLUSTER_DENIED, GROUP_DENIED],
    ),
    "a producer id": (
        init_producer_id,
        4,
        lambda rig: InitProducerIdRequest(None),
        [CLUSTER_DENIED],
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_nothing_is_allowed(case: str) -> None:
    module, version, make, expected = CASES[case]
    rig = HandlerRig()
    rig.topic("t")
    rig.write("t")
    end = rig.log("t").log_end_offset
    rig.authorizer.denies_all = True
    response = now(module.handle(rig.services, rig.context(0, version), make(rig)))
    assert codes(response) == expected
    assert getattr(response, "topics", []) == [] or expected
    assert rig.log("t").log_end_offset == end
    assert rig.peer.requests == []
    assert topic_id(1) not in [getattr(topic, "topic_id", b"") for topic in getattr(response, "topics", [])]
