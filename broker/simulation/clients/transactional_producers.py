"""Transactional producers, and the ways in which their transactions end.

    commit, abort   as they should
    overdue         the client is slower than its own time-out, and then asks for the commit
    left open       the client does not end it; somebody else does, or its time-out
    crash           the client dies anywhere in it, requests under way, and comes back with the same
                    transactional id
    zombie          another incarnation gets an epoch, and the old one goes on: it must be refused

With the options `group` and `source` a transaction takes in records of that topic and commits their offsets
for the group, which is this client's alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from broker.simulation.clients.client_batches import read_fetched
from broker.simulation.clients.client_metadata import PartitionLeader
from broker.simulation.clients.cluster_client import GROUP
from broker.simulation.clients.group_consumer import Identity
from broker.simulation.clients.outgoing_batches import OutgoingBatch, Place, written
from broker.simulation.clients.producers import WritingClient
from broker.simulation.clients.transactional_session import LAST_VERSIONS_OF_1, TransactionalSession
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.histories.history import Record
from broker.simulation.verdict import Violation
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.values import ZERO_UUID

__all__ = ["Taken", "TransactionalProducer"]

TIMEOUT_MS: Final = 8_000
MOST_BATCHES: Final = 3
"""Of one partition in one transaction."""
MOST_TAKEN: Final = 8
"""Records of one partition that a transaction takes in."""
FETCH_BYTES: Final = 1 << 20
TAKE_IN_LIMIT_MS: Final = 2_000
FOLLOWS_PROBABILITY: Final = 0.3
"""How often a client hears, after a transaction, which features are finalized: with each new connection."""
NOBODY: Final = Identity("", -1)
REFUSED: Final = "a fenced producer is refused"

COMMIT, ABORT, OVERDUE, LEFT_OPEN, CRASH, ZOMBIE = range(6)
WEIGHTS: Final = (70, 14, 2, 4, 6, 4)


class Taken(NamedTuple):
    """Records of the source, and the offsets that follow them."""

    reads: list[Record]
    offsets: dict[Place, int]


class TransactionalProducer(WritingClient):
    """Options: `transactional_id` (the client's name), `timeout_ms`, `protocol` 1 for a client that does not
    know the second one, `follows` for one that looks again now and then which one the cluster wants, `group`
    and `source`."""

    def __init__(self, world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> None:
        super().__init__(world, plan, bootstrap)
        self.transactional_id = self.option("transactional_id", plan.name)
        self.group = self.option("group", plan.group)
        self.source = self.option("source")
        self.timeout_ms = int(self.option("timeout_ms", str(TIMEOUT_MS)))
        self.session: TransactionalSession | None = None
        self._is_v2: bool | None = None
        self._features_epoch = -1
        """Of the newest finalized features that it was told."""
        self._positions: dict[Place, int] | None = None
        """Up to which the group has taken in the source; None while that is not known."""

    async def write_some(self) -> bool:
        """One transaction; whether it was committed."""
        session = await self._ready_session()
        if session is None:
            return False
        places = await self.some_places()
        taken = await self.take_in() if self.group and self.source else Taken([], {})
        if not places or taken is None:
            return False
        batches = [
            session.batch(place, self.some_values())
            for place in places
            for _ in range(self.random.between(1, MOST_BATCHES))
        ]
        fate = self.random.weighted(WEIGHTS)
        self.history.begin_transaction(
            self.transactional_id,
            [record for batch in batches for record in batch.records],
            reads=taken.reads,
            group=self.group if taken.reads else "",
        )
        if fate == CRASH:
            await self.crash(session, batches, taken)
            return False
        if fate == ZOMBIE:
            await self._be_fenced(session, batches, taken)
            return False
        return await self._transact(session, batches, taken, fate)

    async def write_once_more(self) -> bool:
        """See `WritingClient`. A transaction of another incarnation, which takes in nothing."""
        session, places = await self._new_session(), await self.some_places()
        if session is None or not places:
            return False
        batches = [session.batch(place, self.some_values()) for place in places]
        records = [record for batch in batches for record in batch.records]
        self.history.begin_transaction(self.transactional_id, records)
        why = await session.produce(batches)
        return await self._end(session, batches, commits=not why, why=why) and not why

    async def _ready_session(self) -> TransactionalSession | None:
        """One that can begin a transaction; None if it gets no epoch now."""
        if self.session is None or not self.session.is_of_use:
            self.session = await self._new_session()
            self.forget_positions()
        return self.session

    async def _new_session(self) -> TransactionalSession | None:
        if self._is_v2 is None or self.option("follows"):
            told = await self._speaks_v2()
            self._is_v2 = self._is_v2 if told is None else told
            if self._is_v2 is None:
                return None
        self._speak(is_v2=self._is_v2)
        session = TransactionalSession(
            self, self.maker, self.transactional_id, timeout_ms=self.timeout_ms, is_v2=self._is_v2
        )
        return session if await session.open() else None

    def _speak(self, *, is_v2: bool) -> None:
        """In requests from now on."""
        for key, version in LAST_VERSIONS_OF_1.items():
            if is_v2:
                self.last_versions.pop(key, None)
            else:
                self.last_versions[key] = version

    async def _follow(self, session: TransactionalSession) -> bool:
        """Looks between two transactions which protocol the cluster wants; whether the next one needs another
        epoch first, as Kafka's clients have it where they go from the first protocol to the second (KIP-890).
        """
        was_v2, self._is_v2 = session.is_v2, await self._speaks_v2()
        if self._is_v2 is None or self._is_v2 == was_v2:
            self._is_v2 = was_v2
            return False
        session.is_v2 = self._is_v2
        self._speak(is_v2=session.is_v2)
        self.world.coverage.count(f"transactions: on to protocol {2 if session.is_v2 else 1}")
        return session.is_v2

    async def _speaks_v2(self) -> bool | None:
        """As Kafka's clients find out; None if nobody answers. An answer that is older than one before says
        nothing new."""
        if self.option("protocol") == "1":
            return False
        answer = await self.ask_any(ApiVersionsRequest("simulated", "1"))
        if not isinstance(answer, ApiVersionsResponse):
            return None
        if answer.finalized_features_epoch < self._features_epoch:
            return self._is_v2
        self._features_epoch = answer.finalized_features_epoch
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        return levels.get("transaction.version", 0) >= 2

    # Ends that the client knows

    async def _transact(
        self, session: TransactionalSession, batches: Sequence[OutgoingBatch], taken: Taken, fate: int
    ) -> bool:
        """Whether it was committed."""
        why = await self.fill(session, batches, taken)
        if fate == OVERDUE:
            await self.sleep_ms(self.timeout_ms * self.random.between(8, 25) // 10)
        if fate == LEFT_OPEN:
            self.history.ends("info", writes=written(batches), why="left open")
            session.is_of_use = False
            if self.random.happens(0.5):
                await self.sleep_ms(2 * self.timeout_ms)
            return False
        is_commit = not why and fate != ABORT
        if not await self._end(session, batches, commits=is_commit, why=why):
            return False
        if is_commit:
            self.has_passed(taken.offsets)
        is_bump = bool(why) and not session.is_v2
        if self.option("follows") and self.random.happens(FOLLOWS_PROBABILITY):
            is_bump = await self._follow(session) or is_bump
        if is_bump:
            await session.open(is_bump=True)
        return is_commit

    async def _end(
        self, session: TransactionalSession, batches: Sequence[OutgoingBatch], *, commits: bool, why: str
    ) -> bool:
        """Asks for the commit or the abort; whether that was done. why: it cannot be committed."""
        self.history.asks("commit" if commits else "abort")
        end = await session.end(committed=commits)
        self.world.coverage.count(f"transaction: {'commit' if commits else 'abort'} {end}")
        if end != "done":
            self.history.ends("info", writes=written(batches), why=f"its end is {end}")
            return False
        self.history.ends("ok" if commits else "fail", writes=written(batches), why=why)
        return True

    async def fill(
        self, session: TransactionalSession, batches: Sequence[OutgoingBatch], taken: Taken
    ) -> str:
        """Why the transaction cannot be committed; nothing if it can."""
        why = await session.produce(batches)
        if not why and taken.offsets:
            why = await session.commit_offsets(self.group, taken.offsets, self.committer())
        if why:
            self.world.coverage.count(f"transaction aborted after {why}")
        return why

    # Ends that it does not live to see

    async def crash(
        self, session: TransactionalSession, batches: Sequence[OutgoingBatch], taken: Taken
    ) -> None:
        """What was sent goes on; nobody is there to hear the answers."""
        stage = self.random.below(4)
        if stage == 1 and session.is_v2:
            self.begin(session.produce_once(batches))
        elif stage >= 2:
            why = await self.fill(session, batches, taken)
            if stage == 3 and not why:
                self.history.asks("commit")
                self.begin(self._end_unheard(session))
        await self.sleep_ms(self.random.below(5))
        self.history.renew()
        session.is_of_use = False
        if self.random.happens(0.5):
            for address in self.metadata.addresses():
                self.hang_up(*address)
        await self.sleep_ms(self.random.below(2_000))

    async def _end_unheard(self, session: TransactionalSession) -> None:
        await session.end_once(committed=True)

    async def _be_fenced(
        self, session: TransactionalSession, batches: Sequence[OutgoingBatch], taken: Taken
    ) -> None:
        """Another incarnation gets an epoch before the last batch and the commit are asked for."""
        late = session.batch(batches[0].place, [self.new_value()])
        why = await self.fill(session, batches, taken)
        successor = await self._new_session()
        session.is_of_use = False
        self.session = successor
        self.forget_positions()
        if successor is None or why:
            self.history.ends("info", writes=written(batches), why=why or "no other incarnation")
            return
        await session.produce_once([late])
        if late.outcome == "ok":
            self._was_not_refused(session, successor, f"writes {late.values[0]}")
        self.history.asks("commit")
        code = await session.end_once(committed=True)
        if code == ErrorCode.NONE:
            self._was_not_refused(session, successor, "commits")
        known = "nothing" if code is None else ErrorCode.of(code).name
        self.world.coverage.count(f"zombie: commit is answered {known}")
        self.history.ends("info", writes=written(batches), why=f"fenced, and told {known}")

    def _was_not_refused(self, old: TransactionalSession, new: TransactionalSession, what: str) -> None:
        """A violation, unless what the coordinator knew of the new epoch may have been lost."""
        told = (
            f"{self.name} {what} with epoch {old.producer_epoch} of producer {old.producer_id}, after "
            f"producer {new.producer_id} got epoch {new.producer_epoch} for {self.transactional_id}"
        )
        if not self.world.losses:
            raise Violation(REFUSED, told)
        self.world.coverage.count("zombie: was not refused, as records were lost")

    # What it takes in

    def has_passed(self, offsets: Mapping[Place, int]) -> None:
        """A transaction that has taken in what lies before these offsets was committed."""
        if self._positions is not None:
            self._positions.update(offsets)

    def forget_positions(self) -> None:
        """The next transaction asks the group."""
        self._positions = None

    def committer(self) -> Identity:
        """As whom it commits offsets: a group without members takes them from anybody."""
        return NOBODY

    async def take_in(self) -> Taken | None:
        """Some records behind the group's offsets; None if these are not known."""
        if self._positions is None:
            self._positions = await self._committed_offsets()
        positions = self._positions
        if positions is None:
            return None
        taken = Taken([], {})
        for place in positions:
            await self.take_in_from(place, positions, taken)
        return taken

    async def take_in_from(self, place: Place, positions: dict[Place, int], taken: Taken) -> None:
        topic, partition = place
        position = positions[place]
        asked_node = self.asks(-1)

        def request(leader: PartitionLeader) -> FetchRequest:
            nonlocal asked_node
            asked_node = self.asks(leader.node_id)
            part = FetchRequest.FetchPartition(
                partition, leader.leader_epoch, position, partition_max_bytes=FETCH_BYTES
            )
            asked = FetchRequest.FetchTopic(topic, leader.topic_id, [part])
            return FetchRequest(max_wait_ms=50, isolation_level=1, topics=[asked])

        answer = await self.ask_leader(topic, partition, request, limit_ms=TAKE_IN_LIMIT_MS)
        if not isinstance(answer, FetchResponse) or not answer.responses:
            return
        data = answer.responses[0].partitions[0]
        topic_id = self.metadata.topic_ids.get(topic, ZERO_UUID)
        if data.error_code != ErrorCode.NONE:
            self.is_refused_records(asked_node, topic_id, position, data)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                first = await self.earliest(topic, partition, limit_ms=TAKE_IN_LIMIT_MS)
                positions[place] = max(position, first or 0)
            return
        self.is_given(topic_id, position, data, is_committed=True)
        fetched = read_fetched(data, position, is_committed=True)
        chosen = fetched.records[: self.random.between(1, MOST_TAKEN)]
        is_all = len(chosen) == len(fetched.records)
        following = fetched.next_offset if is_all else chosen[-1].offset + 1
        if not chosen:
            positions[place] = following
            return
        taken.reads.extend(Record(f"{topic}-{partition}", each.value, each.offset) for each in chosen)
        taken.offsets[place] = following

    async def _committed_offsets(self) -> dict[Place, int] | None:
        count = await self.partitions(self.source)
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(
            self.source, self.metadata.topic_ids.get(self.source, bytes(16)), list(range(count))
        )
        group = OffsetFetchRequest.OffsetFetchRequestGroup(self.group, topics=[topic])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        answer = await self.ask_coordinator(self.group, GROUP, request)
        if not count or not isinstance(answer, OffsetFetchResponse):
            return None
        found: dict[Place, int] = {}
        for told in answer.groups:
            if told.error_code != ErrorCode.NONE:
                return None
            for each in (part for topics in told.topics for part in topics.partitions):
                if each.error_code != ErrorCode.NONE:
                    return None
                found[self.source, each.partition_index] = max(each.committed_offset, 0)
        return found
