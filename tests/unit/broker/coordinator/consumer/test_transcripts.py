"""The transcripts of a consumer group: each prints what it says, and together they take every step.

BARNABAS_REWRITE_TRANSCRIPTS=1 writes them anew instead; review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.coordinator.consumer import reconciliation
from broker.coordinator.consumer.member import ConsumerGroupMember
from broker.coordinator.consumer.member_states import STEPS, MemberState, Situation
from broker.coordinator.consumer.operation import ConsumerGroupSettings
from broker.coordinator.group_operation import GroupSettings
from protocol.codec.message import Message
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.simulation.transcript_file import Command, Transcript, read_transcript, run_transcript
from tests.support.rigs.consumer_group_by_hand import ConsumerGroupByHand
from tests.support.rigs.group_world import GroupWorld, now
from tests.support.rigs.migration_player import MigrationPlayer

TRANSCRIPTS = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))


class Answer:
    """An answer of `GroupWorld`, if it is there."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def result(self) -> Any:
        return now(self._answer)


class WorldCoordinator:
    """A coordinator with everything around it made by hand."""

    def __init__(self) -> None:
        consumer = ConsumerGroupSettings(group_consumer_assignment_interval_ms=0)
        self._world = GroupWorld(GroupSettings(group_initial_rebalance_delay_ms=0, consumer=consumer))

    def make_topic(self, name: str, partitions: int) -> None:
        self._world.cluster.topics[name] = partitions

    def send(self, request: Message, version: int) -> Answer:
        world, groups = self._world, self._world.groups
        context = world.context(request.declaration.key or 0, version)
        answer: Any
        match request:
            case JoinGroupRequest():
                answer = groups.join(request, context)
                world.timers.advance(0)
            case SyncGroupRequest():
                answer = groups.sync(request)
            case HeartbeatRequest():
                answer = groups.heartbeat(request)
            case LeaveGroupRequest():
                answer = groups.leave(request.group_id, request.members)
            case ConsumerGroupHeartbeatRequest():
                answer = groups.consumer_heartbeat(request, context)
            case ConsumerGroupDescribeRequest():
                described = [groups.describe_consumer_group(each) for each in request.group_ids]
                answer = ConsumerGroupDescribeResponse(groups=described)
            case DescribeGroupsRequest():
                answer = DescribeGroupsResponse(groups=[groups.describe(each, 6) for each in request.groups])
            case _:
                answer = groups.list_groups([], [])
        return Answer(answer)


class Player:
    """Runs the commands of one transcript."""

    def __init__(self) -> None:
        self.hand = ConsumerGroupByHand()

    def run(self, command: Command) -> list[str]:
        lines: list[str] = getattr(self, "do_" + command.verb)(command.words, command.options)
        return lines

    def do_topics(self, words: list[str], options: dict[str, str]) -> list[str]:
        for name, count in options.items():
            self.hand.topic_changes(name, int(count))
        return self.hand.shown() if self.hand.group.members else []

    def do_settings(self, words: list[str], options: dict[str, str]) -> list[str]:
        values = {f"group_consumer_{name}": int(text) for name, text in options.items()}
        assert self.hand.settings is not None
        base = {"group_consumer_assignment_interval_ms": 0}
        self.hand.settings = ConsumerGroupSettings(**(base | values))  # type: ignore[arg-type]
        return []

    def do_join(self, words: list[str], options: dict[str, str]) -> list[str]:
        topics = options["topics"].split(",") if "topics" in options else []
        response = self.hand.join(
            words[0],
            topics,
            regex=options.get("regex"),
            instance_id=options.get("instance"),
            assignor=options.get("assignor"),
        )
        return [self.hand.answer(words[0], response), *self.hand.shown()]

    def do_beat(self, words: list[str], options: dict[str, str]) -> list[str]:
        topics = options.get("topics")
        response = self.hand.beat(
            words[0],
            topics=None if topics is None else topics.split(","),
            regex=options.get("regex"),
            epoch=int(options["epoch"]) if "epoch" in options else None,
            holds_on="holds-on" in words,
            is_silent="silent" in words,
        )
        return [self.hand.answer(words[0], response), *self.hand.shown()]

    def do_leave(self, words: list[str], options: dict[str, str]) -> list[str]:
        response = self.hand.leave(words[0], for_a_while="for-a-while" in words)
        return [self.hand.answer(words[0], response), *self.hand.shown()]

    def do_silence(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.hand.session_ends(words[0])
        return self.hand.shown()

    def do_late(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.hand.rebalance_time_is_up(words[0])
        return self.hand.shown()

    def do_wait(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.hand.now_ms += int(words[0])
        return []

    def do_resolve(self, words: list[str], options: dict[str, str]) -> list[str]:
        asked = " ".join(self.hand.to_resolve) or "nothing"
        self.hand.resolve()
        return [f"resolves {asked}", *self.hand.shown()]

    def do_forget(self, words: list[str], options: dict[str, str]) -> list[str]:
        """The member's state is one that a newer coordinator has written."""
        member = self.hand.group.members[words[0]]
        self.hand.group.put_member(words[0], replace(member, state=MemberState.UNKNOWN))
        return self.hand.shown()


def played(transcript: Transcript) -> str:
    if transcript.path.stem.startswith("migration"):
        return run_transcript(transcript, MigrationPlayer(WorldCoordinator()).run)
    return run_transcript(transcript, Player().run)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    transcript = read_transcript(path)
    text = played(transcript)
    if os.environ.get("BARNABAS_REWRITE_TRANSCRIPTS"):
        path.write_text(text)
    assert text == path.read_text()


def test_the_transcripts_take_every_step_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[tuple[MemberState, Situation]] = set()
    genuine = reconciliation.situation

    def noted(member: ConsumerGroupMember, around: reconciliation.ReconciliationInput) -> Situation:
        found = genuine(member, around)
        taken.add((member.state, found))
        return found

    monkeypatch.setattr(reconciliation, "situation", noted)
    for path in TRANSCRIPTS:
        played(read_transcript(path))
    never_asked = {(MemberState.STABLE, Situation.RECONCILED)}  # the heartbeat sees this for itself
    assert taken == STEPS.keys() - never_asked
