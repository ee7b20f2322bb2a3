"""ControllerRegistration, API key 70. It is sent by controllers."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32, u16
from protocol.values import ZERO_UUID


@request(key=70, versions="0", flexible="0+", listeners="controller")
class ControllerRegistrationRequest(Message):
    """Registers a controller with the active controller (KIP-919)."""

    class Listener(Struct):
        """Names a listener of the node, and the address at which it is reached."""

        name: str = ""
        host: str = ""
        port: u16 = 0
        security_protocol: i16 = 0

    class Feature(Struct):
        """Names a feature, and the levels of it that the node can run."""

        name: str = ""
        min_supported_version: i16 = 0
        max_supported_version: i16 = 0

    controller_id: i32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = []
    features: list[Feature] = []


@response(key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse(Message):
    """Says whether the controller was registered."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
