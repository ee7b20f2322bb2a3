"""A broker's Produce path without a network, with and without the fast lane."""

from __future__ import annotations

from typing import Any

from broker.dispatch.routes import RemembersRequests
from broker.fast_lane.produce_lane import ProduceLanes
from broker.handlers import api_versions, metadata, produce
from broker.network.connection import Connection
from protocol.framing import decode_response, encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import serve
from protocol.serving.request_context import RequestContext
from storage.faulty_files import FaultyFiles
from storage.memory_files import MemoryFiles
from tests.support.rigs.handler_rig import HandlerRig, topic_id
from tests.support.rigs.request_world import RequestWorld
from tests.support.rigs.sans_io import RecordingWire
from tests.support.rigs.waiting_rig import WaitingRig

WALKED = 8
"""So many batches of a connection on a partition take the long way first, because they are walked."""


class _Throttle:
    """A quota that nobody exceeds."""

    def throttle_ms(
        self, context: RequestContext, *, response_bytes: int, elapsed_ns: int, is_exempt: bool
    ) -> int:
        return 0

    def unanswered_ms(self, context: RequestContext) -> int:
        return 0

    def applies_to(self, context: RequestContext) -> bool:
        return True


class ProduceWorld(RequestWorld):
    """Produce and Metadata, and ApiVersions as the interlude."""

    OPERATION = Operation.WRITE

    def __init__(
        self,
        *,
        fast: bool,
        connections: int = 1,
        throttled: bool = False,
        threads: bool = False,
        rig: HandlerRig | None = None,
    ) -> None:
        """threads: what takes long waits for helper threads, which `end_threads` lets run. rig: with files of
        its own."""
        self.memory_files = MemoryFiles()
        self.files = FaultyFiles(self.memory_files)
        self._served = 0
        self._helped = WaitingRig(files=self.files) if threads else None
        rig = rig or self._helped or HandlerRig(files=self.files)
        rows = (
            serve(ApiKey.PRODUCE, produce.handle),
            serve(ApiKey.METADATA, metadata.handle),
            serve(ApiKey.API_VERSIONS, self._api_versions),
        )
        lanes: dict[int, RemembersRequests] = {ApiKey.PRODUCE: ProduceLanes(rig.replicas)} if fast else {}
        throttle = _Throttle() if throttled else None
        super().__init__(rig, rows, lanes, connections=connections, throttle=throttle)

    def _api_versions(self, services: Any, context: RequestContext, request: ApiVersionsRequest) -> Any:
        self.between(self)
        return api_versions.handle(services, context, request)

    def connect(self, wire: RecordingWire, connection_id: str) -> Connection:
        connection = super().connect(wire, connection_id)
        serve_one = connection._serve

        def serve_counted(served: Connection, frame: memoryview, arrived_ns: int) -> Any:
            before = self._requests()
            try:
                return serve_one(served, frame, arrived_ns)
            finally:
                self._served += self._requests() - before

        connection._serve = serve_counted  # type: ignore[assignment]
        return connection

    def reconnect(self, number: int) -> None:
        """Another connection takes the place of one that was closed."""
        connection_id = self.connections[number].connection_id + "+"
        self.wires[number] = wire = self.make_wire()
        self.connections[number] = self.connect(wire, connection_id)

    def end_threads(self) -> None:
        """Lets helper threads do what waits for them, and what comes of that."""
        self.run()
        while self._helped is not None and self._helped.codecs.run() + self._helped.disks.run():
            self.run()

    def slow_down(self) -> None:
        """The disk becomes slow, see `WaitingRig.slow_down`."""
        if self._helped is not None:
            self._helped.slow_down()

    def _requests(self) -> int:
        return sum(counts.requests for counts in self.dispatcher.metrics.all_counts())

    @property
    def taken_by_lane(self) -> int:
        """Requests that were counted, but not served by the dispatcher."""
        return self._requests() - self._served

    # The bytes.

    def request(
        self,
        topic: str,
        batch: bytes,
        *,
        index: int = 0,
        version: int = 12,
        acks: int = 1,
        correlation_id: int = 7,
        client_id: str | None = "client",
        transactional_id: str | None = None,
    ) -> bytes:
        """A frame with one batch."""
        named = "" if version >= 13 else topic
        id_ = topic_id(self.numbers.get(topic, 99)) if version >= 13 else bytes(16)
        part = ProduceRequest.PartitionProduceData(index, batch)
        request = ProduceRequest(
            transactional_id, acks, 30_000, [ProduceRequest.TopicProduceData(named, id_, [part])]
        )
        return encode_request_frame(request, version, correlation_id, client_id)

    @staticmethod
    def interlude() -> bytes:
        """A frame that makes `between` happen, and has an answer of its own."""
        return encode_request_frame(ApiVersionsRequest("me", "1"), 3, 1, "client")

    def answers(self, number: int = 0, version: int = 12) -> list[tuple[int, int, int]]:
        """(error code, base offset, append time) of each answer to a request for one partition, in order;
        what was answered to others is left out."""
        found, data = [], memoryview(self.wires[number].sent)
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            if int.from_bytes(frame[:4], "big") != 1:
                _, response = decode_response(ProduceResponse, version, frame)
                answer = response.responses[0].partition_responses[0]
                found.append((answer.error_code, answer.base_offset, answer.log_append_time_ms))
        return found

    def warm(self, topic: str, number: int = 0, **options: Any) -> None:
        """Has the connection send so many plain batches that the next one may take the lane."""
        for _ in range(WALKED + 1):
            self.send(self.request(topic, bytes(self.rig.batch()), **options), number)

    # What there is.

    def content(self) -> dict[str, bytes]:
        """All files, and the index entries that are not written yet."""
        found = _tree(self.memory_files, "/logs")
        for log in self.rig.logs.logs.values():
            for segment in log.segments:
                for index in (segment.offset_index, segment.time_index):
                    tail = index.file.unwritten()
                    found[f"{tail.path} from {tail.position} on"] = tail.data
        return found

    def counted(self) -> object:
        """What metrics would show, and what the logs know by heart."""
        return (
            self.request_metrics(),
            [(connection.waiting, connection.holds) for connection in self.connections],
            {
                topic: (
                    counters.bytes_in,
                    counters.messages_in,
                    counters.total_produce_requests,
                    counters.failed_produce_requests,
                )
                for topic, counters in self.rig.replicas.counters.items()
            },
            {
                key: (
                    (log.log_start_offset, log.high_watermark, log.log_end_offset),
                    (log.active.max_timestamp, log.active.max_timestamp_offset, log.active.is_full),
                    list(log.segments.recent_offsets),
                    list(log.producer_state.entries()),
                )
                for key, log in self.rig.logs.logs.items()
            },
        )


def _tree(files: MemoryFiles, path: str) -> dict[str, bytes]:
    if not files.exists(path):
        return {}
    found: dict[str, bytes] = {}
    directories = set(files.subdirectories(path))
    for name in files.listdir(path):
        inner = f"{path}/{name}"
        if name in directories:
            found |= _tree(files, inner)
        else:
            found[inner] = files.read_bytes(inner)
    return found
