"""Readers: consumers without a group, which assign themselves all partitions of their topics.

A reader knows of the last record that it has read in which leader epoch it was written. Where the leader has
changed since, it asks the new one how far that epoch reaches there before it goes on (OffsetForLeaderEpoch,
KIP-320), or lets the fetch itself check it (a diverging epoch). If the log of the new leader ends before the
reader's position, what it has read is lost: it goes back, says so in the history by another `assign`, and
the history's checker sees other values at the same offsets, or none. In a run without unclean elections
only a leader that was replaced and does not know it may say so (`rules.refusal_rules`).

A reader with a rack says so with each fetch, and reads where the leader sends it (KIP-392):

    leader ──names a replica──▶ the follower, until the metadata is as old as it may be
       ▲                            │ no answer, any error, or the broker is not known any more
       └────────────────────────────┘

A follower that does not have the offset yet is no reason to go elsewhere in the log: the leader is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from broker.simulation.clients.answer_errors import REFRESHES
from broker.simulation.clients.client_batches import read_fetched
from broker.simulation.clients.client_metadata import PartitionLeader
from broker.simulation.clients.cluster_client import EARLIEST, METADATA_AGE_MS, ClusterClient
from broker.simulation.clients.outgoing_batches import Place
from broker.simulation.clients.reader_sessions import ReaderSession, WantedPart
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.histories.history import READ_COMMITTED, READ_UNCOMMITTED, Record
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

__all__ = ["Reader", "ReaderPosition"]

MAX_WAIT_MS: Final = 500
PAUSE_MS: Final = 300
BACK_PROBABILITY: Final = 0.01
"""How often a reader goes back to read something again, by turn."""
LATEST: Final = -1
QUIET_MS: Final = 1_500
"""For so long nothing new must come before a reader believes that it has come to the end."""
END_LIMIT_MS: Final = 120_000


class ReaderPosition:
    """Where a reader is in a partition. offset: of the next record. last_epoch: the leader epoch of the last
    record that was read, -1 if none was since the reader came here. checked_epoch: the leader epoch in which
    the position is known to be right."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.last_epoch = -1
        self.checked_epoch = -1
        self.high_watermark = -1
        self.last_stable_offset = -1

    def is_at_end(self, *, is_committed: bool) -> bool:
        """Of what may be read, by the last answer, with no transaction open."""
        if is_committed and self.last_stable_offset < self.high_watermark:
            return False
        return 0 <= self.high_watermark <= self.offset


class PreferredReplica(NamedTuple):
    """A follower that a leader has named, and until when it is read from."""

    node_id: int
    until_ms: int


