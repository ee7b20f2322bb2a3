"""Followers and leaders are asked what leaders are for, under leader epochs of all kinds: raw requests, to
a cluster of ours and to one of Apache Kafka's in the same state, and answered alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from tests.cluster.conftest import NewCluster
from tests.cluster.test_elections import await_all, elect_preferred
from tests.support.brokers.cluster import FAST, KAFKAS, OURS, Cluster
from tests.support.brokers.replica_logs import await_high_watermark
from tests.support.clients.spread import create_placed
from tests.support.clients.wire_client import WireClient

FIRST_LEADER: Final = 1
LEADER: Final = 2
FOLLOWER: Final = 3
STRANGER: Final = 9
"""No replica of the partition, and no broker."""
OLD, CURRENT, FUTURE, NONE = 0, 1, 7, -1
"""Leader epochs: offsets 0 to 9 were written in the first one, 10 to 14 in the second."""
END: Final = 15
CONSUMER, DEBUGGER = -1, -2
FETCH_VERSIONS: Final = (4, 10, 12, 17)
"""4 knows no epochs, since 11 followers serve consumers, 13 and later go by topic ids."""


LEADS_NOT_YET: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
PATIENT: Final = FAST | {
    "broker.session.timeout.ms": "600000",
    "replica.lag.time.max.ms": "600000",
    "log.retention.ms": "-1",
}
"""Nobody is fenced and nobody leaves the ISR: the epochs are those of the test. Nothing is deleted: the
records' timestamps are those of 1970, and Kafka first looks for old records 30 s after its start."""


class Question(NamedTuple):
    name: str
    node_id: int
    request: Message
    version: int


def questions(topic_id: bytes) -> Iterator[Question]:
    for node_id in (LEADER, FOLLOWER):
        for epoch in (NONE, OLD, CURRENT, FUTURE):
            yield from of_offsets(node_id, epoch)
            yield from of_epochs(node_id, epoch)
            yield from of_consumers(node_id, epoch, topic_id)
            yield from of_replicas(node_id, epoch, topic_id)
    for node_id in (FOLLOWER, LEADER):
        for offset in (END + 1, -2, 0, 3, 2):
            topic = DeleteRecordsRequest.DeleteRecordsTopic(
                "t", [DeleteRecordsRequest.DeleteRecordsPartition(0, offset)]
            )
            yield Question(f"delete before {offset}", node_id, DeleteRecordsRequest([topic], 30_000), 2)


def of_offsets(node_id: int, epoch: int) -> Iterator[Question]:
    for replica_id in (CONSUMER, DEBUGGER, FIRST_LEADER):
        for timestamp in (-1, -2, -3, -4, -5, 0, 1_012, 5_000):
            for isolation_level in (0, 1):
                wanted = ListOffsetsRequest.ListOffsetsPartition(0, epoch, timestamp)
                topic = ListOffsetsRequest.ListOffsetsTopic("t", [wanted])
                yield Question(
                    f"offset of {timestamp} for {replica_id}, epoch {epoch}, isolation {isolation_level}",
                    node_id,
                    ListOffsetsRequest(replica_id, isolation_level, [topic]),
                    9,
                )


def of_epochs(node_id: int, epoch: int) -> Iterator[Question]:
    for replica_id in (CONSUMER, FIRST_LEADER):
        for asked in (NONE, OLD, CURRENT, FUTURE):
            wanted = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, epoch, asked)
            topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic("t", [wanted])
            yield Question(
                f"end of epoch {asked} for {replica_id}, epoch {epoch}",
                node_id,
                OffsetForLeaderEpochRequest(replica_id, [topic]),
                4,
            )


def of_consumers(node_id: int, epoch: int, topic_id: bytes) -> Iterator[Question]:
    for version in FETCH_VERSIONS:
        for offset in (0, 12, END, END + 1, -1):
            for last_epoch in (NONE, CURRENT, FUTURE) if version >= 12 else (NONE,):
                wanted = FetchRequest.FetchPartition(0, epoch, offset, last_epoch, -1, 1 << 20)
                request = FetchRequest(topics=[FetchRequest.FetchTopic("t", topic_id, [wanted])])
                yield Question(
                    f"fetch {version} from {offset} after {last_epoch}, epoch {epoch}",
                    node_id,
                    request,
                    version,
                )


def of_replicas(node_id: int, epoch: int, topic_id: bytes) -> Iterator[Question]:
    """A broker epoch of -1 is taken for the replica's own."""
    for replica_id in (FIRST_LEADER, LEADER, STRANGER, DEBUGGER):
        for offset, last_epoch in ((END, CURRENT), (END + 1, CURRENT), (12, OLD), (12, FUTURE)):
            wanted = FetchRequest.FetchPartition(0, epoch, offset, last_epoch, 0, 1 << 20)
            request = FetchRequest(
                replica_state=FetchRequest.ReplicaState(replica_id, -1),
                topics=[FetchRequest.FetchTopic("t", topic_id, [wanted])],
            )
            yield Question(
                f"replica {replica_id} from {offset} after {last_epoch}, epoch {epoch}", node_id, request, 17
            )


def prepared(cluster: Cluster) -> bytes:
    """Writes in two epochs, each followed by all; the topic's id."""
    create_placed(cluster.bootstrap, "t", [[FIRST_LEADER, LEADER, FOLLOWER]])
    for node_id in cluster.nodes:
        await_all(
            cluster, node_id, "all in sync", lambda p: p.leader_id == FIRST_LEADER and len(p.isr_nodes) == 3
        )
    write(cluster, FIRST_LEADER, range(10))
    cls = AlterPartitionReassignmentsRequest
    move = cls.ReassignablePartition(0, [LEADER, FIRST_LEADER, FOLLOWER])
    with WireClient(cluster.nodes[FIRST_LEADER].client_address) as client:
        client.ask(cls(30_000, True, [cls.ReassignableTopic("t", [move])]), 1)
    elect_preferred(cluster, FIRST_LEADER)
    for node_id in cluster.nodes:
        await_all(cluster, node_id, "leader of the next epoch", lambda p: p.leader_id == LEADER)
    write(cluster, LEADER, range(10, END))
    for node_id in cluster.nodes:
        await_high_watermark(cluster, node_id, "t", 0, END)
    metadata = cluster.metadata(LEADER, "t")
    assert metadata is not None
    assert metadata.topics[0].partitions[0].leader_epoch == CURRENT
    return metadata.topics[0].topic_id


def write(cluster: Cluster, node_id: int, numbers: range) -> None:
    """One record after the other. A broker may name itself as leader a moment before it leads."""
    for number in numbers:
        batch = build_batch([SimpleRecord(None, b"%d" % number, 1_000 + number)])
        topic = ProduceRequest.TopicProduceData(
            "t", partition_data=[ProduceRequest.PartitionProduceData(0, batch)]
        )
        request = ProduceRequest(None, -1, 30_000, [topic])

        def is_written(request: ProduceRequest = request) -> bool | None:
            with WireClient(cluster.nodes[node_id].client_address, timeout_seconds=60) as client:
                answer = client.ask_for(ProduceResponse, request, 11)
            error = answer.responses[0].partition_responses[0].error_code
            assert error in (ErrorCode.NONE, *LEADS_NOT_YET), ErrorCode.of(error)
            return error == ErrorCode.NONE or None

        cluster.wait(is_written, f"record {number} on node {node_id}")


def plain(value: Any) -> Any:
    """An answer without what differs from cluster to cluster."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if key not in ("topic_id", "port")}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, memoryview) else value


def answers(cluster: Cluster) -> dict[tuple[int, str], Any]:
    found = {}
    for question in questions(prepared(cluster)):
        with WireClient(cluster.nodes[question.node_id].client_address) as client:
            answer = client.ask(question.request, question.version)
        told = msgspec.to_builtins(answer, builtin_types=(bytes, memoryview))
        found[question.node_id, question.name] = plain(told)
    return found


def differing(
    ours: Mapping[tuple[int, str], Any], kafkas: Mapping[tuple[int, str], Any]
) -> list[tuple[tuple[int, str], Any, Any]]:
    return [(place, ours[place], kafkas[place]) for place in kafkas if ours[place] != kafkas[place]]


def test_they_answer_as_kafkas_do(new_cluster: NewCluster) -> None:
    told = {}
    for kind in (OURS, KAFKAS):
        cluster = new_cluster(kind, kind, kind, folder=f"of {kind[:5]}", **PATIENT)
        told[kind] = answers(cluster)
        cluster.close()
    assert len(told[KAFKAS]) > 900
    different = differing(told[OURS], told[KAFKAS])
    assert not different, f"{len(different)}: {different[:5]}"
