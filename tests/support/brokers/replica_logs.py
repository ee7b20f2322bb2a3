"""The logs of one partition on several nodes, compared byte by byte: as they lie on their disks, as the nodes
serve them, and as `barnabas dump` shows them. Each node's list of leader epochs must be what the batches say,
and no node may have truncated what it knew to be committed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.records.header import headers
from tests.support.brokers.cluster import Cluster, Node
from tests.support.brokers.quorum_members import ROOT
from tests.support.clients.wire_client import WireClient

__all__ = [
    "await_high_watermark",
    "await_right_epochs",
    "await_same_logs",
    "log_bytes",
    "log_end",
    "require_nothing_committed_truncated",
    "require_same_dumps",
    "require_same_when_served",
]

DEBUGGING_REPLICA: Final = -2
"""As which `kafka-replica-verification` reads from leaders and followers alike, to the high watermark."""
FETCH_VERSION: Final = 12
PIECE_BYTES: Final = 4 << 20
EPOCHS_FILE: Final = "leader-epoch-checkpoint"
COMMITTED_TRUNCATED: Final = re.compile(rb"Truncating (\S+) to offset \d+ below high watermark \d+")
"""Barnabas warns of it as Apache Kafka does."""
PLACE_IN_FILE: Final = re.compile(r"position: \d+ ")
"""Replicas need not begin their segments at the same offsets."""


def log_bytes(data: Path, topic: str, partition: int) -> bytes:
    """The record batches of a partition's log in a data directory, whole ones only; empty if it has none."""
    segments = sorted((data / f"{topic}-{partition}").glob("*.log"))
    content = b"".join(segment.read_bytes() for segment in segments)
    end = 0
    for position, header in headers(content):
        end = position + header.size_bytes
    return content[:end]


def log_end(content: bytes) -> int:
    """The offset behind the last of these batches."""
    end = 0
    for _, header in headers(content):
        end = header.next_offset
    return end


def await_same_logs(
    cluster: Cluster, topic: str, partitions: Iterable[int], end_offset: int, *node_ids: int
) -> None:
    """These nodes, or all, have the same bytes in each of these partitions, up to `end_offset`, its end."""
    nodes = [cluster.nodes[each] for each in node_ids or cluster.nodes]

    def are_same() -> bool | None:
        for partition in partitions:
            contents = [log_bytes(_home(node, topic, partition), topic, partition) for node in nodes]
            if len(set(contents)) != 1 or log_end(contents[0]) != end_offset:
                return None
        return True

    cluster.wait(are_same, f"{topic} with the same bytes up to {end_offset} on {[n.node_id for n in nodes]}")


def await_right_epochs(cluster: Cluster, topic: str, partitions: Iterable[int]) -> None:
    """The leader epochs on the disk of each node are those of the batches beside them. With a list that has
    lost some, a leader tells followers to truncate what they both have, and a follower truncates it."""
    wrong: list[str] = []

    def are_right() -> bool | None:
        found = (_wrong_epoch(node, topic, each) for each in partitions for node in cluster.nodes.values())
        wrong[:] = [each for each in found if each]
        return None if wrong else True

    try:
        cluster.wait(are_right, f"right leader epochs of {topic}")
    except RuntimeError as error:
        raise RuntimeError("\n".join([*wrong, str(error)])) from error


def _wrong_epoch(node: Node, topic: str, partition: int) -> str:
    """What is wrong with a node's list of leader epochs; empty if nothing is. Barnabas writes it some seconds
    after the first batch of an epoch."""
    home = _home(node, topic, partition)
    file = home / f"{topic}-{partition}" / EPOCHS_FILE
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    entries = [tuple(map(int, line.split())) for line in lines]
    starts = [start for _, start in entries]
    for _, header in headers(log_bytes(home, topic, partition)):
        number = bisect_right(starts, header.base_offset) - 1
        if number < 0 or entries[number][0] != header.partition_leader_epoch:
            epoch = header.partition_leader_epoch
            place = f"{topic}-{partition} on node {node.node_id} has epoch {epoch} at {header.base_offset}"
            return f"{place}, and in its list {entries}"
    return ""


