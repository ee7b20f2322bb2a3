"""A broker's way from bytes to bytes without a network: connections, dispatch, handlers and logs.

Bytes go into a connection in pieces as a test cuts them; what comes out is compared as bytes. `fetch_world`
and `produce_world` say which requests are served, and with which fast lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.lane import Lane
from broker.dispatch.routes import RemembersRequests
from broker.network.connection import CLOSED, Connection
from broker.network.memory import RequestMemory
from broker.network.ready_queue import ReadyQueue
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.throttle import Throttle
from config.limits import MIB
from controller.metadata.image.acls import DENY, LITERAL
from protocol.metadata_log.cluster import ClientQuotaRecord, ConfigRecord
from protocol.metadata_log.security import AccessControlEntryRecord
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.handler_table import HandlerTable, ServedApi
from protocol.serving.session import Session
from tests.support.rigs.handler_rig import HandlerRig, topic_id
from tests.support.rigs.sans_io import RecordingWire


class RequestWorld:
    """Topics are made by `topic`; `send` feeds a connection, `wires` hold what it answered.

    numbers: of the topics that there are, by name; `topic_id` makes an id of a number. between: happens when
    an interlude is served, a request that any other may stand beside in one read.
    """

    OPERATION: ClassVar[Operation]
    """What a client must be allowed to do with a topic."""

    def __init__(
        self,
        rig: HandlerRig,
        rows: Sequence[ServedApi[Any]],
        fast_lanes: Mapping[int, RemembersRequests],
        *,
        connections: int,
        throttle: Throttle | None = None,
    ) -> None:
        self.rig = rig
        self.numbers: dict[str, int] = {}
        self.made = 0
        self.between: Callable[[Any], object] = lambda world: None
        self._soon: list[Callable[[], None]] = []
        self._memory = RequestMemory(128 * MIB, poison=True)
        table = HandlerTable("broker", rows)
        rig.services.handlers = table
        self.dispatcher = Dispatcher(
            table,
            rig.services,
            clock=rig.clock,
            authorizer=rig.authorizer,
            lane=Lane(clock=rig.clock, timers=rig.timers, memory=self._memory),
            fast_lanes=fast_lanes,
            throttle=throttle,
        )
        self.quotas = ClientQuotas(rig.clock, window_ms=1000, windows=11)
        self._ready_queue = ReadyQueue(lambda callback: self._soon.append(callback))
        self.wires = [self.make_wire() for _ in range(connections)]
        self.connections = [
            self.connect(wire, f"connection {number}") for number, wire in enumerate(self.wires)
        ]

    def make_wire(self) -> RecordingWire:
        return RecordingWire()

    def connect(self, wire: RecordingWire, connection_id: str) -> Connection:
        return Connection(
            self.dispatcher,
            wire,
            Session(connection_id, "PLAINTEXT", "10.0.0.7"),
            memory=self._memory,
            ready_queue=self._ready_queue,
            clock=self.rig.clock,
            timers=self.rig.timers,
            max_frame_bytes=8 * MIB,
        )

    # The bytes.

    def send(self, data: bytes, number: int = 0, cuts: Sequence[int] = ()) -> None:
        """Feeds bytes to a connection, in pieces that end at `cuts`, and runs what was put off."""
        connection = self.connections[number]
        places = [0, *(cut for cut in cuts if 0 < cut < len(data)), len(data)]
        for begin, end in pairwise(places):
            piece = memoryview(data)[begin:end]
            while piece and not connection.holds & CLOSED:
                if connection.holds:
                    return  # it waits for something that only a test can bring
                space = connection.space()
                count = min(len(space), len(piece))
                space[:count] = piece[:count]
                connection.received(count)
                piece = piece[count:]
                self.run()

    def run(self) -> None:
        """Runs what was put off, until nothing is left."""
        while self._soon or self.rig.timers.run_soon():
            ready, self._soon = self._soon, []
            for callback in ready:
                callback()

    # What changes.

    def topic(self, name: str, partitions: int = 1, **options: Any) -> None:
        """Makes a topic, with an id of its own even if there was one of that name."""
        self.made += 1
        self.numbers[name] = self.made
        self.rig.topic(name, partitions, number=self.made, **options)

    def remove(self, name: str) -> None:
        self.rig.remove_topic(topic_id(self.numbers[name]))

    def configure(self, name: str, key: str, value: str | None) -> None:
        self.rig.apply(ConfigRecord(resource_type=2, resource_name=name, name=key, value=value))

    def move(self, name: str, index: int = 0, **changes: Any) -> None:
        """Changes leader, ISR or replicas of a partition."""
        made = topic_id(self.numbers[name])
        self.rig.apply(PartitionChangeRecord(partition_id=index, topic_id=made, **changes))

    def deny(self, name: str) -> None:
        self.rig.deny(self.OPERATION, ResourceType.TOPIC, name)
        self.rig.lane_epoch.bump()

    def deny_by_entry(self, name: str) -> None:
        """The metadata log gets an access control entry that denies it to everybody."""
        self.rig.apply(
            AccessControlEntryRecord(
                b"e" * 16, ResourceType.TOPIC, name, LITERAL, "User:*", "*", self.OPERATION, DENY
            )
        )

    def allow(self, name: str) -> None:
        self.rig.authorizer.denied.discard((self.OPERATION, ResourceType.TOPIC, name))
        self.rig.lane_epoch.bump()

    def limit(self, **quotas: float | None) -> None:
        """Sets quotas of all users, or removes them, as a broker does when it sees them in the metadata."""
        entity = [ClientQuotaRecord.EntityData("user", None)]
        self.rig.apply(
            *(ClientQuotaRecord(entity, key, value or 0.0, value is None) for key, value in quotas.items())
        )
        self.quotas.follow(self.rig.image.quotas, [(("user", None),), *self.rig.image.quotas.by_entity])
        in_force = self.quotas or None
        self.dispatcher.throttle_by(in_force)
        self.rig.services.fetches.client_quotas = self.quotas if self.quotas.limits_fetches else None
        self.rig.lane_epoch.bump()

    # What there is.

    def request_metrics(self) -> object:
        """What metrics would show of the requests."""
        metrics = self.dispatcher.metrics
        counts = {
            (each.name, each.version): (
                each.requests,
                each.received_bytes,
                dict(each.errors),
                sum(each.times.local),
                sum(each.times.total),
            )
            for each in metrics.all_counts()
        }
        return counts, metrics.malformed, metrics.failures, metrics.waiting
