"""GetTelemetrySubscriptions, API key 71. It is sent by clients that push their metrics (KIP-714)."""

from protocol.codec.message import Message, request, response
from protocol.primitives import Uuid, i8, i16, i32
from protocol.values import ZERO_UUID


@request(key=71, versions="0", flexible="0+", listeners="broker")
class GetTelemetrySubscriptionsRequest(Message):
    """Asks which metrics the client should push (KIP-714)."""

    client_instance_id: Uuid = ZERO_UUID


@response(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Message):
    """Tells the names of the metrics, the push interval and the compression types."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: i32 = 0
    accepted_compression_types: list[i8] = []
    push_interval_ms: i32 = 0
    telemetry_max_bytes: i32 = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = []
