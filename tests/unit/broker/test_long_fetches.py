"""Files in the answers to long Fetch requests: they are released, however the request ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.dispatch.dispatcher import Dispatcher
from broker.network.connection import Connection
from broker.security.authorizer import AllowAll
from config.limits import LONG_REQUEST_BYTES
from protocol.framing import encode_request_frame
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import HandlerTable, serve
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from tests.support.rigs.file_slices import CountedFile, Slice
from tests.support.rigs.sans_io import RecordingWire, Rig

VERSION = 17


class Desk:
    """A dispatcher whose Fetch handler gives `fetched`."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.pending: Pending[FetchResponse] = Pending()
        self.fetched: Pending[FetchResponse] | FetchResponse = self.pending

        def handle(services: Any, context: RequestContext, request: Any) -> Any:
            return self.fetched

        self.dispatcher = Dispatcher(
            HandlerTable("broker", (serve(ApiKey.FETCH, handle),)),
            None,
            clock=self.rig.clock,
            authorizer=AllowAll(),
            lane=self.rig.lane,
        )
        self.rig.service = self.dispatcher  # type: ignore[assignment]

    def ask(self) -> Connection:
        """A client sends a long Fetch."""
        connection: Connection = self.rig.another(RecordingWire())
        partitions = [FetchRequest.FetchPartition(partition=index) for index in range(3_000)]
        request = FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=bytes(16), partitions=partitions)])
        frame = encode_request_frame(request, VERSION, 7, "me")
        assert len(frame) > LONG_REQUEST_BYTES
        self.rig.feed(frame, connection)
        return connection


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def file(tmp_path: Path) -> CountedFile:
    path = tmp_path / "segment"
    path.write_bytes(b"data")
    return CountedFile(path)


def records_of(file: CountedFile, *, throttle_time_ms: int = 0) -> FetchResponse:
    """An answer with a slice of the file."""
    data = FetchResponse.PartitionData(0, 0, 1, 1, 0, records=Slice(file, 0, 4))
    topics = [FetchResponse.FetchableTopicResponse(topic_id=bytes(16), partitions=[data])]
    return FetchResponse(throttle_time_ms, responses=topics)


def test_a_peer_that_goes_before_its_answer_is_encoded_leaves_no_file_open(
    desk: Desk, file: CountedFile
) -> None:
    connection = desk.ask()
    desk.pending.complete(records_of(file))
    assert file.references == 2
    connection.peer_gone("gone")
    desk.rig.timers.run_soon()
    assert file.references == 1


@pytest.mark.parametrize("is_late", [True, False])
def test_an_answer_that_cannot_be_encoded_leaves_no_file_open(
    desk: Desk, file: CountedFile, is_late: bool
) -> None:
    answer = records_of(file, throttle_time_ms=1 << 40)
    if not is_late:
        desk.fetched = answer
    desk.ask()
    desk.pending.complete(answer)
    desk.rig.timers.run_soon()
    assert desk.dispatcher.metrics.failures == 1
    assert file.references == 1
