"""High watermarks as clients see them while a cluster is in trouble: none of them may fall.

Two things are asked of each node, over and over. A consumer's Fetch, which leaders and followers answer
(KIP-392), tells the replica's own high watermark: within one life of its process it never falls, whoever
leads. (Apache Kafka's may, with a warning of a "Non-monotonic update of high watermark", while a new leader
does not know it yet: such falls are counted.) ListOffsets, which only a leader answers, tells the offset that
consumers take for the end, and the leader's epoch: within an epoch it never falls, and a later epoch begins
no lower, for a new leader answers OFFSET_NOT_AVAILABLE until it knows that much (KIP-207). A leader that does
not know yet that it was replaced may answer after its successor; hence the epochs, not the time.

A node that does not answer is asked again. An answer that cannot be read ends the watch of its node, and
`check` raises it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tests.support.clients.raising_threads import RaisingThread
from tests.support.clients.wire_client import ConnectionEnded, WireClient

__all__ = ["WatchedNode", "Watermarks"]

FETCH_VERSION: Final = 12
LIST_VERSION: Final = 7
LATEST: Final = -1
PAUSE_SECONDS: Final = 0.1
ANSWER_SECONDS: Final = 60
"""A node that was stopped for long answers in the end."""

WatchedNode = tuple[str, Callable[[], int]]
"""Its address, and what tells which life of it this is (a process id)."""


class Watermarks:
    """Watches all partitions of a topic on all nodes from now on; `check` compares.

    replicas_may_fall: those of Apache Kafka may; what leaders tell as the end never falls.
    """

    def __init__(
        self,
        nodes: Mapping[int, WatchedNode],
        topic: str,
        partitions: int,
        *,
        replicas_may_fall: bool = False,
    ) -> None:
        self.answers: Counter[str] = Counter()
        """How many high watermarks each of the two requests has told."""
        self.told_by_node = Counter(dict.fromkeys(nodes, 0))
        """How many of them each node has told, leading or following: those of Fetch."""
        self.falls_of_replicas = 0
        """Answers to a Fetch with less than the same replica had told before."""
        self._replicas_may_fall = replicas_may_fall
        self._fallen: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._of_replicas: dict[tuple[int, int, int], int] = {}
        """By node, its life and partition: the highest so far."""
        self._of_epochs: dict[tuple[int, int], tuple[int, int]] = {}
        """By partition and leader epoch: the first and the last that ListOffsets told."""
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._threads = [
            RaisingThread(self._watch, node_id, *node, name=f"watch of node {node_id}")
            for node_id, node in nodes.items()
        ]
        for thread in self._threads:
            thread.start()

    def check(self, ends: Mapping[int, int]) -> None:
        """No more is asked; nothing fell that may not, and nothing was beyond the end of a partition. Raises
        what has ended the watch of a node."""
        self._ends.set()
        for thread in self._threads:
            thread.join()
        assert not self._fallen, self._fallen[:5]
        for (node_id, _, partition), highest in self._of_replicas.items():
            assert highest <= ends[partition], f"node {node_id} told {highest} of {partition}, {ends=}"
        for ((partition, former), (_, last)), ((next_one, epoch), (first, _)) in pairwise(
            sorted(self._of_epochs.items())
        ):
            assert partition != next_one or last <= first, (
                f"partition {partition} ended at {last} in epoch {former} and at {first} in epoch {epoch}"
            )
        for (partition, epoch), (_, last) in self._of_epochs.items():
            assert last <= ends[partition], f"partition {partition} ended at {last} in epoch {epoch}, {ends=}"

    def _watch(self, node_id: int, address: str, life: Callable[[], int]) -> None:
        while not self._ends.is_set():
            now = life()
            try:
                with WireClient(address, timeout_seconds=ANSWER_SECONDS) as client:
                    while not self._ends.wait(PAUSE_SECONDS) and life() == now:
                        self._ask(node_id, now, client, life)
            except (OSError, ConnectionEnded):
                self._ends.wait(PAUSE_SECONDS)

    def _ask(self, node_id: int, now: int, client: WireClient, life: Callable[[], int]) -> None:
        fetched = client.ask_for(FetchResponse, self._fetch(), FETCH_VERSION)
        listed = client.ask_for(ListOffsetsResponse, self._list(), LIST_VERSION)
        if life() != now:
            return
        with self._lock:
            for data in fetched.responses[0].partitions:
                if data.error_code == ErrorCode.NONE:
                    self._replica_tells((node_id, now, data.partition_index), data.high_watermark)
            for found in listed.topics[0].partitions:
                if found.error_code == ErrorCode.NONE:
                    self._leader_tells((found.partition_index, found.leader_epoch), found.offset)

    def _replica_tells(self, place: tuple[int, int, int], high_watermark: int) -> None:
        node_id, _, partition = place
        self.answers["Fetch"] += 1
        self.told_by_node[node_id] += 1
        highest = self._of_replicas.setdefault(place, high_watermark)
        if high_watermark < highest:
            self.falls_of_replicas += 1
            if not self._replicas_may_fall:
                self._fallen.append(
                    f"high watermark of {partition} on node {node_id} fell from {highest} to {high_watermark}"
                )
        self._of_replicas[place] = max(highest, high_watermark)

    def _leader_tells(self, place: tuple[int, int], offset: int) -> None:
        self.answers["ListOffsets"] += 1
        first, last = self._of_epochs.setdefault(place, (offset, offset))
        if offset < last:
            self._fallen.append(
                f"the end of partition {place[0]} fell from {last} to {offset} in epoch {place[1]}"
            )
        self._of_epochs[place] = (first, max(last, offset))

    def _fetch(self) -> FetchRequest:
        wanted = [FetchRequest.FetchPartition(each, -1, 0, -1, -1, 1) for each in range(self._partitions)]
        return FetchRequest(max_bytes=1, topics=[FetchRequest.FetchTopic(self._topic, partitions=wanted)])

    def _list(self) -> ListOffsetsRequest:
        wanted = [
            ListOffsetsRequest.ListOffsetsPartition(each, -1, LATEST) for each in range(self._partitions)
        ]
        return ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic(self._topic, wanted)])
