"""A coordinator runtime with the smallest machine there is: keys and values."""

from __future__ import annotations

from functools import partial

from broker.coordinator.ports import CurrentTime, MetadataUpdate, RuntimeSettings
from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from broker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult, UndoLog
from protocol.errors import ErrorCode
from protocol.serving.pending import Pending
from tests.support.rigs.group_world import MemoryLog
from tests.support.rigs.hand_clock import HandClock, HandTimers

TOPIC = "__things"


def note(heard: list[ErrorCode], error: ErrorCode, now: CurrentTime) -> CoordinatorResult[None]:
    heard.append(error)
    return CoordinatorResult()


class Shelf:
    """A state machine of keys and values, with a deadline that a test may set."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.values: dict[bytes, bytes] = {}
        self.held: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.events: list[str] = []
        self.due_ms: int | None = None
        self.to_build: list[bytes] = []

    def replay(self, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        before = self.values.get(key)
        if undo is None:
            self.to_build.append(key)
        else:
            undo.add(lambda: self.put(key, before))
        self.put(key, value)

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def replay_transactional(
        self, producer_id: int, key: bytes, value: bytes | None, undo: UndoLog | None
    ) -> None:
        held = self.held.setdefault(producer_id, [])
        held.append((key, value))
        if undo is not None:
            undo.add(lambda: self.forget_last(producer_id))

    def forget_last(self, producer_id: int) -> None:
        self.held[producer_id].pop()
        if not self.held[producer_id]:
            del self.held[producer_id]

    def replay_end_transaction_marker(self, producer_id: int, committed: bool, undo: UndoLog | None) -> None:
        records = self.held.pop(producer_id, [])
        if undo is not None and records:
            undo.add(lambda: self.held.update({producer_id: records}))
        for key, value in records if committed else ():
            self.replay(key, value, undo)

    def build(self, max_records: int) -> bool:
        del self.to_build[:max_records]
        return not self.to_build

    def loaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        self.events.append("loaded")
        return CoordinatorResult()

    def unloaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        self.events.append("unloaded")
        return CoordinatorResult()

    def metadata_updated(self, update: MetadataUpdate, now: CurrentTime) -> CoordinatorResult[None]:
        self.events += update.deleted_topics
        return CoordinatorResult()

    def next_look_ms(self) -> int | None:
        return self.due_ms

    def expire(self, now: CurrentTime) -> CoordinatorResult[None] | None:
        if self.due_ms is None or self.due_ms > now.monotonic_ms:
            return None
        self.due_ms = None
        self.events.append("expired")
        result: CoordinatorResult[None] = CoordinatorResult()
        result.records.append(CoordinatorRecord(b"expired", b"yes"))
        return result

    def mend(self, now: CurrentTime, *, everything: bool) -> CoordinatorResult[None]:
        self.events.append("mended all" if everything else "mended")
        return CoordinatorResult()


class World:
    def __init__(self, *, led: bool = True, **settings: int) -> None:
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.log = MemoryLog()
        self.runtime = CoordinatorRuntime(
            TOPIC,
            Shelf,
            writer=self.log,
            reader=self.log,
            clock=self.clock,
            timers=self.timers,
            settings=RuntimeSettings(**settings),
        )
        if led:
            self.runtime.elected(0, 1)
            self.timers.run_soon()

    @property
    def shelf(self) -> Shelf:
        shard = dict(self.runtime.shards())[0]
        assert shard is not None
        return shard

    def put(
        self, key: bytes, value: bytes | None, *, stored: list[ErrorCode] | None = None
    ) -> str | Pending[str]:
        def operation(shelf: Shelf, now: CurrentTime) -> CoordinatorResult[str]:
            result = CoordinatorResult(f"put {key.decode()}")
            result.records.append(CoordinatorRecord(key, value))
            if stored is not None:
                result.on_stored = partial(note, stored)
            return result

        return self.runtime.write(0, operation, lambda error: error.name)

    def ask(self, key: bytes) -> str | Pending[str]:
        return self.runtime.write(
            0,
            lambda shelf, now: CoordinatorResult(shelf.values.get(key, b"nothing").decode()),
            lambda error: error.name,
        )
