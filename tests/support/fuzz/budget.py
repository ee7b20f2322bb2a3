"""Which requests a node may refuse although they can be read: those that would take too much memory.

Their arrays may be too long once they are decoded. Or their answer may be too long: who names the same large
group three thousand times asks for a hundred megabytes.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from broker.dispatch.routes import Routes
from broker.handlers.table import broker_handlers
from broker.metrics.requests import RequestMetrics
from controller.handler_table import controller_handlers
from protocol.codec.compiler import stepping_decoder
from protocol.errors import ProtocolError
from protocol.headers import decode_request_header
from protocol.registry import ApiKey, api
from protocol.serving.turns import run_through

ANSWERS_REPEAT: Final = (ApiKey.DESCRIBE_GROUPS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_PRODUCERS)
"""What they tell of one name may be much longer than the name."""


@cache
def _routes(is_controller: bool) -> Routes:
    return Routes(controller_handlers() if is_controller else broker_handlers(), RequestMetrics())


def is_over_budget(is_controller: bool, key: int, version: int, frame: bytes) -> bool:
    """Whether the connection is closed because of what the request would take once it is decoded."""
    route = _routes(is_controller).find(key, version)
    if route is None or len(frame) <= route.plain_bytes:
        return False
    if key in ANSWERS_REPEAT:
        return True
    _, position = decode_request_header(frame, 0)
    decode = stepping_decoder(api(key).request, version)
    try:
        run_through(decode(frame, position, route.memory_bytes))
    except ProtocolError:
        return True
    return False