class Reader(ClusterClient):
    """Options: `isolation` (read_committed), `sessions` false for fetches without, `start` latest to begin at
    the end, `checks` fetch to let the leader check the position with each fetch, `rack` to read nearby,
    `pause_ms`."""

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        is_committed = self.option("isolation", READ_COMMITTED) == READ_COMMITTED
        self.isolation: Literal["read_committed", "read_uncommitted"] = (
            READ_COMMITTED if is_committed else READ_UNCOMMITTED
        )
        self.positions: dict[Place, ReaderPosition] = {}
        self.records_read = 0
        self.beginnings: list[tuple[str, int]] = []
        """Partitions, and the offsets at which it began to read them, told that there is nothing before."""
        self._rack = self.option("rack")
        self._preferred: dict[Place, PreferredReplica] = {}
        self._sessions: dict[int, ReaderSession] = {}
        self._waits_ms = MAX_WAIT_MS
        self._pause_ms = int(self.option("pause_ms", str(PAUSE_MS)))

    @property
    def is_committed(self) -> bool:
        return self.isolation == READ_COMMITTED

    # Its life

    async def run(self) -> None:
        is_late = self.option("start") == "latest"
        while not self.is_finishing:
            if not self.positions and not await self._begin(LATEST if is_late else EARLIEST):
                await self.sleep_ms(PAUSE_MS)
                continue
            await self.turn()
            if self.random.happens(BACK_PROBABILITY):
                self._go_back()
            await self.sleep_ms(self.random.between(1, 2 * self._pause_ms))

    async def read_to_end(self, *, limit_ms: int = END_LIMIT_MS) -> bool:
        """Reads all partitions from their beginning, until nothing more is there and no transaction is open,
        and says so in the history. After the time it says how far it has come if it can; False if some
        partition could not be read at all."""
        deadline_ms = self.now_ms() + limit_ms
        self._waits_ms = 100
        self.positions.clear()
        while not await self._begin(EARLIEST):
            if self.now_ms() > deadline_ms:
                return False
            await self.sleep_ms(PAUSE_MS)
        self.beginnings += [(_named(place), each.offset) for place, each in self.positions.items()]
        quiet_since_ms = self.now_ms()
        while self.now_ms() < deadline_ms:
            before = self._places()
            await self.turn()
            if self._places() != before or not self._are_at_end():
                quiet_since_ms = self.now_ms()
            elif self.now_ms() - quiet_since_ms >= QUIET_MS:
                break
            await self.sleep_ms(20)
        if any(each.high_watermark < 0 for each in self.positions.values()):
            return False
        self.history.end(
            {_named(place): each.offset for place, each in self.positions.items()},
            {_named(place): each.high_watermark for place, each in self.positions.items()},
        )
        return True

    def _places(self) -> list[tuple[int, int]]:
        return [(each.offset, each.high_watermark) for each in self.positions.values()]

    def _are_at_end(self) -> bool:
        return all(each.is_at_end(is_committed=self.is_committed) for each in self.positions.values())

    # Positions

    async def _begin(self, where: int) -> bool:
        """At the earliest or latest records, or at this offset; False if the topics are not known yet."""
        places = [
            (topic, partition)
            for topic in self.plan.topics
            for partition in range(await self.partitions(topic))
        ]
        if any(not self.metadata.partition_counts.get(topic) for topic in self.plan.topics):
            return False
        found: dict[Place, ReaderPosition] = {}
        for place in places:
            offset = where if where >= 0 else await self._listed(place, where)
            if offset is None:
                return False
            found[place] = ReaderPosition(offset)
        self.positions = found
        self._assign()
        return True

    def _assign(self) -> None:
        offsets = {_named(place): each.offset for place, each in self.positions.items()}
        self.history.assign(offsets, self.isolation)

    def _go_back(self) -> None:
        """To some record that it has read before, in each partition."""
        for place, each in self.positions.items():
            self.positions[place] = ReaderPosition(self.random.between(0, each.offset))
        self._assign()

    def _jump(self, place: Place, offset: int, why: str) -> None:
        self.beginnings.append((_named(place), offset))
        self.world.coverage.count(f"reader: {why}")
        self.world.tell(f"{self.name} goes from {self.positions[place].offset} to {offset}: {why}")
        self.positions[place] = ReaderPosition(offset)
        self._assign()

    async def _listed(self, place: Place, timestamp: int) -> int | None:
        topic, partition = place

        def request(leader: PartitionLeader) -> ListOffsetsRequest:
            part = ListOffsetsRequest.ListOffsetsPartition(partition, leader.leader_epoch, timestamp)
            return ListOffsetsRequest(
                -1, int(self.is_committed), [ListOffsetsRequest.ListOffsetsTopic(topic, [part])], 5_000
            )

        answer = await self.ask_leader(topic, partition, request, limit_ms=5_000)
        if not isinstance(answer, ListOffsetsResponse) or not answer.topics:
            return None
        told = answer.topics[0].partitions[0]
        return told.offset if told.error_code == ErrorCode.NONE and told.offset >= 0 else None

    # Reading

    async def turn(self) -> None:
        """Fetches once from each leader or its stand-in, all side by side."""
        by_node: dict[int, dict[Place, WantedPart]] = {}
        is_checked_by_leader = self.option("checks") == "fetch"
        for place, position in list(self.positions.items()):
            leader = await self.leader(*place)
            if leader is None:
                continue
            if not is_checked_by_leader and not await self._check(place, position, leader):
                continue
            node_id = self._where_to_read(place, leader)
            is_checked = is_checked_by_leader and node_id == leader.node_id
            by_node.setdefault(node_id, {})[place] = WantedPart(
                leader.topic_id,
                position.offset,
                leader.leader_epoch,
                position.last_epoch if is_checked else -1,
            )
        await self.together([self._fetch(node_id, asked) for node_id, asked in sorted(by_node.items())])

    def _where_to_read(self, place: Place, leader: PartitionLeader) -> int:
        preferred = self._preferred.get(place)
        if preferred is None:
            return leader.node_id
        if preferred.node_id not in self.metadata.brokers or self.now_ms() >= preferred.until_ms:
            del self._preferred[place]
            return leader.node_id
        return preferred.node_id

    async def _fetch(self, node_id: int, asked: dict[Place, WantedPart]) -> None:
        session = self._sessions.get(node_id)
        if session is None:
            is_wanted = self.option("sessions") != "false"
            session = self._sessions[node_id] = ReaderSession(is_wanted=is_wanted)
        request = session.request(
            asked, isolation_level=int(self.is_committed), max_wait_ms=self._waits_ms, rack=self._rack
        )
        asked_node = self.asks(node_id)
        answer = await self.ask_node(node_id, request)
        if not isinstance(answer, FetchResponse):
            session.unanswered()
            self.metadata.expire()
            for place in asked:
                self._preferred.pop(place, None)
            return
        if not session.answered(answer):
            return
        for endpoint in answer.node_endpoints:
            self.metadata.told_broker(endpoint.node_id, endpoint.host, endpoint.port)
        jumps: dict[Place, FetchResponse.PartitionData] = {}
        for topic in answer.responses:
            name = topic.topic or self.metadata.name(topic.topic_id)
            for data in topic.partitions:
                place = (name, data.partition_index)
                position = self.positions.get(place)
                if position is None or place not in asked or position.offset != asked[place].offset:
                    continue
                if data.error_code != ErrorCode.NONE or data.diverging_epoch is not None:
                    self.is_refused_records(asked_node, asked[place].topic_id, position.offset, data)
                    jumps[place] = data
                elif data.preferred_read_replica >= 0:
                    until_ms = self.now_ms() + METADATA_AGE_MS
                    self._preferred[place] = PreferredReplica(data.preferred_read_replica, until_ms)
                else:
                    self.is_given(
                        asked[place].topic_id, position.offset, data, is_committed=self.is_committed
                    )
                    self._take(place, position, data)
        for place, data in jumps.items():
            await self._refused(place, data)

    def _take(self, place: Place, position: ReaderPosition, data: FetchResponse.PartitionData) -> None:
        fetched = read_fetched(
            data, position.offset, last_epoch=position.last_epoch, is_committed=self.is_committed
        )
        if place in self._preferred and fetched.records:
            self.world.coverage.count("reader: is given records by a follower")
        position.high_watermark = data.high_watermark
        position.last_stable_offset = data.last_stable_offset
        position.offset, position.last_epoch = fetched.next_offset, fetched.last_epoch
        self.records_read += len(fetched.records)
        self.history.poll([Record(_named(place), each.value, each.offset) for each in fetched.records])

    async def _refused(self, place: Place, data: FetchResponse.PartitionData) -> None:
        if data.current_leader is not None:
            told = data.current_leader
            self.metadata.told_leader(*place, told.leader_id, told.leader_epoch)
        if data.diverging_epoch is not None and data.error_code == ErrorCode.NONE:
            self._truncated(place, data.diverging_epoch.end_offset)
        elif self._preferred.pop(place, None) is not None:
            self.world.coverage.count(
                f"reader: goes back to the leader after {ErrorCode.of(data.error_code).name}"
            )
            self.metadata.expire()
        elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(place)
        elif data.error_code in REFRESHES or data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH:
            self.metadata.expire()

    async def _out_of_range(self, place: Place) -> None:
        """The log begins after the position, or ends before it."""
        earliest, latest = await self._listed(place, EARLIEST), await self._listed(place, LATEST)
        position = self.positions[place]
        if earliest is not None and position.offset < earliest:
            self._jump(place, earliest, "the log begins later")
        elif latest is not None and position.offset > latest:
            self._jump(place, latest, "the log ends earlier")

    def _truncated(self, place: Place, end_offset: int) -> None:
        position = self.positions[place]
        if 0 <= end_offset < position.offset:
            self._jump(place, end_offset, "the log was truncated")
        else:
            position.last_epoch = -1

    async def _check(self, place: Place, position: ReaderPosition, leader: PartitionLeader) -> bool:
        """Whether the position is right in the log of this leader, as far as can be said."""
        if position.checked_epoch >= leader.leader_epoch or position.last_epoch < 0:
            position.checked_epoch = max(position.checked_epoch, leader.leader_epoch)
            return True
        topic, partition = place
        part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition, leader.leader_epoch, position.last_epoch
        )
        asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic, [part])
        asked_node = self.asks(leader.node_id)
        answer = await self.ask_node(leader.node_id, OffsetForLeaderEpochRequest(-1, [asked]))
        if not isinstance(answer, OffsetForLeaderEpochResponse) or not answer.topics:
            self.metadata.expire()
            return False
        told = answer.topics[0].partitions[0]
        if told.error_code != ErrorCode.NONE:
            self.metadata.expire()
            return False
        if told.end_offset < position.offset:
            why = f"epoch {position.last_epoch} ends at {told.end_offset}"
            self.is_refused(asked_node, leader.topic_id, partition, why, offset=position.offset)
            self._truncated(place, max(told.end_offset, 0))
            return False
        position.checked_epoch = leader.leader_epoch
        return True


def _named(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
