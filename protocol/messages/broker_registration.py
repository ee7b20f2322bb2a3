"""BrokerRegistration, API key 62. It is sent by brokers."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64, u16
from protocol.values import ZERO_UUID


@request(key=62, versions="0-4", flexible="0+", listeners="controller")
class BrokerRegistrationRequest(Message):
    """Registers a broker with the controller (KIP-631). Each start of a broker registers with a new
    incarnation id.

    From version 2 on it names the broker's log directories (KIP-858). From version 4 on the levels of a
    feature may start at 0.
    """

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

    broker_id: i32 = 0
    cluster_id: str = ""
    incarnation_id: Uuid = ZERO_UUID
    listeners: list[Listener] = []
    features: list[Feature] = []
    rack: str | None = ""
    is_migrating_zk_broker: Annotated[bool, Since(1)] = False
    log_dirs: Annotated[list[Uuid], Since(2), Ignorable] = []
    previous_broker_epoch: Annotated[i64, Since(3), Ignorable] = -1


@response(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse(Message):
    """Tells the broker the broker epoch of its registration."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    broker_epoch: i64 = -1
