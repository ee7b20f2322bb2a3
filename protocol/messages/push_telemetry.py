"""PushTelemetry, API key 72. It is sent by clients that push their metrics (KIP-714)."""

from protocol.codec.message import Message, request, response
from protocol.primitives import Uuid, i8, i16, i32
from protocol.values import ZERO_UUID


@request(key=72, versions="0", flexible="0+", listeners="broker")
class PushTelemetryRequest(Message):
    """Holds the metrics of a client, in the encoding of OpenTelemetry (KIP-714)."""

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: i32 = 0
    terminating: bool = False
    compression_type: i8 = 0
    metrics: bytes = b""


@response(key=72, versions="0", flexible="0+")
class PushTelemetryResponse(Message):
    """Says whether the metrics were accepted."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
