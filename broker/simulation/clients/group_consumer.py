"""What consumers of both group protocols have in common: they read the partitions that they own, from where
their group has committed, commit how far they have come, and now and then fail to keep their place.

    main task      join ─▶ own ─▶ look up what is committed ─▶ fetch, commit, fetch, … ─▶ give up ─▶ join
    beside it      heartbeats, which say when the place in the group has changed or is lost

A consumer of Kafka has these two threads as well. What it owns it tells the history as it changes, and it
takes a partition for its own until it gives it up, not until somebody else thinks that it should: only so can
be seen whether the coordinator lets two consumers own one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from broker.simulation.clients.answer_errors import RETRIABLE
from broker.simulation.clients.client_batches import read_fetched
from broker.simulation.clients.client_metadata import Address
from broker.simulation.clients.cluster_client import GROUP, ClusterClient
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import AskedBroker, ClusterWorld
from broker.simulation.cluster.tasks import Task
from broker.simulation.histories.history import READ_COMMITTED, Event, Record
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.peer_channel import PeerError
from protocol.values import ZERO_UUID

__all__ = ["GroupConsumer", "Identity", "Place", "Position", "by_topic", "commit_results", "partition_name"]

Place = tuple[str, int]
"""A topic and the index of a partition."""

FETCH_WAIT_MS: Final = 500
PAUSE_MS: Final = 200
FETCH_BYTES: Final = 100_000
COMMIT_LIMIT_MS: Final = 5_000
LOOK_UP_LIMIT_MS: Final = 20_000
NOTHING_COMMITTED: Final = -1

DATA_LANE: Final = 0
GROUP_LANE: Final = 1

UNKNOWN_TOPICS: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
NOT_COMMITTED: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""A commit that is answered so has not been written. Other errors may come after the write."""
TRIED_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""After which a consumer commits again."""


class Identity(NamedTuple):
    """Who the consumer is in its group. generation: the member epoch, in the newer protocol."""

    member: str
    generation: int
    instance: str = ""


class Position(NamedTuple):
    """Where a partition is read next. epoch: of the last batch that was read."""

    offset: int
    epoch: int = -1


def partition_name(place: Place) -> str:
    """As histories name it."""
    return f"{place[0]}-{place[1]}"


class GroupConsumer(ClusterClient):
    """Options, all with a default:

    isolation            read_committed, or read_uncommitted
    instance             the id of a static member
    session_ms           of the classic protocol; 6,000 to 10,000, drawn
    commit_ms            how often it commits, on average
    stalls_per_hour      how often it stands still for longer than its session
    leaves_per_hour      how often it leaves and comes back

    is_steady: it does the last two no longer; set it when all is to calm down.
    """

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        self.group = plan.group
        self.isolation = self.option("isolation", READ_COMMITTED)
        self.instance = self.option("instance")
        self.is_steady = False
        self.identity = Identity("", -1, self.instance)
        self.owned: tuple[Place, ...] = ()
        """What it takes for its own, in order."""
        self.positions: dict[Place, Position] = {}
        """Of owned partitions, as far as they were looked up."""
        self._told: tuple[Identity, tuple[Place, ...]] | None = None
        self._committed: dict[Place, int] = {}
        """What it knows to be committed."""
        self._commit_ms = int(self.option("commit_ms", "1500"))
        self._commits_at_ms = 0
        self._stalled_until_ms = 0
        self._troubled_ms = 0
        self._beats: Task | None = None

    # Life

    async def run(self) -> None:
        self._troubled_ms = self.now_ms()
        self._beats = self.begin(self.beat_for_ever())
        while not self.is_finishing:
            if not await self.keep_place():
                continue
            await self._read_on()
            if self.now_ms() >= self._commits_at_ms:
                self.heard(await self.commit())
            await self._be_troubled()
        await self.leave(for_good=True)
        self._beats.cancel()

    async def keep_place(self) -> bool:
        """Does what the group asks for: joins it, gives partitions up, takes others. False if the consumer
        has nothing to read yet, and should come again."""
        raise NotImplementedError

    async def beat_for_ever(self) -> None:
        """Tells the coordinator that it is there, beside all that it does."""
        raise NotImplementedError

    def heard(self, error: ErrorCode) -> None:
        """A commit was answered so."""
        raise NotImplementedError

    async def leave(self, *, for_good: bool) -> None:
        """Commits, gives all up and says so. for_good: a static member may say else that it comes back."""
        raise NotImplementedError

    def kill(self) -> None:
        """See `SimulatedClient`."""
        super().kill()
        self.own((), self.identity)
        self.world.coverage.count("group consumers: killed")

    def come_back(self) -> None:
        """A new process on the same machine, which knows nothing of the one before; a static member has its
        instance id. After `kill`."""
        self.surroundings = self.machine.surroundings()
        self.history.renew()
        self.identity = Identity("", -1, self.instance)
        self._coordinators.clear()
        self._committed.clear()
        self._stalled_until_ms = 0
        self.start_anew()
        self.start()

    def start_anew(self) -> None:
        """Forgets what a process forgets that ends."""

    # Trouble of its own

    async def _be_troubled(self) -> None:
        """Stands still, or leaves, as often as its plan says."""
        now_ms = self.now_ms()
        passed_ms, self._troubled_ms = now_ms - self._troubled_ms, now_ms
        if self.is_steady:
            return
        if self._befalls("stalls_per_hour", 20, passed_ms):
            duration_ms = self.random.between(5_000, 20_000)
            self.stall(duration_ms)
            await self.sleep_ms(duration_ms)
        elif self._befalls("leaves_per_hour", 20, passed_ms):
            self.world.coverage.count("group consumers: left")
            await self.leave(for_good=False)
            await self.sleep_ms(self.random.between(500, 5_000))

    def stall(self, duration_ms: int) -> None:
        """It does not even beat for so long."""
        self.world.coverage.count("group consumers: stalled")
        self._stalled_until_ms = self.now_ms() + duration_ms

    def _befalls(self, option: str, default: int, passed_ms: int) -> bool:
        return self.random.happens(int(self.option(option, str(default))) * passed_ms / 3_600_000)

    async def while_stalled(self) -> None:
        """Heartbeats stand still with the process."""
        while self.now_ms() < self._stalled_until_ms:
            await self.sleep_ms(self._stalled_until_ms - self.now_ms())

    # What it owns

    def own(self, places: Iterable[Place], identity: Identity) -> None:
        """From here on these partitions are its own, and no others. Where it had them it reads on."""
        self.owned = tuple(sorted(places))
        self.identity = identity
        self.positions = {place: each for place, each in self.positions.items() if place in self.owned}
        self._committed = {place: each for place, each in self._committed.items() if place in self.owned}
        if self._told == (identity, self.owned) or (not self.owned and self._told is None):
            return
        self._told = (identity, self.owned) if self.owned else None
        self._note(
            "ok",
            "own",
            group=self.group,
            member=identity.member,
            instance=identity.instance,
            generation=identity.generation,
            partitions=tuple(map(partition_name, self.owned)),
        )

    # Offsets of the group

    def lane(self, request: Message) -> int:
        """A group's requests wait for others, and so have a connection of their own."""
        is_data = isinstance(request, FetchRequest | ListOffsetsRequest)
        return DATA_LANE if is_data else GROUP_LANE

    async def look_up(self) -> ErrorCode:
        """Finds where the owned partitions without a position are to be read from."""
        places = [place for place in self.owned if place not in self.positions]
        if not places:
            return ErrorCode.NONE
        for topic in dict.fromkeys(topic for topic, _ in places):
            await self.partitions(topic)
        committed = await self._fetch_committed(places)
        if isinstance(committed, ErrorCode):
            await self.sleep_ms(PAUSE_MS)
            return committed
        for place, found in committed.items():
            if place not in self.owned:
                continue  # given up meanwhile
            if found.offset == NOTHING_COMMITTED:
                offset = await self.earliest(*place, limit_ms=LOOK_UP_LIMIT_MS)
                if offset is None or place not in self.owned:
                    continue
                self.positions[place] = Position(offset)
            else:
                self.positions[place] = found
                self._committed[place] = found.offset
        self._tell_positions()
        self._commits_at_ms = self.now_ms() + self.random.between(0, 2 * self._commit_ms)
        return ErrorCode.NONE

    def _tell_positions(self) -> None:
        positions = {partition_name(place): each.offset for place, each in self.positions.items()}
        self.history.assign(positions, self.isolation)

    async def _fetch_committed(self, places: Sequence[Place]) -> dict[Place, Position] | ErrorCode:
        names = tuple(map(partition_name, places))
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            self.group, topics=[self._wanted(topic, indexes) for topic, indexes in by_topic(places)]
        )
        self.sign(group)
        self._note("invoke", "committed", group=self.group, partitions=names)
        asked: list[Address] = []
        answer = await self.ask_coordinator(
            self.group,
            GROUP,
            OffsetFetchRequest(groups=[group], require_stable=True),
            limit_ms=LOOK_UP_LIMIT_MS,
            retries=RETRIABLE - UNKNOWN_TOPICS,
            asked=asked,
        )
        found: dict[Place, Position] = {}
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        if isinstance(answer, OffsetFetchResponse) and answer.groups:
            error = ErrorCode.of(answer.groups[0].error_code)
            for topic in answer.groups[0].topics:
                name = topic.name or self.metadata.name(topic.topic_id)
                for each in topic.partitions:
                    if each.error_code == ErrorCode.NONE and (name, each.partition_index) in places:
                        place = (name, each.partition_index)
                        found[place] = Position(each.committed_offset, each.committed_leader_epoch)
        if len(found) < len(places):
            self.metadata.expire()
        positions = {partition_name(place): position.offset for place, position in found.items()}
        kind = "ok" if found else "fail"
        broker = asked[-1][0] if asked else ""
        self._note(kind, "committed", group=self.group, positions=positions, broker=broker, why=error.name)
        return found if error is ErrorCode.NONE else error

    def sign(self, group: OffsetFetchRequest.OffsetFetchRequestGroup) -> None:
        """Members of the newer protocol say who asks."""

    def _wanted(self, topic: str, indexes: list[int]) -> OffsetFetchRequest.OffsetFetchRequestTopics:
        topic_id = self.metadata.topic_ids.get(topic, ZERO_UUID)
        return OffsetFetchRequest.OffsetFetchRequestTopics(topic, topic_id, indexes)

    async def commit(self) -> ErrorCode:
        """What it has read since the last time. Gives what the last answer said."""
        self._commits_at_ms = self.now_ms() + self.random.between(0, 2 * self._commit_ms)
        asked = {
            place: each
            for place, each in self.positions.items()
            if self._committed.get(place, NOTHING_COMMITTED) != each.offset
        }
        if not asked:
            return ErrorCode.NONE
        identity = self.identity
        request = self.commit_request(identity, asked)
        positions = {partition_name(place): each.offset for place, each in asked.items()}
        self._note_commit("invoke", identity, positions)
        may_be_written, deadline_ms = False, self.now_ms() + COMMIT_LIMIT_MS
        while True:
            answer = await self.ask_coordinator(self.group, GROUP, request, limit_ms=0, retries=())
            results = commit_results(answer, self.metadata.name)
            done = [place for place in asked if results.get(place) == ErrorCode.NONE]
            error = next(
                (results[place] for place in asked if place in results and place not in done), ErrorCode.NONE
            )
            if not results:
                error = ErrorCode.REQUEST_TIMED_OUT
            if error in UNKNOWN_TOPICS:
                self.metadata.expire()
            may_be_written = may_be_written or error not in NOT_COMMITTED
            again = error in TRIED_AGAIN and not done and self.identity == identity
            if not again or self.now_ms() >= deadline_ms:
                break
            await self.sleep_ms(self.random.between(50, 200))
        for place in done:
            if place in self.owned:
                self._committed[place] = asked[place].offset
        told = {partition_name(place): asked[place].offset for place in done}
        outcome = "ok" if done else "info" if may_be_written else "fail"
        self._note_commit(outcome, identity, told or positions, why=error.name)
        self.world.coverage.count(f"commits: {outcome}")
        return error

    def _note_commit(self, kind: str, identity: Identity, positions: dict[str, int], why: str = "") -> None:
        self._note(
            kind,
            "commit",
            group=self.group,
            member=identity.member,
            instance=identity.instance,
            generation=identity.generation,
            positions=positions,
            why=why,
        )

    def commit_request(self, identity: Identity, positions: Mapping[Place, Position]) -> OffsetCommitRequest:
        """Of this member, for these partitions."""
        topics = []
        for topic, indexes in by_topic(positions):
            partitions = [
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    index, positions[topic, index].offset, positions[topic, index].epoch
                )
                for index in indexes
            ]
            topic_id = self.metadata.topic_ids.get(topic, ZERO_UUID)
            topics.append(OffsetCommitRequest.OffsetCommitRequestTopic(topic, topic_id, partitions))
        return OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member,
            group_instance_id=identity.instance or None,
            topics=topics,
        )

    # Reading

    async def _read_on(self) -> None:
        """Asks the leaders of its partitions, one after the other."""
        by_leader: dict[int, list[Place]] = {}
        for place in list(self.positions):
            leader = await self.leader(*place)
            if leader is not None:
                by_leader.setdefault(leader.node_id, []).append(place)
        if not by_leader:
            await self.sleep_ms(PAUSE_MS)
        for node_id, asked in by_leader.items():
            places = [place for place in asked if place in self.positions]
            if not places:
                continue  # given up meanwhile
            asked_node = self.asks(node_id)
            answer = await self.ask_node(node_id, self._fetch_request(places, by_leader))
            if not isinstance(answer, FetchResponse):
                self.metadata.expire()
                await self.sleep_ms(PAUSE_MS)
                continue
            out_of_range = self._take(asked_node, answer)
            for place in out_of_range:
                await self._reset(place)

    def _fetch_request(self, places: Sequence[Place], leaders: Mapping[int, Any]) -> FetchRequest:
        topics = []
        for topic, indexes in by_topic(places):
            partitions = [
                FetchRequest.FetchPartition(
                    index,
                    current_leader_epoch=self.metadata.epoch(topic, index),
                    fetch_offset=self.positions[topic, index].offset,
                    partition_max_bytes=FETCH_BYTES,
                )
                for index in indexes
            ]
            topic_id = self.metadata.topic_ids.get(topic, ZERO_UUID)
            topics.append(FetchRequest.FetchTopic(topic, topic_id, partitions))
        return FetchRequest(
            max_wait_ms=int(self.option("wait_ms", str(FETCH_WAIT_MS))) // len(leaders),
            min_bytes=1,
            max_bytes=10 * FETCH_BYTES,
            isolation_level=1 if self.isolation == READ_COMMITTED else 0,
            topics=topics,
        )

    def _take(self, asked_node: AskedBroker, answer: FetchResponse) -> list[Place]:
        """Moves on behind what was read, and gives the partitions that have nothing at their positions."""
        lost: list[Place] = []
        reads: list[Record] = []
        for topic in answer.responses:
            name = topic.topic or self.metadata.name(topic.topic_id)
            for data in topic.partitions:
                place = (name, data.partition_index)
                position = self.positions.get(place)
                if position is None:
                    continue  # given up meanwhile
                topic_id = self.metadata.topic_ids.get(name, ZERO_UUID)
                self.is_refused_records(asked_node, topic_id, position.offset, data)
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    lost.append(place)
                elif data.error_code != ErrorCode.NONE:
                    self.metadata.expire()
                else:
                    reads += self._read(place, position, data)
        self.history.poll(reads)
        return lost

    def _read(self, place: Place, position: Position, data: FetchResponse.PartitionData) -> list[Record]:
        is_committed = self.isolation == READ_COMMITTED
        topic_id = self.metadata.topic_ids.get(place[0], ZERO_UUID)
        self.is_given(topic_id, position.offset, data, is_committed=is_committed)
        fetched = read_fetched(data, position.offset, last_epoch=position.epoch, is_committed=is_committed)
        self.positions[place] = Position(fetched.next_offset, fetched.last_epoch)
        name = partition_name(place)
        return [Record(name, each.value, each.offset) for each in fetched.records]

    async def _reset(self, place: Place) -> None:
        """What it wants to read is not there, by what somebody says who may have been replaced. It begins
        with the first that is there; `rules.refusal_rules` judges whether that may be said."""
        offset = await self.earliest(*place, limit_ms=LOOK_UP_LIMIT_MS)
        if offset is None or place not in self.positions or offset == self.positions[place].offset:
            return
        self.world.coverage.count("group consumers: offset out of range")
        self._note("ok", "reset", group=self.group, positions={partition_name(place): offset})
        self.positions[place] = Position(offset)
        self._tell_positions()

    def _note(self, kind: str, operation: str, **fields: Any) -> None:
        event: Any = {"type": kind, "operation": operation, **fields}
        self.world.note(Event(time_ms=self.world.now_ms, process=self.history.process, **event))


def by_topic(places: Iterable[Place]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for topic, index in places:
        found.setdefault(topic, []).append(index)
    return list(found.items())


def commit_results(answer: Message | PeerError, name_of: Any) -> dict[Place, ErrorCode]:
    """What a commit was answered, by partition; nothing if there was no answer."""
    if not isinstance(answer, OffsetCommitResponse):
        return {}
    return {
        (topic.name or name_of(topic.topic_id), each.partition_index): ErrorCode.of(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }
