"""A connection on a dispatcher whose handlers do what the test says, with real messages on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.dispatch.dispatcher import Dispatcher
from broker.metrics.requests import RequestCounts
from broker.quotas.throttle import Throttle
from broker.security.authorizer import AllowAll
from protocol.codec.message import Message
from protocol.framing import decode_response, encode_request_frame
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.list_groups import ListGroupsResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import HandlerTable, serve
from protocol.serving.request_context import RequestContext
from tests.support.rigs.sans_io import Rig

Behaviour = Callable[[RequestContext, Any], Any]


class Desk:
    """`ask` sends a request to the behaviour of its API, `answer` decodes what was sent back."""

    def __init__(self, throttle: Throttle | None = None, authorizer: Any = None) -> None:
        self.rig = Rig()
        self.contexts: list[RequestContext] = []
        self.requests: list[Any] = []
        self.behaviours: dict[int, Behaviour] = {
            ApiKey.HEARTBEAT: lambda context, request: HeartbeatResponse(),
            ApiKey.API_VERSIONS: lambda context, request: ApiVersionsResponse(),
            ApiKey.LIST_GROUPS: lambda context, request: ListGroupsResponse(),
        }
        self.dispatcher = Dispatcher(
            self._table(),
            "the services",
            clock=self.rig.clock,
            authorizer=authorizer or AllowAll(),
            lane=self.rig.lane,
            throttle=throttle,
        )
        self.rig.service = self.dispatcher  # type: ignore[assignment]
        self.connection = self.rig.connection = self.rig.another()

    def _table(self) -> HandlerTable:
        served = {
            ApiKey.HEARTBEAT: None,
            ApiKey.API_VERSIONS: None,
            ApiKey.LIST_GROUPS: None,
            ApiKey.PRODUCE: None,
            ApiKey.FETCH: (4, 17),
            ApiKey.METADATA: None,
            ApiKey.CREATE_TOPICS: None,
        }
        rows = [serve(key, self._handler(key), versions=versions) for key, versions in served.items()]
        return HandlerTable("broker", rows)

    def _handler(self, key: ApiKey) -> Callable[[Any, RequestContext, Any], Any]:
        def handle(services: Any, context: RequestContext, request: Any) -> Any:
            assert services == "the services"
            self.contexts.append(context)
            self.requests.append(request)
            return self.behaviours[key](context, request)

        return handle

    def ask(
        self, request: Message, version: int, correlation_id: int = 7, client_id: str | None = "me"
    ) -> None:
        self.rig.feed(encode_request_frame(request, version, correlation_id, client_id))

    def answer(self, cls: type[Any], version: int, which: int = -1) -> tuple[int, Any]:
        frame = self.rig.wire.sends[which]
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        return decode_response(cls, version, memoryview(frame)[4:])

    def counts(self, name: str, version: int) -> RequestCounts:
        return self.dispatcher.metrics.counts(name, version)
