"""The registered brokers and controllers, with what they have told about themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from controller.metadata.image.mappings import copied, with_changes
from protocol.codec.message import Message
from protocol.errors import invariant
from protocol.metadata_log.registrations import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from protocol.values import ONE_UUID, ZERO_UUID

__all__ = [
    "BrokerEndpoint",
    "BrokerRegistration",
    "BrokersDelta",
    "BrokersImage",
    "ControllerRegistration",
    "ControllersDelta",
    "ControllersImage",
    "VersionRange",
    "is_reserved_directory",
]

MIGRATING_DIRECTORY: Final = ZERO_UUID
"""The directory id of a replica from before brokers named their directories (KIP-858)."""
UNASSIGNED_DIRECTORY: Final = ONE_UUID
"""The directory id of a replica whose broker has not said yet in which directory it lies."""
LOST_DIRECTORY: Final = (2).to_bytes(16)
"""The directory id of a replica that lies in a directory that is offline and not known by its id."""

RESERVED_DIRECTORIES: Final = 100
"""The number of reserved directory ids, which are the first ones; no real directory has such an id."""


def is_reserved_directory(directory_id: bytes) -> bool:
    """Whether the directory id is a reserved one."""
    return int.from_bytes(directory_id) < RESERVED_DIRECTORIES


class BrokerEndpoint(NamedTuple):
    """The address of a listener. security_protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3
    SASL_SSL."""

    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    """The levels of a feature that a node can work with, both ends included."""

    lowest: int
    highest: int

    def covers(self, level: int) -> bool:
        return self.lowest <= level <= self.highest


class BrokerRegistration(msgspec.Struct, frozen=True):
    """The registration of one broker.

    epoch: the offset of its registration record, -1 before it has one. It grows with every new incarnation,
    so a request of an earlier one is known to be stale. fenced: clients are not told of the broker, and it
    leads nothing. endpoints are in the order in which the broker has named them.
    """

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: Mapping[str, BrokerEndpoint]
    features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] | None = None

    @property
    def active(self) -> bool:
        """Whether the broker may lead partitions and be assigned new ones."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def usable_log_dirs(self) -> tuple[bytes, ...]:
        cordoned = self.cordoned_log_dirs or ()
        return tuple(directory for directory in self.log_dirs if directory not in cordoned)

    @property
    def default_directory(self) -> bytes:
        """The directory id of a new replica, which the controller knows only for brokers with one
        directory."""
        if not self.log_dirs:
            return MIGRATING_DIRECTORY
        return self.log_dirs[0] if len(self.log_dirs) == 1 else UNASSIGNED_DIRECTORY

    def has_online_directory(self, directory_id: bytes) -> bool:
        """Whether a replica in this directory can be read. A directory that is not known counts as online."""
        if directory_id in self.log_dirs or directory_id in (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY):
            return True
        return directory_id != LOST_DIRECTORY and not self.log_dirs

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=MappingProxyType(
                {e.name: BrokerEndpoint(e.host, e.port, e.security_protocol) for e in record.end_points}
            ),
            features=MappingProxyType(
                {
                    f.name: VersionRange(f.min_supported_version, f.max_supported_version)
                    for f in record.features
                }
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
            cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )

    def to_record(self) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=self.id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[
                RegisterBrokerRecord.BrokerEndpoint(
                    name=name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for name, e in self.endpoints.items()
            ],
            features=[
                RegisterBrokerRecord.BrokerFeature(
                    name=name, min_supported_version=r.lowest, max_supported_version=r.highest
                )
                for name, r in self.features.items()
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.log_dirs),
            cordoned_log_dirs=None if self.cordoned_log_dirs is None else list(self.cordoned_log_dirs),
        )


class BrokersImage(msgspec.Struct, frozen=True):
    """All registered brokers, by broker id."""

    by_id: Mapping[int, BrokerRegistration] = MappingProxyType({})

    def get(self, broker_id: int) -> BrokerRegistration | None:
        return self.by_id.get(broker_id)

    def is_active(self, broker_id: int) -> bool:
        registration = self.by_id.get(broker_id)
        return registration is not None and registration.active

    def unfenced(self) -> list[BrokerRegistration]:
        """The brokers that are not fenced, ordered by id; clients are told of these."""
        return [self.by_id[i] for i in sorted(self.by_id) if not self.by_id[i].fenced]

    def records(self) -> Iterator[Message]:
        for broker_id in sorted(self.by_id):
            yield self.by_id[broker_id].to_record()


