"""Metadata records of controllers."""

from protocol.codec.message import Message, Struct, metadata_record
from protocol.primitives import Uuid, i16, i32, u16
from protocol.values import ZERO_UUID


@metadata_record(key=27, versions="0", flexible="0+")
class RegisterControllerRecord(Message):
    """A controller's incarnation, with its addresses and features (KIP-919)."""

    class ControllerEndpoint(Struct):
        """One address of the controller."""

        name: str = ""
        host: str = ""
        port: u16 = 0
        security_protocol: i16 = 0

    class ControllerFeature(Struct):
        """A feature and the levels that the controller can run."""

        name: str = ""
        min_supported_version: i16 = 0
        max_supported_version: i16 = 0

    controller_id: i32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: list[ControllerEndpoint] = []
    features: list[ControllerFeature] = []
