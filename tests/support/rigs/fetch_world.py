"""A broker's Fetch path without a network, with and without the fast lane."""

from __future__ import annotations

from typing import Any

from broker.dispatch.routes import RemembersRequests
from broker.fast_lane.fetch_lane import FetchLanes
from broker.handlers import fetch
from broker.network.response_pieces import Piece
from protocol.framing import encode_request_frame
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.records.builder import BatchBuilder
from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import serve
from storage.faulty_files import FaultyFiles
from storage.memory_files import MemoryFiles
from tests.support.rigs.handler_rig import HandlerRig, topic_id
from tests.support.rigs.request_world import RequestWorld
from tests.support.rigs.sans_io import RecordingWire
from tests.support.rigs.transactions import confirm

FIRST_VERSION_WITH_TOPIC_IDS = 13


class HealthyWire(RecordingWire):
    """Sends what is in the files, whatever fails for others: sendfile reads past the port of files."""

    def __init__(self, files: FaultyFiles) -> None:
        super().__init__()
        self._files = files

    def send(self, pieces: list[Piece]) -> None:
        faults, self._files.faults = self._files.faults, []
        super().send(pieces)
        self._files.faults = faults


class FetchWorld(RequestWorld):
    """Fetch, and Heartbeat as the interlude. served: Fetch requests that took the long way."""

    OPERATION = Operation.READ

    def __init__(self, *, fast: bool, connections: int = 1, slots: int = 1000, **settings: str) -> None:
        self.files = FaultyFiles(MemoryFiles())
        self.served = 0
        rig = HandlerRig(files=self.files, slots=slots, **settings)
        rows = (serve(ApiKey.FETCH, self._fetch), serve(ApiKey.HEARTBEAT, self._heartbeat))
        lanes: dict[int, RemembersRequests] = {ApiKey.FETCH: FetchLanes(rig.services)} if fast else {}
        super().__init__(rig, rows, lanes, connections=connections)

    def make_wire(self) -> HealthyWire:
        return HealthyWire(self.files)

    def _fetch(self, services: Any, context: Any, request: FetchRequest) -> Any:
        self.served += 1
        return fetch.handle(services, context, request)

    def _heartbeat(self, services: Any, context: Any, request: HeartbeatRequest) -> HeartbeatResponse:
        self.between(self)
        return HeartbeatResponse()

    @property
    def taken(self) -> int:
        """Fetch requests that the lanes have answered."""
        counts = self.dispatcher.metrics.all_counts()
        return sum(each.requests for each in counts if each.name in ("Fetch", "FetchFollower")) - self.served

    # The bytes.

    def advance(self, milliseconds: int) -> None:
        self.rig.timers.advance(milliseconds)
        self.run()

    def received(self, number: int = 0) -> bytes:
        """What a connection has answered since this was asked last."""
        wire = self.wires[number]
        sent = wire.sent
        wire.sends.clear()
        return sent

    def asked(
        self, topic: str, offset: int, *, index: int = 0, max_bytes: int = 1000, **more: Any
    ) -> FetchRequest.FetchTopic:
        """What a request says of one partition, by name and by id; the encoder takes what it wants."""
        part = FetchRequest.FetchPartition(index, fetch_offset=offset, partition_max_bytes=max_bytes, **more)
        return FetchRequest.FetchTopic(topic, topic_id(self.numbers.get(topic, 99)), [part])

    @staticmethod
    def request(
        *topics: FetchRequest.FetchTopic,
        version: int = 12,
        correlation_id: int = 7,
        client_id: str | None = "client",
        **fields: Any,
    ) -> bytes:
        """A frame; by default without a session."""
        request = FetchRequest(topics=list(topics), **{"max_wait_ms": 100, "min_bytes": 1} | fields)
        return encode_request_frame(request, version, correlation_id, client_id)

    @staticmethod
    def interlude() -> bytes:
        """A frame that makes `between` happen."""
        return encode_request_frame(HeartbeatRequest("group"), 4, 1, "client")

    # What changes.

    def write(self, name: str, index: int = 0, size_bytes: int = 10) -> None:
        self.append(name, index, self.rig.batch(1, size_bytes))

    def write_open(self, name: str, index: int, producer_id: int, sequence: int) -> None:
        """A record of a transaction that is not decided yet."""
        confirm(self.rig.log(name, index), producer_id, sequence=sequence)
        builder = BatchBuilder(
            producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        builder.append(None, b"open", self.rig.clock.wall_ms())
        self.append(name, index, builder.build())

    def append(self, name: str, index: int, batch: bytes | bytearray) -> None:
        partition = self.rig.replicas.by_name[name, index]
        self.rig.replicas.appends.append(
            partition,
            bytearray(batch),
            acks=1,
            version=12,
            walked=self.rig.walked,
            now_ms=self.rig.clock.wall_ms(),
        )
        self.run()

    def decide(self, name: str, index: int, producer_id: int, *, commit: bool) -> None:
        """Ends a transaction."""
        partition, now_ms = self.rig.replicas.by_name[name, index], self.rig.clock.wall_ms()
        marker = build_marker_batch(
            TransactionMarker(commit, 1), timestamp_ms=now_ms, producer_id=producer_id, producer_epoch=0
        )
        before = partition.log.log_end_offset
        partition.log.append_internal(marker, leader_epoch=partition.leader_epoch, now_ms=now_ms)
        partition.appended(before)
        self.run()

    def raise_log_start(self, name: str, index: int, offset: int) -> None:
        self.rig.replicas.by_name[name, index].raise_log_start(offset)
        self.run()

    # What there is.

    def state(self) -> object:
        """What metrics would show, and what is known of sessions, logs and watchers."""
        rig = self.rig
        return (
            self.request_metrics(),
            {
                topic: (
                    counters.bytes_out,
                    counters.total_fetch_requests,
                    counters.failed_fetch_requests,
                )
                for topic, counters in rig.replicas.counters.items()
            },
            [
                (
                    session.id,
                    session.epoch,
                    session.isolation_level,
                    session.last_used_ms,
                    session.waiting is not None,
                    list(session.active),
                    [
                        (
                            wanted.key,
                            wanted.fetch_offset,
                            wanted.max_bytes,
                            wanted.current_leader_epoch,
                            wanted.last_fetched_epoch,
                            wanted.partition is None,
                            wanted.high_watermark,
                            wanted.log_start_offset,
                        )
                        for wanted in session.wanted.values()
                    ],
                )
                for session in rig.sessions
            ],
            {
                key: (len(partition.watchers), len(partition.holders), partition.log.high_watermark)
                for key, partition in rig.replicas.by_name.items()
            },
            sorted(rig.logs.suspected),
            [connection.holds for connection in self.connections],
        )