class BrokersDelta:
    """Changes to the brokers. `changed` holds the new registration, None for one that is gone."""

    def __init__(self, base: BrokersImage) -> None:
        self.base = base
        self.changed: dict[int, BrokerRegistration | None] = {}

    def _current(self, broker_id: int, epoch: int, record: str) -> BrokerRegistration:
        registration = self.changed.get(broker_id, self.base.by_id.get(broker_id))
        invariant(registration is not None, "a change names a registered broker", id=broker_id, record=record)
        invariant(
            registration is not None and registration.epoch == epoch,
            "a change names the broker's epoch",
            id=broker_id,
            epoch=epoch,
            record=record,
        )
        return registration  # type: ignore[return-value]

    def register(self, record: RegisterBrokerRecord) -> None:
        self.changed[record.broker_id] = BrokerRegistration.from_record(record)

    def unregister(self, record: UnregisterBrokerRecord) -> None:
        self._current(record.broker_id, record.broker_epoch, "UnregisterBroker")
        self.changed[record.broker_id] = None

    def fence(self, record: FenceBrokerRecord) -> None:
        self._set_fenced(record.id, record.epoch, True)

    def unfence(self, record: UnfenceBrokerRecord) -> None:
        self._set_fenced(record.id, record.epoch, False)

    def _set_fenced(self, broker_id: int, epoch: int, fenced: bool) -> None:
        current = self._current(broker_id, epoch, "FenceBroker")
        self.changed[broker_id] = msgspec.structs.replace(current, fenced=fenced)

    def change(self, record: BrokerRegistrationChangeRecord) -> None:
        """Applies a change of a registration. fenced and in_controlled_shutdown have three values: 1 sets it,
        0 leaves it as it was, -1 (fenced only) clears it."""
        current = self._current(record.broker_id, record.broker_epoch, "BrokerRegistrationChange")
        cordoned = record.cordoned_log_dirs
        self.changed[record.broker_id] = msgspec.structs.replace(
            current,
            fenced=current.fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=current.in_controlled_shutdown or record.in_controlled_shutdown > 0,
            log_dirs=tuple(record.log_dirs) if record.log_dirs else current.log_dirs,
            cordoned_log_dirs=current.cordoned_log_dirs if cordoned is None else tuple(cordoned),
        )

    def apply(self) -> BrokersImage:
        return BrokersImage(MappingProxyType(with_changes(self.base.by_id, self.changed)))


class ControllerRegistration(msgspec.Struct, frozen=True):
    """The registration of one controller (KIP-919). The newest registration of an id counts."""

    id: int
    incarnation_id: bytes
    endpoints: Mapping[str, BrokerEndpoint]
    record: RegisterControllerRecord

    @property
    def features(self) -> Mapping[str, VersionRange]:
        """The range of levels of each feature that the controller can work with."""
        return {
            f.name: VersionRange(f.min_supported_version, f.max_supported_version)
            for f in self.record.features
        }


class ControllersImage(msgspec.Struct, frozen=True):
    """All registered controllers, by node id."""

    by_id: Mapping[int, ControllerRegistration] = MappingProxyType({})

    def records(self) -> Iterator[Message]:
        for controller_id in sorted(self.by_id):
            yield self.by_id[controller_id].record


class ControllersDelta:
    """The changes to the registered controllers since the base image."""

    def __init__(self, base: ControllersImage) -> None:
        self.base = base
        self.changed: dict[int, ControllerRegistration] = {}

    def register(self, record: RegisterControllerRecord) -> None:
        endpoints = {e.name: BrokerEndpoint(e.host, e.port, e.security_protocol) for e in record.end_points}
        self.changed[record.controller_id] = ControllerRegistration(
            record.controller_id, record.incarnation_id, MappingProxyType(endpoints), record
        )

    def apply(self) -> ControllersImage:
        return ControllersImage(MappingProxyType(copied(self.base.by_id) | self.changed))
