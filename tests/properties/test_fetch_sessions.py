"""Fetch sessions against a model that knows nothing of watching: it compares every partition on every
fetch."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.handlers import fetch
from broker.replication.fetch_sessions import FetchSession
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.metadata_log.topics import RemoveTopicRecord
from protocol.serving.pending import Pending
from tests.support.rigs.handler_rig import HandlerRig

TOPICS = ("a", "b")
PARTITIONS = 3
UNKNOWN_TOPIC = 3
OFFSET_OUT_OF_RANGE = 1

Key = tuple[str, int]
Told = tuple[int, int, bool]
"""What an answer says of a partition: error code, high watermark, whether there are records."""

keys = st.tuples(st.sampled_from(TOPICS), st.integers(0, PARTITIONS - 1))
positions = st.dictionaries(keys, st.integers(0, 2), max_size=4)


@dataclass
class Model:
    """A session as Kafka describes it: what is wanted, and what was told of it last."""

    session_id: int
    epoch: int = 1
    wanted: dict[Key, int] = field(default_factory=dict)
    told: dict[Key, int] = field(default_factory=dict)


class Sessions(RuleBasedStateMachine):
    """Two clients with a session each, appends, topics that come and go, all in any order."""

    @initialize()
    def begin(self) -> None:
        self.rig = HandlerRig()
        self.number = 0
        self.ids: dict[str, bytes] = {}
        self.models: list[Model | None] = [None, None]
        self.waiting: dict[int, Pending[FetchResponse]] = {}
        self.known: dict[int, dict[str, bytes]] = {}
        """The topics that were there when a client began to wait: for others nobody is woken."""
        for name in TOPICS:
            self.create(name)

    def create(self, name: str) -> None:
        self.number += 1
        self.ids[name] = self.rig.topic(name, PARTITIONS, number=self.number)

    def expected(self, key: Key, offset: int) -> Told:
        """What a fetch of this partition must say now, from the log alone."""
        if key[0] not in self.ids:
            return UNKNOWN_TOPIC, -1, False
        log = self.rig.log(*key)
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return OFFSET_OUT_OF_RANGE, -1, False
        return 0, log.high_watermark, offset < log.high_watermark

    def send(self, asked: FetchRequest) -> Any:
        return fetch.handle(self.rig.services, self.rig.context(1, 12), asked)

    @staticmethod
    def told_by(response: FetchResponse) -> dict[Key, Told]:
        assert response.error_code == 0
        rows: dict[Key, Told] = {}
        for topic in response.responses:
            for data in topic.partitions:
                assert (topic.topic, data.partition_index) not in rows, "a partition is told once"
                records: Any = data.records
                rows[topic.topic, data.partition_index] = (
                    data.error_code,
                    data.high_watermark,
                    bool(records),
                )
                if records:
                    records.release()
        return rows

    @staticmethod
    def topics(wanted: dict[Key, int]) -> list[FetchRequest.FetchTopic]:
        return [
            FetchRequest.FetchTopic(
                name, partitions=[FetchRequest.FetchPartition(index, -1, offset, -1, -1, 1 << 20)]
            )
            for (name, index), offset in wanted.items()
        ]

    def settle(self, model: Model, rows: dict[Key, Told]) -> None:
        for key, (code, high_watermark, _) in rows.items():
            model.told[key] = -1 if code else high_watermark

    def new_for(self, model: Model) -> dict[Key, Told]:
        """What an incremental answer must name: all that differs from what was told, errors, and records."""
        rows = {}
        for key, offset in model.wanted.items():
            code, high_watermark, has_records = self.expected(key, offset)
            if code or has_records or high_watermark != model.told.get(key, -1):
                rows[key] = (code, high_watermark, has_records)
        return rows

    @rule(client=st.integers(0, 1), wanted=positions.filter(bool))
    def open(self, client: int, wanted: dict[Key, int]) -> None:
        self.waiting.pop(client, None)
        old = self.models[client]
        session_id = 0 if old is None else old.session_id
        response = self.send(
            FetchRequest(min_bytes=1, session_id=session_id, session_epoch=0, topics=self.topics(wanted))
        )
        model = Model(response.session_id, wanted=dict(wanted))
        rows = self.told_by(response)
        assert rows == {key: self.expected(key, offset) for key, offset in wanted.items()}
        self.settle(model, rows)
        self.models[client] = model

    @rule(client=st.integers(0, 1), wait=st.booleans())
    def consume(self, client: int, wait: bool) -> None:
        """As a consumer does: ask on behind what was there, and change nothing else."""
        model = self.models[client]
        if model is None or client in self.waiting:
            return
        changes = {
            key: self.rig.log(*key).log_end_offset
            for key, offset in model.wanted.items()
            if key[0] in self.ids and offset != self.rig.log(*key).log_end_offset
        }
        self.go_on(model, client, changes, [], wait)

    @rule(
        client=st.integers(0, 1),
        changes=positions,
        forget=st.lists(keys, max_size=2, unique=True),
        wait=st.booleans(),
    )
    def change(self, client: int, changes: dict[Key, int], forget: list[Key], wait: bool) -> None:
        model = self.models[client]
        if model is not None and client not in self.waiting:
            self.go_on(model, client, changes, forget, wait)

    def go_on(
        self, model: Model, client: int, changes: dict[Key, int], forget: list[Key], wait: bool
    ) -> None:
        """An incremental fetch, and whether it tells what it must or waits when it may."""
        model.wanted.update(changes)
        for key in forget:
            model.wanted.pop(key, None)
            model.told.pop(key, None)
        answer = self.send(
            FetchRequest(
                max_wait_ms=500 if wait else 0,
                min_bytes=1,
                session_id=model.session_id,
                session_epoch=model.epoch,
                topics=self.topics(changes),
                forgotten_topics_data=[
                    FetchRequest.ForgottenTopic(name, partitions=[i]) for name, i in forget
                ],
            )
        )
        if not model.wanted:
            assert (answer.session_id, answer.responses) == (0, [])
            self.models[client] = None
            return
        model.epoch += 1
        if isinstance(answer, Pending):
            told_at_once = {
                k: row for k, row in self.new_for(model).items() if row[2] or row[0] == OFFSET_OUT_OF_RANGE
            }
            assert not told_at_once, "there was something to tell"
            self.waiting[client] = answer
            self.known[client] = dict(self.ids)
            return
        self.check(model, answer)

    def check(self, model: Model, response: FetchResponse) -> None:
        rows = self.told_by(response)
        assert rows == self.new_for(model)
        self.settle(model, rows)

    @rule(places=st.lists(keys, min_size=1, max_size=3))
    def append(self, places: list[Key]) -> None:
        for name, index in places:
            if name in self.ids:
                self.rig.write(name, index)

    @rule()
    def turn(self) -> None:
        self.rig.timers.run_soon()
        self.collect()

    @rule()
    def time_passes(self) -> None:
        self.rig.timers.advance(500)
        self.collect()
        assert not self.waiting

    def collect(self) -> None:
        for client, pending in list(self.waiting.items()):
            model = self.models[client]
            if pending.response is not None and model is not None:
                del self.waiting[client]
                self.check(model, pending.response)

    @precondition(lambda self: len(self.ids) == len(TOPICS))
    @rule(name=st.sampled_from(TOPICS))
    def remove(self, name: str) -> None:
        self.rig.apply(RemoveTopicRecord(self.ids.pop(name)))

    @precondition(lambda self: len(self.ids) < len(TOPICS))
    @rule()
    def come_back(self) -> None:
        for name in TOPICS:
            if name not in self.ids:
                self.create(name)

    @invariant()
    def nothing_wakes_in_vain(self) -> None:
        """A fetch that waits and could tell records has been woken: it answers within this turn."""
        if not self.waiting:
            return
        for client in self.waiting:
            model = self.models[client]
            assert model is not None
            known = self.known[client]
            if any(
                row[2] and known.get(key[0]) == self.ids.get(key[0])
                for key, row in self.new_for(model).items()
            ):
                self.rig.timers.run_soon()
                self.collect()
                assert client not in self.waiting
                return

    @invariant()
    def idle_partitions_are_watched_and_nobody_else_is(self) -> None:
        sessions = list(self.rig.sessions)
        for partition in self.rig.replicas.by_name.values():
            for watcher in cast(dict[FetchSession, Any], partition.watchers):
                assert watcher in sessions or watcher.waiting is not None
        for session in sessions:
            for key, wanted in session.wanted.items():
                watched = wanted.partition is not None and session in wanted.partition.watchers
                assert watched or key in session.active


Sessions.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestSessions = Sessions.TestCase


@pytest.mark.parametrize("seed", range(12))
def test_long_lives(seed: int) -> None:
    """The same rules over hundreds of steps, where sessions grow old and lose and find their partitions."""
    random_source = Random(seed)
    machine = Sessions()
    machine.begin()

    def some_key() -> Key:
        return random_source.choice(TOPICS), random_source.randrange(PARTITIONS)

    def some_positions() -> dict[Key, int]:
        return {some_key(): random_source.randrange(3) for _ in range(random_source.randrange(1, 4))}

    told = 0
    for _ in range(400):
        step = random_source.randrange(20)
        client = random_source.randrange(2)
        if step == 0 or machine.models[client] is None:
            machine.open(client, some_positions())
        elif step == 1:
            forgotten = [some_key() for _ in range(random_source.randrange(2))]
            machine.change(client, some_positions(), forgotten, random_source.random() < 0.5)
        elif step == 2 and len(machine.ids) == len(TOPICS):
            machine.remove(random_source.choice(TOPICS))
        elif step == 2:
            machine.come_back()
        elif step < 8:
            machine.append([some_key() for _ in range(random_source.randrange(1, 4))])
        elif step < 18:
            machine.consume(client, random_source.random() < 0.7)
            told += client in machine.waiting
        elif step == 18:
            machine.turn()
        else:
            machine.time_passes()
        machine.nothing_wakes_in_vain()
        machine.idle_partitions_are_watched_and_nobody_else_is()
    assert told > 20, "most of a session's life is waiting"
