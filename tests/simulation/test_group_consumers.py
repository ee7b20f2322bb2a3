"""What consumers of groups tell the history, and how the leader of a classic group distributes partitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.coordinator.offsets import commit
from broker.simulation.clients.classic_assignors import ASSIGNORS, COOPERATIVE, Subscriber, places_of
from broker.simulation.clients.classic_consumer import ClassicConsumer
from broker.simulation.clients.client_metadata import Address
from broker.simulation.clients.cluster_client import GROUP
from broker.simulation.clients.group_consumer import GroupConsumer, Identity, Place, Position
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_running import ClusterRecipe, play
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.histories.history import Event, read_history
from broker.simulation.rules.group_rules import KNOWN
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.offset_fetch import OffsetFetchResponse
from protocol.peer_channel import PeerError
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.errors import RecordsError
from tests.simulation.cluster_mutant import everywhere
from tests.simulation.mutant_arenas import ARENAS, recipe_of_plan

MEMBERS = [Subscriber("m-2"), Subscriber("m-1"), Subscriber("m-3", "instance-1")]
TOPICS = {"a": 4, "b": 1}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_every_partition_goes_to_one_member(name: str) -> None:
    assigned = ASSIGNORS[name](MEMBERS, TOPICS)
    assert sorted(place for each in assigned.values() for place in each) == places_of(TOPICS)
    assert list(assigned) == ["m-3", "m-1", "m-2"]
    assert ASSIGNORS[name](MEMBERS[::-1], TOPICS) == assigned


def test_ranges_go_to_static_members_first() -> None:
    assigned = ASSIGNORS["range"](MEMBERS, TOPICS)
    assert assigned["m-3"] == [("a", 0), ("a", 1), ("b", 0)]
    assert assigned["m-2"] == [("a", 3)]


def test_what_somebody_has_is_given_to_nobody_else_before_it_was_given_up() -> None:
    everything = tuple(places_of(TOPICS))
    assign = ASSIGNORS[COOPERATIVE]
    first = assign([Subscriber("old", owned=everything), Subscriber("new")], TOPICS)
    assert first == {"new": [], "old": [("a", 0), ("a", 1), ("a", 2)]}
    second = assign([Subscriber("old", owned=tuple(first["old"])), Subscriber("new")], TOPICS)
    assert second == {"new": [("a", 3), ("b", 0)], "old": first["old"]}


def test_what_two_take_for_their_own_goes_to_nobody_at_first() -> None:
    both = (("a", 0),)
    assigned = ASSIGNORS[COOPERATIVE](
        [Subscriber("m-1", owned=both), Subscriber("m-2", owned=both)], {"a": 2}
    )
    assert sorted(place for each in assigned.values() for place in each) == [("a", 1)]


def test_a_history_tells_of_groups(tmp_path: Path) -> None:
    own = Event(
        time_ms=1,
        process="c",
        type="ok",
        operation="own",
        group="g",
        member="m",
        generation=3,
        partitions=("a-0",),
    )
    begun = Event(
        time_ms=2,
        process="c",
        type="invoke",
        operation="commit",
        group="g",
        member="m",
        generation=3,
        positions={"a-0": 7},
    )
    ended = msgspec.structs.replace(begun, time_ms=3, type="fail", why="ILLEGAL_GENERATION")
    asked = Event(
        time_ms=4, process="c", type="invoke", operation="committed", group="g", partitions=("a-0",)
    )
    told = Event(
        time_ms=5,
        process="c",
        type="ok",
        operation="committed",
        group="g",
        positions={"a-0": -1},
        broker="node-1",
    )
    path = tmp_path / "history.jsonl"
    events = [own, begun, ended, asked, told]
    path.write_bytes(b"\n".join(msgspec.json.encode(each) for each in events))
    history = read_history(path)
    assert history.events == events
    assert [each.outcome for each in history.group_operations] == ["fail", "ok"]
    assert history.operations == []


def with_late_commits(seed: int) -> ClusterRecipe:
    plan = ARENAS["groups"]()
    clients = tuple(
        msgspec.structs.replace(client, options={**client.options, "late_commits": "true"})
        if client.kind == "classic_consumer"
        else client
        for client in plan.clients
    )
    return recipe_of_plan(msgspec.structs.replace(plan, clients=clients), seed)


def test_a_commit_that_arrives_in_the_next_generation_is_refused() -> None:
    result = play(with_late_commits(1))
    assert result.failure is None
    assert result.coverage["late commits: ILLEGAL_GENERATION"] > 0
    assert "late commits: NONE" not in result.coverage


def test_a_commit_that_arrives_in_the_next_generation_and_is_written_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = commit.commit_error

    def takes_any_generation(group: Any, request: Any, version: int) -> ErrorCode:
        error = genuine(group, request, version)
        return ErrorCode.NONE if error is ErrorCode.ILLEGAL_GENERATION else error

    everywhere(monkeypatch, genuine, takes_any_generation)
    failure = play(with_late_commits(1)).failure
    assert failure is not None
    assert failure.rule == KNOWN


def test_records_that_cannot_be_read_are_not_passed_over() -> None:
    """Their header may be right, and that is all that is compared with the committed log."""
    plan = ClientPlan("classic_consumer", "member", ("a",), group="g")
    consumer = ClassicConsumer(ClusterWorld(1, []), plan, ["node-1"])
    batch = build_batch([SimpleRecord(timestamp=1, value=b"value")])
    batch[-1] ^= 1
    data = FetchResponse.PartitionData(
        0, high_watermark=1, last_stable_offset=1, log_start_offset=0, records=bytes(batch)
    )
    with pytest.raises(RecordsError):
        consumer._read(("a", 0), Position(0), data)


class Forgetful(GroupConsumer):
    """Is answered by a coordinator that it has forgotten when the answer comes."""

    async def coordinator(self, key: str, key_type: int) -> Address | None:
        return ("node-1", 9092)

    async def ask(
        self, host: str, port: int, request: Message, *, timeout_ms: int = 0
    ) -> Message | PeerError:
        self.forget_coordinator(self.group, GROUP)
        part = OffsetFetchResponse.OffsetFetchResponsePartitions(0, 7)
        topic = OffsetFetchResponse.OffsetFetchResponseTopics("a", partitions=[part])
        return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup("g", [topic])])


def test_a_history_says_who_has_answered() -> None:
    """Whether an answer is out of date depends on it."""
    world = ClusterWorld(1, [])
    consumer = Forgetful(world, ClientPlan("consumer", "c", ("a",), "g"), ["node-1"])

    async def look_up() -> None:
        await consumer._fetch_committed([("a", 0)])

    consumer.begin(look_up())
    world.loop.run_for(1_000)
    told = world.history[-1]
    assert (told.type, told.operation, told.positions) == ("ok", "committed", {"a-0": 7})
    assert told.broker == "node-1"


class JoinsAtOnce(ClassicConsumer):
    """Is given the generation that it is to have."""

    given = 2

    async def _ask_to_join(self) -> object:
        return JoinGroupResponse(generation_id=self.given, member_id="m", leader="another")

    async def _sync(self, joined: JoinGroupResponse) -> list[Place] | None:
        return [("a", 0)]

    async def _take_over(self, assigned: Sequence[Place]) -> None:
        """Has it."""

    async def _commit_late(self, former: Identity, places: Sequence[Place]) -> None:
        self.world.coverage.count(f"late in {former.generation}")


@pytest.mark.parametrize(("given", "is_late"), [(2, False), (3, True)])
def test_a_commit_is_late_in_a_later_generation_alone(given: int, is_late: bool) -> None:
    """Another coordinator, which had not heard of the last generation, gives its number once more."""
    world = ClusterWorld(1, [])
    plan = ClientPlan("classic_consumer", "c", ("a",), "g", {"late_commits": "true"})
    consumer = JoinsAtOnce(world, plan, ["node-1"])
    consumer.given = given

    async def join_often() -> None:
        for _ in range(20):
            consumer.identity = Identity("m", 2)
            await consumer._join()

    consumer.begin(join_often())
    world.loop.run_for(1_000)
    assert world.coverage.counts["classic consumers: joined a generation"] == 20
    assert ("late in 2" in world.coverage.counts) == is_late
