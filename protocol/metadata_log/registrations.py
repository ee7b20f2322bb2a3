"""Metadata records of brokers and controllers: they are registered, fenced, changed and unregistered."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, Tag, metadata_record
from protocol.primitives import Uuid, i8, i16, i32, i64, u16
from protocol.values import ZERO_UUID


@metadata_record(key=0, versions="0-4", flexible="0+")
class RegisterBrokerRecord(Message):
    """A broker's incarnation, with its addresses, features and log directories."""

    class BrokerEndpoint(Struct):
        """One address of the broker."""

        name: str = ""
        host: str = ""
        port: u16 = 0
        security_protocol: i16 = 0

    class BrokerFeature(Struct):
        """A feature and the levels that the broker can run."""

        name: str = ""
        min_supported_version: i16 = 0
        max_supported_version: i16 = 0

    broker_id: i32 = 0
    is_migrating_zk_broker: Annotated[bool, Since(2)] = False
    incarnation_id: Uuid = ZERO_UUID
    broker_epoch: i64 = 0
    end_points: list[BrokerEndpoint] = []
    features: list[BrokerFeature] = []
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, Since(1)] = False
    log_dirs: Annotated[list[Uuid], Tag(0, since=3)] = []
    cordoned_log_dirs: Annotated[list[Uuid] | None, Tag(1, since=4)] = None


@metadata_record(key=1, versions="0", flexible="0+")
class UnregisterBrokerRecord(Message):
    """A broker is unregistered: the cluster forgets it."""

    broker_id: i32 = 0
    broker_epoch: i64 = 0


@metadata_record(key=7, versions="0", flexible="0+")
class FenceBrokerRecord(Message):
    """A broker may not lead or be in sync; replaced by BrokerRegistrationChangeRecord, still read."""

    id: i32 = 0
    epoch: i64 = 0


@metadata_record(key=8, versions="0", flexible="0+")
class UnfenceBrokerRecord(Message):
    """A broker is fenced no more; replaced by BrokerRegistrationChangeRecord, still read."""

    id: i32 = 0
    epoch: i64 = 0


@metadata_record(key=17, versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord(Message):
    """A broker is fenced or unfenced, shuts down, or its log directories have changed.

    The tags are 0 for no change.
    """

    broker_id: i32 = 0
    broker_epoch: i64 = 0
    fenced: Annotated[i8, Tag(0)] = 0
    in_controlled_shutdown: Annotated[i8, Tag(1, since=1)] = 0
    log_dirs: Annotated[list[Uuid], Tag(2, since=2)] = []
    cordoned_log_dirs: Annotated[list[Uuid] | None, Tag(3, since=3)] = None


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