def require_nothing_committed_truncated(cluster: Cluster) -> None:
    """No node has written that it truncates a log below its high watermark. No test here elects a leader that
    was not in sync, so none has a reason to."""
    for node in cluster.nodes.values():
        found = COMMITTED_TRUNCATED.search(node.log_file.read_bytes())
        assert found is None, f"node {node.node_id}: {found[0].decode()}"


def require_same_when_served(cluster: Cluster, topic: str, ends: dict[int, int]) -> None:
    """Every node serves the same batches of each partition up to its high watermark, which comes to be the
    given end offset."""
    for partition, end in ends.items():
        served = [_served(cluster, node, topic, partition, end) for node in cluster.nodes.values()]
        assert len(set(served)) == 1, f"the replicas of {topic}-{partition} serve different batches"


def await_high_watermark(cluster: Cluster, node_id: int, topic: str, partition: int, wanted: int) -> None:
    """A node's own one, whoever leads. The log has a record."""
    with WireClient(cluster.nodes[node_id].client_address) as client:

        def is_there() -> bool | None:
            return _fetch(client, topic, partition, 0, 1).high_watermark == wanted or None

        cluster.wait(is_there, f"high watermark {wanted} of {topic}-{partition} on node {node_id}")


def _served(cluster: Cluster, node: Node, topic: str, partition: int, end: int) -> bytes:
    await_high_watermark(cluster, node.node_id, topic, partition, end)
    content = bytearray()
    with WireClient(node.client_address) as client:
        offset = 0
        while offset < end:
            data = _fetch(client, topic, partition, offset, PIECE_BYTES)
            assert isinstance(data.records, memoryview | bytes)
            piece = bytes(data.records)
            whole = max((at + header.size_bytes for at, header in headers(piece)), default=0)
            assert whole, f"node {node.node_id} serves nothing of {topic}-{partition} at {offset}"
            content += piece[:whole]
            offset = log_end(piece[:whole])
    assert offset == end
    return bytes(content)


def _fetch(
    client: WireClient, topic: str, partition: int, offset: int, max_bytes: int
) -> FetchResponse.PartitionData:
    wanted = FetchRequest.FetchPartition(partition, -1, offset, -1, -1, max_bytes)
    topics = [FetchRequest.FetchTopic(topic, partitions=[wanted])]
    answer = client.ask_for(
        FetchResponse, FetchRequest(replica_id=DEBUGGING_REPLICA, topics=topics), FETCH_VERSION
    )
    ((data,),) = [each.partitions for each in answer.responses]
    assert data.error_code == ErrorCode.NONE, ErrorCode.of(data.error_code)
    return data


def require_same_dumps(cluster: Cluster, topic: str, partition: int) -> None:
    """`barnabas dump` shows the same valid batches on all nodes."""
    dumps = [_dumped(node, topic, partition) for node in cluster.nodes.values()]
    assert len(set(dumps)) == 1, f"the dumps of {topic}-{partition} differ"
    assert dumps[0]


def _dumped(node: Node, topic: str, partition: int) -> str:
    segments = sorted((_home(node, topic, partition) / f"{topic}-{partition}").glob("*.log"))
    command = [sys.executable, "-m", "broker", "dump", *map(str, segments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    batches = [line for line in done.stdout.splitlines() if line.startswith("baseOffset: ")]
    assert all(line.endswith("isvalid: true") for line in batches)
    return "\n".join(PLACE_IN_FILE.sub("", line) for line in batches)


def _home(node: Node, topic: str, partition: int) -> Path:
    """The log directory in which a node has this partition; the first one if it has it nowhere."""
    homes = [each for each in node.directories if (each / f"{topic}-{partition}").exists()]
    assert len(homes) < 2, f"node {node.node_id} has {topic}-{partition} in {homes}"
    return homes[0] if homes else node.data
